// The golden files, and what the program says of them.
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";

export const TESTDATA = process.env.MODELFMT_TESTDATA;
export const PROGRAM = process.env.MODELFMT_PROGRAM;

// What is only read: its code is in the second module, which is loaded for it.
const READ_ONLY = [".npy", ".npz", ".pt", ".bin.index.json"];
const ENDINGS = [".aero", ".aeroset.json", ".apr", ".apr.json", ".aprn", ".gguf", ".mag", ".oinf", ".safetensors", ".safetensors.index.json", ...READ_ONLY];

// The paths of all files below a folder whose names are those of models. The conformance suite has tests of its own.
export function models(folder = TESTDATA) {
  const all = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = all.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  const suite = join(folder, "conformance");
  return files.filter((path) => !path.startsWith(suite) && ENDINGS.some((ending) => path.endsWith(ending))).sort();
}

// Whether a file is of a format that is only read.
export const isReadOnly = (path) => READ_ONLY.some((ending) => path.endsWith(ending));

// The other files of the set whose index has this path, as `inspect --json` lists them.
export function filesBeside(path, inspection) {
  const names = inspection?.details?.files?.map((file) => file.path) ?? [];
  return names.filter((name) => name !== basename(path)).map((name) => join(dirname(path), name));
}

// What the program prints of a file, by its name alone; its exit status does not count.
export async function program(command, path) {
  const [folder, name] = [dirname(path), basename(path)];
  try {
    return (await promisify(execFile)(PROGRAM, [...command, name], { maxBuffer: 1 << 28, cwd: folder })).stdout;
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    return error.stdout;
  }
}
