// The package, independent of the platform: `platform` is { spawn(), module(), work(), file(source), reserve(),
// blob(written), discard(scratch) }.
import { channel, answer, asBytes } from "./channel.js";
import { Connection, ModelError } from "./client.js";
import { assembled } from "./outputs.js";
import { inParts } from "./parts.js";

export { ModelError };

// Returns a file as the worker takes it, and a function for ranges that the worker requests from this thread.
function described(name, source, platform) {
  const own = platform.file(source);
  if (own) return { file: { name, ...own } };
  // A view counts its own elements, and a file has bytes.
  if (ArrayBuffer.isView(source)) source = asBytes(source);
  const size = source.byteLength ?? source.size;
  if (!Number.isSafeInteger(size) || typeof source.slice !== "function") {
    throw new ModelError({ code: "usage", text: `${name}: a Blob, a URL or an object with byteLength and slice is needed` });
  }
  if (typeof SharedArrayBuffer === "undefined") {
    const text = `${name}: a page reads through slice() only if it is cross-origin isolated; give a Blob or a URL`;
    throw new ModelError({ code: "usage", text });
  }
  const shared = channel();
  return { file: { name, size, channel: shared }, answer: (request) => answer(request, shared, (from, to) => source.slice(from, to)) };
}

// Starts a worker with these files. With `isForWork`, it gets all of the code at once. `onBegin` gets the
// connection before the worker is ready, so that it can be stopped while it starts. `signal` aborts it, at once
// even while the code is fetched.
async function connect(sources, platform, isForWork = false, onBegin = () => {}, signal) {
  const all = new Map(Object.entries(sources).map(([name, source]) => [name, described(name, source, platform)]));
  const connection = new Connection(platform.spawn(), (request) => all.get(request.name).answer(request));
  onBegin(connection);
  let abort;
  const aborted = new Promise((_, reject) => (abort = () => reject(signal.reason)));
  signal?.addEventListener("abort", abort);
  try {
    const code = Promise.all([platform.module(), isForWork ? platform.work() : undefined]);
    const [module, work] = await Promise.race([code, aborted]);
    await connection.ask(null, {}, { module, work, files: [...all.values()].map(({ file }) => file) });
  } catch (error) {
    connection.stop();
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
  return connection;
}

const ARRAYS = {
  bool: Uint8Array,
  i8: Int8Array,
  u8: Uint8Array,
  i16: Int16Array,
  u16: Uint16Array,
  i32: Int32Array,
  u32: Uint32Array,
  i64: BigInt64Array,
  u64: BigUint64Array,
  f16: globalThis.Float16Array ?? Uint16Array,
  f32: Float32Array,
  f64: Float64Array,
};

export class Model {
  #sources;
  #name;
  #platform;
  #keys;
  #connection;
  #summary;

  static async open(source, { name, files, keys }, platform) {
    const model = new Model();
    model.#name = name;
    model.#sources = { [model.#name]: source, ...files };
    model.#platform = platform;
    model.#keys = keys;
    model.#connection = await connect(model.#sources, platform);
    try {
      model.#summary = (await model.#connection.ask("open", { name: model.#name, keys })).value;
    } catch (error) {
      model.close();
      throw error;
    }
    return model;
  }

  get format() {
    return this.#summary.format;
  }

  get version() {
    return this.#summary.version;
  }

  get fileSize() {
    return this.#summary.file_size;
  }

  get tensorCount() {
    return this.#summary.tensors;
  }

  get parameters() {
    return this.#summary.parameters;
  }

  get dtypes() {
    return this.#summary.dtypes;
  }

  get pins() {
    return this.#summary.pins;
  }

  async tensors({ query = "", from = 0, count = this.tensorCount } = {}) {
    const { value } = await this.#connection.ask("rows", { query, from, count });
    return value.rows.map(({ has_data: hasData, ...row }) => ({ ...row, hasData }));
  }

  async read(name, slice, { verify = false, float = false } = {}) {
    const args = { tensor: name, slice: sliceText(slice), verify, float };
    const { value, bytes } = await this.#connection.ask("read", args);
    const { dtype, kind, shape } = value;
    const Kind = ARRAYS[kind];
    return { dtype, shape, data: new Kind(bytes.buffer, bytes.byteOffset, bytes.byteLength / Kind.BYTES_PER_ELEMENT) };
  }

  async inspect({ hash = false, tensors } = {}) {
    const { bytes } = await this.#connection.ask("inspect", { hash, tensors });
    return JSON.parse(new TextDecoder().decode(bytes));
  }

  async verify({ level = "full", signature, signers, workers = 1, onProgress, signal } = {}) {
    const args = { level, signature, signers };
    const begin = (more, beside, told) => this.#job("verify", { ...args, ...more }, { onProgress: told, signal }, {}, beside);
    return (await inParts(begin, level === "full" ? workers : 1, onProgress)).value;
  }

  async prove(base, { name = nameOf(base), files, complete = false, onProgress, signal } = {}) {
    // The files of the base are in a separate folder, so that equal names do not clash.
    const beside = Object.entries({ [name]: base, ...files }).map(([path, source]) => [`base/${path}`, source]);
    const args = { base: `base/${name}`, complete };
    return (await this.#job("prove", args, { onProgress, signal }, {}, Object.fromEntries(beside))).value;
  }

  async bom(spec, { tensors = false, onProgress, signal } = {}) {
    const { bytes } = await this.#job("bom", { spec, tensors }, { onProgress, signal });
    return new TextDecoder().decode(bytes);
  }

  async judge(policy, { name, keys, at, signature, onProgress, signal } = {}) {
    const args = { policy, policy_name: name, policy_keys: keys, at, signature };
    return (await this.#job("policy", args, { onProgress, signal })).value;
  }

  async stats(name, options = {}) {
    const { position } = (await this.#connection.ask("find", { tensor: name })).value;
    return (await this.#job("stats", { position }, options)).value;
  }

  async convert(to, writable, { onProgress, signal, metadata, name = to, ...options } = {}) {
    const random = to.startsWith("aero") ? { uuid: crypto.randomUUID(), no_zstd: true } : {};
    const given = { ...random, ...options, metadata: metadata === undefined ? undefined : JSON.stringify(metadata) };
    // Chosen here, because a worker that is stopped cannot remove what it has written.
    const scratch = await this.#platform.reserve();
    try {
      const args = { to, options: given, output: name };
      const { value, outputs, ...written } = await this.#job("convert", args, { onProgress, signal }, { output: scratch });
      const blob = await this.#platform.blob(written);
      if (outputs.length > 1 && typeof writable !== "function") {
        throw new ModelError({ code: "usage", text: `the output has ${outputs.length} files; give a function that makes a stream for each name` });
      }
      for (const output of outputs) {
        const stream = typeof writable === "function" ? await writable(output.name) : writable;
        await assembled(output, blob).stream().pipeTo(stream, { signal });
      }
      return { ...value, files: outputs.map(({ name, size: nbytes }) => ({ name, nbytes })) };
    } finally {
      await this.#platform.discard(scratch);
    }
  }

  close() {
    this.#connection.stop();
  }

  // Runs long work in a separate worker, so that it can be stopped and short requests need not wait.
  async #job(operation, args, { onProgress, signal }, more = {}, beside = {}) {
    signal?.throwIfAborted();
    let begun = null;
    const stop = () => begun?.stop();
    signal?.addEventListener("abort", stop);
    try {
      const connection = await connect({ ...this.#sources, ...beside }, this.#platform, true, (one) => (begun = one), signal);
      return await connection.ask(operation, { name: this.#name, keys: this.#keys, ...args }, { onProgress, ...more });
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    } finally {
      signal?.removeEventListener("abort", stop);
      await stop();
    }
  }
}

// Returns a slice in the library's form: "0:4,:8" as in Python, or [[0, 4], 8] with null for all of a
// dimension.
function sliceText(slice) {
  if (slice === undefined || slice === null || typeof slice === "string") return slice ?? null;
  const part = (of) => (of === null ? ":" : Array.isArray(of) ? of.map((n) => n ?? "").join(":") : String(of));
  return slice.map(part).join(",");
}

// Returns the name of a source, for callers that give none.
export function nameOf(source) {
  if (typeof source === "string" || source instanceof URL) return decodeURIComponent(String(source).split(/[?#]/)[0].split("/").pop()) || "model";
  return source?.name || "model";
}
