// A model that is open: its files, and the worker that answers for it.
import { Connection, ModelError } from "./client.js";
import { inParts, workersFor } from "./parts.js";

const modules = new Map();

// A module of the reader, compiled once for all workers.
function compiled(name) {
  if (!modules.has(name)) {
    const begun = compile(name);
    modules.set(name, begun);
    begun.catch(() => modules.delete(name));
  }
  return modules.get(name);
}

async function compile(name) {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: the server answers ${answer.status}`);
  return WebAssembly.compile(await answer.arrayBuffer());
}

// Begins to fetch the reader, so that it is there when a file comes.
export function prepare() {
  compiled("modelfmt.wasm").catch(() => {});
}

// A worker that has these files, { name, blob } or { name, url }; one that `isForWork` gets all of the code at once. `opening` may have a
// `signal` that ends it, and be told of the stages, "code" and "files", and of the bytes that are read.
async function connect(files, isForWork = false, { signal, onStage } = {}) {
  const connection = new Connection(new Worker(new URL("worker.js", import.meta.url), { type: "module" }));
  signal?.addEventListener("abort", () => connection.stop());
  try {
    onStage?.("code");
    const [module, work] = await Promise.all([compiled("modelfmt.wasm"), isForWork ? compiled("modelfmt-work.wasm") : undefined]);
    onStage?.("files");
    await connection.ask(null, {}, { module, work, files });
  } catch (error) {
    connection.stop();
    throw error;
  }
  return connection;
}

// Which of some files are models: { models: [name], foreign: { name, hint } }.
export async function choose(files, opening = {}) {
  const connection = await connect(files, false, opening);
  try {
    return (await connection.ask("choose", { names: files.map(({ name }) => name) }, { onProgress: opening.onRead })).value;
  } finally {
    connection.stop();
  }
}

// Work that takes long, in a worker of its own: { done, stop }. `done` gives { value, bytes, file }.
export function job(files, operation, args, onProgress, more = {}) {
  let stopped = false;
  let connection = null;
  const run = async () => {
    connection = await connect(files, true);
    if (stopped) throw new ModelError({ code: "stopped", text: "stopped" });
    try {
      return await connection.ask(operation, args, { onProgress, ...more });
    } finally {
      connection.stop();
    }
  };
  return {
    done: run(),
    stop() {
      stopped = true;
      connection?.stop();
    },
  };
}

export class Model {
  // What the library says of it: format, file_size, dtypes, …
  summary;
  // The files, and the name of the model or its index among them.
  files;
  name;
  // How it differs from the model that it was compared with last; null before. See compare.js.
  compared = null;
  onCompared = () => {};
  // What opens a sealed file, { passphrase, files }: for each worker that opens it, and nobody else.
  #keys;
  #connection;

  static async open(files, name, keys, opening = {}) {
    const model = new Model();
    Object.assign(model, { files, name });
    model.#keys = keys;
    model.#connection = await connect(files, false, opening);
    try {
      model.summary = (await model.#connection.ask("open", { name, keys }, { onProgress: opening.onRead })).value;
    } catch (error) {
      model.close();
      throw error;
    }
    return model;
  }

  // Whether it is read over a network.
  get isRemote() {
    return this.files.some(({ url }) => url);
  }

  // A short question: the worker answers one after the other.
  async ask(operation, args) {
    return (await this.#connection.ask(operation, args)).value;
  }

  // The same, with the bytes beside the answer: { value, bytes }.
  bytes(operation, args) {
    return this.#connection.ask(operation, args);
  }

  job(operation, args, onProgress, more) {
    return job(this.files, operation, { name: this.name, keys: this.#keys, ...args }, onProgress, more);
  }

  // Verifies, with several workers if that pays: { done, stop }.
  verify(args, onProgress) {
    const [jobs, of] = [[], args.level !== "full" ? 1 : workersFor(this.summary)];
    let stopped = false;
    const stop = () => {
      stopped = true;
      for (const one of jobs) one.stop();
    };
    const begin = (more, beside, told) => {
      if (stopped) throw new ModelError({ code: "stopped", text: "stopped" });
      const files = [...this.files, ...Object.entries(beside).map(([name, blob]) => ({ name, blob }))];
      const one = job(files, "verify", { name: this.name, keys: this.#keys, ...args, ...more }, told);
      jobs.push(one);
      return one.done;
    };
    return { done: inParts(begin, of, onProgress).finally(stop), stop };
  }

  close() {
    this.#connection.stop();
  }
}
