// Writes the model in another format, or in the same format with other tensors, types or metadata.
import { downloadAll, fill, h } from "./elements.js";
import { assembled } from "./outputs.js";
import { discard, reserve } from "./scratch.js";
import { watched } from "./progress.js";
import { count, counted, size } from "./units.js";

const BOXES = {
  widen: "take a wider type (lossless)",
  stringify: "write metadata as text",
  lossy: "drop metadata that it cannot hold",
};
const FIELDS = { include: "Only these tensors", exclude: "Without these", cast: "Cast to", dequantize: "Dequantize to", quantize: "Quantize as" };
// The most common targets come first.
const FIRST = ["safetensors", "gguf"];

// Replaces the library's names of options by the words of this form.
function inFields(text) {
  const boxes = text.replace(/\b(\w+): true\b/g, (all, id) => (BOXES[id] ? `“${BOXES[id]}”` : all));
  return boxes.replace(/\b(\w+): \[(?:"([^"]*)"|…)\]/g, (all, id, rule) => (FIELDS[id] ? `“${FIELDS[id]}”${rule ? ` ${rule}` : ""}` : all));
}

export async function convert(element, model) {
  const [found, types] = await Promise.all([model.ask("targets", {}), model.ask("types", {})]);
  const place = ({ name }) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  const targets = found.sort((a, b) => place(a) - place(b));
  const own = model.summary.format.replace(/-sharded$/, "").replace(/^aeroset$/, "aero");
  const to = h("select", { id: "to" }, targets.map(({ name }) => h("option", { value: name, selected: name === own }, name === own ? `${name} (as it is now)` : name)));
  const text = (id, label, placeholder) => [h("label", { for: id }, label), h("input", { type: "text", id, placeholder, autocomplete: "off", spellcheck: "false" })];
  const box = (id) => h("label", { class: "box" }, h("input", { type: "checkbox", id }), BOXES[id]);
  const metadata = h("textarea", { id: "new-metadata", rows: 6, spellcheck: "false", placeholder: '{"license": "MIT"}' });
  const shard = h("input", { type: "number", id: "shard-size", min: 1, placeholder: "no limit" });
  const [status, result] = [h("div", { role: "status" }), h("div", { id: "converted" })];
  const run = h("button", { type: "submit", class: "primary", id: "convert" }, "Convert");
  const form = h("form", { class: "form" },
    h("label", { for: "to" }, "Format"), to,
    text("include", "Only these tensors", "patterns, with commas between: model.layers.*, *.bias"),
    text("exclude", "Without these", "patterns: *.bias"),
    h("span", { class: "what" }, "Types"), rules(types),
    h("label", { for: "shard-size" }, "Files of at most"), h("div", {}, shard, " MiB"),
    h("label", { for: "new-metadata" }, "Metadata"), metadata,
    h("span", { class: "what" }, "If the target lacks something"),
    h("div", { class: "boxes" },
      Object.keys(BOXES).map(box),
    ),
    h("span"), h("div", {}, run),
  );
  form.onsubmit = async (event) => {
    event.preventDefault();
    run.disabled = true;
    fill(result);
    try {
      await write(model, to.value, targets, options(form), status, result);
    } catch (error) {
      const lines = (error.details ?? []).map((line) => h("li", {}, inFields(line)));
      fill(result, h("div", { class: "problem" }, h("p", {}, inFields(error.message)), lines.length > 0 && h("ul", {}, lines)));
      result.scrollIntoView({ block: "nearest" });
    } finally {
      run.disabled = false;
    }
  };
  fill(
    element,
    h("p", {}, "The output is the same as that of the program, byte for byte. Metadata that you give replaces that of the model, key by key. Hashes and checksums of the source are checked on the way; if one is wrong, nothing is written."),
    form,
    status,
    result,
    h("p", { class: "quiet" }, "AERO is written here without compressing its index, as the program does with --no-zstd. A model of several files goes into a folder that you choose, or its files are downloaded one after the other."),
  );
}

// The list of type rules. For each tensor, the last rule that matches counts.
function rules(types) {
  const list = h("div", { class: "rules", id: "rules" });
  const option = (kind) => (name) => h("option", { value: `${kind} ${name}` }, name);
  const groups = [
    ["Cast to", "cast", types.cast],
    ["Dequantize to", "dequantize", types.dequantize],
    ["Quantize as", "quantize", types.quantize],
    ["Quantize as llama.cpp does", "quantize", types.presets],
  ];
  const add = () => {
    const number = list.children.length + 1;
    const type = h("select", { class: "rule-type", "aria-label": `Type of rule ${number}` },
      h("option", { value: "" }, "as they are"),
      groups.map(([label, kind, names]) => h("optgroup", { label }, names.map(option(kind)))),
    );
    const which = h("input", { type: "text", class: "rule-names", placeholder: "all tensors, or a pattern", "aria-label": `Tensors of rule ${number}`, autocomplete: "off", spellcheck: "false" });
    list.append(h("div", { class: "rule" }, type, h("span", {}, "for"), which));
  };
  add();
  return h("div", {}, list, h("button", { type: "button", class: "small", id: "add-rule", onclick: add }, "One more rule"));
}

function chosenRules(form) {
  const texts = Array.from(form.querySelectorAll(".rule"), (rule) => {
    const [type, which] = [rule.querySelector(".rule-type").value, rule.querySelector(".rule-names").value.trim()];
    const [kind, name] = type.split(" ");
    return type === "" ? null : which ? `${kind} ${which}=${name}` : type;
  });
  const given = texts.filter(Boolean);
  return given.length > 0 ? given : null;
}

function options(form) {
  const field = (id) => form.querySelector(`#${id}`);
  const list = (id) => {
    const texts = field(id).value.split(",").map((text) => text.trim()).filter(Boolean);
    return texts.length > 0 ? texts : null;
  };
  const is = (id) => field(id).checked || null;
  return {
    include: list("include"),
    exclude: list("exclude"),
    rules: chosenRules(form),
    metadata: field("new-metadata").value.trim() || null,
    widen: is("widen"),
    shard_size: field("shard-size").valueAsNumber > 0 ? Math.round(field("shard-size").valueAsNumber * 2 ** 20) : null,
    stringify: is("stringify"),
    lossy: is("lossy"),
  };
}

// Adds what AERO needs: an identity, and no compression, because there is no encoder here.
export function ofTarget(to, options) {
  return to.startsWith("aero") ? { uuid: crypto.randomUUID(), no_zstd: true, ...options } : options;
}

async function write(model, to, targets, chosen, status, result) {
  const wanted = ofTarget(to, chosen);
  // Anything that does not fit is reported before a place to save is requested.
  const plan = await model.job("convert", { to, options: wanted, dry_run: true }).done;
  const stem = model.summary.path.split("/").pop().replace(/(\.safetensors)?(\.index)?\.[^.]*$/, "");
  const ending = (plan.value.ending ?? targets.find(({ name }) => name === to)?.ending ?? to).replace(/^\./, "");
  const name = `${stem}.${ending}`;
  const place = await (plan.value.is_set ? askForFolder() : askForPlace(name));
  if (place === null) return;
  const scratch = await reserve();
  let wait = 0;
  try {
    const begin = (told) => model.job("convert", { to, options: wanted, output: name }, told, { output: scratch });
    const answer = await watched(status, "Converting", plan.value.nbytes, begin);
    if (!answer) return fill(result, h("p", { class: "quiet" }, "Stopped; nothing was written."));
    const { outputs, file } = answer;
    const files = outputs.map((output) => ({ name: output.name, blob: assembled(output, file) }));
    if (place) {
      await keep(files, place);
    } else {
      // The browser copies them in the meantime, and does not report when it is done.
      wait = 600_000;
      await downloadAll(files);
    }
    written(name, answer.value, files, result);
  } finally {
    if (wait > 0) setTimeout(() => discard(scratch), wait);
    else await discard(scratch);
  }
}

// Shows what was written.
function written(name, value, files, result) {
  const nbytes = files.reduce((sum, { blob }) => sum + blob.size, 0);
  const lines = (title, list) => list.length > 0 && [h("h3", {}, title), h("ul", {}, list.map((text) => h("li", {}, text)))];
  fill(
    result,
    h("p", { class: "verdict good", id: "written" }, `${name}: ${counted(value.tensors, "tensor")}, ${size(nbytes)} (${count(nbytes)} bytes).`),
    files.length > 1 && [h("h3", {}, counted(files.length, "file")), h("ul", { class: "names" }, files.map(({ name, blob }) => h("li", {}, `${name}, ${size(blob.size)}`)))],
    lines("Warnings", value.warnings),
    lines("Notes", value.notes),
    lines("Dropped", value.dropped),
  );
}

// Writes files to the handle of a file, or of a folder that does not contain any of them yet.
async function keep(files, place) {
  if (place.kind === "file") return files[0].blob.stream().pipeTo(await place.createWritable());
  for (const { name } of files) {
    const found = await place.getFileHandle(name).then(() => true, ({ name }) => name !== "NotFoundError");
    if (found) throw new Error(`${name} is in that folder already; choose another`);
  }
  for (const { name, blob } of files) {
    const handle = await place.getFileHandle(name, { create: true });
    await blob.stream().pipeTo(await handle.createWritable());
  }
}

// Asks for the folder for the files of a set, like `askForPlace`.
async function askForFolder() {
  if (!globalThis.showDirectoryPicker || navigator.webdriver) return undefined;
  try {
    return await showDirectoryPicker({ mode: "readwrite" });
  } catch (error) {
    return error.name === "AbortError" ? null : undefined;
  }
}

// Asks where to save the file. Returns a handle, `undefined` for the download folder, or `null` if the person
// cancels.
async function askForPlace(name) {
  if (!globalThis.showSaveFilePicker || navigator.webdriver) return undefined;
  try {
    return await showSaveFilePicker({ suggestedName: name });
  } catch (error) {
    if (error.name === "AbortError") return null;
    return undefined;
  }
}
