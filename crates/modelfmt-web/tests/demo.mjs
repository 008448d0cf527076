// A small invented model for pictures and tests: a transformer of four layers, as an AERO with a hash for
// each tensor.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM } from "./models.mjs";

// Writes a safetensors file of these { name: [dtype, shape, bytes] }.
export function safetensors(path, tensors, metadata = {}) {
  const header = { __metadata__: metadata };
  let at = 0;
  for (const [name, [dtype, shape, bytes]] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [at, at + bytes.byteLength] };
    at += bytes.byteLength;
  }
  const text = Buffer.from(JSON.stringify(header));
  const padded = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, " ")]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  writeFileSync(path, Buffer.concat([length, padded, ...Object.values(tensors).map(([, , bytes]) => Buffer.from(bytes.buffer))]));
}

// Returns numbers that look like trained weights; the same ones each time.
function weights(rows, columns, scale) {
  let seed = rows * 7919 + columns;
  const random = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return (seed + 0.5) / 4294967296;
  };
  return Float32Array.from({ length: rows * columns }, (_, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const pattern = 0.6 * Math.sin(row / 17) * Math.cos(column / 23) + (column % 64 === 11 ? 1.5 : 0);
    return scale * (Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random()) + pattern);
  });
}

// Makes the model anew, in a separate folder that is removed at the end.
export function demo() {
  const folder = mkdtempSync(join(tmpdir(), "modelfmt-demo-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const width = 256;
  const tensors = { "model.embed.weight": ["F32", [1024, width], weights(1024, width, 0.02)] };
  for (let layer = 0; layer < 4; layer++) {
    const name = `model.layers.${layer}`;
    for (const part of ["q", "k", "v", "o"]) tensors[`${name}.attn.${part}.weight`] = ["F32", [width, width], weights(width, width, 0.05 + layer / 100)];
    tensors[`${name}.mlp.up.weight`] = ["F32", [4 * width, width], weights(4 * width, width, 0.04)];
    tensors[`${name}.mlp.down.weight`] = ["F32", [width, 4 * width], weights(width, 4 * width, 0.03)];
    tensors[`${name}.norm.weight`] = ["F32", [width], weights(1, width, 0.01).map((value) => 1 + value)];
  }
  const [source, out] = [join(folder, "small.safetensors"), join(folder, "small.aero")];
  safetensors(source, tensors, { license: "MIT", author: "nobody", training_tokens: "1000000", notes: "made up for a picture" });
  const options = ["--tensor-hashes", "--model-name", "small", "--architecture", "transformer", "--cast", "*.attn.*=bf16", "--uuid", "00000000000000000000000000000001", "--quiet"];
  execFileSync(PROGRAM, ["convert", source, out, ...options]);
  return out;
}

// Makes models that are derived from the demo's source and one that is not quite: { base, derived: [path] }.
export function derived() {
  const exact = demo();
  const base = exact.replace(/aero$/, "safetensors");
  const blocks = exact.replace(/aero$/, "q4_k.gguf");
  execFileSync(PROGRAM, ["convert", base, blocks, "--quantize", "q4_k", "--quiet"]);
  const changed = exact.replace(/aero$/, "changed.gguf");
  const bytes = readFileSync(blocks);
  bytes[bytes.length - 1000] ^= 1;
  writeFileSync(changed, bytes);
  return { base, derived: [exact, blocks, changed] };
}
