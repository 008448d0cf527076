/**
 * The source of a file: a Blob or File, a URL (in Node also `file:`), bytes, or any object that returns
 * ranges.
 */
export type Source =
  | Blob
  | URL
  | string
  | ArrayBuffer
  | ArrayBufferView
  | {
      readonly byteLength: number;
      slice(start: number, end: number): Bytes | Promise<Bytes>;
    };

export type Bytes = ArrayBuffer | ArrayBufferView | Blob;

export interface OpenOptions {
  /** The name of the file, for errors. For a set, it must be the name of its index. */
  name?: string;
  /** The other files of a set, by their paths relative to the folder of the index. */
  files?: Record<string, Source>;
  /** The keys for sealed APR2 files. */
  keys?: Keys;
}

/** The keys that open a sealed file, and those of its required signers: at least one of both. */
export interface Keys {
  passphrase?: string;
  /**
   * The texts of key files, at least one: public keys of signers (Ed25519, PEM), one of which must have signed;
   * private keys (X25519, PEM); 64 hex digits.
   */
  files?: string[];
}

export interface JobOptions {
  /** Called with the number of bytes done. */
  onProgress?: (nbytes: number) => void;
  /** Stops the work. */
  signal?: AbortSignal;
}

export interface VerifyOptions extends JobOptions {
  level?: "header" | "control" | "full";
  /**
   * The text of the file's signature (`FILE.sig`, OpenSSF Model Signing), which must be by one of `signers`.
   */
  signature?: string;
  /** Public keys (ECDSA, PEM) of signers that you trust; only with a `signature`. */
  signers?: string[];
  /**
   * How many workers read the file (default 1). In a browser, this works only for a Blob or a single file.
   */
  workers?: number;
}

export interface Tensor {
  position: number;
  name: string;
  /** The name that `modelfmt inspect --json` prints: `f32`, `bf16`, `q4_k`, … */
  dtype: string;
  shape: number[];
  elements: number;
  nbytes: number;
  hasData: boolean;
}

export type TypedArray =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

export interface Values {
  /** The type in the file. */
  dtype: string;
  shape: number[];
  /**
   * The values. Types that JavaScript lacks (bf16, floats of 8 bits and less, blocks) are widened to
   * `Float32Array`. f16 is a `Float16Array` if the platform has it, otherwise its bits in a `Uint16Array`.
   * Booleans are 0 and 1.
   */
  data: TypedArray;
}

export interface ReadOptions {
  /** Check the values against the hashes and checksums of the file. */
  verify?: boolean;
  /** Widen every type to `Float32Array`. */
  float?: boolean;
}

export interface Check {
  name: string;
  status: "ok" | "failed" | "absent";
  detail: string;
}

/** The output of `modelfmt verify --json`. */
export interface Report {
  path: string;
  format: string | null;
  pin: string | null;
  level: "header" | "control" | "full";
  ok: boolean;
  checks: Check[];
  errors: string[];
}

export interface Stats {
  count: number;
  min: number | null;
  max: number | null;
  mean: number | null;
  median: number | null;
  std: number | null;
  /** The exact smallest and largest value, for integers. */
  exact: [string, string] | null;
  nan: number;
  pos_inf: number;
  neg_inf: number;
  zeros: number;
  /** The number of values in each of several equal bins between min and max. */
  bins: number[];
  /** For integers of a small span: each value and how often it occurs. */
  values: [string, number][] | null;
}

/**
 * The options of `modelfmt convert`. Rules have the same form: `f16`, `*.weight=bf16`. For each tensor, the
 * last type rule that matches applies. Rules for all tensors come first, then those with patterns, `cast`
 * before `dequantize` before `quantize`.
 */
export interface ConvertOptions extends JobOptions {
  include?: string[];
  exclude?: string[];
  /** Type rules in your own order, which come after the others: `["quantize q4_k", "cast *embed*=f16"]`. */
  rules?: string[];
  cast?: string[];
  dequantize?: string[];
  quantize?: string[];
  scales?: string[];
  widen?: boolean;
  lossy?: boolean;
  stringify?: boolean;
  allow_ties?: boolean;
  /** With `false`, values are not checked against the hashes and checksums of their file. */
  verify?: boolean;
  /** Keys that replace those of the metadata. */
  metadata?: Record<string, unknown>;
  model_name?: string;
  architecture?: string;
  model_type?: string;
  control_hash?: boolean;
  page_hashes?: number;
  tensor_hashes?: boolean;
  /** AERO: 32 hex digits; random if not given. */
  uuid?: string;
  compress?: "lz4" | "none";
  /**
   * The largest size of a file. With it, APR2, safetensors and GGUF become sets. `aeroset` is always a set.
   */
  shard_size?: number;
  /** The name of the file, or of the index of a set: `small.safetensors`. */
  name?: string;
  align?: number;
  checksum?: "crc32" | "crc32c";
}

