// The npm package under Node. `cargo xtask web --test` builds it and runs this.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { demo, derived } from "./demo.mjs";
import { PROGRAM, TESTDATA, filesBeside, models, program } from "./models.mjs";
import { judged, keys, policies } from "./policies.mjs";
import { serve } from "../serve.mjs";

const { ModelError, open } = await import(pathToFileURL(join(process.env.MODELFMT_NPM, "node.js")));

// A file every range of which is a promise, as in an object store.
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

test("a set is written, a stream for each file; hashes of files are read back", async () => {
  const model = await open(new Blob([await readFile(demo())]), { name: "small.aero" });
  const into = (pieces) => (name) => new WritableStream({ write: (piece) => void (pieces[name] ??= []).push(piece) });
  for (const [to, options, count] of [["safetensors", { name: "small.safetensors", shard_size: 4 << 20 }, 4], ["aeroset", { name: "small.aeroset.json" }, 3]]) {
    const pieces = {};
    const converted = await model.convert(to, into(pieces), options);
    assert.equal(converted.files.length, count, to);
    const files = Object.fromEntries(Object.entries(pieces).map(([name, all]) => [name, new Blob(all)]));
    assert.deepEqual(converted.files.map(({ name, nbytes }) => [name, nbytes]).sort(), Object.entries(files).map(([name, { size }]) => [name, size]).sort());
    const index = Object.keys(files).find((name) => name.endsWith(".json"));
    const again = await open(files[index], { name: index, files });
    assert.equal((await again.verify()).ok, true, to);
    const name = "model.layers.0.norm.weight";
    assert.deepEqual((await again.read(name)).data, (await model.read(name)).data);
    again.close();
  }
  await assert.rejects(model.convert("safetensors", new WritableStream(), { name: "small.safetensors", shard_size: 4 << 20 }), /4 files/);
  model.close();
});

test("several workers verify as one does", async () => {
  let compared = 0;
  for (const path of models().filter((path) => /\.(aero|apr|aprn)$/.test(path))) {
    const name = basename(path);
    const model = await open(pathToFileURL(path), { name }).catch(() => null);
    if (!model) continue;
    const alone = await model.verify();
    for (const workers of [2, 3]) assert.deepEqual(await model.verify({ workers }), alone, `${name}, ${workers} workers`);
    model.close();
    compared += 1;
  }
  assert.ok(compared > 20, `only ${compared} files were compared`);
  // Files of many pieces, intact and damaged in either half.
  const good = demo();
  execFileSync(PROGRAM, ["convert", good, `${good}.apr`, "--to", "apr2", "--compress", "lz4", "--quiet"]);
  for (const path of [good, `${good}.apr`]) {
    const bytes = readFileSync(path);
    for (const at of [null, bytes.length >> 2, bytes.length - (bytes.length >> 2)]) {
      const changed = Buffer.from(bytes);
      if (at !== null) changed[at] ^= 1;
      const model = await open(new Blob([changed]), { name: basename(path) });
      const alone = await model.verify();
      assert.equal(alone.ok, at === null, `${path} ${at}`);
      assert.deepEqual(await model.verify({ workers: 2 }), alone);
      model.close();
    }
  }
});

test("a signature beside the file is verified", async () => {
  const path = demo();
  const key = join(dirname(path), "key.pem");
  execFileSync(PROGRAM, ["keygen", "--type", "p384", "-o", key, "--quiet"]);
  execFileSync(PROGRAM, ["sign", path, "--key", key, "--quiet"]);
  const [signature, signer] = await Promise.all([`${path}.sig`, `${key}.pub`].map((path) => readFile(path, "utf8")));
  const model = await open(pathToFileURL(path));
  const { ok, checks } = await model.verify({ signature, signers: [signer] });
  assert.deepEqual([ok, checks.filter(({ name }) => ["signature", "digests"].includes(name)).map(({ status }) => status)], [true, ["ok", "ok"]]);
  const { errors } = await model.verify({ signature, signers: [] });
  assert.match(errors.join(), /none was named/);
  model.close();
});

