// The golden files, and the program's output about them.
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";

export const TESTDATA = process.env.MODELFMT_TESTDATA;
export const PROGRAM = process.env.MODELFMT_PROGRAM;

// Formats that can only be read. Their code is in the second module, which is loaded for them.
const READ_ONLY = [".npy", ".npz", ".pt", ".bin.index.json"];
const ENDINGS = [".aero", ".aeroset.json", ".apr", ".apr.json", ".aprn", ".gguf", ".mag", ".oinf", ".safetensors", ".safetensors.index.json", ...READ_ONLY];

// Returns the paths of all files below a folder with the name of a model, except for the conformance suite,
// which has its own tests.
export function models(folder = TESTDATA) {
  const all = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = all.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  const suite = join(folder, "conformance");
  return files.filter((path) => !path.startsWith(suite) && ENDINGS.some((ending) => path.endsWith(ending))).sort();
}

// Checks whether a file has a format that can only be read.
export const isReadOnly = (path) => READ_ONLY.some((ending) => path.endsWith(ending));

// Returns the other files of the set whose index has this path, as `inspect --json` lists them.
export function filesBeside(path, inspection) {
  const names = inspection?.details?.files?.map((file) => file.path) ?? [];
  return names.filter((name) => name !== basename(path)).map((name) => join(dirname(path), name));
}

// Returns the program's output about a file, which it is given by name alone. The exit status is ignored.
export async function program(command, path) {
  const [folder, name] = [dirname(path), basename(path)];
  try {
    return (await promisify(execFile)(PROGRAM, [...command, name], { maxBuffer: 1 << 28, cwd: folder })).stdout;
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    return error.stdout;
  }
}
