// For Node: workers read files by their paths, and everything else through this thread.
import { openAsBlob } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { Model, ModelError, nameOf } from "./api.js";
import { overHttp } from "./http.js";

const compiled = new Map();

// Compiles a module of the package, once.
function compile(name) {
  if (!compiled.has(name)) {
    compiled.set(name, readFile(new URL(name, import.meta.url)).then((bytes) => WebAssembly.compile(bytes)));
  }
  return compiled.get(name);
}

const platform = {
  spawn() {
    const worker = new Worker(new URL("./node-worker.js", import.meta.url));
    const own = {
      postMessage: (message, transfer) => worker.postMessage(message, transfer),
      terminate: () => worker.terminate(),
      ref: () => worker.ref(),
      unref: () => worker.unref(),
    };
    worker.on("message", (data) => own.onmessage({ data }));
    worker.on("error", (error) => own.onerror({ message: error.message }));
    return own;
  },
  module: () => compile("./modelfmt.wasm"),
  work: () => compile("./modelfmt-work.wasm"),
  file: (source) => (source instanceof URL ? { path: fileURLToPath(source) } : null),
  reserve: () => join(tmpdir(), `modelfmt-${crypto.randomUUID()}`),
  blob: ({ scratch }) => openAsBlob(scratch),
  discard: (scratch) => rm(scratch, { force: true }),
};

export { Model, ModelError };

export async function open(source, { name = nameOf(source), files = {}, keys } = {}) {
  const others = await Promise.all(Object.entries(files).map(async ([name, file]) => [name, await readable(file)]));
  return Model.open(await readable(source), { name, files: Object.fromEntries(others), keys }, platform);
}

// Converts URLs of web servers to objects with byteLength and slice. URLs of local files stay as they are.
async function readable(source) {
  if (typeof source !== "string" && !(source instanceof URL)) return source;
  const url = new URL(source);
  return url.protocol === "file:" ? url : overHttp(url.href);
}