test("signatures and keys of another type are errors, and never ignored", async () => {
  const path = demo();
  const model = await open(pathToFileURL(path));
  for (const args of [{ signers: ["x"] }, { signers: [] }, { signature: Buffer.from("{}"), signers: ["x"] }, { signature: 1 }, { signature: "{}", signers: "x" }, { signature: "{}", signers: [Buffer.from("x")] }]) {
    for (const workers of [1, 2]) await assert.rejects(model.verify({ ...args, workers }), { code: "usage", message: /^sign(ature|ers): / }, JSON.stringify(args));
  }
  for (const args of [{ at: 1 }, { signature: Buffer.from("{}") }]) await assert.rejects(model.judge("default = 'allow'", args), { code: "usage", message: /: a text is needed$/ });
  model.close();
  const seal = join(TESTDATA, "seal");
  const { sign } = JSON.parse(await readFile(join(seal, "vectors.json"), "utf8"));
  const pem = (name) => `-----BEGIN PUBLIC KEY-----\n${Buffer.from(`302a300506032b6570032100${sign[name].public}`, "hex").toString("base64")}\n-----END PUBLIC KEY-----\n`;
  const signed = (keys) => open(pathToFileURL(join(seal, "signed.apr")), { keys });
  (await signed({ files: [pem("alice")] })).close();
  await assert.rejects(signed({ files: [pem("mallory")] }), /sign/);
  const wrong = [{ files: pem("mallory") }, { files: [Buffer.from(pem("mallory"))] }, { files: [undefined] }, { files: [] }, { passphrase: 5 }, { signers: [pem("mallory")] }, {}, [], [pem("mallory")], pem("mallory"), false];
  for (const keys of wrong) await assert.rejects(signed(keys), { code: "usage", message: /^keys/ }, JSON.stringify(keys));
});

test("work that is aborted while its worker starts is not done", async () => {
  const model = await open(slow(demo()), { name: "small.aero" });
  const works = [{}, { workers: 2 }].map((options) => (signal) => model.verify({ ...options, signal }));
  works.push((signal) => model.bom("spdx", { tensors: true, signal }));
  for (const work of works) {
    const controller = new AbortController();
    const done = work(controller.signal);
    controller.abort();
    await assert.rejects(done, { name: "AbortError" });
  }
  model.close();
});

