// Storage for a file until it is complete: the browser's own storage for this page, or else memory.

const PREFIX = "modelfmt-";

// In a worker: { write(offset, bytes), read(offset, out), resize(size), finish(), abandon() }, where `finish`
// returns { file }. The page has chosen the name by `reserve`, and removes the file by `discard`.
export async function scratch(name) {
  try {
    return await stored(name);
  } catch {
    return inMemory();
  }
}

async function stored(name) {
  const folder = await navigator.storage.getDirectory();
  const handle = await folder.getFileHandle(name, { create: true });
  const access = await handle.createSyncAccessHandle();
  return {
    write(offset, bytes) {
      if (access.write(bytes, { at: offset }) !== bytes.length) throw new Error("the browser has no more room");
    },
    read(offset, out) {
      out.fill(0, access.read(out, { at: offset }));
    },
    resize: (size) => access.truncate(size),
    async finish() {
      access.flush();
      access.close();
      return { file: await handle.getFile() };
    },
    async abandon() {
      access.close();
    },
  };
}

function inMemory() {
  let [bytes, length] = [new Uint8Array(1 << 20), 0];
  const resize = (size) => {
    if (size > bytes.length) {
      const more = new Uint8Array(Math.max(size, bytes.length * 2));
      more.set(bytes.subarray(0, length));
      bytes = more;
    }
    length = size;
  };
  return {
    write(offset, piece) {
      if (offset + piece.length > length) resize(offset + piece.length);
      bytes.set(piece, offset);
    },
    read(offset, out) {
      const known = bytes.subarray(offset, offset + out.length);
      out.set(known);
      out.fill(0, known.length);
    },
    resize,
    async finish() {
      return { file: new Blob([bytes.subarray(0, length)]) };
    },
    async abandon() {},
  };
}

// The locks of names in use, by name: functions that release them.
const held = new Map();

// Chooses a name. As long as this page lives or until `discard`, it holds a lock of that name, so that other
// pages leave the file alone.
export async function reserve() {
  const name = PREFIX + Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  await new Promise((resolve) => {
    const hold = () => new Promise((release) => resolve(held.set(name, release)));
    // Where a page may have no locks, it has no storage either, and writes into memory.
    if (navigator.locks) navigator.locks.request(name, hold).catch(resolve);
    else resolve();
  });
  return name;
}

// How often a file is tried that a worker has just stopped writing, and the pause in milliseconds: the
// browser closes it a little later.
const [TRIES, PAUSE] = [50, 100];

// Removes a file that is no longer needed, if it is there, and gives up its name.
export async function discard(name) {
  const folder = await navigator.storage?.getDirectory?.().catch(() => null);
  for (let tries = 1; folder; tries++) {
    const error = await folder.removeEntry(name).catch((error) => error);
    if (error?.name !== "NoModificationAllowedError" || tries === TRIES) break;
    await new Promise((resume) => setTimeout(resume, PAUSE));
  }
  held.get(name)?.();
  held.delete(name);
}

// Removes files that earlier pages left behind when they were closed in the middle of their work.
export async function sweep() {
  const folder = await navigator.storage?.getDirectory?.();
  for await (const name of folder?.keys() ?? []) {
    if (!name.startsWith(PREFIX)) continue;
    // Whoever still uses the file holds its lock.
    await navigator.locks?.request(name, { ifAvailable: true }, (lock) => lock && folder.removeEntry(name).catch(() => {}));
  }
}
