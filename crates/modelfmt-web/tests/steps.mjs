// Steps of tests on the page.
import { closeSync, ftruncateSync, openSync, writeFileSync } from "node:fs";

// Waits until the page shows a model or a problem. Returns the text of the problem, or null.
export async function settled(page) {
  await page.waitForSelector("body[data-done]");
  const problem = page.locator("#problem");
  return (await problem.isVisible()) ? problem.textContent() : null;
}

export async function give(page, paths) {
  await page.evaluate(() => delete document.body.dataset.done);
  await page.setInputFiles("#files", paths);
  return settled(page);
}

// Reloads the page with one UUID for everything that it writes. Returns the UUID as the program takes it.
export async function fixedUuid(page) {
  const uuid = "00000000-0000-4000-8000-000000000001";
  await page.addInitScript((uuid) => {
    crypto.randomUUID = () => uuid;
  }, uuid);
  await page.reload();
  return uuid.replaceAll("-", "");
}

// Fills in type rules: [["quantize q8_0", "*.weight"], …]; an empty text means all tensors.
export async function fillRules(page, rules) {
  for (const [i, [type, names]] of rules.entries()) {
    if ((await page.locator(".rule").count()) <= i) await page.click("#add-rule");
    await page.locator(".rule-type").nth(i).selectOption(type);
    await page.locator(".rule-names").nth(i).fill(names);
  }
}

// Writes a file of tensors with zeros, which takes no space on the disk.
export function sparse(path, nbytes, tensors = 1) {
  const each = nbytes / tensors;
  const tensor = (_, i) => [`w${i}`, { dtype: "F32", shape: [each / 4 / 1000, 1000], data_offsets: [i * each, (i + 1) * each] }];
  const text = JSON.stringify(Object.fromEntries(Array.from({ length: tensors }, tensor)));
  const header = Buffer.alloc(8 + text.length);
  header.writeBigUInt64LE(BigInt(text.length));
  header.write(text, 8);
  writeFileSync(path, header);
  const file = openSync(path, "r+");
  ftruncateSync(file, header.length + nbytes);
  closeSync(file);
  return path;
}
