// The npm package under Node. `cargo xtask web --test` builds it and runs this.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { demo } from "./demo.mjs";
import { TESTDATA, filesBeside, models, program } from "./models.mjs";
import { serve } from "../serve.mjs";

const { ModelError, open } = await import(pathToFileURL(join(process.env.MODELFMT_NPM, "node.js")));

// A file of which every range is a promise, as that of an object store.
function slow(path) {
  const bytes = readFileSync(path);
  return {
    byteLength: bytes.length,
    async slice(from, to) {
      await null;
      return new Uint8Array(bytes.subarray(from, to));
    },
  };
}

test("every golden file holds what the program says", async () => {
  let compared = 0;
  for (const path of models()) {
    const name = relative(TESTDATA, path);
    const printed = await program(["inspect", "--json"], path);
    const given = compared % 2 === 0 ? slow : pathToFileURL;
    const files = Object.fromEntries(filesBeside(path, printed && JSON.parse(printed)).map((other) => [relative(dirname(path), other), given(other)]));
    const opened = open(given(path), { name: basename(path), files });
    if (!printed) {
      await assert.rejects(opened, ModelError, name);
      continue;
    }
    const model = await opened;
    assert.deepEqual(await model.inspect(), JSON.parse(printed), name);
    model.close();
    compared += 1;
  }
  assert.ok(compared > 90, `only ${compared} files were compared`);
});

test("values come as typed arrays, whole and in part", async () => {
  const model = await open(slow(demo()), { name: "small.aero" });
  assert.deepEqual([model.format, model.tensorCount], ["aero", 29]);
  const [first] = await model.tensors({ query: "*.1.attn.q.*" });
  assert.deepEqual([first.name, first.dtype, first.shape], ["model.layers.1.attn.q.weight", "bf16", [256, 256]]);
  const whole = await model.read(first.name);
  assert.ok(whole.data instanceof Float32Array && whole.data.length === 65_536 && whole.dtype === "bf16");
  for (const slice of ["3:5,:8", [[3, 5], [null, 8]]]) {
    const part = await model.read(first.name, slice, { verify: true });
    assert.deepEqual(part.shape, [2, 8]);
    assert.deepEqual([...part.data], [...whole.data.subarray(3 * 256, 3 * 256 + 8), ...whole.data.subarray(4 * 256, 4 * 256 + 8)]);
  }
  const stats = await model.stats(first.name);
  assert.equal(stats.max, whole.data.reduce((a, b) => Math.max(a, b)));
  await assert.rejects(model.read("model.layers.1.attn.z.weight"), /did you mean/);
  model.close();
  const types = await open(pathToFileURL(join(TESTDATA, "safetensors/dtypes.safetensors")));
  for (const { name, dtype, hasData } of await types.tensors()) {
    if (!hasData || dtype === "c64") continue;
    const { data, shape } = await types.read(name);
    assert.equal(data.length, shape.reduce((a, b) => a * b, 1), name);
  }
  types.close();
});

test("a file is verified and converted, into a stream", async () => {
  const path = demo();
  const model = await open(new Blob([await readFile(path)]), { name: "small.aero" });
  const report = await model.verify();
  assert.deepEqual({ ...report, path }, { ...JSON.parse(await program(["verify", "--json"], path)), path });
  const pieces = [];
  const writable = new WritableStream({ write: (piece) => void pieces.push(piece) });
  const converted = await model.convert("safetensors", writable, { include: ["*.norm.*"] });
  assert.deepEqual([converted.to, converted.tensors], ["safetensors", 4]);
  const again = await open(new Blob(pieces));
  assert.deepEqual((await again.read("model.layers.0.norm.weight")).data, (await model.read("model.layers.0.norm.weight")).data);
  await assert.rejects(model.convert("mag", new WritableStream()), ({ code, remedies }) => code === "unsupported" && remedies.length > 0);
  await assert.rejects(model.verify({ signal: AbortSignal.abort() }), { name: "AbortError" });
  again.close();
  model.close();
});

test("a URL is read by ranges", async () => {
  const path = demo();
  const [yes, no] = [await serve(dirname(path)), await serve(dirname(path), 0, { ranges: false })];
  const model = await open(`http://127.0.0.1:${yes.port}/${basename(path)}`);
  assert.equal(model.tensorCount, 29);
  model.close();
  await assert.rejects(open(`http://127.0.0.1:${no.port}/${basename(path)}`), /no requests for ranges/);
  for (const { server } of [yes, no]) {
    server.closeAllConnections();
    server.close();
  }
});

// What it takes to open a model is its index, however large it is: counted in the worker's own engine.
test("a file of 100 GB takes its index and little else", async () => {
  const { Engine } = await import(pathToFileURL(join(process.env.MODELFMT_NPM, "engine.js")));
  const [count, each] = [20_000, 5_000_000];
  const entries = Array.from({ length: count }, (_, i) => `"layers.${i}.weight":{"dtype":"U8","shape":[${each}],"data_offsets":[${i * each},${(i + 1) * each}]}`);
  const text = Buffer.from(`{${entries.join(",")}}`);
  const head = Buffer.alloc(8 + text.length);
  head.writeBigUInt64LE(BigInt(text.length));
  text.copy(head, 8);
  const engine = await Engine.load(await readFile(join(process.env.MODELFMT_NPM, "modelfmt.wasm")), () => assert.fail("this needs the second module"));
  let [reads, bytes] = [0, 0];
  const read = (offset, out) => {
    [reads, bytes] = [reads + 1, bytes + out.length];
    out.set(head.subarray(offset, offset + out.length));
  };
  engine.files.set("large.safetensors", { size: head.length + count * each, read });
  const { value } = engine.call("open", { name: "large.safetensors" });
  assert.deepEqual([value.tensors, value.file_size], [count, head.length + 1e11]);
  assert.equal(engine.call("rows", { from: count - 1, count: 1 }).value.rows[0].name, `layers.${count - 1}.weight`);
  assert.ok(reads <= 4 && bytes <= 2 * head.length + (1 << 20), `${reads} reads of ${bytes} bytes`);
  engine.call("sample", { position: count - 1 });
  engine.call("image", { position: count - 1 });
  const memory = engine.exports.memory.buffer.byteLength;
  assert.ok(memory <= head.length + (64 << 20), `${memory} bytes of memory`);
});
