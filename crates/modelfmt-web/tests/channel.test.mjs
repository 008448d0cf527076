// Ranges that a worker asks another thread for.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { channel, grant } from "../js/channel.js";

const MODULE = JSON.stringify(new URL("../js/channel.js", import.meta.url).href);

// Posts the wish for 96 bytes, and then what it was given.
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
  const [{ wish }] = await once(worker, "message");
  // As a call that came late would: it wakes the worker, and nothing is written yet.
  while (Atomics.notify(new Int32Array(shared), 0) === 0);
  const bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
  const given = once(worker, "message");
  await grant(wish, shared, (from, to) => bytes.subarray(from, to));
  assert.deepEqual((await given)[0], bytes.subarray(4));
});
