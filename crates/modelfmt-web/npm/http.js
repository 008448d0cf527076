// A file on a web server as { byteLength, slice }.

export async function overHttp(url) {
  const range = (from, to) => fetch(url, { headers: { Range: `bytes=${from}-${to - 1}` } });
  const first = await range(0, 1);
  const total = /\/(\d+)$/.exec(first.headers.get("content-range") ?? "");
  if (first.status !== 206 || !total) {
    await first.body?.cancel();
    throw new Error(first.ok ? `${url}: the server takes no requests for ranges` : `${url}: the server answers ${first.status}`);
  }
  await first.arrayBuffer();
  return {
    byteLength: Number(total[1]),
    async slice(from, to) {
      const answer = await range(from, to);
      if (answer.status !== 206) throw new Error(`${url}: the server answers ${answer.status}`);
      return answer.arrayBuffer();
    },
  };
}
