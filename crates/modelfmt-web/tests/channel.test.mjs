// Ranges that a worker requests from another thread.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { channel, answer } from "../js/channel.js";

const MODULE = JSON.stringify(new URL("../js/channel.js", import.meta.url).href);

// Posts a request for 96 bytes, and then the bytes that it got.
const READER = `
  import { parentPort, workerData } from "node:worker_threads";
  import { ofChannel } from ${MODULE};
  const out = new Uint8Array(96);
  ofChannel(workerData, (message) => parentPort.postMessage(message)).read(4, out);
  parentPort.postMessage(out);
`;

test("a worker that wakes before its answer is there goes on waiting", async () => {
  const shared = channel();
  const file = { name: "model", size: 100, channel: shared };
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(READER)}`), { workerData: file });
  const [{ request }] = await once(worker, "message");
  // Simulates a late wake-up call: it wakes the worker before anything is written.
  while (Atomics.notify(new Int32Array(shared), 0) === 0);
  const bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
  const given = once(worker, "message");
  await answer(request, shared, (from, to) => bytes.subarray(from, to));
  assert.deepEqual((await given)[0], bytes.subarray(4));
});
