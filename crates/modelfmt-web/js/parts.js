// Several workers verify a file together. Each processes a part of the bytes and takes notes, and another
// worker turns all notes into the report, without reading the file again.

// Returns how many workers are worthwhile for a model, given its summary. Hashes and decrypting keep a core
// busy. A checksum is computed nearly as fast as the browser reads, and reading takes a core too. Other
// formats have neither.
export function workersFor({ format, file_size: nbytes, encryption }, cores = navigator.hardwareConcurrency ?? 1) {
  const WORTH = 32 << 20;
  const isSummed = format.startsWith("apr");
  const isHashed = format.startsWith("aero") || (isSummed && Boolean(encryption?.is_open));
  const most = isHashed ? cores : isSummed ? cores - 1 : 1;
  return Math.max(1, Math.min(most, 4, Math.floor(nbytes / WORTH)));
}

// No file that a person chooses has such a name.
const NOTES = "//notes/";

// Checks whether a file is one of these notes.
export function isNote({ name }) {
  return name.startsWith(NOTES);
}

// `begin(args, files, onProgress)` begins the job with additional arguments and files, and returns a promise
// of the answer.
export async function inParts(begin, of, onProgress = () => {}) {
  if (of <= 1) return begin({}, {}, onProgress);
  const done = new Array(of).fill(0);
  const all = () => done.reduce((sum, nbytes) => sum + nbytes, 0);
  const part = (number) =>
    // A signature covers the whole file.
    begin({ part: { number, of }, signature: null }, {}, (nbytes) => {
      done[number] = nbytes;
      onProgress(all());
    });
  const parts = await Promise.all(Array.from(done, (_, number) => part(number)));
  const read = all();
  const notes = Object.fromEntries(parts.map(({ bytes }, number) => [NOTES + number, new Blob([bytes])]));
  return begin({ notes: Object.keys(notes) }, notes, (nbytes) => onProgress(read + nbytes));
}
