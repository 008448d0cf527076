// Finds out which functions a first look at a model needs: node split.mjs MODULE INSTRUMENTED TESTDATA
// PROFILE
//
// `wasm-split` has instrumented the module so that it counts calls of its functions. This script opens all
// golden files and inspects them as the page does. `wasm-split` then makes two modules by the profile. A
// function that is missing in the first one causes no error: a call to it loads the second module.
import { closeSync, fstatSync, openSync, readFileSync, readSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { Engine, Refused } from "./js/engine.js";
import { isReadOnly, models } from "./tests/models.mjs";

const [whole, instrumented, testdata, profile] = process.argv.slice(2);

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

// Some files are damaged, and some tensors have no numbers: the library's errors are part of the run.
function tried(operation, args) {
  try {
    return engine.call(operation, args).value;
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

// Returns bytes in memory as a file.
function ofBytes(bytes) {
  return { size: bytes.length, read: (offset, out) => out.set(bytes.subarray(offset, offset + out.length)) };
}

// Golden files are small. This makes a model of many tensors, one of them large.
function large() {
  const [many, rows, columns] = [5000, 1200, 1500];
  const header = { "large.weight": { dtype: "F32", shape: [rows, columns], data_offsets: [0, rows * columns * 4] } };
  for (let i = 0; i < many; i++) {
    const at = rows * columns * 4 + i * 4;
    header[`layers.${i}.bias`] = { dtype: "F32", shape: [1], data_offsets: [at, at + 4] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const values = Float32Array.from({ length: rows * columns + many }, (_, i) => (i % 1009 === 0 ? [NaN, Infinity, 0][i % 3] : Math.sin(i) * Math.exp(Math.cos(i / 7))));
  return Buffer.concat([length, text, Buffer.from(values.buffer)]);
}

// Converts it to another format, with a module that is not instrumented.
function converted(writer, to) {
  let bytes = new Uint8Array(0);
  writer.outputs = {
    create: () => 0,
    write(_, offset, piece) {
      if (offset + piece.length > bytes.length) bytes = Buffer.concat([bytes, new Uint8Array(offset + piece.length - bytes.length)]);
      bytes.set(piece, offset);
    },
  };
  const options = { uuid: to === "aero" ? "0".repeat(32) : null, no_zstd: to === "aero" || null, tensor_hashes: to === "aero" || null };
  writer.call("convert", { name: "large.safetensors", to, output: to, options });
  return bytes;
}

function look(name, missing) {
  engine.files = new Map();
  engine.missing = missing;
  tried("choose", { names: [name] });
  if (!tried("open", { name })) return;
  for (const operation of ["metadata", "tree"]) tried(operation);
  for (const query of ["weight", "*.{weight,bias}"]) tried("rows", { query });
  for (const sort of ["name", "type", "shape", "size"]) tried("rows", { sort, descending: true });
  for (const { position, name: tensor } of tried("rows", { count: 64 }).rows) {
    for (const operation of ["tensor", "corner", "image", "sample", "hex"]) tried(operation, { position });
    tried("find", { tensor });
  }
}

// Cryptography is only needed for sealed files, and pickles and zip archives only for formats that are not
// written. The atlas and the output of `inspect --json` are requested by a click.
const isSealed = (path) => path.startsWith(join(testdata, "seal"));
for (const path of models(testdata).filter((path) => !isSealed(path) && !isReadOnly(path))) {
  look(basename(path), (other) => ofPath(join(dirname(path), other)));
}
const writer = await Engine.load(readFileSync(whole));
writer.files.set("large.safetensors", ofBytes(large()));
for (const { name } of writer.call("targets").value.filter(({ is_set: isSet }) => !isSet)) {
  const file = ofBytes(converted(writer, name));
  look(`large.${name}`, () => file);
}
const { memory, allocate, write_profile: write } = engine.exports;
const room = 1 << 20;
const at = allocate(room);
const length = write(at, room);
if (length > room) throw new Error(`the profile has ${length} bytes`);
writeFileSync(profile, new Uint8Array(memory.buffer, at, length));
