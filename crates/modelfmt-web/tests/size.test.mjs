// What has to go over a network before the page works.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { brotliCompressSync, constants } from "node:zlib";

// In bytes, compressed with brotli. The page must not grow unseen; what is below has been measured.
const MOST = 1024 * 1024;

test("the page and its code stay small", () => {
  const folder = process.env.MODELFMT_PAGE;
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 22 };
  const sizes = readdirSync(folder).map((name) => [name, brotliCompressSync(readFileSync(join(folder, name)), { params }).length]);
  const total = sizes.reduce((sum, [, size]) => sum + size, 0);
  console.log(`page and code: ${total} bytes with brotli, modelfmt.wasm ${sizes.find(([name]) => name === "modelfmt.wasm")[1]}`);
  assert.ok(total <= MOST, `${total} bytes are more than ${MOST}`);
});
