// Bytes of two versions of a file are never mixed: every answer has to be about the version that was opened.
import assert from "node:assert/strict";
import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { besideUrl, ofUrl } from "../js/sources.js";

const SIZE = 1 << 20;
const bytes = Uint8Array.from({ length: SIZE }, (_, at) => (at * 2654435761) >>> 24);
const DATE = "Sun, 22 Nov 2026 00:00:00 GMT";

// Changes the headers of the server's answers; `hidden` are headers that the server does not expose to other
// origins.
let change = () => {};
let hidden = [];

function answer(method, range) {
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(range ?? "") ?? [null, 0, SIZE - 1];
  const [start, end] = [Number(from), Number(to) + 1];
  const headers = new Headers({ etag: '"1"', "last-modified": DATE, "content-length": String(end - start) });
  if (range) headers.set("content-range", `bytes ${start}-${end - 1}/${SIZE}`);
  change(headers, start);
  for (const name of hidden) headers.delete(name);
  return { status: range ? 206 : 200, headers, body: method === "HEAD" ? null : bytes.slice(start, end) };
}

// The two ways to make requests in a browser.
globalThis.fetch = async (url, { method = "GET", headers } = {}) => {
  const { body, ...rest } = answer(method, headers?.Range);
  return new Response(body && new ReadableStream({ type: "bytes", start: (to) => (to.enqueue(body), to.close()) }), rest);
};
globalThis.XMLHttpRequest = class {
  #asked = {};
  open(method) {
    this.#asked.method = method;
  }
  setRequestHeader(_, range) {
    this.#asked.range = range;
  }
  send() {
    const { status, headers, body } = answer(this.#asked.method, this.#asked.range);
    this.status = status;
    this.response = body?.buffer;
    this.headers = headers;
  }
  getAllResponseHeaders() {
    return [...this.headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
  }
};

const folder = await mkdtemp(join(tmpdir(), "modelfmt-"));
after(() => rm(folder, { recursive: true }));
// In the package, both files are in one folder.
await writeFile(join(folder, "package.json"), '{"type": "module"}');
for (const file of ["js/version.js", "npm/http.js"]) await copyFile(new URL(`../${file}`, import.meta.url), join(folder, basename(file)));
const { overHttp } = await import(pathToFileURL(join(folder, "http.js")));

const URL_OF = "https://other.example/m.aero";

// Each way to read a range. All begin with an answer about the right version.
const ways = {
  async "a large read"() {
    const source = await ofUrl(URL_OF);
    return () => source.read(100_000, new Uint8Array(300_000));
  },
  async "a small read"() {
    const source = await ofUrl(URL_OF);
    return () => source.read(100_000, new Uint8Array(10));
  },
  async "a stream"() {
    const source = await ofUrl(URL_OF);
    await source.read(0, new Uint8Array(300_000), true);
    return () => source.read(300_000, new Uint8Array(300_000), true);
  },
  async "a file beside it"() {
    const source = besideUrl(URL_OF, "part.aero");
    return () => source.read(100_000, new Uint8Array(300_000));
  },
  async "the package for Node"() {
    const { slice } = await overHttp(URL_OF);
    return () => slice(100_000, 100_010);
  },
};

async function outcome(way, onRead) {
  change = () => {};
  const read = await ways[way]();
  change = onRead;
  try {
    await read();
    return "read";
  } catch ({ message }) {
    return message;
  }
}

const without = (...names) => (headers) => names.forEach((name) => headers.delete(name));
const set = (name, value) => (headers) => headers.set(name, value);

for (const way of Object.keys(ways)) {
  test(`an answer of another state is refused: ${way}`, async () => {
    hidden = [];
    assert.equal(await outcome(way, () => {}), "read");
    assert.match(await outcome(way, set("etag", '"2"')), /has changed on the server/);
    assert.match(await outcome(way, without("etag")), /has no entity tag/);
    // Servers that share the load may have different dates for the same file.
    assert.equal(await outcome(way, set("last-modified", "Sun, 22 Nov 2026 00:00:01 GMT")), "read");
    assert.match(await outcome(way, set("content-range", "bytes 7-8/1048576")), /another range/);
    assert.match(await outcome(way, set("content-range", "bytes 7-8/99")), /has changed on the server/);
  });

  test(`where a page may not read the tag, the date counts: ${way}`, async () => {
    hidden = way.includes("Node") ? ["etag"] : ["etag", "content-range"];
    assert.equal(await outcome(way, () => {}), "read");
    assert.match(await outcome(way, set("last-modified", "Sun, 22 Nov 2026 00:00:01 GMT")), /has changed on the server/);
    assert.match(await outcome(way, without("last-modified")), /has no entity tag or date/);
    hidden = [...hidden, "last-modified"];
    assert.equal(await outcome(way, () => {}), "read", "nothing names the state");
  });
}