test("a conversion leaves no temporary file, however it ends", async () => {
  const model = await open(pathToFileURL(demo()));
  const [folder, usual] = [mkdtempSync(join(tmpdir(), "modelfmt-scratch-")), process.env.TMPDIR];
  process.env.TMPDIR = folder;
  try {
    let during = 0;
    const convert = (to, onProgress, signal) => model.convert(to, new WritableStream(), { onProgress, signal });
    const controller = new AbortController();
    const abort = () => {
      during = readdirSync(folder).length;
      controller.abort();
    };
    await assert.rejects(convert("safetensors", abort, controller.signal), { name: "AbortError" });
    assert.equal(during, 1, "the temporary file");
    assert.deepEqual(readdirSync(folder), []);
    await convert("safetensors");
    await assert.rejects(convert("mag"), { code: "unsupported" });
    assert.deepEqual(readdirSync(folder), []);
  } finally {
    if (usual === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = usual;
    rmSync(folder, { recursive: true });
    model.close();
  }
});

test("views of every kind are files, and what slice() may return", async () => {
  const path = models().find((path) => path.endsWith(".gguf") && statSync(path).size % 2 === 0 && !path.includes("-of-"));
  const bytes = readFileSync(path);
  const expected = JSON.parse(await program(["inspect", "--json"], path));
  const room = new Uint8Array(bytes.length + 16).fill(7);
  room.set(bytes, 8);
  const own = room.slice(8, 8 + bytes.length);
  const views = [new Uint16Array(room.buffer, 8, bytes.length / 2), new DataView(room.buffer, 8, bytes.length), bytes, own.buffer];
  const slices = [
    (from, to) => new DataView(own.buffer, from, to - from),
    (from, to) => new Int8Array(own.buffer, from, to - from),
    (from, to) => own.slice(from, to).buffer,
    (from, to) => new Blob([own.slice(from, to)]),
  ];
  for (const source of [...views, ...slices.map((slice) => ({ byteLength: own.length, slice }))]) {
    const model = await open(source, { name: basename(path) });
    assert.deepEqual(await model.inspect(), expected);
    model.close();
  }
});

test("a proof says what the program says", async () => {
  const { base, derived: all } = derived();
  const results = new Set();
  for (const path of all) {
    const model = await open(pathToFileURL(path));
    const proof = await model.prove(slow(base), { name: basename(base) });
    assert.deepEqual(proof, JSON.parse(await program(["prove", "--json", basename(base)], path)), path);
    for (const { result } of proof.tensors) results.add(result);
    model.close();
  }
  assert.deepEqual([...results].sort(), ["differs", "exact"]);
});

test("a bill of materials is the program's, byte for byte", async () => {
  // The program's document also has the files next to a model.
  const all = models().filter((path) => /\.(aero|apr|gguf|mag|oinf|safetensors)$/.test(path) && !path.includes("/oms/"));
  let compared = 0;
  for (const path of [demo(), ...all.filter((_, i) => i % 9 === 0)]) {
    const model = await open(pathToFileURL(path)).catch(() => null);
    if (!model) continue;
    for (const spec of ["cyclonedx", "spdx"]) {
      const expected = await program(["bom", "--spec", spec, "--tensors"], path);
      assert.equal(await model.bom(spec, { tensors: true }).catch(() => ""), expected, `${spec} of ${path}`);
      compared += expected !== "";
    }
    model.close();
  }
  assert.ok(compared > 12, `only ${compared} were compared`);
});

test("a policy is judged as the program judges by it", async () => {
  const { folder, cases } = policies();
  const seen = [0, 0];
  for (const [name, policy] of cases) {
    const path = join(folder, name);
    const model = await open(pathToFileURL(path));
    const signature = existsSync(`${path}.sig`) ? await readFile(`${path}.sig`, "utf8") : undefined;
    const { allowed, why } = await model.judge(policy, { name: "policy.toml", keys: keys(folder), at: path, signature });
    const expected = judged(folder, name, policy);
    assert.equal(allowed, expected.allowed, `${name}: ${policy}: ${why} ${expected.said}`);
    if (!allowed) assert.ok(expected.said.includes(why), `${why} is not ${expected.said}`);
    seen[Number(allowed)] += 1;
    model.close();
  }
  assert.ok(Math.min(...seen) > 5, `${seen}`);
  const model = await open(pathToFileURL(join(folder, "m.aero")));
  await assert.rejects(model.judge("default = 3"), /default is/);
  await assert.rejects(model.judge("[[rule]]\nmatch = ['/**']\nkeys = ['none.pub']"), /none\.pub.*give this file too/);
  await assert.rejects(model.judge("", { at: "m.aero" }), /absolute path/);
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

// Opening a model reads only its index, however large the model is; this counts the bytes in the worker's own
// engine.
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
  const begun = performance.now();
  const { value } = engine.call("open", { name: "large.safetensors" });
  const milliseconds = performance.now() - begun;
  const toOpen = [reads, bytes];
  assert.deepEqual([value.tensors, value.file_size], [count, head.length + 1e11]);
  assert.equal(engine.call("rows", { from: count - 1, count: 1 }).value.rows[0].name, `layers.${count - 1}.weight`);
  assert.ok(reads <= 4 && bytes <= 2 * head.length + (1 << 20), `${reads} reads of ${bytes} bytes`);
  engine.call("sample", { position: count - 1 });
  engine.call("image", { position: count - 1 });
  const memory = engine.exports.memory.buffer.byteLength;
  assert.ok(memory <= head.length + (64 << 20), `${memory} bytes of memory`);
  const beyond = ((memory - head.length) / 2 ** 20).toFixed(1);
  console.log(`100 GB: ${toOpen[0]} reads of ${toOpen[1]} bytes for an index of ${head.length}, ${beyond} MiB of memory beyond it, ${milliseconds.toFixed(0)} ms`);
});
