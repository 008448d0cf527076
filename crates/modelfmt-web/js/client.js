// Sends requests to workers; each request is a promise. If a worker dies, its requests fail, and nothing else
// does.

export class ModelError extends Error {
  // `code` is one of the library's, or "died" or "stopped"; `details` are lines, `remedies` options that help.
  constructor({ code, text, details = [], remedies = [] }) {
    super(text);
    this.name = "ModelError";
    Object.assign(this, { code, details, remedies });
  }
}

// One worker and its requests. `worker` has postMessage, terminate, onmessage and onerror, like a browser's worker.
export class Connection {
  #worker;
  #waiting = new Map();
  #next = 1;
  #gone = null;
  #onRequest;

  // `onRequest` is called for ranges that the worker cannot read itself.
  constructor(worker, onRequest) {
    this.#worker = worker;
    this.#onRequest = onRequest;
    worker.onmessage = ({ data }) => this.#heard(data);
    worker.onerror = (event) => {
      event.preventDefault?.();
      this.#end(died(event.message));
    };
  }

  // Requests an operation and returns { value, bytes }. `more` is sent along: files, a module.
  ask(operation, args = {}, { onProgress, ...more } = {}, transfer = []) {
    if (this.#gone) return Promise.reject(this.#gone);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, onProgress });
      this.#worker.ref?.();
      this.#worker.postMessage({ id, operation, args, ...more }, transfer);
    });
  }

  // Ends the worker; its open requests fail with the code "stopped". In Node, returns a promise that resolves
  // when the worker has ended.
  stop() {
    return this.#end(new ModelError({ code: "stopped", text: "stopped" }));
  }

  #heard({ id, request, progress, error, died: isDead, value, bytes, ...rest }) {
    if (request) return this.#onRequest?.(request);
    const pending = this.#waiting.get(id);
    if (!pending) return;
    if (progress !== undefined) return pending.onProgress?.(progress);
    if (isDead) return this.#end(died(error.text));
    this.#waiting.delete(id);
    // A program may end while no request is open.
    if (this.#waiting.size === 0) this.#worker.unref?.();
    if (error) pending.reject(new ModelError(error));
    else pending.resolve({ value, bytes, ...rest });
  }

  #end(error) {
    this.#gone ??= error;
    const ended = this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    return ended;
  }
}

function died(why) {
  const because = why ? ` (${why})` : "";
  const text = `the reader stopped working on this file${because}; nothing else is affected, and you can open another file`;
  return new ModelError({ code: "died", text });
}
