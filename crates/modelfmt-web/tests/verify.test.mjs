// Verification in Chromium: its findings, and how several workers share it. `cargo xtask web --test` builds
// the page and runs this.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, copyFileSync, cpSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { demo } from "./demo.mjs";
import { PROGRAM, TESTDATA, program } from "./models.mjs";
import { asked, browser, folder, serve } from "./session.mjs";
import { give, settled, sparse } from "./steps.mjs";

test("verification names every check, and damage", async () => {
  const page = await browser.page();
  const good = demo();
  const bad = join(folder, "damaged.aero");
  copyFileSync(good, bad);
  const bytes = readFileSync(bad);
  bytes[2_000_000] ^= 1;
  writeFileSync(bad, bytes);
  for (const [path, waits] of [[good, true], [bad, true], [good, false], [bad, false]]) {
    // A browser whose WebAssembly cannot wait for a promise uses other reads.
    if (!waits) {
      await page.route("**/worker.js", async (route) => {
        const script = await (await route.fetch()).text();
        await route.fulfill({ contentType: "text/javascript", body: `delete WebAssembly.Suspending;\n${script}` });
      });
    }
    assert.equal(await give(page, [path]), null);
    await page.click("#tab-verify");
    await page.click("#verify");
    await page.waitForSelector("#verdict");
    const expected = JSON.parse(await program(["verify", "--json"], path));
    assert.equal(await page.locator("#verdict.good").count(), expected.ok ? 1 : 0, path);
    const rows = await page.locator(".checks tr").evaluateAll((rows) => rows.map((row) => [row.className, row.firstChild.textContent, row.lastChild.textContent]));
    // Failed checks come first; otherwise they keep their order.
    const rank = { failed: 0, ok: 1, absent: 2 };
    const checks = expected.checks.sort((a, b) => rank[a.status] - rank[b.status]);
    assert.deepEqual(rows, checks.map(({ status, name, detail }) => [status, name, detail]));
    if (!expected.ok) assert.equal(await page.textContent("#verdict"), "1 of 29 tensors is damaged: model.layers.0.mlp.up.weight.");
    assert.equal(await page.locator("#bare").count(), 0, "it has hashes");
  }
  // A click leads to the damaged tensor.
  await page.click("#verdict .link");
  await page.waitForSelector("#detail[data-done]");
  assert.equal(await page.textContent("#detail h3"), "model.layers.0.mlp.up.weight");
  assert.equal(await give(page, [join(TESTDATA, "safetensors/set-00001-of-00005.safetensors")]), null);
  await page.click("#tab-verify");
  await page.click("#verify");
  await page.waitForSelector("#verdict.good");
  assert.match(await page.textContent("#bare"), /no hash and no checksum/);
  await page.close();
});

test("several workers verify a large file, and find what one finds", async () => {
  const page = await browser.page();
  await page.addInitScript(() => Object.defineProperty(navigator, "hardwareConcurrency", { value: 2 }));
  await page.reload();
  const path = join(folder, "several.aero");
  execFileSync(PROGRAM, ["convert", sparse(join(folder, "several.safetensors"), 80_000_000), path, "--quiet", "--tensor-hashes"]);
  let begun = 0;
  page.on("worker", () => (begun += 1));
  for (const at of [null, 20_000_000, 60_000_000]) {
    if (at !== null) {
      const file = openSync(path, "r+");
      writeSync(file, Buffer.from([1]), 0, 1, at);
      closeSync(file);
    }
    assert.equal(await give(page, [path]), null);
    await page.click("#tab-verify");
    begun = 0;
    await page.click("#verify");
    await page.waitForSelector("#verdict");
    assert.equal(begun, 3, "two workers that read, and one that reports");
    const expected = JSON.parse(await program(["verify", "--json"], path));
    assert.equal(expected.ok, at === null);
    const rows = await page.locator(".checks tr").evaluateAll((rows) => rows.map((row) => [row.className, row.firstChild.textContent, row.lastChild.textContent]));
    // Failed checks come first; otherwise they keep their order.
    const rank = { failed: 0, ok: 1, absent: 2 };
    const checks = expected.checks.sort((a, b) => rank[a.status] - rank[b.status]);
    assert.deepEqual(rows, checks.map(({ status, name, detail }) => [status, name, detail]));
    if (!expected.ok) assert.equal(await page.textContent("#verdict"), "1 of 1 tensor is damaged: w0.");
  }
  // The same from a server, from which each worker requests a part of the bytes.
  let sent = 0;
  const { port } = await serve(folder, 0, { cors: true, seen: ({ method }) => (sent += method === "GET") });
  asked.push(`http://127.0.0.1:${port}/`);
  await page.evaluate(() => delete document.body.dataset.done);
  await page.click("#home");
  await page.fill("#url", `http://127.0.0.1:${port}/${basename(path)}`);
  await page.click("#url-form button");
  assert.equal(await settled(page), null);
  await page.click("#tab-verify");
  [begun, sent] = [0, 0];
  await page.click("#verify");
  await page.waitForSelector("#verdict.bad");
  assert.equal(begun, 3, "workers for a URL");
  assert.ok(sent <= 40, `${sent} requests for 160 MB: they are read as streams`);
  await page.close();
});

