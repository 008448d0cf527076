// The page in Chromium. `cargo xtask web --test` builds it and runs this.
import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { test } from "node:test";
import { start } from "./browser.mjs";
import { demo, derived } from "./demo.mjs";
import { PROGRAM, TESTDATA, filesBeside, models, program } from "./models.mjs";
import { judged, policies } from "./policies.mjs";
import { asked, browser, folder, serve } from "./session.mjs";
import { fillRules, fixedUuid, give, settled, sparse } from "./steps.mjs";
import { execFileSync, spawnSync } from "node:child_process";

// Returns the content of the file that the page offers for download after a click.
async function downloaded(page, selector) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
  return readFileSync(await download.path());
}

// From here on, the page keeps its downloads instead of starting them: a hundred in a row would only test the
// browser.
async function keepOffers(page) {
  await page.evaluate(() => {
    const address = URL.createObjectURL.bind(URL);
    URL.createObjectURL = (blob) => address((globalThis.offered = blob));
    HTMLAnchorElement.prototype.click = () => {};
  });
}

// Returns the download that such a page offers after a click.
async function offered(page, selector) {
  await page.evaluate(() => (globalThis.offered = null));
  await page.click(selector);
  await page.waitForFunction(() => globalThis.offered || !document.querySelector("#problem").hidden);
  assert.equal(await page.locator("#problem").isVisible(), false, await page.locator("#problem").textContent());
  return page.evaluate(() => globalThis.offered.text());
}

test("every golden file holds what the program says", async () => {
  const page = await browser.page();
  await keepOffers(page);
  let [compared, sets] = [0, 0];
  for (const path of models()) {
    const name = relative(TESTDATA, path);
    // Any file of a split represents the set; the page takes the first.
    if (/-0000[2-9]-of-\d+\.gguf$/.test(path)) continue;
    const printed = await program(["inspect", "--json"], path);
    const expected = printed ? JSON.parse(printed) : null;
    const others = filesBeside(path, expected);
    const problem = await give(page, [path, ...others]);
    if (!expected) {
      assert.ok(problem, `${name}: the program refuses it`);
      continue;
    }
    assert.equal(problem, null, name);
    assert.deepEqual(JSON.parse(await offered(page, "#json")), expected, name);
    compared += 1;
    sets += others.length > 0;
  }
  assert.ok(compared > 90, `only ${compared} files were compared`);
  assert.ok(sets >= 4, `only ${sets} of them are sets`);
  await page.close();
});

test("a tensor shows its values, statistics and bytes", async () => {
  const page = await browser.page();
  assert.equal(await give(page, [demo()]), null);
  assert.equal(JSON.parse(await downloaded(page, "#json")).tensors.length, 29);
  await page.click("#tab-tensors");
  await page.waitForFunction(() => document.querySelector("#found").textContent === "29 tensors");
  await page.fill("#search", "*.0.attn.*");
  await page.waitForFunction(() => document.querySelector("#found").textContent === "4 of 29 tensors");
  await page.click(".rows .row:nth-child(2)");
  await page.waitForSelector("#detail[data-done]");
  assert.equal(await page.textContent("#detail h3"), "model.layers.0.attn.k.weight");
  assert.match(page.url(), /tensor=model\.layers\.0\.attn\.k\.weight/);
  assert.equal(await page.textContent("#stat-zero"), "0");
  assert.equal(await page.locator(".corner tbody tr").count(), 8);
  assert.equal(await page.locator(".histogram rect").count(), 64);
  assert.match(await page.textContent(".hex"), /^00120380 {2}/);
  const [min, max] = [await page.textContent("#stat-min"), await page.textContent("#stat-max")];
  const shown = await program(["show"], demo());
  const block = shown.slice(shown.indexOf("model.layers.0.attn.k.weight"));
  assert.ok(block.includes(`min: ${min}, max: ${max}`), `${min} to ${max}`);
  await page.close();
});

