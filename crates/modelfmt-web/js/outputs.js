// The files that an operation writes, all in one place: a worker cannot begin a second file without waiting. Each file has blocks of
// that place, which it gets as it grows.

const BLOCK = 1 << 20;

export class Outputs {
  #place;
  #files = [];
  #blocks = 0;

  // `place` is { write(offset, bytes), read(offset, out), resize(size) }.
  constructor(place) {
    this.#place = place;
  }

  // Begins a file; returns its number.
  create(name) {
    if (this.#files.some((file) => file.name === name)) throw new Error(`${name} is written already`);
    return this.#files.push({ name, size: 0, blocks: [] }) - 1;
  }

  write(number, offset, bytes) {
    const file = this.#files[number];
    this.#each(file, offset, bytes, (at, part) => this.#place.write(at, part));
    file.size = Math.max(file.size, offset + bytes.length);
  }

  read(number, offset, out) {
    const file = this.#files[number];
    if (offset + out.length > file.size) throw new Error(`${file.name} has only ${file.size} bytes`);
    this.#each(file, offset, out, (at, part) => this.#place.read(at, part));
  }

  // Calls `act` for each part of `bytes`, with where it is in the place.
  #each(file, offset, bytes, act) {
    for (let done = 0; done < bytes.length; ) {
      const at = offset + done;
      const [block, inside] = [Math.floor(at / BLOCK), at % BLOCK];
      const length = Math.min(BLOCK - inside, bytes.length - done);
      file.blocks[block] ??= this.#blocks++ * BLOCK;
      act(file.blocks[block] + inside, bytes.subarray(done, done + length));
      done += length;
    }
  }

  // The files, which nothing is written to from now on, as { name, size, pieces }: pieces are ranges of the place.
  files() {
    const files = this.#files.map(({ name, size, blocks }) => {
      const pieces = [];
      for (let block = 0; block * BLOCK < size; block++) {
        // What was never written is zeros, and has a block too.
        const from = (blocks[block] ??= this.#blocks++ * BLOCK);
        const to = from + Math.min(BLOCK, size - block * BLOCK);
        if (pieces.at(-1)?.[1] === from) pieces.at(-1)[1] = to;
        else pieces.push([from, to]);
      }
      return { name, size, pieces };
    });
    // The last block need not be full, and its rest is zeros.
    this.#place.resize(this.#blocks * BLOCK);
    return files;
  }
}

// A file of these, as a blob of the place's blob.
export function assembled({ pieces }, place) {
  return new Blob(pieces.map(([from, to]) => place.slice(from, to)));
}
