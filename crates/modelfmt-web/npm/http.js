// A file on a web server as { byteLength, slice }.
import { expectRange, expectVersion, versionOf } from "./version.js";

export async function overHttp(url) {
  const range = (from, to) => fetch(url, { headers: { Range: `bytes=${from}-${to - 1}` } });
  const first = await range(0, 1);
  const total = /\/(\d+)$/.exec(first.headers.get("content-range") ?? "");
  if (first.status !== 206 || !total) {
    await first.body?.cancel();
    throw new Error(first.ok ? `${url}: the server takes no requests for ranges` : `${url}: the server answers ${first.status}`);
  }
  await first.arrayBuffer();
  const [byteLength, version] = [Number(total[1]), versionOf(first.headers)];
  const check = (answer, from, to) => {
    if (answer.status !== 206) throw new Error(`the server answers ${answer.status}`);
    expectVersion(version, answer.headers);
    expectRange(answer.headers, from, to, byteLength);
  };
  return {
    byteLength,
    async slice(from, to) {
      if (to <= from) return new ArrayBuffer(0);
      const answer = await range(from, to);
      try {
        check(answer, from, to);
      } catch (error) {
        await answer.body?.cancel();
        throw new Error(`${url}: ${error.message}`);
      }
      const bytes = await answer.arrayBuffer();
      if (bytes.byteLength !== to - from) throw new Error(`${url}: the server sent ${bytes.byteLength} bytes where ${to - from} were asked for`);
      return bytes;
    },
  };
}