test("a first look needs the first module alone, and the second comes once", async () => {
  const page = await browser.page();
  const before = browser.requests.length;
  const asked = (name) => browser.requests.slice(before).filter((url) => url.endsWith(`/${name}`)).length;
  assert.equal(await give(page, [demo()]), null);
  await page.click("#tab-tensors");
  await page.click(".rows .row:nth-child(2)");
  await page.waitForSelector("#detail[data-done]");
  await page.click("#tab-metadata");
  await page.waitForSelector(".entries");
  assert.match(await page.textContent(".entries td"), /^\{\n {2}"architecture": "transformer",\n/);
  assert.equal(asked("modelfmt-work.wasm"), 0);
  await page.click("#tab-verify");
  for (let round = 0; round < 2; round++) {
    await page.click("#verify");
    await page.waitForSelector("#verdict");
  }
  assert.equal(asked("modelfmt-work.wasm"), 1);
  await page.close();
});

test("the page is there before its code, obeys its policy and the keyboard", async () => {
  const page = await browser.page("nothing");
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route("**/modelfmt.wasm", async (route) => (await held, route.continue()));
  await page.goto(browser.address);
  await page.waitForSelector("#start-title");
  // A file that is given now is opened when the code has arrived.
  await page.setInputFiles("#files", [demo()]);
  await page.waitForSelector("#busy:not([hidden])");
  release();
  assert.equal(await settled(page), null);
  // Only the page's own scripts run, and nothing is loaded from elsewhere: the browser lists each request
  // that the policy stops.
  asked.push("https://example.invalid/pixel.png");
  const refused = await page.evaluate(async () => {
    const policies = [];
    document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => policies.push(effectiveDirective));
    const script = document.createElement("script");
    script.textContent = "globalThis.ran = true";
    document.head.append(script);
    document.body.append(Object.assign(new Image(), { src: "https://example.invalid/pixel.png" }));
    while (policies.length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
    return [globalThis.ran === true, policies.sort()];
  });
  assert.deepEqual(refused, [false, ["img-src", "script-src-elem"]]);
  await page.focus("#tab-overview");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.activeElement.id), "tab-tensors");
  assert.match(page.url(), /view=tensors/);
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "search");
  await page.waitForSelector("#row-0"); // keys do nothing in a list that is not there yet
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.waitForSelector("#detail[data-done]");
  assert.match(page.url(), /tensor=/);
  await page.close();
});

test("a large tensor is sampled, and counted when asked", async () => {
  const page = await browser.page();
  assert.equal(await give(page, [sparse(join(folder, "large.safetensors"), 100_000_000_000)]), null);
  assert.equal(await page.textContent("#fact-size"), "93.1 GiB");
  await page.click("#tab-tensors");
  await page.click(".rows .row:nth-child(1)");
  await page.waitForSelector("#detail[data-done]");
  assert.match(await page.textContent("#detail"), /Of a sample of 262,144 values/);
  assert.equal(await page.textContent("#stat-zero"), "262,144 (100 %)");
  await page.click("#exact");
  await page.click(".progress button");
  await page.waitForSelector("#exact:enabled");
  // The same size, with an index of 20,000 tensors.
  const many = sparse(join(folder, "large-many.safetensors"), 100_000_000_000, 20_000);
  const begun = performance.now();
  assert.equal(await give(page, [many]), null);
  console.log(`100 GB in Chromium: 20,000 tensors are listed after ${(performance.now() - begun).toFixed(0)} ms`);
  await page.waitForFunction(() => document.querySelector("#found").textContent === "20,000 tensors");
  await page.close();
});

test("conversions are those of the program, byte for byte", async () => {
  const page = await browser.page();
  const source = demo();
  const uuid = await fixedUuid(page);
  const cases = [
    ["gguf", { "#include": "*.attn.*, *.norm.*" }, [["quantize q8_0", ""], ["quantize q4_0", "*.q.*"]], ["--quantize", "q8_0", "--quantize", "*.q.*=q4_0", "--include", "*.attn.*", "--include", "*.norm.*"]],
    ["safetensors", { "#new-metadata": '{"license": "none"}' }, [["cast f16", ""]], ["--cast", "f16"]],
    ["aero", {}, [], ["--no-zstd", "--uuid", uuid]],
  ];
  for (const [to, fields, rules, flags] of cases) {
    assert.equal(await give(page, [source]), null);
    await page.click("#tab-convert");
    await page.waitForSelector("#to");
    // The current format is selected, and the most common targets come first.
    assert.equal(await page.inputValue("#to"), "aero");
    assert.deepEqual((await page.locator("#to option").evaluateAll((all) => all.map(({ value }) => value))).slice(0, 2), ["safetensors", "gguf"]);
    await page.selectOption("#to", to);
    await fillRules(page, rules);
    for (const [field, text] of Object.entries(fields)) await page.fill(field, text);
    const written = await downloaded(page, "#convert");
    const out = join(folder, `program.${to}`);
    const metadata = join(folder, "metadata.json");
    if (fields["#new-metadata"]) {
      writeFileSync(metadata, fields["#new-metadata"]);
      flags.push("--metadata", metadata);
    }
    execFileSync(PROGRAM, ["convert", source, out, "--quiet", ...flags]);
    assert.ok(written.equals(readFileSync(out)), `${to}: not the bytes of the program`);
  }
  // The page reports what does not fit, and what helps.
  await page.click("#tab-convert");
  await page.selectOption("#to", "mag");
  await page.fill("#new-metadata", "");
  await page.click("#convert");
  await page.waitForSelector("#converted .problem");
  assert.match(await page.textContent("#converted"), /“(take a wider type|drop metadata)/);
  await page.close();
});

