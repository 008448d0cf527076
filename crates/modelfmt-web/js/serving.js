// The common part of all workers: one engine, which executes one operation after the other. The platform
// defines how files are opened and where outputs are written.
import { Died, Engine, Refused } from "./engine.js";
import { Outputs } from "./outputs.js";

// Operations whose progress is the number of bytes read.
const OPENING = new Set(["open", "choose"]);

// Answers messages: `post(message, transfer)` sends one, and the returned function receives one. `platform`
// is { source(file), missing(files), scratch(name), work() }, where `work` returns the second module
// synchronously. With `output`, the name of the storage, an operation writes.
export function serving(post, platform) {
  let engine;
  // Messages are answered in order, although some of them wait for a server.
  let last = Promise.resolve();
  return (message) => {
    last = last.then(() => answer(message));
  };

  async function answer({ id, operation, args, files, module, work, output }) {
    try {
      if (module) engine = await Engine.load(module, work ? () => work : platform.work, Boolean(work));
      if (module && work) engine.complete();
      if (files) await take(files);
      if (!operation) return post({ id });
      engine.onProgress = progressOf(id, post);
      // Quick operations report no progress themselves, but their files may arrive slowly.
      engine.onRead = OPENING.has(operation) ? progressOf(id, post) : () => {};
      const { value, bytes, ...written } = output ? await write(operation, args, output) : await engine.run(operation, args);
      post({ id, value, bytes, ...written }, [bytes.buffer]);
    } catch (error) {
      const said = error instanceof Refused ? error.answer : { code: "failed", text: String(error?.message ?? error) };
      post({ id, error: said, died: error instanceof Died });
    }
  }

  async function take(files) {
    engine.files = new Map(await Promise.all(files.map(async (file) => [file.name, await platform.source(file)])));
    const missing = platform.missing?.(files);
    if (missing) engine.missing = missing;
  }

  // Executes an operation that writes. Returns the files too, once they are complete.
  async function write(operation, args, name) {
    const out = await platform.scratch(name);
    engine.outputs = new Outputs(out);
    try {
      const { value, bytes } = await engine.run(operation, args);
      return { value, bytes, outputs: engine.outputs.files(), ...(await out.finish()) };
    } catch (error) {
      await out.abandon();
      throw error;
    }
  }
}

// Reports progress immediately, and then at most every tenth of a second.
function progressOf(id, post) {
  let [done, told] = [0, -Infinity];
  return (nbytes) => {
    done += nbytes;
    const now = performance.now();
    if (now - told < 100) return;
    told = now;
    post({ id, progress: done });
  };
}
