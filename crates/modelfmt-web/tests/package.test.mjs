// The npm package: its types, and its form for browsers in Chromium, without a bundler. `cargo xtask web --test` builds it and runs this.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { start } from "./browser.mjs";
import { demo } from "./demo.mjs";
import { TESTDATA, program } from "./models.mjs";
import { serve } from "../serve.mjs";

const PACKAGE = process.env.MODELFMT_NPM;

test("the types compile with --strict, and refuse what is wrong", () => {
  const folder = mkdtempSync(join(tmpdir(), "modelfmt-types-"));
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: "es2022",
    lib: ["es2022", "dom"],
    module: "esnext",
    moduleResolution: "bundler",
    types: [],
    paths: { modelfmt: [join(PACKAGE, "index.d.ts")] },
  };
  const local = (path) => fileURLToPath(new URL(path, import.meta.url));
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [local("types.ts"), join(PACKAGE, "index.d.ts")] }));
  try {
    execFileSync(process.execPath, [local("node_modules/typescript/bin/tsc"), "--project", folder], { encoding: "utf8" });
  } catch (error) {
    assert.fail(error.stdout);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

// npm has Deno as a program for each system; testing this one is enough.
const isHere = process.platform === "linux" && process.arch === "x64";

test("Deno runs the package as it is", { skip: !isHere && "for Linux on x86-64" }, () => {
  const allowed = ["--allow-read", "--allow-write", "--allow-env", "--allow-sys", "--no-prompt", "--cached-only", "--no-config"];
  const local = (path) => fileURLToPath(new URL(path, import.meta.url));
  const printed = execFileSync(local("node_modules/@deno/linux-x64-glibc/deno"), ["run", ...allowed, local("deno.mjs"), PACKAGE, demo()], { encoding: "utf8" });
  const expected = { tensors: [29, 4], shape: [2, 8], read: 16, ok: true, converted: 4, refused: "no-such-tensor" };
  assert.deepEqual(JSON.parse(printed), expected);
});

test("a page imports browser.js as it is: blobs, addresses, sets by address", async () => {
  const browser = await start(PACKAGE);
  const path = demo();
  const files = [await serve(dirname(path), 0, { cors: true }), await serve(TESTDATA, 0, { cors: true })];
  const [model, testdata] = files.map(({ port }) => `http://127.0.0.1:${port}/`);
  try {
    // A page without a policy of its own: that of a missing file.
    const page = await browser.page("nothing");
    const set = "safetensors/set.safetensors.index.json";
    const seen = await page.evaluate(
      async ([library, address, setAddress]) => {
        const { open } = await import(library);
        const remote = await open(address);
        const blob = await (await fetch(address)).blob();
        const local = await open(blob, { name: "small.aero" });
        const { data, shape } = await remote.read("model.layers.1.attn.q.weight", "3:5,:8");
        const report = await local.verify();
        const chunks = [];
        const writable = new WritableStream({ write: (chunk) => void chunks.push(chunk) });
        const converted = await local.convert("safetensors", writable, { include: ["*.norm.*"] });
        const again = await open(new Blob(chunks));
        const controller = new AbortController();
        const options = { onProgress: () => controller.abort(), signal: controller.signal };
        const stopped = await local.convert("safetensors", new WritableStream(), options).catch(({ name }) => name);
        const left = [];
        for await (const name of (await navigator.storage.getDirectory()).keys()) left.push(name);
        const of = await open(setAddress);
        const refused = await of.read("no such tensor").catch(({ name, code }) => [name, code]);
        const result = {
          tensors: [remote.tensorCount, local.tensorCount, again.tensorCount],
          read: [data.constructor.name, data.length, shape],
          report,
          converted: [converted.to, converted.tensors],
          set: await of.inspect(),
          refused,
          stopped: [stopped, left],
        };
        for (const open of [remote, local, again, of]) open.close();
        return result;
      },
      [`${browser.address}browser.js`, model + basename(path), testdata + set],
    );
    assert.deepEqual(seen.tensors, [29, 29, 4]);
    assert.deepEqual(seen.read, ["Float32Array", 16, [2, 8]]);
    assert.deepEqual({ ...seen.report, path }, { ...JSON.parse(await program(["verify", "--json"], path)), path });
    assert.deepEqual(seen.converted, ["safetensors", 4]);
    assert.deepEqual(seen.set, JSON.parse(await program(["inspect", "--json"], join(TESTDATA, set))));
    assert.equal(seen.refused[0], "ModelError");
    assert.deepEqual(seen.stopped, ["AbortError", []], "no temporary file is left");
    assert.deepEqual(browser.problems, []);
  } finally {
    await browser.close();
    for (const { server } of files) {
      server.closeAllConnections();
      server.close();
    }
  }
});
