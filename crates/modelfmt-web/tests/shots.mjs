// Takes pictures of all views, light and dark, wide and narrow: node shots.mjs OUT. Needs the variables of
// the tests. Some of the pictures are in docs/img.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { start } from "./browser.mjs";
import { demo } from "./demo.mjs";
import { PROGRAM, TESTDATA } from "./models.mjs";

const [out] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const browser = await start(process.env.MODELFMT_PAGE);
const CHANGES = ["--cast", "*.norm.*=f16", "--cast", "*.mlp.*=bf16", "--exclude", "*.3.attn.q.*"];
const folder = mkdtempSync(join(tmpdir(), "modelfmt-shots-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

async function open(page, path) {
  await page.evaluate(() => delete document.body.dataset.done);
  await page.setInputFiles("#files", [path]);
  await page.waitForSelector("body[data-done]");
}

const VIEWS = {
  start: async () => {},
  overview: async (page, file) => {
    await open(page, file);
    await page.waitForSelector(".tree li li li");
    await page.waitForSelector("#about[data-done]");
  },
  tensors: async (page) => {
    await page.click("#tab-tensors");
    await page.fill("#search", "*.attn.*");
    await page.waitForFunction(() => document.querySelector("#found").textContent.includes(" of "));
    await page.click(".rows .row:nth-child(2)");
    await page.waitForSelector("#detail[data-done]");
  },
  metadata: async (page) => {
    await page.click("#tab-metadata");
    await page.waitForSelector(".entries");
  },
  verify: async (page) => {
    await page.click("#tab-verify");
    // Twice, because the second module is fetched and compiled the first time.
    for (let i = 0; i < 2; i++) {
      await page.click("#verify");
      await page.waitForSelector("#verify:enabled");
      await page.waitForSelector("#verdict");
    }
  },
  compare: async (page, file) => {
    const other = join(folder, "other.safetensors");
    if (!existsSync(other)) execFileSync(PROGRAM, ["convert", file, other, "--quiet", ...CHANGES]);
    await page.click("#tab-compare");
    await page.setInputFiles("#other", [other]);
    await page.waitForSelector("#compared");
  },
  // Colored by the preceding comparison.
  atlas: async (page) => {
    await page.click("#tab-atlas");
    await page.waitForSelector("#atlas-map[data-drawn]");
    await page.focus("#atlas-map");
    await page.keyboard.press("ArrowRight");
    await page.waitForSelector("#atlas-map[data-told]");
  },
  convert: async (page) => {
    await page.click("#tab-convert");
    await page.waitForSelector("#to");
  },
  damaged: async (page, file) => {
    const bad = join(folder, "damaged.aero");
    copyFileSync(file, bad);
    const bytes = readFileSync(bad);
    bytes[2_000_000] ^= 1;
    writeFileSync(bad, bytes);
    await open(page, bad);
    await page.click("#tab-verify");
    await page.click("#verify");
    await page.waitForSelector("#verdict");
  },
  seal: async (page) => {
    await open(page, join(TESTDATA, "seal/encrypted-passphrase.apr"));
    await page.click("#tab-overview");
    await page.waitForSelector("#seal");
  },
  signed: async (page) => {
    await open(page, join(TESTDATA, "seal/signed.apr"));
    await page.click("#tab-overview");
    await page.waitForSelector("#seal");
  },
  problem: async (page) => {
    const text = join(folder, "notes.txt");
    writeFileSync(text, "nothing of the kind");
    await open(page, text);
  },
};

try {
  const file = demo();
  for (const [kind, width, height, colorScheme] of [["light", 1280, 800, "light"], ["dark", 1280, 800, "dark"], ["narrow", 400, 844, "light"], ["narrow-dark", 400, 844, "dark"]]) {
    const page = await browser.page();
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    for (const [name, show] of Object.entries(VIEWS)) {
      await show(page, file);
      await page.mouse.move(0, 0);
      await page.evaluate(() => document.activeElement?.blur());
      await page.screenshot({ path: join(out, `${name}-${kind}.png`) });
    }
    await page.close();
  }
} finally {
  await browser.close();
}
