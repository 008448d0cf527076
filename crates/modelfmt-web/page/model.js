// A model that is open: its files, and the worker that answers for it.
import { Connection, ModelError } from "./client.js";

let module = null;

// The reader, compiled once for all workers.
function compiled() {
  module ??= compile().catch((error) => {
    module = null;
    throw error;
  });
  return module;
}

async function compile() {
  const answer = await fetch(new URL("modelfmt.wasm", import.meta.url));
  if (!answer.ok) throw new Error(`modelfmt.wasm: the server answers ${answer.status}`);
  return WebAssembly.compile(await answer.arrayBuffer());
}

// Begins to fetch the reader, so that it is there when a file comes.
export function prepare() {
  compiled().catch(() => {});
}

// A worker that has these files, { name, blob } or { name, url }.
async function connect(files) {
  const connection = new Connection(new Worker(new URL("worker.js", import.meta.url), { type: "module" }));
  try {
    await connection.ask(null, {}, { module: await compiled(), files });
  } catch (error) {
    connection.stop();
    throw error;
  }
  return connection;
}

// Which of some files are models: { models: [name], foreign: { name, hint } }.
export async function choose(files) {
  const connection = await connect(files);
  try {
    return (await connection.ask("choose", { names: files.map(({ name }) => name) })).value;
  } finally {
    connection.stop();
  }
}

// Work that takes long, in a worker of its own: { done, stop }. `done` gives { value, bytes, file }.
export function job(files, operation, args, onProgress, more = {}) {
  let stopped = false;
  let connection = null;
  const run = async () => {
    connection = await connect(files);
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
  #connection;

  static async open(files, name) {
    const model = new Model();
    Object.assign(model, { files, name });
    model.#connection = await connect(files);
    try {
      model.summary = await model.ask("open", { name });
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
    return job(this.files, operation, { name: this.name, ...args }, onProgress, more);
  }

  close() {
    this.#connection.stop();
  }
}
