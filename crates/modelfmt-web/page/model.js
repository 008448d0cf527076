// An open model: its files, and the worker that answers requests about it.
import { Connection, ModelError } from "./client.js";
import { inParts, workersFor } from "./parts.js";

const modules = new Map();

// Compiles a module of the reader, once for all workers.
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

// Begins to fetch the reader, so that it is available when a file is given.
export function prepare() {
  compiled("modelfmt.wasm").catch(() => {});
}

function stopped() {
  return new ModelError({ code: "stopped", text: "stopped" });
}

// Starts a worker with these files, { name, blob } or { name, url }. With `isForWork`, it gets all of the
// code at once. `opening` may have a `signal` that aborts it, at once even while the code is fetched, and
// callbacks for the stages, "code" and "files", and for the bytes that are read.
async function connect(files, isForWork = false, { signal, onStage } = {}) {
  if (signal?.aborted) throw stopped();
  const connection = new Connection(new Worker(new URL("worker.js", import.meta.url), { type: "module" }));
  const aborted = new Promise((_, reject) => signal?.addEventListener("abort", () => reject(stopped())));
  aborted.catch(() => connection.stop());
  try {
    onStage?.("code");
    const code = Promise.all([compiled("modelfmt.wasm"), isForWork ? compiled("modelfmt-work.wasm") : undefined]);
    const [module, work] = await Promise.race([code, aborted]);
    onStage?.("files");
    await connection.ask(null, {}, { module, work, files });
  } catch (error) {
    connection.stop();
    throw error;
  }
  return connection;
}

// Finds out which files are models: { models: [name], foreign: { name, hint } }.
export async function choose(files, opening = {}) {
  const connection = await connect(files, false, opening);
  try {
    return (await connection.ask("choose", { names: files.map(({ name }) => name) }, { onProgress: opening.onRead })).value;
  } finally {
    connection.stop();
  }
}

// Runs long work in a separate worker: { done, stop }. `done` resolves to { value, bytes, file }.
export function job(files, operation, args, onProgress, more = {}) {
  const controller = new AbortController();
  const run = async () => {
    const connection = await connect(files, true, controller);
    try {
      return await connection.ask(operation, args, { onProgress, ...more });
    } finally {
      connection.stop();
    }
  };
  return { done: run(), stop: () => controller.abort() };
}

export class Model {
  // The summary from the library: format, file_size, dtypes, …
  summary;
  // The files, and the name of the model or its index among them.
  files;
  name;
  // The differences from the model that it was last compared with, or null. See compare.js.
  compared = null;
  onCompared = () => {};
  // The secrets that open a sealed file, { passphrase, files }, only for the workers that open it.
  #keys;
  #connection;
  // The jobs that run; none outlives the model.
  #jobs = new Set();
  #isClosed = false;

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

  // Whether the model is read over a network.
  get isRemote() {
    return this.files.some(({ url }) => url);
  }

  // Sends a short request; the worker answers one after the other.
  async ask(operation, args) {
    return (await this.#connection.ask(operation, args)).value;
  }

  // Like `ask`, but also returns the bytes of the answer: { value, bytes }.
  bytes(operation, args) {
    return this.#connection.ask(operation, args);
  }

  // Begins a job with the files of the model, and those that are `beside` it.
  job(operation, args, onProgress, more, beside = []) {
    const one = job([...this.files, ...beside], operation, { name: this.name, keys: this.#keys, ...args }, onProgress, more);
    this.#jobs.add(one);
    const forget = () => this.#jobs.delete(one);
    one.done.then(forget, forget);
    if (this.#isClosed) one.stop();
    return one;
  }

  // Verifies, with several workers if that is worthwhile: { done, stop }.
  verify(args, onProgress) {
    const [jobs, of] = [[], args.level !== "full" ? 1 : workersFor(this.summary)];
    let isStopped = false;
    const stop = () => {
      isStopped = true;
      for (const one of jobs) one.stop();
    };
    const begin = (more, beside, told) => {
      if (isStopped) throw stopped();
      const files = Object.entries(beside).map(([name, blob]) => ({ name, blob }));
      const one = this.job("verify", { ...args, ...more }, told, {}, files);
      jobs.push(one);
      return one.done;
    };
    return { done: inParts(begin, of, onProgress).finally(stop), stop };
  }

  close() {
    this.#isClosed = true;
    this.#connection.stop();
    for (const one of this.#jobs) one.stop();
  }
}
