// Bytes that are read in order, as a stream: the next bytes are fetched while the current ones are processed.

// The number of bytes that are taken from the stream at once, and the most that are skipped without a new
// stream.
const ROOM = 1 << 20;
// A stream is begun once this many bytes have been passed in order. Skipped bytes count too: a walk over the
// lengths of LZ4 blocks reads 4 bytes in each 64 KiB, and each request to the browser costs more than the
// bytes in between.
const WORTH = 256 << 10;

export class Flow {
  #open;
  #reader = null;
  // Bytes that have arrived but were not requested yet, and their position in the file.
  #have = new Uint8Array(0);
  #at = -1;
  // The end of the last requested bytes.
  #next = -1;
  // The number of bytes that were passed in order up to there.
  #run = 0;
  #room = new ArrayBuffer(ROOM);

  // `open(offset)` returns a stream of the bytes from there on, or a promise of one.
  constructor(open) {
    this.#open = open;
  }

  // Checks whether these bytes continue the previous requests. Must be called for every read.
  continues(offset, out) {
    const skipped = offset - this.#next;
    const isNext = this.#next >= 0 && skipped >= 0 && skipped <= WORTH;
    this.#next = offset + out.length;
    this.#run = out.length + (isNext ? this.#run + skipped : 0);
    return (isNext && this.#run >= WORTH) || this.#isNear(offset);
  }

  // Fills `out`, and returns a promise if that has to wait.
  read(offset, out) {
    if (this.#isNear(offset)) this.#drop(offset - this.#at);
    const rest = offset === this.#at ? this.#take(out) : out;
    if (rest.length > 0) return this.#wait(offset + out.length - rest.length, rest);
  }

  #isNear(offset) {
    return this.#at >= 0 && offset >= this.#at && offset - this.#at <= ROOM;
  }

  #drop(count) {
    const dropped = Math.min(count, this.#have.length);
    this.#have = this.#have.subarray(dropped);
    this.#at += dropped;
  }

  // Fills the beginning of `out` with bytes that have arrived, and returns the rest of `out`.
  #take(out) {
    const count = Math.min(out.length, this.#have.length);
    out.set(this.#have.subarray(0, count));
    this.#drop(count);
    return out.subarray(count);
  }

  async #wait(offset, out) {
    try {
      if (!this.#isNear(offset)) await this.#begin(offset);
      while (out.length > 0) {
        const { value, done } = await this.#reader.read(new Uint8Array(this.#room));
        if (done) throw new Error("the file is shorter than it was");
        [this.#room, this.#have] = [value.buffer, value];
        this.#drop(offset - this.#at);
        if (offset !== this.#at) continue;
        out = this.#take(out);
        offset = this.#at;
      }
    } catch (error) {
      this.#at = -1;
      throw error;
    }
  }

  async #begin(offset) {
    this.#at = -1;
    // The previous read may have failed.
    this.#reader?.cancel().catch(() => {});
    [this.#have, this.#room] = [new Uint8Array(0), new ArrayBuffer(ROOM)];
    this.#reader = (await this.#open(offset)).getReader({ mode: "byob" });
    this.#at = offset;
  }
}
