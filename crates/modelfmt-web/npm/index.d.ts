/** Where a file comes from: a Blob or File, an address (in Node also `file:`), bytes, or anything that gives ranges. */
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

export type Bytes = ArrayBuffer | Uint8Array | Blob;

export interface OpenOptions {
  /** The name of the file, for errors; for a set it has to be the name of its index. */
  name?: string;
  /** The other files of a set, by their paths beside the index. */
  files?: Record<string, Source>;
  /** For sealed APR2 files. */
  keys?: Keys;
}

/** What opens a sealed file, and who must have signed it. */
export interface Keys {
  passphrase?: string;
  /** Texts of key files: public keys of signers (Ed25519, PEM), one of which must have signed; private keys (X25519, PEM); 64 hex digits. */
  files?: string[];
}

export interface JobOptions {
  /** Is called with the number of bytes that are done. */
  onProgress?: (nbytes: number) => void;
  /** Stops the work. */
  signal?: AbortSignal;
}

export interface VerifyOptions extends JobOptions {
  level?: "header" | "control" | "full";
  /** The text of the signature beside the file (`FILE.sig`, OpenSSF Model Signing), which must be by one of `signers`. */
  signature?: string;
  /** Public keys (ECDSA, PEM) of signers that you trust. */
  signers?: string[];
  /** How many workers read the file together; 1 by default. In a browser this works only for a Blob or a single file. */
  workers?: number;
}

export interface Tensor {
  position: number;
  name: string;
  /** As `modelfmt inspect --json` names it: `f32`, `bf16`, `q4_k`, … */
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
   * The values. Types that JavaScript lacks (bf16, 8 bits and less, blocks) are widened to `Float32Array`; f16 is a `Float16Array`
   * where there is one, else its bits in a `Uint16Array`; booleans are 0 and 1.
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

/** What `modelfmt verify --json` prints. */
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
  /** Smallest and largest of integers, exactly. */
  exact: [string, string] | null;
  nan: number;
  pos_inf: number;
  neg_inf: number;
  zeros: number;
  /** Values in each of equal bins between min and max. */
  bins: number[];
  /** Integers of a small span: each value and how often it occurs. */
  values: [string, number][] | null;
}

/**
 * The options of `modelfmt convert`; rules are written as there: `f16`, `*.weight=bf16`. For each tensor the last rule of types that matches
 * decides: those for all tensors count as first, then those with patterns, `cast` before `dequantize` before `quantize`.
 */
export interface ConvertOptions extends JobOptions {
  include?: string[];
  exclude?: string[];
  /** Rules of types in an order of your own, which count after the others: `["quantize q4_k", "cast *embed*=f16"]`. */
  rules?: string[];
  cast?: string[];
  dequantize?: string[];
  quantize?: string[];
  scales?: string[];
  widen?: boolean;
  lossy?: boolean;
  stringify?: boolean;
  allow_ties?: boolean;
  /** `false` does not check the values against their file's hashes and checksums. */
  verify?: boolean;
  /** Its keys replace those of the target's metadata. */
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
  /** The largest size of a file: with it, APR2, safetensors and GGUF become sets. `aeroset` is always a set. */
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
  /** The tensors that became another type. */
  changed: { tensor: string; from: string; to: string }[];
  notes: string[];
  /** What is perhaps not what was meant. */
  warnings: string[];
  clipped: string[];
  dropped: string[];
}

export class ModelError extends Error {
  /** A stable name for the kind of error: the codes of the program's `--json`, and `died`, `stopped`, `failed`. */
  readonly code: string;
  /** What does not fit, a line each. */
  readonly details: string[];
  /** Options that would help. */
  readonly remedies: string[];
}

export interface ProveOptions extends JobOptions {
  /** The name of the file of the base; for a set it has to be the name of its index. */
  name?: string;
  /** The other files of the base, if it is a set, by their paths beside the index. */
  files?: Record<string, Source>;
  /** Everything of the base must be in the model. */
  complete?: boolean;
}

/** What `modelfmt prove --json` prints. */
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
  /** The name of the policy, for what is said. */
  name?: string;
  /** The texts of the keys (PEM) that it names, by those names. */
  keys?: Record<string, string>;
  /** The URL, or the absolute path, from which the model is read. Without it, the default of the policy counts. */
  at?: string;
  /** The text of the signature beside the file (`FILE.sig`). */
  signature?: string;
}

export interface Judgement {
  allowed: boolean;
  /** The number of the rule, from 1 on; `null` where none matches. */
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

  /** The tensors in file order; `query` is a part of a name, or a pattern with `*`, `?`, `[…]`, `{…}`. */
  tensors(options?: { query?: string; from?: number; count?: number }): Promise<Tensor[]>;

  /** A tensor, or a part of it: `"0:4,:8"` as in Python, or `[[0, 4], [null, 8]]`; `null` is all of a dimension, a number one position. */
  read(
    name: string,
    slice?: string | (number | null | [number | null, number | null] | [number | null, number | null, number])[] | null,
    options?: ReadOptions,
  ): Promise<Values>;

  /** What `modelfmt inspect --json` prints. */
  inspect(options?: { hash?: boolean; tensors?: string }): Promise<Record<string, unknown>>;

  /** Checks every hash, checksum and rule. Damage is in the report; it is not thrown as an error. */
  verify(options?: VerifyOptions): Promise<Report>;

  /** Whether the model is made of `base`: what `modelfmt prove --json` prints. Each tensor is made again, and every byte is compared. */
  prove(base: Source, options?: ProveOptions): Promise<Proof>;

  /** A bill of materials: the text that `modelfmt bom` writes. */
  bom(spec: "cyclonedx" | "spdx", options?: JobOptions & { tensors?: boolean }): Promise<string>;

  /** Whether the program would open the model under a policy, whose text this is. */
  judge(policy: string, options?: JudgeOptions): Promise<Judgement>;

  /** Statistics of all values of a tensor. */
  stats(name: string, options?: JobOptions): Promise<Stats>;

  /** Writes the model in another format: `"gguf"`, `"safetensors"`, `"mag@0.3"`. The stream gets bytes when the file is complete and checked. For a set, give a function that makes the stream for each file. */
  convert(
    to: string,
    writable: WritableStream<Uint8Array> | ((name: string) => WritableStream<Uint8Array> | Promise<WritableStream<Uint8Array>>),
    options?: ConvertOptions,
  ): Promise<Converted>;

  /** Ends the worker. */
  close(): void;
}

export function open(source: Source, options?: OpenOptions): Promise<Model>;