test("models of several files are those of the program, into a folder or as downloads", async () => {
  const page = await browser.page();
  const source = demo();
  const stem = basename(source, ".aero");
  const uuid = await fixedUuid(page);
  const cases = [
    ["safetensors", `${stem}.safetensors.index.json`, 4, []],
    ["apr2", `${stem}.apr`, 4, []],
    ["aeroset", `${stem}.aeroset.json`, 5, ["--no-zstd", "--uuid", uuid]],
    ["gguf", `${stem}.gguf`, 3, ["--cast", "*.attn.*=f16"]],
  ];
  for (const [to, name, files, flags] of cases) {
    const out = mkdtempSync(join(folder, "program-"));
    execFileSync(PROGRAM, ["convert", source, join(out, name), "--quiet", "--shard-size", "4MiB", ...flags]);
    const expected = Object.fromEntries(readdirSync(out).map((name) => [name, readFileSync(join(out, name))]));
    assert.equal(Object.keys(expected).length, files);
    assert.equal(await give(page, [source]), null);
    await page.click("#tab-convert");
    await page.selectOption("#to", to);
    await page.fill("#shard-size", "4");
    if (to === "gguf") await fillRules(page, [["cast f16", "*.attn.*"]]);
    const downloads = [];
    const take = (download) => downloads.push(download);
    page.on("download", take);
    await page.click("#convert");
    await page.waitForSelector("#written");
    while (downloads.length < files) await page.waitForEvent("download");
    page.off("download", take);
    for (const download of downloads) {
      const name = download.suggestedFilename();
      assert.ok(readFileSync(await download.path()).equals(expected[name]), `${name}: not the bytes of the program`);
    }
    assert.equal(await page.locator("#converted .names li").count(), files);
  }
  // The same into a folder, using the browser's own storage instead of one that a person chooses.
  await page.evaluate(() => {
    Object.defineProperty(navigator, "webdriver", { value: false });
    globalThis.showDirectoryPicker = async () => (await navigator.storage.getDirectory()).getDirectoryHandle("chosen", { create: true });
  });
  const inFolder = () =>
    page.evaluate(async () => {
      const sizes = [];
      const chosen = await (await navigator.storage.getDirectory()).getDirectoryHandle("chosen");
      for await (const [name, handle] of chosen.entries()) sizes.push([name, (await handle.getFile()).size]);
      return sizes.sort();
    });
  await page.click("#convert");
  await page.waitForFunction(() => document.querySelector("#convert:enabled") && document.querySelector("#written"));
  const written = await inFolder();
  assert.deepEqual(written.map(([name]) => name), [1, 2, 3].map((n) => `${stem}-0000${n}-of-00003.gguf`));
  // Existing files are not overwritten, and what was to be written is not kept.
  const before = await stored(page);
  await page.click("#convert");
  await page.waitForSelector("#converted .problem");
  assert.match(await page.textContent("#converted"), /in that folder already/);
  assert.deepEqual(await inFolder(), written);
  assert.deepEqual(await stored(page), before);
  await page.close();
});

// Returns the names of the files in the storage of the page.
async function stored(page) {
  return page.evaluate(async () => {
    const names = [];
    for await (const name of (await navigator.storage.getDirectory()).keys()) names.push(name);
    return names.sort();
  });
}

