// The size of the download before the page works.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { brotliCompressSync, constants } from "node:zlib";

// In bytes, compressed with brotli: the page with all of its scripts and the first module, which opens, lists
// and shows models of every format. The second module is loaded to verify, compare, count, prove, judge or
// convert, or to draw an atlas. It must not grow unnoticed.
// Showing quantized weights in listings as what they are took 10 KiB of the first. In the second, their
// decoders, templates that `check` reads and types with importance took 45 KiB; proofs, bills of materials
// with their list of licences, and policies with their pattern library took 216 KiB. Encoders that are compiled
// for speed took 15 KiB: with them, the proof of a quantized model takes a fortieth of the time. What llama.cpp
// assumes of tokenizers, limits for hostile files and keys of wrong types took 4 KiB.
const FIRST = 428 * 1024;
const SECOND = 1035 * 1024;
const WORK = "modelfmt-work.wasm";

test("the page and its code stay small", () => {
  const folder = process.env.MODELFMT_PAGE;
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 22 };
  const compressed = (name) => brotliCompressSync(readFileSync(join(folder, name)), { params }).length;
  const first = readdirSync(folder).filter((name) => name !== WORK);
  const [total, second] = [first.map(compressed).reduce((sum, size) => sum + size, 0), compressed(WORK)];
  console.log(`with brotli: page and first module ${total} bytes, modelfmt.wasm ${compressed("modelfmt.wasm")}, ${WORK} ${second}`);
  assert.ok(total <= FIRST, `page and first module: ${total} bytes are more than ${FIRST}`);
  assert.ok(second <= SECOND, `${WORK}: ${second} bytes are more than ${SECOND}`);
});
