// Finds out which functions a first look at a model needs: node split.mjs INSTRUMENTED TESTDATA PROFILE
//
// `wasm-split` has made the module so that it counts its functions as they are called. All golden files are opened here and looked at as the
// page does it; `wasm-split` then makes two modules by the profile. A function that is missing in the first one is no error, whatever
// this leaves out: the second module is taken in when it is called.
import { closeSync, fstatSync, openSync, readFileSync, readSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { Engine, Refused } from "./js/engine.js";
import { models } from "./tests/models.mjs";

const [instrumented, testdata, profile] = process.argv.slice(2);

function ofPath(path) {
  const size = (file) => fstatSync(file).size;
  const within = (work) => {
    const file = openSync(path);
    try {
      return work(file);
    } finally {
      closeSync(file);
    }
  };
  return {
    size: within(size),
    read: (offset, out) => void within((file) => readSync(file, out, 0, out.length, offset)),
  };
}

const engine = await Engine.load(readFileSync(instrumented));

// Some files are damaged, and some tensors have no numbers: what the library says then is part of the look.
function tried(operation, args) {
  try {
    return engine.call(operation, args).value;
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

function look(path) {
  const name = basename(path);
  engine.files = new Map();
  engine.missing = (other) => ofPath(join(dirname(path), other));
  tried("choose", { names: [name] });
  if (!tried("open", { name })) return;
  for (const operation of ["inspect", "metadata", "tree"]) tried(operation);
  for (const query of ["weight", "*.{weight,bias}"]) tried("rows", { query });
  for (const { position, name: tensor } of tried("rows", { count: 64 }).rows) {
    for (const operation of ["tensor", "corner", "image", "sample", "hex"]) tried(operation, { position });
    tried("find", { tensor });
  }
}

// Cryptography is needed for sealed files alone.
const isSealed = (path) => path.startsWith(join(testdata, "seal"));
for (const path of models(testdata).filter((path) => !isSealed(path))) look(path);
const { memory, allocate, write_profile: write } = engine.exports;
const room = 1 << 20;
const at = allocate(room);
const length = write(at, room);
if (length > room) throw new Error(`the profile has ${length} bytes`);
writeFileSync(profile, new Uint8Array(memory.buffer, at, length));