test("a page leaves alone what another page still saves, and removes what nobody uses", async () => {
  const page = await browser.page();
  await keepOffers(page);
  const put = (name) => page.evaluate(async (name) => void (await (await navigator.storage.getDirectory()).getFileHandle(name, { create: true })), name);
  // Of files that nobody uses, one comes before the file in use and one after it, in any order.
  await put("modelfmt-!");
  assert.equal(await give(page, [demo()]), null);
  await page.click("#tab-convert");
  await page.selectOption("#to", "safetensors");
  await page.click("#convert");
  await page.waitForSelector("#written");
  await put("modelfmt-~");
  const other = await browser.page();
  await other.waitForFunction(async () => {
    for await (const name of (await navigator.storage.getDirectory()).keys()) if (/^modelfmt-[!~]$/.test(name)) return false;
    return true;
  });
  const size = await page.evaluate(async () => (await globalThis.offered.arrayBuffer()).byteLength);
  assert.ok(size > 1_000_000, `${size} bytes`);
  await Promise.all([page.close(), other.close()]);
});

test("Stop ends a job whose worker still starts, and no job outlives its model", async () => {
  const page = await browser.page();
  const release = await holdCode(page);
  assert.equal(await give(page, [demo()]), null);
  await page.click("#tab-verify");
  const begin = async () => {
    const [worker] = await Promise.all([page.waitForEvent("worker"), page.click("#verify")]);
    return { closed: worker.waitForEvent("close") };
  };
  const stopped = await begin();
  await page.click(".progress button");
  await stopped.closed;
  await page.waitForFunction(() => document.querySelector("#report").textContent === "Stopped.");
  const left = await begin();
  assert.equal(await give(page, [join(TESTDATA, "safetensors/dtypes.safetensors")]), null);
  await left.closed;
  release();
  await page.close();
});

// Holds back the module for jobs until the returned function is called.
async function holdCode(page) {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route("**/modelfmt-work.wasm", async (route) => (await held, route.continue()));
  return release;
}

test("a signature beside the file is checked by the key of the signer", async () => {
  const page = await browser.page();
  const file = join(folder, "signed.aero");
  copyFileSync(demo(), file);
  const [own, other] = ["own", "other"].map((name) => join(folder, `${name}.pem`));
  for (const key of [own, other]) execFileSync(PROGRAM, ["keygen", "--type", "p256", "-o", key, "--quiet"]);
  execFileSync(PROGRAM, ["sign", file, "--key", own, "--quiet"]);
  const look = async (key) => {
    if (key) await page.setInputFiles("#signers", `${key}.pub`);
    await page.click("#verify");
    await page.waitForFunction(() => document.querySelector("#verify:enabled") && document.querySelector("#verdict"));
    return Object.fromEntries(await page.locator(".checks tr").evaluateAll((rows) => rows.map((row) => [row.firstChild.textContent, row.className])));
  };
  const open = async (problem) => {
    assert.equal(await give(page, [file, `${file}.sig`]), problem);
    await page.click("#tab-verify");
  };
  await open(null);
  assert.equal((await look(null)).signature, undefined);
  assert.match(await page.textContent("#unchecked"), /^signed\.aero\.sig was not looked at/);
  // The same for a signature that is chosen by hand.
  copyFileSync(`${file}.sig`, join(folder, "by-hand.sig"));
  assert.equal(await give(page, [file]), null);
  await page.click("#tab-verify");
  await look(null);
  assert.equal(await page.locator("#unchecked").count(), 0);
  await page.click("#beside summary");
  await page.setInputFiles("#signature", join(folder, "by-hand.sig"));
  assert.equal((await look(null)).signature, undefined);
  assert.match(await page.textContent("#unchecked"), /^by-hand\.sig was not looked at/);
  await open(null);
  const good = await look(own);
  assert.deepEqual([good.signature, good.digests], ["ok", "ok"]);
  assert.deepEqual(await page.locator("#verdict.good").count(), 1);
  assert.equal((await look(other)).signature, "failed");
  const bytes = readFileSync(file);
  bytes[2_000_000] ^= 1;
  writeFileSync(file, bytes);
  await open(null);
  const bad = await look(own);
  assert.deepEqual([bad.signature, bad.digests], ["ok", "failed"]);
  await page.close();
});

