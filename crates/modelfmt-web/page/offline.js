// The page without a network: a service worker keeps its files, and gives them where the server cannot be reached.

const KEPT = "modelfmt-page";

self.addEventListener("install", (event) => {
  event.waitUntil(keepAll().then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const isOurs = request.method === "GET" && new URL(request.url).href.startsWith(self.registration.scope) && !request.headers.has("range");
  if (isOurs) event.respondWith(answer(request));
});

// files.txt lists the files of the page, a line each.
async function keepAll() {
  const list = await (await fetch("files.txt")).text();
  const cache = await caches.open(KEPT);
  await cache.addAll(["./", ...list.split("\n").filter(Boolean)]);
}

async function answer(request) {
  try {
    return await fetch(request);
  } catch (error) {
    const kept = await (await caches.open(KEPT)).match(request, { ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}
