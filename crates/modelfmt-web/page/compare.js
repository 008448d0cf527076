// Compares the model with another one: tensors by name and bytes, metadata by key.
import { onScale } from "./charts.js";
import { fill, h } from "./elements.js";
import { chosen } from "./files.js";
import { choose } from "./model.js";
import { watched } from "./progress.js";
import { proof } from "./prove.js";
import { count, counted, number } from "./units.js";

const MOST = 1000;

export function compare(element, model, tools) {
  const [status, result] = [h("div", { role: "status" }), h("div", { id: "differences" })];
  // Aborts the request that runs: only the last one counts.
  let current = new AbortController();
  const run = (label, operation, args, files, signal) => {
    const total = model.summary.file_size + files.reduce((sum, { blob }) => sum + blob.size, 0);
    // Each request has an element of its own, which a later one replaces.
    const own = h("div");
    fill(status, own);
    return watched(own, label, total, (told) => {
      const one = model.job(operation, args, told, {}, files);
      signal.addEventListener("abort", one.stop);
      return one;
    });
  };
  // A button that takes the files of another model, and shows the result of `work` on them.
  const chooser = (id, title, label, work) => {
    const input = h("input", { type: "file", id, multiple: true, "aria-label": label, class: "unseen", tabindex: "-1" });
    input.onchange = async () => {
      // The files of the other model are in a separate folder, so that equal names do not clash.
      const files = chosen(input).map(({ name, blob }) => ({ name: `other/${name}`, blob }));
      if (files.length === 0) return;
      current.abort();
      const { signal } = (current = new AbortController());
      fill(status);
      fill(result);
      const show = (...shown) => {
        if (!signal.aborted) fill(result, shown);
      };
      try {
        const { models } = await choose(files, { signal });
        if (signal.aborted) return;
        if (models.length !== 1) throw new Error(`One model is needed, and among these files are ${models.length}.`);
        const found = await work(models[0], files, signal);
        if (found) show(h("p", { class: "name", id: "compared-with" }, `${label}: ${models[0].replace("other/", "")}`), found);
        else show(h("p", { class: "quiet" }, "Stopped."));
      } catch (error) {
        show(h("p", { class: "problem" }, error.message));
      }
    };
    return [h("button", { type: "button", class: "primary", onclick: () => input.click() }, title), input];
  };
  const compared = async (other, files, signal) => {
    const answer = await run("Comparing", "diff", { other }, files, signal);
    if (answer) await inAtlas(model, answer.value, signal);
    return answer && differences(answer, tools);
  };
  const proved = async (base, files, signal) => {
    const answer = await run("Proving", "prove", { base }, files, signal);
    return answer && proof(answer.value, tools);
  };
  fill(
    element,
    h("p", {}, "Tensors are compared by name and by every value; metadata by key. Order and layout do not count, so a model and what it was converted to are the same."),
    h("div", { class: "line" }, chooser("other", "Choose the other model…", "The other model", compared)),
    h("p", {}, "Or see whether it is made of a base: each tensor is made again from the base, renamed, cast or quantized, and every byte is compared."),
    h("div", { class: "line" }, chooser("base", "Choose its base…", "The base", proved)),
    status,
    result,
  );
}

// What the atlas colors: the positions of changed tensors with their relative norms, and of those that the
// other model lacks.
async function inAtlas(model, { changed, only_in_a: missing }, signal) {
  const names = [...changed.map(({ name }) => name), ...missing];
  const positions = await model.ask("positions", { names });
  if (signal.aborted) return;
  const isThere = (position) => position !== null;
  const norms = changed.map(({ rel_norm: norm }, i) => [positions[i], typeof norm === "number" ? norm : NaN]);
  model.compared = { changed: norms.filter(([position]) => isThere(position)), missing: positions.slice(changed.length).filter(isThere) };
  model.onCompared();
}

// The differences, in the words of the legend: each kind has a count, and a list below.
function kinds(diff) {
  const isRecast = ({ what }) => what.includes("dtype");
  return [
    [diff.changed.filter((item) => !isRecast(item)).length, "changed"],
    [diff.changed.filter(isRecast).length, "recast"],
    [diff.renamed.length, "renamed"],
    [diff.only_in_a.length, "missing"],
    [diff.only_in_b.length, "added"],
    [diff.metadata.length, "of metadata"],
  ].filter(([number]) => number > 0);
}

function differences({ value: diff, bytes }, tools) {
  // JSON texts of the values, because JavaScript's numbers cannot represent every integer.
  const texts = JSON.parse(new TextDecoder().decode(bytes));
  if (diff.same) return h("p", { class: "verdict good", id: "compared" }, "Both are the same.");
  const names = (title, list, text) =>
    list.length > 0 && [
      h("h3", {}, `${title} (${count(list.length)})`),
      h("ul", { class: "names" }, list.slice(0, MOST).map((item, i) => h("li", {}, text(item, i)))),
      list.length > MOST && h("p", { class: "quiet" }, `and ${count(list.length - MOST)} more`),
    ];
  const inTensors = diff.changed.length + diff.only_in_a.length > 0;
  return [
    h("p", { class: "verdict differs", id: "compared" }, "They differ."),
    h("ul", { class: "kinds" },
      kinds(diff).map(([number, title]) => h("li", {}, h("strong", {}, count(number)), ` ${title}`)),
      inTensors && h("li", { class: "act" }, h("button", { type: "button", class: "small", onclick: () => tools.go("atlas") }, "Show in the atlas")),
    ),
    changed(diff.changed),
    names("Renamed", diff.renamed, ({ a, b }) => `${a} → ${b}`),
    names("Missing: only in the first", diff.only_in_a, (name) => name),
    names("Added: only in the second", diff.only_in_b, (name) => name),
    names("Metadata", diff.metadata, ({ key }, i) => `${key}: ${texts[i].map(brief).join(" → ")}`),
  ];
}

function brief(text) {
  if (text === null) return "nothing";
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}

const WHAT = { dtype: "type", shape: "shape", values: "values" };

function changed(list) {
  if (list.length === 0) return null;
  const titles = ["tensor", "what", "‖a−b‖ / ‖a‖", "largest difference", "relative", "rmse", "cosine"];
  const text = (value) => (value === undefined || value === null ? "none" : typeof value === "number" ? number(value) : String(value));
  const cell = (value, i) => h("td", { class: "number", "data-title": titles[i + 3] }, text(value));
  const norm = ({ rel_norm: norm }) => {
    const bar = h("span", { class: "bar amber", "aria-hidden": "true" }, h("i"));
    bar.firstChild.style.width = `${typeof norm === "number" ? 100 * onScale(norm) : 0}%`;
    return h("td", { class: "norm", "data-title": titles[2] }, bar, h("span", { class: "number" }, text(norm)));
  };
  const row = (item) =>
    h("tr", {},
      h("th", { scope: "row" }, item.name),
      h("td", { "data-title": titles[1] }, item.what.map((one) => WHAT[one] ?? one).join(", ")),
      norm(item),
      [item.max_abs, item.max_rel, item.rmse, item.cosine].map(cell),
    );
  return [
    h("h3", {}, counted(list.length, "changed tensor")),
    h("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": "Changed tensors" },
      h("table", { class: "changed" },
        h("thead", {}, h("tr", {}, titles.map((title, i) => h("th", { scope: "col", class: i > 2 ? "number" : null }, title)))),
        h("tbody", {}, list.slice(0, MOST).map(row)),
      ),
    ),
    h("p", { class: "quiet" }, list.length > MOST && `And ${count(list.length - MOST)} more. `, "The bars are logarithmic, from 10⁻⁸ to 1."),
  ];
}