test("two models are compared as the program compares them", async () => {
  const page = await browser.page();
  const [a, b] = [demo(), join(folder, "other.safetensors")];
  execFileSync(PROGRAM, ["convert", a, b, "--quiet", "--cast", "*.norm.*=f16"]);
  for (const [other, verdict] of [[a, "Both are the same."], [b, "They differ."]]) {
    assert.equal(await give(page, [a]), null);
    await page.click("#tab-compare");
    await page.setInputFiles("#other", [other]);
    await page.waitForSelector("#compared");
    assert.equal(await page.textContent("#compared"), verdict);
  }
  const { changed } = JSON.parse(spawnSync(PROGRAM, ["diff", "--norms", "--json", a, b]).stdout);
  assert.equal(await page.textContent(".kinds"), "4 recastShow in the atlas");
  const rows = await page.locator("#differences tbody tr").evaluateAll((rows) => rows.map((row) => Array.from(row.children, ({ textContent }) => textContent)));
  assert.deepEqual(rows.map(([name]) => name), changed.map(({ name }) => name));
  assert.equal(rows.length, 4);
  assert.ok(rows.every((row) => row.length === 7 && row.every((cell) => cell !== "")), "the norms too");
  await page.close();
});

test("only the model that was chosen last is compared, and it is named", async () => {
  const page = await browser.page();
  const release = await holdCode(page);
  const [a, b, same] = [demo(), join(folder, "differs.safetensors"), join(folder, "same.aero")];
  execFileSync(PROGRAM, ["convert", a, b, "--quiet", "--cast", "*.norm.*=f16"]);
  copyFileSync(a, same);
  assert.equal(await give(page, [a]), null);
  await page.click("#tab-compare");
  const begun = [];
  page.on("worker", (worker) => begun.push(worker));
  await page.setInputFiles("#other", [b]);
  // One worker finds the model among the files, and the next compares.
  while (begun.length < 2) await page.waitForEvent("worker");
  const first = begun[1].waitForEvent("close");
  await page.setInputFiles("#other", [same]);
  await first;
  release();
  await page.waitForSelector("#compared");
  assert.equal(await page.textContent("#compared"), "Both are the same.");
  assert.equal(await page.textContent("#compared-with"), "The other model: same.aero");
  await page.close();
});

test("integers of metadata are compared with all of their digits", async () => {
  const page = await browser.page();
  const paths = [3n, 2n].map((last) => {
    const path = join(folder, `large-${last}.gguf`);
    const text = (text) => Buffer.concat([number(8, BigInt(text.length)), Buffer.from(text)]);
    const number = (size, value) => Buffer.from(BigUint64Array.of(value).buffer, 0, size);
    const key = Buffer.concat([text("test.number"), number(4, 10n), number(8, 9007199254740990n + last)]);
    const tensor = Buffer.concat([text("w"), number(4, 1n), number(8, 8n), number(4, 0n), number(8, 0n)]);
    const head = Buffer.concat([Buffer.from("GGUF"), number(4, 3n), number(8, 1n), number(8, 1n), key, tensor]);
    writeFileSync(path, Buffer.concat([head, Buffer.alloc((32 - (head.length % 32)) % 32), Buffer.alloc(32)]));
    return path;
  });
  assert.equal(await give(page, [paths[0]]), null);
  await page.click("#tab-compare");
  await page.setInputFiles("#other", [paths[1]]);
  await page.waitForSelector("#compared");
  assert.deepEqual(await page.locator("#differences .names li").allTextContents(), ["test.number: 9007199254740993 → 9007199254740992"]);
  await page.close();
});

test("a model is proved from its base as the program proves it", async () => {
  const page = await browser.page();
  const { base, derived: all } = derived();
  for (const path of all) {
    assert.equal(await give(page, [path]), null);
    await page.click("#tab-compare");
    await page.setInputFiles("#base", [base]);
    await page.waitForSelector("#proved");
    const { ok, tensors, metadata } = JSON.parse(spawnSync(PROGRAM, ["prove", "--json", base, path]).stdout);
    assert.equal(await page.locator("#proved.good").count(), Number(ok), path);
    const rows = await page.locator("#proof tbody tr").evaluateAll((rows) => rows.map((row) => Array.from(row.children, ({ textContent }) => textContent)));
    const sorted = (list) => list.sort(([a], [b]) => (a < b ? -1 : 1));
    const expected = tensors.map(({ name, result, from, steps }) => [name, result, from.join(", "), steps.join(", ")]);
    assert.deepEqual(sorted(rows.map((row) => row.slice(0, 4))), sorted(expected));
    const odd = metadata.filter(({ result }) => !["same", "mapped"].includes(result)).map(({ key, result }) => `${key}: ${result}`);
    assert.deepEqual(await page.locator("#proved-keys li").allTextContents(), odd);
    const differs = tensors.filter(({ result }) => result === "differs");
    if (differs.length > 0) assert.match(rows.find(([, result]) => result === "differs")[4], new RegExp(`^${differs[0].different} of `));
  }
  await page.close();
});

