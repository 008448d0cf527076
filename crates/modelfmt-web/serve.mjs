// Serves a folder on this machine, to look at the page: node serve.mjs FOLDER [PORT]
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize, sep } from "node:path";
import { fileURLToPath } from "node:url";

const TYPES = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
  ".webmanifest": "application/manifest+json",
};

// Begins to serve; `port` 0 uses any free port. Options: with `ranges` false it sends only whole files, with
// `cors` other origins can read them, and `seen` is called with each request.
export function serve(folder, port = 0, { ranges = true, cors = false, seen = () => {} } = {}) {
  const server = createServer((request, response) => {
    seen(request);
    if (cors) {
      response.setHeader("access-control-allow-origin", "*");
      response.setHeader("access-control-allow-headers", "range");
    }
    if (request.method === "OPTIONS") return response.writeHead(204).end();
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    const file = join(folder, path.endsWith(sep) ? join(path, "index.html") : path);
    const found = file.startsWith(folder) && statSync(file, { throwIfNoEntry: false });
    if (!found || !found.isFile()) return response.writeHead(404).end("there is no such file");
    response.setHeader("content-type", TYPES[extname(file)] ?? "application/octet-stream");
    response.setHeader("cache-control", "no-cache");
    if (ranges) response.setHeader("accept-ranges", "bytes");
    const range = ranges && /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    send(request, response, file, found.size, range);
  });
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () => resolve({ server, port: server.address().port }));
  });
}

function send(request, response, file, size, range) {
  let [start, end, status] = [0, size - 1, 200];
  if (range) {
    [start, end, status] = [Number(range[1]), Math.min(Number(range[2]), size - 1), 206];
    if (start >= size) return response.writeHead(416, { "content-range": `bytes */${size}` }).end();
    response.setHeader("content-range", `bytes ${start}-${end}/${size}`);
  }
  response.writeHead(status, { "content-length": end - start + 1 });
  if (request.method === "HEAD" || size === 0) return response.end();
  createReadStream(file, { start, end }).on("error", () => response.destroy()).pipe(response);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder, port = "8080"] = process.argv.slice(2);
  const { port: taken } = await serve(folder, Number(port));
  console.log(`http://127.0.0.1:${taken}/`);
}
