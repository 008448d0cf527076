// Uses the package like a program in TypeScript; it is compiled with --strict and never run.
import { open, Model, ModelError, type Converted, type Judgement, type Proof, type Report, type Tensor, type Values } from "modelfmt";

const signed0 = "";

export async function use(blob: Blob, writable: WritableStream<Uint8Array>): Promise<number> {
  const model: Model = await open(blob, { name: "a.gguf", files: { "b.gguf": new Uint8Array(8) } });
  const other = await open({ byteLength: 8, slice: async (start: number, end: number) => new ArrayBuffer(end - start) });
  const view = await open({ byteLength: 8, slice: (start: number, end: number) => new DataView(new ArrayBuffer(8), start, end - start) });
  view.close();
  const tensors: Tensor[] = await model.tensors({ query: "*.weight", from: 0, count: 10 });
  const part: Values = await model.read("a", "0:4,:8", { verify: true });
  const same: Values = await model.read("a", [[0, 4], null, 3], { float: true });
  const report: Report = await model.verify({ level: "control", onProgress: (nbytes: number) => void nbytes });
  const converted: Converted = await model.convert("safetensors", writable, { cast: ["f16"], signal: new AbortController().signal });
  const set: Converted = await model.convert("gguf", (name) => (name ? writable : writable), { shard_size: 1e9 });
  const signed: Report = await model.verify({ signature: "{}", signers: [set.files[0]?.name ?? "", signed0] });
  const failed = signed.ok ? [] : report.checks.filter((check) => check.status === "failed");
  const proof: Proof = await model.prove(blob, { name: "base.gguf", complete: true });
  const text: string = await model.bom("spdx", { tensors: true });
  const judged: Judgement = await model.judge("default = 'allow'", { at: "https://example.org/m", keys: { "a.pub": text } });
  // @ts-expect-error There is no such level.
  await model.verify({ level: "some" });
  // @ts-expect-error There is no such option.
  await model.convert("gguf", writable, { quantise: ["q8_0"] });
  // @ts-expect-error A model is opened by `open`.
  new Model();
  try {
    await other.inspect({ hash: true });
  } catch (error) {
    if (error instanceof ModelError) return error.details.length;
  }
  model.close();
  return tensors.length + part.data.length + same.shape.length + converted.nbytes + failed.length + proof.tensors.length + (judged.rule ?? 0);
}