test("bills of materials are the program's, and a policy beside the model is judged", async () => {
  const page = await browser.page();
  const { folder, cases } = policies();
  const [name, policy] = ["m.aero", cases.find(([, policy]) => policy.includes('keys = ["a.pub"]'))[1]];
  const expected = judged(folder, name, policy);
  assert.ok(expected.allowed);
  assert.equal(await give(page, [name, `${name}.sig`, "policy.toml", "a.pub"].map((file) => join(folder, file))), null);
  await page.click("#tab-verify");
  await page.click("#judge");
  // Without a place no rule matches, and this policy has no default.
  await page.waitForSelector("#policy-verdict.bad");
  await page.fill("#policy-at", join(folder, name));
  await page.click("#judge");
  await page.waitForSelector("#policy-verdict.good");
  const refused = cases.find(([, policy]) => policy.includes('keys = ["b.pub"]'))[1];
  const { said } = judged(folder, name, refused);
  await page.setInputFiles("#policy", ["policy.toml", "b.pub"].map((file) => join(folder, file)));
  await page.click("#judge");
  await page.waitForSelector("#policy-verdict.bad");
  assert.ok(said.includes(await page.textContent("#policy-verdict")), said);
  await page.click("#tab-metadata");
  for (const spec of ["cyclonedx", "spdx"]) {
    await page.waitForSelector(`#bom-${spec}`);
    assert.equal(String(await downloaded(page, `#bom-${spec}`)), await program(["bom", "--spec", spec], join(folder, name)));
  }
  await page.close();
});

test("a URL is read by ranges, and a server without them is named", async () => {
  const page = await browser.page();
  const source = demo();
  let sent = 0;
  const open = async (options) => {
    const { port } = await serve(dirname(source), 0, options);
    const address = `http://127.0.0.1:${port}/`;
    asked.push(address);
    await page.evaluate(() => delete document.body.dataset.done);
    await page.fill("#url", address + basename(source));
    await page.click("#url-form button");
    return await settled(page);
  };
  assert.match(await open({ cors: true, ranges: false }), /takes no requests for ranges/);
  assert.match(await open({ cors: false }), /CORS/);
  assert.equal(await open({ cors: true, seen: ({ method }) => (sent += method === "GET") }), null);
  assert.equal(await page.textContent("#fact-tensors"), "29");
  assert.ok(sent <= 6, `${sent} requests`);
  // The address holds everything that is needed to come back.
  const again = await browser.page(new URL(page.url()).hash);
  assert.equal(await settled(again), null);
  assert.equal(await again.textContent("#model-name"), basename(source));
  await Promise.all([page.close(), again.close()]);
});

test("a set is read by the address of its index, its files beside it", async () => {
  const page = await browser.page();
  const { port } = await serve(TESTDATA, 0, { cors: true });
  const address = `http://127.0.0.1:${port}/`;
  asked.push(address);
  for (const set of ["safetensors/set.safetensors.index.json", "aero/set/model.aeroset.json"]) {
    await page.evaluate(() => delete document.body.dataset.done);
    await page.fill("#url", address + set);
    await page.click("#url-form button");
    assert.equal(await settled(page), null, set);
    assert.deepEqual(JSON.parse(await downloaded(page, "#json")), JSON.parse(await program(["inspect", "--json"], join(TESTDATA, set))), set);
    await page.click("#home");
    await page.waitForSelector("#start:not([hidden])");
  }
  await page.close();
});

