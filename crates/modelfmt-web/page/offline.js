// The page without a network: a service worker caches its files, and serves them if the server cannot be
// reached.

// `cargo xtask web` replaces VERSION by a hash of all files. So this script changes with each of them, and
// the browser installs it anew.
const OURS = "modelfmt-page-";
const KEPT = `${OURS}VERSION`;

self.addEventListener("install", (event) => {
  event.waitUntil(keepAll().then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(forgetOthers().then(() => self.clients.claim())));

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const isOurs = request.method === "GET" && new URL(request.url).href.startsWith(self.registration.scope) && !request.headers.has("range");
  if (isOurs) event.respondWith(answer(request));
});

// files.txt lists the files of the page, one per line. They are requested from the server, so that all of
// them are of one version.
async function keepAll() {
  const list = await (await fetch("files.txt", { cache: "no-cache" })).text();
  const cache = await caches.open(KEPT);
  await cache.addAll(["./", ...list.split("\n").filter(Boolean)].map((name) => new Request(name, { cache: "no-cache" })));
}

// Removes the caches of earlier versions.
async function forgetOthers() {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name.startsWith(OURS.slice(0, -1)) && name !== KEPT).map((name) => caches.delete(name)));
}

async function answer(request) {
  const given = await fetch(request).catch((error) => error);
  if (given instanceof Response && given.status < 500) return given;
  const kept = await (await caches.open(KEPT)).match(request, { ignoreSearch: true });
  if (kept) return kept;
  if (given instanceof Response) return given;
  throw given;
}
