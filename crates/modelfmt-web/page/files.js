// Files that are dropped or chosen, as { name, blob }. Names are paths below the given folder.

// Returns the files of an <input>.
export function chosen(input) {
  const files = Array.from(input.files, (blob) => ({ name: blob.webkitRelativePath || blob.name, blob }));
  input.value = "";
  return files;
}

// Returns files and folders that were dropped. The entries must be read before anything is awaited.
export async function dropped(transfer) {
  const entries = Array.from(transfer.items ?? [], (item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return Array.from(transfer.files, (blob) => ({ name: blob.name, blob }));
  const files = [];
  const folders = entries.map((entry) => [entry, ""]);
  // Nested folders are rare; folders deeper than in any model are left out.
  const DEEPEST = 8;
  while (folders.length > 0) {
    const [entry, below] = folders.shift();
    if (entry.isFile) {
      files.push({ name: below + entry.name, blob: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
    } else if (below.split("/").length <= DEEPEST) {
      for (const child of await children(entry)) folders.push([child, `${below}${entry.name}/`]);
    }
  }
  return files;
}

async function children(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
}
