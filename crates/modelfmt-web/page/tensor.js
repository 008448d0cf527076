// Shows one tensor: values, heat map, histogram, statistics, bytes. Statistics are of a sample first, and of
// all values on request.
import { heatMap, histogram } from "./charts.js";
import { fill, h } from "./elements.js";
import { watched } from "./progress.js";
import { count, number, shape, size } from "./units.js";

const [ROWS, COLUMNS] = [8, 5]; // of the corner
const PAGE = 256; // bytes

// Counts the tensors that were shown, so that late answers about an earlier tensor are not drawn.
let shown = 0;

export async function tensor(element, model, position) {
  const current = ++shown;
  delete element.dataset.done;
  fill(element, h("p", { class: "quiet", role: "status" }, "Reading…"));
  let info;
  try {
    info = await model.ask("tensor", { position });
  } catch (error) {
    fill(element, h("p", { class: "problem" }, error.message));
    return;
  }
  if (current !== shown) return;
  const parts = ["Values", "Heat map", "Statistics", "Bytes"].map((title) => [h("h4", {}, title), h("div", { class: "part" })]);
  fill(element, h("h3", { class: "name" }, info.name || "(no name)"), facts(info), info.has_data && info.elements > 0 ? parts : h("p", { class: "quiet" }, "It has no values."));
  if (!info.has_data || info.elements === 0) return;
  const [values, image, statistics, bytes] = parts.map(([, part]) => part);
  // One after the other, because the worker does one thing at a time, and requests for a tensor that was left
  // need not be sent.
  const steps = [
    () => corner(values, model, position),
    () => heat(image, model, position),
    () => stats(statistics, model, position),
    () => hex(bytes, model, info),
  ];
  for (const [i, step] of steps.entries()) {
    if (current !== shown) return;
    try {
      await step();
    } catch (error) {
      fill([values, image, statistics, bytes][i], h("p", { class: "quiet" }, error.message));
    }
  }
  if (current === shown) element.dataset.done = position;
}

function facts(info) {
  const stored = info.stored_nbytes !== info.nbytes ? `${size(info.stored_nbytes)} as ${info.encoding}` : null;
  const all = [
    ["type", info.dtype],
    ["shape", shape(info.shape)],
    ["elements", count(info.elements)],
    ["bytes", count(info.nbytes)],
    ["stored", stored],
    ["file", info.file],
    ["offset", info.offset === null ? null : count(info.offset)],
    ["quant", info.quant],
  ];
  const rows = all.filter(([, value]) => value !== null);
  return h("dl", { class: "facts-of" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

async function corner(element, model, position, row = 0, column = 0) {
  const answer = await model.ask("corner", { position, row, column, rows: ROWS, columns: COLUMNS });
  const { rows, columns, texts } = answer;
  const wide = texts[0]?.length ?? 0;
  const head = Array.from({ length: wide }, (_, i) => h("th", { scope: "col" }, count(column + i)));
  const body = texts.map((line, i) => h("tr", {}, h("th", { scope: "row" }, count(row + i)), line.map((text) => h("td", {}, text))));
  const at = (name, value, most) => {
    const input = h("input", { type: "number", min: 0, max: Math.max(0, most - 1), value, "aria-label": `first ${name}` });
    input.onchange = () => {
      const wanted = Math.max(0, Math.min(most - 1, Math.floor(Number(input.value) || 0)));
      corner(element, model, position, name === "row" ? wanted : row, name === "column" ? wanted : column).catch((error) => fill(element, error.message));
    };
    return h("label", {}, `${name} `, input, ` of ${count(most)}`);
  };
  fill(
    element,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values" },
      h("table", { class: "corner" }, h("thead", {}, h("tr", {}, h("td"), head)), h("tbody", {}, body)),
    ),
    (rows > ROWS || columns > COLUMNS) && h("p", { class: "line quiet" }, at("row", row, rows), at("column", column, columns)),
  );
}

async function heat(element, model, position) {
  // Over a network, fewer values are worth the wait.
  const budget = model.isRemote ? 1 << 17 : 1 << 21;
  const { value, bytes } = await model.bytes("image", { position, width: 512, height: 256, budget });
  const cells = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  fill(element, heatMap(cells, value));
}

async function stats(element, model, position) {
  const sample = await model.ask("sample", { position, elements: model.isRemote ? 1 << 15 : 1 << 18 });
  draw(sample);

  function draw(found) {
    const status = h("div", { role: "status" });
    const exact = h("button", { type: "button", id: "exact", onclick: run }, "Count all values");
    const title = found.is_exact ? "Of all values." : `Of a sample of ${count(found.read)} values.`;
    fill(element, h("p", { class: "line quiet" }, title, !found.is_exact && exact), status, numbers(found), histogram(found));
    async function run() {
      exact.disabled = true;
      try {
        const answer = await watched(status, "Counting", 0, (told) => model.job("stats", { position }, told));
        if (answer) draw(answer.value);
        else exact.disabled = false;
      } catch (error) {
        fill(status, h("p", { class: "problem" }, error.message));
      }
    }
  }
}

function numbers(found) {
  const share = (n) => (n > 0 && found.read > 0 ? `${count(n)} (${number((100 * n) / found.read)} %)` : count(n));
  const [min, max] = found.exact ?? [found.min, found.max].map((value) => (value === null ? "none" : number(value)));
  const all = [
    ["min", min],
    ["max", max],
    ["mean", found.mean === null ? "none" : number(found.mean)],
    ["std", found.std === null ? "none" : number(found.std)],
    ["median", found.median === null ? "none" : number(found.median)],
    ["zero", share(found.zeros)],
    ["NaN", share(found.nan)],
    ["infinite", share(found.pos_inf + found.neg_inf)],
  ];
  const strange = (name) => (name === "NaN" || name === "infinite") && found.nan + found.pos_inf + found.neg_inf > 0;
  return h("dl", { class: "facts-of" }, all.map(([name, value]) => h("div", { class: strange(name) ? "strange" : null }, h("dt", {}, name), h("dd", { id: `stat-${name}` }, value))));
}

async function hex(element, model, info, at = 0) {
  const { value, bytes } = await model.bytes("hex", { position: info.position, at, count: PAGE });
  const isRaw = info.encoding === "raw" && info.offset !== null;
  const lines = [];
  for (let i = 0; i < bytes.length; i += 16) {
    const line = Array.from(bytes.subarray(i, i + 16));
    const codes = line.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = line.map((byte) => (byte > 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    const offset = (isRaw ? info.offset : 0) + at + i;
    lines.push(`${offset.toString(16).padStart(8, "0")}  ${codes.padEnd(47)}  ${text}`);
  }
  const go = (to) => hex(element, model, info, Math.max(0, Math.min(to, Math.floor((value.nbytes - 1) / PAGE) * PAGE))).catch((error) => fill(element, error.message));
  const button = (title, to) => h("button", { type: "button", class: "small", onclick: () => go(to) }, title);
  const more = value.nbytes > PAGE && h("p", { class: "line" }, button("first", 0), button("back", at - PAGE), button("next", at + PAGE), button("last", value.nbytes));
  const where = isRaw ? "offsets are those of the file" : "offsets are those of the unpacked values";
  fill(element, h("pre", { class: "hex", tabindex: "0", "aria-label": `Bytes, ${where}` }, lines.join("\n")), more, h("p", { class: "quiet" }, `Bytes ${count(at)} to ${count(at + bytes.length)} of ${count(value.nbytes)}; ${where}.`));
}