test("a sealed file shows its signers, and opens with a key that stays here", async () => {
  const page = await browser.page();
  const seal = join(TESTDATA, "seal");
  const vectors = JSON.parse(readFileSync(join(seal, "vectors.json"), "utf8"));
  const bytes = (hex) => Buffer.from(hex, "hex");
  const file = (name, content) => (writeFileSync(join(folder, name), content), join(folder, name));
  const pem = (kind, der) => `-----BEGIN ${kind}-----\n${der.toString("base64")}\n-----END ${kind}-----\n`;
  // SubjectPublicKeyInfo of Ed25519, and PKCS #8 of X25519.
  const signer = ({ public: key }) => pem("PUBLIC KEY", Buffer.concat([bytes("302a300506032b6570032100"), bytes(key)]));
  const identity = ({ secret }) => pem("PRIVATE KEY", Buffer.concat([bytes("302e020100300506032b656e04220420"), bytes(secret)]));
  const unseal = async (keys, passphrase) => {
    await page.evaluate(() => delete document.body.dataset.done);
    if (passphrase) await page.fill("#passphrase", passphrase);
    await page.setInputFiles("#keys", keys);
    await page.click("#unseal");
    return settled(page);
  };

  assert.equal(await give(page, [join(seal, "signed.apr")]), null);
  assert.match(await page.textContent(".signers"), /47b2e2d66d071c3c… ed25519, not checked/);
  assert.match(await unseal([file("mallory.pub", signer(vectors.sign.mallory))]), /sign/);
  assert.equal(await unseal([file("alice.pub", signer(vectors.sign.alice))]), null);
  assert.match(await page.textContent(".signers"), /signed by the key that you gave/);
  await page.click("#tab-verify");
  await page.click("#verify");
  await page.waitForSelector("#verdict.good");

  const opened = [
    ["encrypted-passphrase.apr", [], bytes(vectors.passphrase.good).toString()],
    ["encrypted-recipient.apr", [file("carol.pem", identity(vectors.x25519.carol))]],
    ["encrypted-key.apr", Object.entries(vectors.raw).map(([name, key]) => file(`${name.replace("/", "-")}.key`, bytes(key)))],
  ];
  for (const [name, keys, passphrase] of opened) {
    assert.equal(await give(page, [join(seal, name)]), null, name);
    await page.click("#tab-overview");
    assert.match(await page.textContent("#encryption"), /^Encrypted[^.]*(names|shapes)/, name);
    assert.equal(await unseal(keys, passphrase), null, name);
    assert.match(await page.textContent("#encryption"), /open here/, name);
    await page.click("#tab-tensors");
    await page.click(".rows .row:nth-child(1)");
    await page.waitForSelector("#detail[data-done]");
    assert.equal(await page.locator(".corner tbody tr").count(), 8, name);
  }
  assert.equal(await give(page, [join(seal, "encrypted-passphrase.apr")]), null);
  await page.click("#tab-overview");
  assert.match(await unseal([], "wrong"), /no key|passphrase|opens/i);
  await page.fill("#passphrase", "");
  await page.setInputFiles("#keys", []);
  await page.click("#unseal");
  await page.waitForFunction(() => /Choose a key file, or give a passphrase/.test(document.querySelector("#problem").textContent));
  await page.close();
});

test("files that are no models, and a worker that dies, are said in a sentence", async () => {
  const page = await browser.page();
  const text = join(folder, "notes.txt");
  writeFileSync(text, "nothing of the kind");
  assert.match(await give(page, [text]), /not a model file/);
  assert.match(await give(page, [text, text.replace("notes", "more")].filter((path, i) => i === 0 || (copyFileSync(text, path), true))), /There is no model/);
  // Simulates any fault of the reader: the worker ends in the middle of its work.
  const body = 'self.onmessage = ({ data: { id, operation } }) => self.postMessage(operation ? { id, error: { text: "unreachable" }, died: true } : { id });';
  await page.route("**/worker.js", (route) => route.fulfill({ contentType: "text/javascript", body }));
  assert.match(await give(page, [demo()]), /the reader stopped working on this file \(unreachable\)/);
  await page.unroute("**/worker.js");
  assert.equal(await give(page, [demo()]), null);
  await page.close();
});

test("the page can be installed", async () => {
  const page = await browser.page();
  const client = await browser.context.newCDPSession(page);
  const { errors, manifest, url } = await client.send("Page.getAppManifest");
  assert.deepEqual([errors, url], [[], `${browser.address}manifest.webmanifest`]);
  assert.equal(manifest.name, "modelfmt: what is in a model file");
  const { installabilityErrors } = await client.send("Page.getInstallabilityErrors");
  // This error comes from the browser of the tests; nothing else is missing.
  assert.deepEqual(installabilityErrors.filter(({ errorId }) => errorId !== "in-incognito"), []);
  for (const { sizes, src } of JSON.parse(readFileSync(join(process.env.MODELFMT_PAGE, "manifest.webmanifest"), "utf8")).icons) {
    const image = await page.evaluate(async (src) => {
      const image = await createImageBitmap(await (await fetch(src)).blob()).catch(() => null);
      return image && `${image.width}x${image.height}`;
    }, src);
    if (src.endsWith(".png")) assert.equal(image, sizes);
  }
  await page.close();
});

