// Compares what the crates read as WebAssembly with what they read natively:
//   node run.mjs LIBRARY.wasm EXPECTED.json TESTDATA
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const [library, expectedJson, testdata] = process.argv.slice(2);
const expected = JSON.parse(readFileSync(expectedJson, "utf8"));
const far = new Map(
  Object.entries(expected.far).map(([name, { head, len }]) => [name, { head: Buffer.from(head, "hex"), len: BigInt(len) }]),
);
const files = new Map();
let ranges = 0;
let wasm;

// If the memory grows, views of it become invalid, so every use makes a new view.
const view = (address, len) => new Uint8Array(wasm.memory.buffer, address, len);
const text = (address, len) => Buffer.from(view(address, len)).toString("utf8");

function fileOf(name) {
  if (!files.has(name)) files.set(name, readFileSync(join(testdata, name)));
  return files.get(name);
}

// The eight bytes from offset 8 n on are 8 n, little-endian: see crates/testkit-wasm/src/far.rs.
function fillFar(file, offset, out) {
  for (let i = 0; i < out.length; i++) {
    const at = offset + BigInt(i);
    const madeUp = Number(((at & ~7n) >> (8n * (at & 7n))) & 255n);
    out[i] = at < BigInt(file.head.length) ? file.head[Number(at)] : madeUp;
  }
}

const host = {
  file_len(name, nameLen) {
    const path = text(name, nameLen);
    if (far.has(path)) return far.get(path).len;
    const found = statSync(join(testdata, path), { throwIfNoEntry: false });
    return found?.isFile() ? BigInt(found.size) : -1n;
  },
  read_range(name, nameLen, offset, address, len) {
    const path = text(name, nameLen);
    const out = view(address, len);
    ranges += 1;
    if (far.has(path)) {
      fillFar(far.get(path), BigInt.asUintN(64, offset), out);
      return 1;
    }
    const from = Number(offset);
    out.set(fileOf(path).subarray(from, from + len));
    return 1;
  },
  say(address, len) {
    console.error(text(address, len));
  },
};

function put(bytes) {
  const address = wasm.allocate(bytes.length);
  view(address, bytes.length).set(bytes);
  return [address, bytes.length];
}

function call(describe, name) {
  const packed = BigInt.asUintN(64, describe(...put(Buffer.from(name))));
  const [address, len] = [Number(packed >> 32n), Number(packed & 0xffffffffn)];
  const result = text(address, len);
  wasm.release(address, len);
  return result;
}

const failures = [];
let compared = 0;
function compare(how, name, describe, holds) {
  try {
    assert.equal(call(describe, name), holds);
    compared += 1;
  } catch (error) {
    failures.push(`${name}, ${how}`);
    console.error(`${name}, ${how}: not as natively\n${error.message}`);
  }
}

const module = await WebAssembly.compile(readFileSync(library));
wasm = (await WebAssembly.instantiate(module, { host })).exports;
wasm.start();

const golden = Object.entries(expected.golden);
// Without files of a format, the comparison would prove nothing.
for (const ending of [".aero", ".aeroset.json", ".mag", ".oinf", ".apr", ".safetensors", ".index.json", ".gguf"]) {
  assert(golden.some(([name]) => name.endsWith(ending)), `no golden file ${ending}`);
}
assert.equal(far.size, 2);

for (const [name] of golden) wasm.put_file(...put(Buffer.from(name)), ...put(fileOf(name)));
for (const [name, holds] of golden) {
  compare("in memory", name, wasm.describe_memory, holds);
  const before = ranges;
  compare("by ranges", name, wasm.describe_ranges, holds);
  assert(ranges > before, `${name}: no range was read`);
}
for (const [name, { holds }] of Object.entries(expected.far)) compare("100 GB", name, wasm.describe_far, holds);

const hashes = golden.flatMap(([, holds]) => holds.match(/blake3 [0-9a-f]{64}/g) ?? []).length;
console.log(`${golden.length} golden files with ${hashes} hashes of tensors, ${far.size} files of 100 GB, ${ranges} ranges`);
console.log(`${compared} comparisons as natively, ${failures.length} not`);
if (failures.length > 0) {
  console.error(`differ: ${failures.join("; ")}`);
  process.exit(1);
}
