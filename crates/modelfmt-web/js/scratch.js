// Storage for a file until it is complete: the browser's own storage for this page, or else memory.

// In a worker: { write(offset, bytes), read(offset, out), resize(size), finish(), abandon() }, where `finish`
// returns { file, scratch }.
export async function scratch() {
  try {
    return await stored();
  } catch {
    return inMemory();
  }
}

async function stored() {
  const folder = await navigator.storage.getDirectory();
  const name = `modelfmt-${crypto.randomUUID()}`;
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
      return { file: await handle.getFile(), scratch: name };
    },
    async abandon() {
      access.close();
      await folder.removeEntry(name);
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
      return { file: new Blob([bytes.subarray(0, length)]), scratch: null };
    },
    async abandon() {},
  };
}

// Removes a file that is no longer needed.
export async function discard(name) {
  if (!name) return;
  const folder = await navigator.storage.getDirectory();
  await folder.removeEntry(name).catch(() => {});
}

// Removes files that earlier pages left behind when they were closed in the middle of their work.
export async function sweep() {
  const folder = await navigator.storage?.getDirectory?.();
  for await (const name of folder?.keys() ?? []) {
    if (name.startsWith("modelfmt-")) await folder.removeEntry(name).catch(() => {});
  }
}
