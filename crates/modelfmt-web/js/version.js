// Checks that all answers of a server are about the same version of a file. Bytes of two versions would make
// a file that never existed, so the headers that identify the version must be equal in all answers.

const CHANGED = "the file has changed on the server since it was opened; open it again";
const UNNAMED =
  "the server's answer has no entity tag or date, though it had when the file was opened; it may be of another version, and is not used";

// Returns what the headers say about the version. A page can read the date from any origin, but the entity
// tag only if the server allows it.
export function versionOf(headers) {
  return { etag: headers.get("etag"), date: headers.get("last-modified") };
}

// Checks that an answer is about the version that was opened.
export function expectVersion(opened, headers) {
  const name = opened.etag === null ? "date" : "etag";
  const found = versionOf(headers)[name];
  if (opened[name] === null || found === opened[name]) return;
  throw new Error(found === null ? UNNAMED : CHANGED);
}

// Checks that an answer has the requested range of a file of this size, as far as its headers can be read.
export function expectRange(headers, from, to, size) {
  const range = headers.get("content-range");
  if (range === null || range === `bytes ${from}-${to - 1}/${size}`) return;
  throw new Error(range.endsWith(`/${size}`) ? `the server sent another range than was asked for: ${range}` : CHANGED);
}
