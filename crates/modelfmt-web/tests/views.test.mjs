// The views in Chromium: what is shown while a model opens, the overview, the atlas. `cargo xtask web --test`
// builds the page and runs this.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, ftruncateSync, openSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { basename, join } from "node:path";
import { test } from "node:test";
import { layOut } from "../page/treemap.js";
import { demo, safetensors } from "./demo.mjs";
import { PROGRAM } from "./models.mjs";
import { asked, browser, folder } from "./session.mjs";
import { give, settled } from "./steps.mjs";

test("a file that comes slowly shows how far it is, and can be given up", async () => {
  const page = await browser.page();
  const source = demo();
  // The server answers the first requests, for the size and the beginning, and delays the others; the header
  // is longer than the beginning.
  const head = Buffer.alloc(1 << 18, " ");
  head.writeBigUInt64LE(1_000_000n);
  head.write("{", 8);
  const server = createServer((request, response) => {
    response.setHeader("access-control-allow-origin", "*");
    response.setHeader("access-control-allow-headers", "range");
    response.setHeader("access-control-expose-headers", "content-range");
    if (request.method === "OPTIONS") return response.writeHead(204).end();
    const [from, to] = request.headers.range.match(/\d+/g).map(Number);
    if (from > 0) return;
    response.writeHead(206, { "content-range": `bytes 0-${to}/2000000` }).end(head.subarray(0, to + 1));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const address = `http://127.0.0.1:${server.address().port}/`;
    asked.push(address);
    const open = async () => {
      await page.fill("#url", `${address}slow.safetensors`);
      await page.click("#url-form button");
      await page.waitForFunction(() => / read$/.test(document.querySelector("#busy .quiet")?.textContent ?? ""));
      assert.equal(await page.textContent("#busy .busy-text"), "Opening slow.safetensors…");
    };
    await open();
    await page.click("#cancel");
    assert.equal(await settled(page), null);
    assert.equal(await page.locator("#busy").isVisible(), false);
    assert.equal(await page.locator("#start").isVisible(), true);
    // Opening another file in the meantime replaces it.
    await open();
    assert.equal(await give(page, [source]), null);
    assert.equal(await page.textContent("#model-name"), basename(source));
  } finally {
    server.closeAllConnections();
    server.close();
  }
  // Errors are shown below the form with the request.
  await page.goto(browser.address);
  await page.reload();
  await page.fill("#url", `${asked.at(-1)}gone.safetensors`);
  await page.click("#url-form button");
  assert.match(await settled(page), /cannot be reached/);
  assert.equal(await page.evaluate(() => document.querySelector("#url-form").nextElementSibling.id), "problem");
  await page.click("#problem .close");
  assert.equal(await page.locator("#problem").isVisible(), false);
  await page.close();
});

test("the overview says what the model is", async () => {
  const page = await browser.page();
  assert.equal(await give(page, [demo()]), null);
  await page.waitForSelector("#about[data-done]");
  assert.match(await page.textContent("#sentence"), /^transformer · 3\.41 M parameters in 29 tensors · f32 and bf16 · 11\.0 MiB as aero/);
  const facts = await page.locator("#about dl div").evaluateAll((all) => all.map(({ children }) => Array.from(children, ({ textContent }) => textContent)));
  assert.deepEqual(facts, [["name", "small"], ["architecture", "transformer"], ["license", "MIT"], ["author", "nobody"]]);
  // The branch with most of the bytes is open, and the bars show shares of the total.
  await page.waitForSelector(".tree li li li");
  const bars = await page.locator(".tree > ul > li > details > summary .bar i").evaluateAll((all) => all.map(({ style }) => style.width));
  assert.deepEqual(bars, ["100%"]);
  await page.close();
});

test("metadata of other formats is found by its meaning", async () => {
  const { about } = await import("../page/about.js");
  const entry = (key, text, isCut = false) => ({ key, text, is_cut: isCut });
  const gguf = [entry("general.architecture", "llama"), entry("general.license", "apache-2.0"), entry("llama.context_length", "131072"), entry("llama.attention.head_count", "32"), entry("tokenizer.ggml.model", "gpt2"), entry("tokenizer.ggml.tokens", '["a"', true)];
  assert.deepEqual(about(gguf), [["architecture", "llama"], ["license", "apache-2.0"], ["context", "131,072"], ["tokenizer", "gpt2"], ["heads", "32"]]);
  const config = [entry("config", JSON.stringify({ architectures: ["LlamaForCausalLM"], max_position_embeddings: 4096, text: { hidden_size: 64 } }))];
  assert.deepEqual(about(config), [["architecture", "LlamaForCausalLM"], ["context", "4,096"], ["width", "64"]]);
  assert.deepEqual(about([entry("license", "x".repeat(500)), entry("broken", "{no JSON")]), [["license", `${"x".repeat(80)}…`]]);
});

test("areas of the treemap are those of the sizes", () => {
  const count = 20_000;
  const sizes = Float64Array.from({ length: count }, (_, i) => (i % 7 === 0 ? 0 : Math.exp(10 * Math.sin(i * 1.3))));
  const groupOf = Uint32Array.from(sizes, (_, i) => Math.floor(i / 40));
  const [width, height] = [1000, 500];
  const { cells, groups } = layOut(sizes, groupOf, count / 40, width, height);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  for (let i = 0; i < count; i++) {
    const wanted = (sizes[i] / total) * width * height;
    assert.ok(Math.abs(cells.width[i] * cells.height[i] - wanted) <= 1e-3 + wanted * 1e-3, `cell ${i}`);
    if (sizes[i] === 0) continue;
    // A cell is within its group, up to the precision of f32.
    const [group, slack] = [groupOf[i], 1e-2];
    assert.ok(cells.x[i] >= groups.x[group] - slack && cells.x[i] + cells.width[i] <= groups.x[group] + groups.width[group] + slack, `cell ${i}`);
    assert.ok(cells.y[i] >= groups.y[group] - slack && cells.y[i] + cells.height[i] <= groups.y[group] + groups.height[group] + slack, `cell ${i}`);
  }
  // Sizes that a sum cannot hold, a single size, none.
  for (const few of [[1e300, 1e-300, 1e-300], [5], [0, 0], []]) {
    const { cells } = layOut(Float64Array.from(few), new Uint32Array(few.length), 1, width, height);
    assert.ok([...cells.x, ...cells.y, ...cells.width, ...cells.height].every((value) => Number.isFinite(value)), String(few));
  }
});

// Writes a file of `count` tensors of zeros, in layers of a thousand.
function layered(path, count) {
  let at = 0;
  const entry = (_, i) => {
    const [rows, columns] = [1 + ((i * 7919) % 400), 16 + (i % 61)];
    const begin = at;
    at += rows * columns * 4;
    return `"model.layers.${Math.floor(i / 1000)}.experts.${i % 1000}.w":{"dtype":"F32","shape":[${rows},${columns}],"data_offsets":[${begin},${at}]}`;
  };
  const text = Buffer.from(`{${Array.from({ length: count }, entry).join(",")}}`);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(path, Buffer.concat([length, text]));
  const file = openSync(path, "r+");
  ftruncateSync(file, 8 + text.length + at);
  closeSync(file);
  return path;
}

test("the atlas of 100,000 tensors is drawn once, and pointing draws nothing of it again", async () => {
  const page = await browser.page();
  assert.equal(await give(page, [layered(join(folder, "layered.safetensors"), 100_000)]), null);
  await page.click("#tab-atlas");
  await page.waitForSelector("#atlas-map[data-drawn='1']");
  const box = await page.locator("#atlas-map").boundingBox();
  const seen = new Set();
  for (const [x, y] of [[0.2, 0.2], [0.7, 0.3], [0.5, 0.8]]) {
    const before = await page.getAttribute("#atlas-map", "data-told");
    await page.mouse.move(box.x + box.width * x, box.y + box.height * y);
    await page.waitForFunction((before) => document.querySelector("#atlas-map").dataset.told !== before, before);
    const told = await page.textContent("#atlas-current");
    assert.match(told, /^model\.layers\.\d+\.experts\.\d+\.w f32, \d+ × \d+, /);
    seen.add(told);
  }
  assert.equal(seen.size, 3);
  assert.equal(await page.getAttribute("#atlas-map", "data-drawn"), "1");
  // Every cell has a color: only the lines between groups have the color of the ground.
  const empty = await page.evaluate(() => {
    const map = document.querySelector("#atlas-map");
    const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
    let blue = 0;
    for (let i = 0; i < data.length; i += 4) blue += data[i] === 0 && data[i + 1] === 0x72 && data[i + 2] === 0xb2;
    return 1 - blue / (data.length / 4);
  });
  assert.ok(empty < 0.3, `${empty} of the map is empty`);
  // The keyboard moves from cell to cell, and opens one.
  await page.focus("#atlas-map");
  const before = await page.getAttribute("#atlas-map", "data-told");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction((before) => document.querySelector("#atlas-map").dataset.told !== before, before);
  const name = await page.textContent("#atlas-current .name");
  await page.keyboard.press("+");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#detail[data-done]");
  assert.equal(await page.textContent("#detail h3"), name);
  // The list has the same tensors, the largest first.
  await page.click("#tab-atlas");
  await page.click("text=As a list");
  await page.waitForFunction(() => document.querySelector("#row-0")?.textContent.includes("400 × 7"));
  assert.match(page.url(), /sort=-size/);
  await page.close();
});

test("the atlas colors by magnitude and by what a comparison found", async () => {
  const page = await browser.page();
  const file = join(folder, "colored.safetensors");
  const full = (value) => new Float32Array(4096).fill(value);
  safetensors(file, { a: ["F32", [64, 64], full(0.5)], b: ["F32", [64, 64], full(2)], c: ["F32", [64, 64], full(0)], d: ["F32", [64, 64], full(NaN)] });
  const other = join(folder, "colored-other.safetensors");
  execFileSync(PROGRAM, ["convert", file, other, "--quiet", "--exclude", "d"]);
  assert.equal(await give(page, [file]), null);
  await page.click("#tab-atlas");
  await page.waitForSelector("#atlas-map[data-drawn]");
  await page.selectOption("#atlas-color", "magnitude");
  await page.waitForFunction(() => document.querySelector("#atlas-status").textContent.startsWith("Root mean square"));
  assert.equal(await page.textContent("#atlas-legend"), "0.52no numbers, or all 0");
  await page.selectOption("#atlas-color", "difference");
  assert.match(await page.textContent("#atlas-status"), /^Compare the model first/);
  await page.click("#atlas-status button");
  await page.setInputFiles("#other", [other]);
  await page.waitForSelector("#compared");
  assert.match(await page.textContent(".kinds"), /1 missing/);
  await page.click(".kinds button");
  assert.match(await page.textContent("#atlas-legend"), /not in the other/);
  const red = await page.waitForFunction(() => {
    const map = document.querySelector("#atlas-map");
    const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
    let red = 0;
    for (let i = 0; i < data.length; i += 4) red += data[i] === 0xb3 && data[i + 1] === 0x26;
    return red / (data.length / 4);
  });
  assert.ok(Math.abs((await red.jsonValue()) - 0.25) < 0.05, "one of four is missing");
  await page.close();
});

test("names are text wherever they are shown", async () => {
  const page = await browser.page();
  const evil = '<img src=x onerror="globalThis.ran=1"><script>globalThis.ran=1</script>';
  const [file, other] = ["evil.safetensors", "evil-other.safetensors"].map((name) => join(folder, name));
  const values = new Float32Array(64).fill(1);
  safetensors(file, { [evil]: ["F32", [64], values], [`model.${evil}.b`]: ["F32", [64], values] }, { license: evil, [evil]: evil });
  safetensors(other, { [evil]: ["F32", [64], new Float32Array(64)] }, { license: `other ${evil}` });
  assert.equal(await give(page, [file]), null);
  await page.waitForSelector("#about[data-done]");
  assert.ok((await page.textContent("#about")).includes("<img src=x"));
  await page.click("#tab-tensors");
  await page.click("#row-0");
  await page.waitForSelector("#detail[data-done]");
  assert.equal(await page.textContent("#detail h3"), evil);
  await page.click("#tab-atlas");
  await page.waitForSelector("#atlas-map[data-drawn]");
  await page.focus("#atlas-map");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelector("#atlas-current").textContent.includes("onerror"));
  await page.click("#tab-metadata");
  await page.waitForSelector(".entries");
  await page.click("#tab-compare");
  await page.setInputFiles("#other", [other]);
  await page.waitForSelector("#compared");
  assert.ok((await page.textContent("#differences")).includes("<img src=x"));
  assert.deepEqual(await page.evaluate(() => [globalThis.ran, document.querySelectorAll('img[src="x"], script:not([src])').length]), [undefined, 0]);
  await page.close();
});
