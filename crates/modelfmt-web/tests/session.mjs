// The browser and the folder of a test file. At the end, checks that there were no requests to other servers
// and no uncaught errors.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { serve as served } from "../serve.mjs";
import { start } from "./browser.mjs";

export let browser;
export let folder;
// Addresses that tests request on purpose.
export const asked = [];

const servers = [];
// Starts a server that stops at the end, even after a failure: a running server would keep the tests from
// ending.
export async function serve(...given) {
  const serving = await served(...given);
  servers.push(serving.server);
  return serving;
}

before(async () => {
  browser = await start(process.env.MODELFMT_PAGE);
  folder = mkdtempSync(join(tmpdir(), "modelfmt-page-"));
});
after(async () => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  const isOther = (url) => ![browser.address, ...asked].some((own) => url.startsWith(own)) && !/^(blob|data):/.test(url);
  const others = browser.requests.filter(isOther);
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
  assert.deepEqual(others, [], "requests to others");
  assert.deepEqual(browser.problems, [], "errors that nobody caught");
});
