// Pictures of the main views, for docs/img: node shots.mjs OUT. With the variables of the tests.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { start } from "./browser.mjs";
import { demo } from "./demo.mjs";

const [out] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const browser = await start(process.env.MODELFMT_PAGE);
try {
  const page = await browser.page();
  await page.screenshot({ path: join(out, "page-start.png") });
  const file = demo();
  await page.setInputFiles("#files", [file]);
  await page.waitForSelector("body[data-done]");
  await page.waitForSelector(".tree li");
  await page.waitForSelector(".tree li li");
  await page.screenshot({ path: join(out, "page-overview.png") });
  await page.click("#tab-tensors");
  await page.fill("#search", "*.attn.*");
  await page.waitForSelector(".row .name");
  await page.click(".rows .row:nth-child(2)");
  await page.waitForSelector("#detail[data-done]");
  await page.screenshot({ path: join(out, "page-tensors.png") });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.screenshot({ path: join(out, "page-dark.png") });
  await page.emulateMedia({ colorScheme: "light" });
  await page.click("#tab-metadata");
  await page.waitForSelector(".entries");
  await page.screenshot({ path: join(out, "page-metadata.png") });
  await page.click("#tab-verify");
  await page.click("#verify");
  await page.waitForSelector("#verdict");
  await page.screenshot({ path: join(out, "page-verify.png") });
  await page.click("#tab-convert");
  await page.waitForSelector("#to");
  await page.screenshot({ path: join(out, "page-convert.png") });
} finally {
  await browser.close();
}