test("the page works without a network", async () => {
  const own = await start(process.env.MODELFMT_PAGE, { serviceWorkers: "allow" });
  try {
    const page = await own.page();
    await page.evaluate(() => navigator.serviceWorker.ready);
    // On a second visit, the worker caches everything. Then the server is gone, and a third visit has
    // everything, even the second module.
    await page.reload();
    await page.waitForSelector("#start-title");
    assert.deepEqual(await page.evaluate(() => caches.keys()).then((names) => names.map((name) => name.replace(/[0-9a-f]{16}$/, "HASH"))), ["modelfmt-page-HASH"]);
    await own.context.setOffline(true);
    own.stopServing();
    await page.reload();
    assert.equal(await give(page, [demo()]), null);
    assert.equal(await page.textContent("#fact-tensors"), "29");
    await page.click("#tab-verify");
    await page.click("#verify");
    await page.waitForSelector("#verdict.good");
    const other = await own.context.newPage();
    await other.goto(own.address);
    assert.equal(await give(other, [demo()]), null);
  } finally {
    await own.close();
  }
});

test("nothing serious keeps a screen reader out", async () => {
  const page = await browser.page();
  const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
  // The page's policy allows no scripts other than its own; the browser's tools can bypass it.
  const client = await browser.context.newCDPSession(page);
  await client.send("Page.setBypassCSP", { enabled: true });
  await page.reload();
  const check = async (view) => {
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document));
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(serious.map(({ id, nodes }) => [view, id, nodes.map(({ html }) => html.slice(0, 200))]), []);
  };
  await check("start");
  assert.equal(await give(page, [demo()]), null);
  await page.waitForSelector(".tree li li");
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const view of ["overview", "tensors", "atlas", "metadata", "verify", "compare", "convert"]) {
      await page.click(`#tab-${view}`);
      if (view === "tensors") {
        await page.click(".rows .row:nth-child(2)");
        await page.waitForSelector("#detail[data-done]");
      }
      await check(`${view}, ${scheme}`);
    }
  }
  const ids = await page.locator("[id]").evaluateAll((elements) => elements.map(({ id }) => id));
  assert.equal(new Set(ids).size, ids.length, "an id is there twice");
  // On a phone, nothing is wider than the screen, and names are visible.
  await page.setViewportSize({ width: 360, height: 740 });
  for (const view of ["overview", "tensors", "atlas", "metadata", "verify", "compare", "convert"]) {
    await page.click(`#tab-${view}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 360, `${view}: ${wide} pixels wide`);
    if (view === "tensors") await page.waitForFunction(() => document.querySelector(".rows .row .name")?.getBoundingClientRect().width > 150);
  }
  await page.close();
});

test("a list of 500,000 tensors scrolls, and the keyboard goes to its end", async () => {
  const page = await browser.page();
  const path = join(folder, "many.safetensors");
  const count = 500_000;
  const entries = Array.from({ length: count }, (_, i) => `"t.${i}":{"dtype":"U8","shape":[1],"data_offsets":[${i},${i + 1}]}`);
  const text = Buffer.from(`{${entries.join(",")}}`);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(path, Buffer.concat([length, text, Buffer.alloc(count)]));
  assert.equal(await give(page, [path]), null);
  await page.click("#tab-tensors");
  await page.waitForFunction(() => document.querySelector("#found").textContent === "500,000 tensors");
  await page.focus(".list");
  await page.keyboard.press("End");
  await page.waitForSelector(`#row-${count - 1}`);
  assert.match(await page.textContent(".row.chosen"), /^t\.499999/);
  await page.evaluate(() => {
    const list = document.querySelector(".list");
    list.scrollTop = (list.scrollHeight - list.clientHeight) / 2;
  });
  await page.waitForSelector("#row-250000");
  // By name, where 10 comes after 9, and back to the order of the file.
  await page.click("#sort-name");
  await page.click("#sort-name");
  await page.waitForFunction(() => document.querySelector("#row-0")?.textContent.startsWith("t.499999"));
  await page.click("#sort-name");
  await page.waitForFunction(() => document.querySelector("#row-0")?.textContent.startsWith("t.0"));
  assert.ok((await page.locator(".rows .row").count()) < 100);
  await page.close();
});