// Returns the address of a page whose workers report how many bytes they take from servers. Servers send
// more: when a stream is ended, some bytes are already on their way, depending on the timing.
async function countingPage() {
  const counter = () => {
    const taken = new BroadcastChannel("taken");
    const readers = ReadableStreamBYOBReader.prototype;
    const { read } = readers;
    readers.read = async function (...given) {
      const answer = await read.apply(this, given);
      taken.postMessage(answer.value?.byteLength ?? 0);
      return answer;
    };
    const { send } = XMLHttpRequest.prototype;
    XMLHttpRequest.prototype.send = function (...given) {
      send.apply(this, given);
      taken.postMessage(this.response?.byteLength ?? 0);
    };
  };
  const counting = join(folder, "counting");
  cpSync(process.env.MODELFMT_PAGE, counting, { recursive: true });
  const worker = join(counting, "worker.js");
  writeFileSync(worker, `(${counter})();\n${readFileSync(worker)}`);
  const { port } = await serve(counting);
  asked.push(`http://127.0.0.1:${port}/`);
  return `http://127.0.0.1:${port}/`;
}

test("several workers share what a set and a sealed file need", async () => {
  const page = await browser.page();
  await page.addInitScript(() => Object.defineProperty(navigator, "hardwareConcurrency", { value: 2 }));
  await page.addInitScript(() => {
    globalThis.taken = 0;
    new BroadcastChannel("taken").onmessage = ({ data }) => (globalThis.taken += data);
  });
  await page.goto(await countingPage());
  const size = 72_000_000;
  const source = sparse(join(folder, "shared.safetensors"), size, 4);
  const key = join(folder, "shared.key");
  writeFileSync(key, Buffer.alloc(32, 7));
  const run = (...args) => execFileSync(PROGRAM, [...args, "--quiet"]);
  run("convert", source, join(folder, "shared.aeroset.json"), "--shard-size", "18MiB");
  run("convert", source, join(folder, "shared.apr"), "--seal", "--key-file", key);
  const { port } = await serve(folder, 0, { cors: true });
  asked.push(`http://127.0.0.1:${port}/`);
  for (const [name, keys] of [["shared.aeroset.json", []], ["shared.apr", ["--key-file", key]]]) {
    await page.click("#home");
    await page.fill("#url", `http://127.0.0.1:${port}/${name}`);
    await page.evaluate(() => delete document.body.dataset.done);
    await page.click("#url-form button");
    assert.equal(await settled(page), null);
    if (keys.length > 0) {
      await page.evaluate(() => delete document.body.dataset.done);
      await page.setInputFiles("#keys", [key]);
      await page.click("#unseal");
      assert.equal(await settled(page), null);
    }
    await page.click("#tab-verify");
    let begun = 0;
    const count = () => (begun += 1);
    page.on("worker", count);
    await page.evaluate(() => (globalThis.taken = 0));
    await page.click("#verify");
    await page.waitForSelector("#verdict");
    page.off("worker", count);
    assert.equal(begun, 3, "two workers that read, and one that reports");
    // One pass for hashes and checksums, and another for those of whole files or for decrypting.
    await page.waitForFunction((least) => globalThis.taken > least, 1.9 * size);
    const nbytes = await page.evaluate(() => globalThis.taken);
    assert.ok(nbytes < 2.2 * size, `${name}: ${nbytes} bytes were taken`);
    const expected = JSON.parse(await program(["verify", "--json", ...keys], join(folder, name)));
    const rows = await page.locator(".checks tr").evaluateAll((rows) => rows.map((row) => [row.className, row.firstChild.textContent, row.lastChild.textContent]));
    // Failed checks come first; otherwise they keep their order.
    const rank = { failed: 0, ok: 1, absent: 2 };
    const checks = expected.checks.sort((a, b) => rank[a.status] - rank[b.status]);
    assert.deepEqual(rows, checks.map(({ status, name, detail }) => [status, name, detail]));
    if (!expected.ok) assert.equal(await page.textContent("#verdict"), "1 of 29 tensors is damaged: model.layers.0.mlp.up.weight.");
  }
  await page.close();
});
