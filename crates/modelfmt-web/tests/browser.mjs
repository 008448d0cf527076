// Chromium with the page, for tests.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { serve } from "../serve.mjs";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

// Starts a browser and a server for the page: `page()` opens it anew, `close()` ends both. `requests` are the
// URLs of all requests of all pages.
export async function start(folder, options = {}) {
  const { server, port } = await serve(folder);
  const profile = mkdtempSync(join(tmpdir(), "modelfmt-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: FLAGS,
    acceptDownloads: true,
    viewport: { width: 1280, height: 800 },
    // A service worker would answer in place of the tests that replace the server.
    serviceWorkers: "block",
    ...options,
  });
  const [requests, problems] = [[], []];
  context.on("request", (request) => requests.push(request.url()));
  context.on("weberror", (error) => problems.push(error.error()));
  const address = `http://127.0.0.1:${port}/`;
  return {
    address,
    context,
    requests,
    problems,
    async page(hash = "") {
      const page = await context.newPage();
      page.setDefaultTimeout(60_000);
      await page.goto(address + hash);
      return page;
    },
    stopServing() {
      server.close();
      server.closeAllConnections();
    },
    async close() {
      await context.close();
      this.stopServing();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}
