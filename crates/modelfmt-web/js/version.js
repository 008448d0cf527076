// Which state of a file the answers of a server are of. Bytes of two states make a file that never was, so what names the state has to
// be the same in every answer.

const CHANGED = "the file has changed on the server since it was opened; open it again";
const UNNAMED =
  "the server's answer has no entity tag or date, though it had when the file was opened; it may be of another version, and is not used";

// What the headers of an answer say of the state. A page reads the date of any origin, and the entity tag only where the server lets it.
export function versionOf(headers) {
  return { etag: headers.get("etag"), date: headers.get("last-modified") };
}

// That an answer is of the state that was opened.
export function expectVersion(opened, headers) {
  const name = opened.etag === null ? "date" : "etag";
  const found = versionOf(headers)[name];
  if (opened[name] === null || found === opened[name]) return;
  throw new Error(found === null ? UNNAMED : CHANGED);
}

// That an answer has the range that was asked for, of a file of that size; as far as its headers can be read.
export function expectRange(headers, from, to, size) {
  const range = headers.get("content-range");
  if (range === null || range === `bytes ${from}-${to - 1}/${size}`) return;
  throw new Error(range.endsWith(`/${size}`) ? `the server sent another range than was asked for: ${range}` : CHANGED);
}
