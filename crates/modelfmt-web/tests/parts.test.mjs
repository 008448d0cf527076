// How many workers verify a model.
import assert from "node:assert/strict";
import { test } from "node:test";
import { workersFor } from "../js/parts.js";

const MIB = 1 << 20;

test("more workers than one only where they make it faster", () => {
  const on = (cores, format, mib, encryption) => workersFor({ format, file_size: mib * MIB, encryption }, cores);
  // Hashes: as many workers as cores, and at most four.
  assert.deepEqual([1, 2, 3, 16].map((cores) => on(cores, "aero", 1000)), [1, 2, 3, 4]);
  // Checksums: one core is left to the browser, which reads.
  assert.deepEqual([1, 2, 3, 16].map((cores) => on(cores, "apr2", 1000)), [1, 1, 2, 4]);
  assert.equal(on(2, "apr2-sharded", 1000), 1);
  // Decrypting costs as much as hashing; a file that stays locked has only a checksum.
  assert.equal(on(2, "apr2", 1000, { is_open: true }), 2);
  assert.equal(on(2, "apr2", 1000, { is_open: false }), 1);
  // Nothing to compute.
  for (const format of ["safetensors", "safetensors-sharded", "gguf", "mag", "oinf"]) assert.equal(on(16, format, 1000), 1);
  // Small files.
  assert.deepEqual([0, 63, 64, 100].map((mib) => on(16, "aeroset", mib)), [1, 1, 2, 3]);
});
