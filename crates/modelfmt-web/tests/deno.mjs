// Uses the package like a program in Deno: deno run deno.mjs PACKAGE FILE. Prints the results as JSON.
import { pathToFileURL } from "node:url";

const [folder, path] = process.argv.slice(2);
const { open } = await import(`${pathToFileURL(folder)}/node.js`);
const name = "model.layers.1.attn.q.weight";

const model = await open(pathToFileURL(path));
const { shape, data } = await model.read(name, "3:5,:8");
const blob = await open(new Blob([await Deno.readFile(path)]), { name: "small.aero" });
const report = await blob.verify({ workers: 2 });
const pieces = [];
const converted = await model.convert("safetensors", new WritableStream({ write: (piece) => void pieces.push(piece) }), { include: ["*.norm.*"] });
const again = await open(new Blob(pieces));
const refused = await model.read("no such tensor").catch(({ code }) => code);
console.log(JSON.stringify({ tensors: [model.tensorCount, again.tensorCount], shape, read: data.length, ok: report.ok, converted: converted.tensors, refused }));
for (const each of [model, blob, again]) each.close();
