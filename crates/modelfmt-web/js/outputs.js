// The files that an operation writes, all in one storage, because a worker cannot begin a second file without
// waiting. Each file consists of blocks of that storage, which are allocated as the file grows.

const BLOCK = 1 << 20;

export class Outputs {
  #place;
  #files = [];
  #blocks = 0;

  // `place` is { write(offset, bytes), read(offset, out), resize(size) }.
  constructor(place) {
    this.#place = place;
  }

  // Begins a file and returns its number.
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

  // Calls `act` for each part of `bytes`, with its position in the storage.
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

  // Completes the files and returns them as { name, size, pieces }: pieces are ranges of the storage.
  files() {
    const files = this.#files.map(({ name, size, blocks }) => {
      const pieces = [];
      for (let block = 0; block * BLOCK < size; block++) {
        // Bytes that were never written are zeros, and take up a block too.
        const from = (blocks[block] ??= this.#blocks++ * BLOCK);
        const to = from + Math.min(BLOCK, size - block * BLOCK);
        if (pieces.at(-1)?.[1] === from) pieces.at(-1)[1] = to;
        else pieces.push([from, to]);
      }
      return { name, size, pieces };
    });
    // The last block need not be full; its rest is zeros.
    this.#place.resize(this.#blocks * BLOCK);
    return files;
  }
}

// Returns one of these files as a blob made of the storage's blob.
export function assembled({ pieces }, place) {
  return new Blob(pieces.map(([from, to]) => place.slice(from, to)));
}
