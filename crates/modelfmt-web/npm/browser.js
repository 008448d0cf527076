// For browsers: workers read Blobs and URLs themselves.
import { Model, ModelError, nameOf } from "./api.js";
import { discard, reserve } from "./scratch.js";

const compiled = new Map();

// Compiles a module of the package, once.
function compile(url) {
  if (!compiled.has(url.href)) {
    compiled.set(url.href, fetch(url).then(async (answer) => WebAssembly.compile(await answer.arrayBuffer())));
  }
  return compiled.get(url.href);
}

const platform = {
  spawn: () => new Worker(new URL("./worker.js", import.meta.url), { type: "module" }),
  // Bundlers recognise URLs in this form.
  module: () => compile(new URL("./modelfmt.wasm", import.meta.url)),
  work: () => compile(new URL("./modelfmt-work.wasm", import.meta.url)),
  file(source) {
    if (typeof source === "string" || source instanceof URL) return { url: new URL(source, location.href).href };
    if (source instanceof Blob) return { blob: source };
    if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return { blob: new Blob([source]) };
    return null;
  },
  reserve,
  blob: ({ file }) => file,
  discard,
};

export { Model, ModelError };

export function open(source, { name = nameOf(source), files = {}, keys } = {}) {
  return Model.open(source, { name, files, keys }, platform);
}
