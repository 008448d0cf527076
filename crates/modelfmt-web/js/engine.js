// The memory of the library, and the files and outputs that it uses. Everything here is synchronous: it runs
// in a worker.

const decoder = new TextDecoder();
const encoder = new TextEncoder();

// The library failed in a way from which it cannot recover, so the worker is no longer usable.
export class Died extends Error {}

// An answer of the library that is an error: { code, text, details, remedies }.
export class Refused extends Error {
  constructor(error) {
    super(error.text);
    this.answer = error;
  }
}

export class Engine {
  // Files by name: { size, read(offset, out, mayWait) }, where `read` may return a promise if `mayWait`. For
  // the outputs see outputs.js.
  files = new Map();
  outputs = null;
  // Finds a file that is not among them.
  missing = () => {
    throw new Error("it is not among the files that were given; give all files of the model");
  };
  // Callbacks that get the number of bytes done, and of bytes in a read.
  onProgress = () => {};
  onRead = () => {};
  #wasm;
  // Whether a call can wait for bytes: WebAssembly is then suspended while JavaScript continues (JSPI).
  #waits = false;
  // Returns the module with the rest of the code, synchronously; null once it is loaded.
  #work;
  #failure = "";
  #messages = [];

  // `work` returns the second module, and is called when that is needed. With `mayWait`, `run` waits for
  // bytes if the platform can.
  static async load(source, work, mayWait = false) {
    const engine = new Engine();
    engine.#work = work;
    engine.#waits = mayWait && "Suspending" in WebAssembly;
    const imports = { host: engine.#host(), placeholder: engine.#placeholders() };
    const { instance } =
      source instanceof WebAssembly.Module
        ? { instance: await WebAssembly.instantiate(source, imports) }
        : await WebAssembly.instantiate(source, imports);
    engine.#wasm = instance.exports;
    engine.#wasm.start();
    return engine;
  }

  // Code that a first look does not need is in a second module (see split.mjs). A call to this code reaches
  // one of these functions instead, which loads the module. From then on, the table has the real functions.
  #placeholders() {
    const inPlaceOf = (number) => (...args) => {
      this.complete();
      return this.#wasm["%table"].get(Number(number))(...args);
    };
    return new Proxy({}, { get: (_, number) => inPlaceOf(number) });
  }

  // Loads the second module, if it is not loaded yet.
  complete() {
    if (!this.#work) return;
    new WebAssembly.Instance(this.#work(), { primary: this.#wasm });
    this.#work = null;
  }

  // The exports of the module.
  get exports() {
    return this.#wasm;
  }

  // Executes an operation and returns { value, bytes }. Throws Refused if the library returns an error, Died
  // if it cannot continue.
  call(name, args = {}) {
    let answer;
    try {
      answer = this.#answer(this.#wasm.call(...this.#asked(name, args)));
    } catch (error) {
      throw this.#died(error);
    }
    return this.#given(answer);
  }

  // Like `call`, for work that takes long: files may supply their bytes later.
  async run(name, args = {}) {
    if (!this.#waits) return this.call(name, args);
    let answer;
    try {
      answer = this.#answer(await WebAssembly.promising(this.#wasm.call)(...this.#asked(name, args)));
    } catch (error) {
      throw this.#died(error);
    }
    return this.#given(answer);
  }

  #asked(name, args) {
    return [...this.#put(encoder.encode(name)), ...this.#put(encoder.encode(JSON.stringify(args)))];
  }

  #answer(packed) {
    return JSON.parse(decoder.decode(this.#take(packed)));
  }

  #given({ error, value }) {
    if (error) throw new Refused(error);
    return { value, bytes: this.#take(this.#wasm.bytes()) };
  }

  #died(error) {
    const said = this.#messages.splice(0).join("; ");
    return new Died(said || String(error?.message ?? error));
  }

  // When memory grows, old views of it become invalid, so every use makes a new view.
  #view(address, len) {
    return new Uint8Array(this.#wasm.memory.buffer, address >>> 0, len >>> 0);
  }

  #text(address, len) {
    return decoder.decode(this.#view(address, len));
  }

  #put(bytes) {
    const address = this.#wasm.allocate(bytes.length);
    this.#view(address, bytes.length).set(bytes);
    return [address, bytes.length];
  }

  #take(packed) {
    const bits = BigInt.asUintN(64, packed);
    const [address, len] = [Number(bits >> 32n), Number(bits & 0xffffffffn)];
    const bytes = this.#view(address, len).slice();
    this.#wasm.release(address, len);
    return bytes;
  }

  #file(name) {
    const known = this.files.get(name);
    if (known) return known;
    const found = this.missing(name);
    this.files.set(name, found);
    return found;
  }

  // Runs work that may fail because of a file or the network. Returns 1 if it succeeded.
  #tried(work) {
    try {
      work();
      return 1;
    } catch (error) {
      return this.#failed(error);
    }
  }

  #failed(error) {
    this.#failure = String(error?.message ?? error);
    return 0;
  }

  // Reads from a file. Returns 1 if it succeeded, or a promise of that.
  #read(name, nameLen, offset, out, len) {
    let later;
    const done = this.#tried(() => {
      const file = this.#file(this.#text(name, nameLen));
      later = file.read(Number(BigInt.asUintN(64, offset)), this.#view(out, len), this.#waits);
    });
    if (later) return later.then(() => 1, (error) => this.#failed(error));
    this.onRead(len);
    return done;
  }

  #host() {
    const read = (...args) => this.#read(...args);
    return {
      file_len: (name, nameLen) => {
        let len = -1n;
        this.#tried(() => {
          len = BigInt(this.#file(this.#text(name, nameLen)).size);
        });
        return len;
      },
      file_read: this.#waits ? new WebAssembly.Suspending(read) : read,
      create: (name, nameLen) => {
        let number = -1;
        this.#tried(() => {
          number = this.outputs.create(this.#text(name, nameLen));
        });
        return number;
      },
      write_at: (number, offset, bytes, len) =>
        this.#tried(() => {
          this.outputs.write(number, Number(BigInt.asUintN(64, offset)), this.#view(bytes, len));
        }),
      read_back: (number, offset, out, len) =>
        this.#tried(() => {
          this.outputs.read(number, Number(BigInt.asUintN(64, offset)), this.#view(out, len));
        }),
      failure: (out, len) => {
        return encoder.encodeInto(this.#failure, this.#view(out, len)).written;
      },
      message: (text, len) => {
        this.#messages.push(this.#text(text, len));
      },
      progress: (nbytes) => {
        this.onProgress(Number(nbytes));
        return 1;
      },
    };
  }
}
