// Ranges of a source that only another thread can read, and only asynchronously. The worker sleeps until they
// arrive.

const PIECE = 1 << 20;
// The numbers at the beginning: whether there is an answer, and its length in bytes; a negative length is
// that of an error message.
const [READY, LENGTH] = [0, 1];
const HEAD = 8;

// For the other thread: memory that both threads share.
export function channel() {
  return new SharedArrayBuffer(HEAD + PIECE);
}

// In the worker: a source of `size` bytes. `post` sends the request for a range.
export function ofChannel({ name, size, channel: shared }, post) {
  const numbers = new Int32Array(shared, 0, 2);
  return {
    size,
    read(offset, out) {
      for (let done = 0; done < out.length; ) {
        const length = Math.min(PIECE, out.length - done);
        Atomics.store(numbers, READY, 0);
        post({ request: { name, offset: offset + done, length } });
        // A wake-up call may belong to the previous range; only this number shows that the answer is
        // complete.
        while (Atomics.load(numbers, READY) === 0) Atomics.wait(numbers, READY, 0);
        const got = Atomics.load(numbers, LENGTH);
        if (got < 0) throw new Error(new TextDecoder().decode(new Uint8Array(shared, HEAD, -got).slice()));
        if (got !== length) throw new Error(`${got} bytes were given where ${length} were asked for`);
        out.set(new Uint8Array(shared, HEAD, length), done);
        done += length;
      }
    },
  };
}

// Returns the bytes of a view of any kind, or of a buffer.
export function asBytes(given) {
  return ArrayBuffer.isView(given) ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength) : new Uint8Array(given);
}

// In the other thread: answers a request with `slice(start, end)`, which returns bytes or a promise of them.
export async function answer({ offset, length }, shared, slice) {
  const numbers = new Int32Array(shared, 0, 2);
  const room = new Uint8Array(shared, HEAD);
  let got;
  try {
    const given = await slice(offset, offset + length);
    const bytes = asBytes(given.arrayBuffer ? await given.arrayBuffer() : given);
    got = bytes.length;
    room.set(bytes.subarray(0, PIECE));
  } catch (error) {
    const text = new TextEncoder().encode(String(error?.message || error || "it cannot be read")).subarray(0, 500);
    room.set(text);
    got = -text.length;
  }
  Atomics.store(numbers, LENGTH, got);
  Atomics.store(numbers, READY, 1);
  Atomics.notify(numbers, READY);
}