export interface Converted {
  to: string;
  tensors: number;
  nbytes: number;
  /** The files that were written. */
  files: { name: string; nbytes: number }[];
  /** The tensors that got another type. */
  changed: { tensor: string; from: string; to: string }[];
  notes: string[];
  /** Possible mistakes. */
  warnings: string[];
  clipped: string[];
  dropped: string[];
}

export class ModelError extends Error {
  /**
   * A stable name for the kind of error: a code of the program's `--json`, or `died`, `stopped`, `failed`.
   */
  readonly code: string;
  /** What does not fit, one line each. */
  readonly details: string[];
  /** Options that would help. */
  readonly remedies: string[];
}

export interface ProveOptions extends JobOptions {
  /** The name of the file of the base. For a set, it must be the name of its index. */
  name?: string;
  /** The other files of the base if it is a set, by their paths relative to the folder of the index. */
  files?: Record<string, Source>;
  /** Everything of the base must be in the model. */
  complete?: boolean;
}

/** The output of `modelfmt prove --json`. */
export interface Proof {
  ok: boolean;
  tensors: {
    name: string;
    from: string[];
    steps: string[];
    result: "exact" | "differs" | "foreign" | "missing";
    blocks: number;
    different: number;
    max_abs: number | string | null;
    variant: string | null;
  }[];
  metadata: { key: string; result: "same" | "mapped" | "added" | "changed" | "missing" }[];
}

export interface JudgeOptions extends JobOptions {
  /** The name of the policy, for messages. */
  name?: string;
  /** The texts of the keys (PEM) that the policy names, by those names. */
  keys?: Record<string, string>;
  /**
   * The URL or the absolute path from which the model is read. Without it, the default of the policy applies.
   */
  at?: string;
  /** The text of the file's signature (`FILE.sig`). */
  signature?: string;
}

export interface Judgement {
  allowed: boolean;
  /** The number of the rule, counted from 1; `null` if no rule matches. */
  rule: number | null;
  place: string;
  /** Why it is refused; `null` if it is allowed. */
  why: string | null;
}

/** An open model. */
export class Model {
  private constructor();
  readonly format: string;
  readonly version: string | null;
  readonly fileSize: number;
  readonly tensorCount: number;
  readonly parameters: number;
  readonly dtypes: { dtype: string; tensors: number; parameters: number; nbytes: number }[];
  /** Pins of the file that are known without reading values. */
  readonly pins: string[];

  /**
   * Lists the tensors in file order; `query` is a part of a name, or a pattern with `*`, `?`, `[…]`, `{…}`.
   */
  tensors(options?: { query?: string; from?: number; count?: number }): Promise<Tensor[]>;

  /**
   * Reads a tensor or a part of it: `"0:4,:8"` as in Python, or `[[0, 4], [null, 8]]`. `null` stands for all
   * of a dimension, and a number for one position.
   */
  read(
    name: string,
    slice?: string | (number | null | [number | null, number | null] | [number | null, number | null, number])[] | null,
    options?: ReadOptions,
  ): Promise<Values>;

  /**
   * Returns the output of `modelfmt inspect --json`. Its numbers become JavaScript's, so integers beyond 2^53 in
   * the metadata are rounded.
   */
  inspect(options?: { hash?: boolean; tensors?: string }): Promise<Record<string, unknown>>;

  /** Checks every hash, checksum and rule. Damage is reported, and not thrown as an error. */
  verify(options?: VerifyOptions): Promise<Report>;

  /**
   * Proves that the model is derived from `base`, and returns the output of `modelfmt prove --json`. Each
   * tensor is computed again, and every byte is compared.
   */
  prove(base: Source, options?: ProveOptions): Promise<Proof>;

  /** Returns a bill of materials: the text that `modelfmt bom` writes. */
  bom(spec: "cyclonedx" | "spdx", options?: JobOptions & { tensors?: boolean }): Promise<string>;

  /** Checks whether the program would open the model under a policy; `policy` is its text. */
  judge(policy: string, options?: JudgeOptions): Promise<Judgement>;

  /** Computes statistics of all values of a tensor. */
  stats(name: string, options?: JobOptions): Promise<Stats>;

  /**
   * Writes the model in another format: `"gguf"`, `"safetensors"`, `"mag@0.3"`. The stream gets bytes once
   * the file is complete and checked. For a set, pass a function that returns the stream for each file.
   */
  convert(
    to: string,
    writable: WritableStream<Uint8Array> | ((name: string) => WritableStream<Uint8Array> | Promise<WritableStream<Uint8Array>>),
    options?: ConvertOptions,
  ): Promise<Converted>;

  /** Ends the worker. */
  close(): void;
}

export function open(source: Source, options?: OpenOptions): Promise<Model>;
