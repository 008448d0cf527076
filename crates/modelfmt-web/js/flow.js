// Bytes that are read in their order, as a stream: the next ones are on their way while these are looked at.

// What is taken from the stream at once, and the most that is skipped to stay with it.
const ROOM = 1 << 20;
// So much has to have been passed in order before a stream is begun. What is skipped counts too: a walk over the lengths of LZ4 blocks
// asks for 4 bytes in 64 KiB, and each question to the browser costs more than the bytes between them.
const WORTH = 256 << 10;

export class Flow {
  #open;
  #reader = null;
  // Bytes that are here and were not asked for yet, and where they are in the file.
  #have = new Uint8Array(0);
  #at = -1;
  // Where the last bytes ended that were asked for.
  #next = -1;
  // How many bytes were passed in order until there.
  #run = 0;
  #room = new ArrayBuffer(ROOM);

  // `open(offset)` gives a stream of the bytes from there on, or a promise of one.
  constructor(open) {
    this.#open = open;
  }

  // Whether these bytes continue what was asked for. To be called for everything that is read.
  suits(offset, out) {
    const skipped = offset - this.#next;
    const isNext = this.#next >= 0 && skipped >= 0 && skipped <= WORTH;
    this.#next = offset + out.length;
    this.#run = out.length + (isNext ? this.#run + skipped : 0);
    return (isNext && this.#run >= WORTH) || this.#isNear(offset);
  }

  // Fills `out`, and returns a promise if that takes until later.
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

  // Fills the beginning of `out` with what is here, and returns the rest of `out`.
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
    // What it was reading may have failed.
    this.#reader?.cancel().catch(() => {});
    [this.#have, this.#room] = [new Uint8Array(0), new ArrayBuffer(ROOM)];
    this.#reader = (await this.#open(offset)).getReader({ mode: "byob" });
    this.#at = offset;
  }
}
