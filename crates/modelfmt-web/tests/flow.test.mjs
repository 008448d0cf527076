// Sequential reads use one stream.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Flow } from "../js/flow.js";

const [KIB, MIB] = [1 << 10, 1 << 20];
const content = Uint8Array.from({ length: 8 * MIB }, (_, at) => (at * 2654435761) >>> 24);

// Makes a flow over that content, whose streams return pieces of odd lengths. `opened` has the positions at
// which streams began.
function flowing(end = content.length) {
  const opened = [];
  const flow = new Flow((at) => {
    opened.push(at);
    return new ReadableStream({
      type: "bytes",
      pull(controller) {
        if (at >= end) return controller.close(), controller.byobRequest?.respond(0);
        const piece = content.slice(at, Math.min(end, at + 70_001));
        at += piece.length;
        controller.enqueue(piece);
      },
    });
  });
  return { flow, opened };
}

// Reads like a source; returns false if the read is left to other methods.
async function read({ flow }, offset, length) {
  const out = new Uint8Array(length);
  if (!flow.continues(offset, out)) return false;
  await flow.read(offset, out);
  assert.ok(Buffer.from(out.buffer).equals(Buffer.from(content.buffer, offset, length)), `${length} bytes at ${offset}`);
  return true;
}

test("what comes in order is one stream, with small gaps too", async () => {
  const one = flowing();
  assert.equal(await read(one, 10, MIB), false, "the first piece");
  let at = 10 + MIB;
  for (const [gap, length] of [[0, MIB], [0, 3], [5, 300 * KIB], [0, MIB], [900 * KIB, MIB], [MIB, 7]]) {
    at += gap;
    assert.equal(await read(one, at, length), true);
    at += length;
  }
  assert.deepEqual(one.opened, [10 + MIB]);
});

test("a walk over the lengths of blocks becomes one stream", async () => {
  const one = flowing();
  const places = Array.from({ length: 40 }, (_, number) => 100 + number * 64 * KIB);
  const streamed = [];
  for (const at of places) streamed.push(await read(one, at, 4));
  assert.deepEqual(streamed, places.map((_, number) => number >= 4), "once 256 KiB are behind it");
  assert.equal(one.opened.length, 1);
});

test("what comes in no order, or is small, begins no stream", async () => {
  const one = flowing();
  for (const [at, length] of [[0, MIB], [3 * MIB, MIB], [MIB, MIB], [6 * MIB, 100], [6 * MIB + 100, 100]]) {
    assert.equal(await read(one, at, length), false);
  }
  assert.deepEqual(one.opened, []);
});

test("a jump begins a new stream where reading goes on", async () => {
  const one = flowing();
  for (const at of [0, MIB, 5 * MIB, 6 * MIB, 2 * MIB, 3 * MIB]) await read(one, at, MIB);
  assert.deepEqual(one.opened, [MIB, 6 * MIB, 3 * MIB]);
});

test("a stream that ends early is said, and the next read begins anew", async () => {
  const one = flowing(2 * MIB + 5);
  await read(one, 0, MIB);
  await assert.rejects(read(one, MIB, 2 * MIB), /shorter than it was/);
  await read(one, 0, 512 * KIB);
  assert.equal(await read(one, 512 * KIB, MIB), true);
  assert.deepEqual(one.opened, [MIB, 512 * KIB]);
});
