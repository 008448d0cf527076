// Sources of bytes in a browser's worker, all synchronous: files that were dropped, and ranges of a URL.

import { Flow } from "./flow.js";
import { expectRange, expectVersion, versionOf } from "./version.js";

// Each read of a blob asks another process, which takes longer than reading half a megabyte. So sequential
// reads use windows, which grow from SMALLEST to LARGEST, or a stream if the reader may wait.
const [SMALLEST, LARGEST] = [1 << 20, 16 << 20];

// A File or Blob.
export function ofBlob(blob) {
  const reader = new FileReaderSync();
  let [from, window, next, length] = [0, new Uint8Array(0), -1, SMALLEST];
  const flow = new Flow((at) => blob.slice(at).stream());
  const take = (offset, count) => {
    const bytes = reader.readAsArrayBuffer(blob.slice(offset, offset + count));
    if (bytes.byteLength !== count) throw new Error("the file is shorter than it was");
    return new Uint8Array(bytes);
  };
  return {
    size: blob.size,
    read(offset, out, mayWait) {
      if (mayWait && flow.continues(offset, out)) return flow.read(offset, out);
      const end = offset + out.length;
      const isNext = offset === next;
      next = end;
      if (offset < from || end > from + window.length) {
        if (mayWait || !isNext || out.length < SMALLEST / 4) return out.set(take(offset, out.length));
        length = offset === from + window.length ? Math.min(LARGEST, 2 * length) : SMALLEST;
        window = take(offset, Math.min(blob.size - offset, Math.max(length, out.length)));
        from = offset;
      }
      out.set(window.subarray(offset - from, end - from));
    },
  };
}

// Pieces of a URL that are kept, because nearby bytes are usually wanted next.
const PIECE = 256 * 1024;
const KEPT = 32;

// Opens a file on a web server that answers requests for ranges. A first request finds its size before
// anything is read.
export async function ofUrl(url) {
  return ranges(url, await opened(url));
}

// `file` has the size of the file, and its version, which must be the same in every answer.
function ranges(url, file) {
  const { size } = file;
  const kept = new Map();
  const piece = (number) => {
    let bytes = kept.get(number);
    if (bytes) kept.delete(number);
    else bytes = fetchRange(url, file, number * PIECE, Math.min(size, (number + 1) * PIECE));
    kept.set(number, bytes);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
    return bytes;
  };
  const flow = new Flow(async (at) => {
    const answer = await fetch(url, { headers: { Range: `bytes=${at}-${size - 1}` }, credentials: "omit" }).catch(() => null);
    if (!answer) throw new Error(GONE);
    try {
      expectPart(answer);
      expectVersion(file.version, answer.headers);
      expectRange(answer.headers, at, size, size);
    } catch (error) {
      await answer.body?.cancel();
      throw error;
    }
    return answer.body;
  });
  return {
    size,
    read(offset, out, mayWait) {
      if (mayWait && flow.continues(offset, out)) return flow.read(offset, out);
      if (out.length >= PIECE) {
        out.set(fetchRange(url, file, offset, offset + out.length));
        return;
      }
      for (let done = 0; done < out.length; ) {
        const at = offset + done;
        const from = piece(Math.floor(at / PIECE)).subarray(at % PIECE);
        const part = from.subarray(0, out.length - done);
        out.set(part, done);
        done += part.length;
      }
    },
  };
}

const NO_RANGES =
  "the server sends whole files only and takes no requests for ranges; download the file and drop it here";
const NO_LENGTH = "the server does not say how long the file is; download the file and drop it here";
const GONE = "the server cannot be reached any more";
const NO_ACCESS =
  "the server cannot be reached, or does not allow other pages to read this file (CORS); download the file and drop it here";

// Opens a file next to one that was read by ranges: its server is known to support them.
export function besideUrl(url, name) {
  const beside = new URL(name.split("/").map(encodeURIComponent).join("/"), url).href;
  const request = new XMLHttpRequest();
  request.open("HEAD", beside, false);
  request.send();
  if (request.status >= 400) throw new Error(`${beside}: ${status(request)}`);
  const headers = headersOf(request);
  const length = headers.get("content-length");
  if (length === null) throw new Error(NO_LENGTH);
  return ranges(beside, { size: Number(length), version: versionOf(headers) });
}

// Returns the size and the version of the file. A server without ranges would send the whole file, so the
// body of its answer is not read.
async function opened(url) {
  const asked = new AbortController();
  let answer;
  try {
    answer = await fetch(url, { headers: { Range: "bytes=0-0" }, signal: asked.signal, credentials: "omit" });
  } catch {
    throw new Error(NO_ACCESS);
  }
  const version = versionOf(answer.headers);
  if (answer.status === 416) return { size: 0, version };
  if (!answer.ok) throw new Error(status(answer));
  if (answer.status !== 206) {
    asked.abort();
    throw new Error(NO_RANGES);
  }
  await answer.arrayBuffer();
  const total = /\/(\d+)$/.exec(answer.headers.get("content-range") ?? "");
  if (total) return { size: Number(total[1]), version };
  // Other origins have to allow reading this header, and few do. The length of the whole file can always be
  // read.
  const head = await fetch(url, { method: "HEAD", credentials: "omit" });
  const length = head.headers.get("content-length");
  if (!head.ok || length === null) throw new Error(NO_LENGTH);
  expectVersion(version, head.headers);
  return { size: Number(length), version };
}

function fetchRange(url, { size, version }, from, to) {
  if (to <= from) return new Uint8Array(0);
  const request = new XMLHttpRequest();
  request.open("GET", url, false);
  request.responseType = "arraybuffer";
  request.setRequestHeader("Range", `bytes=${from}-${to - 1}`);
  try {
    request.send();
  } catch {
    throw new Error(GONE);
  }
  expectPart(request);
  const headers = headersOf(request);
  expectVersion(version, headers);
  expectRange(headers, from, to, size);
  const bytes = new Uint8Array(request.response);
  if (bytes.length !== to - from) {
    throw new Error(`the server sent ${bytes.length} bytes where ${to - from} were asked for`);
  }
  return bytes;
}

// Reads a whole file of the page itself.
export function whole(url) {
  const request = new XMLHttpRequest();
  request.open("GET", url, false);
  request.responseType = "arraybuffer";
  request.send();
  if (request.status !== 200) throw new Error(`${url}: ${status(request)}`);
  return request.response;
}

function expectPart(answer) {
  if (answer.status !== 206) throw new Error(answer.status === 200 ? NO_RANGES : status(answer));
}

// Returns the headers that the page may read. Browsers log an error for each header that is read by name
// without permission.
function headersOf(request) {
  const lines = request.getAllResponseHeaders().split("\r\n").filter((line) => line.includes(":"));
  return new Headers(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
}

function status({ status, statusText }) {
  return `the server answers ${status} ${statusText}`.trim();
}
