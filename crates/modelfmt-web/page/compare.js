// Compares the model with another one: tensors by name and bytes, metadata by key.
import { fill, h } from "./elements.js";
import { chosen } from "./files.js";
import { choose, job } from "./model.js";
import { watched } from "./progress.js";
import { count, counted, number, size } from "./units.js";

const MOST = 1000;

export function compare(element, model) {
  const input = h("input", { type: "file", id: "other", multiple: true, "aria-label": "The other model", class: "unseen", tabindex: "-1" });
  const button = h("button", { type: "button", class: "primary", onclick: () => input.click() }, "Choose the other model…");
  const [status, result] = [h("div", { role: "status" }), h("div", { id: "differences" })];
  input.onchange = async () => {
    // The other's files stand in a folder of their own, so that equal names do not meet.
    const files = chosen(input).map(({ name, blob }) => ({ name: `other/${name}`, blob }));
    fill(result);
    try {
      const names = await choose(files);
      if (names.models.length !== 1) throw new Error(`One model is needed, and among these files are ${names.models.length}.`);
      const args = { name: model.name, other: names.models[0] };
      const total = model.summary.file_size + files.reduce((sum, { blob }) => sum + blob.size, 0);
      const answer = await watched(status, "Comparing", total, (told) => job([...model.files, ...files], "diff", args, told));
      fill(result, answer ? differences(answer.value, files) : h("p", { class: "quiet" }, "Stopped."));
    } catch (error) {
      fill(result, h("p", { class: "problem" }, error.message));
    }
  };
  fill(
    element,
    h("p", {}, "Tensors are compared by name and by every value; metadata by key. Order and layout do not count, so a model and what it was converted to are the same."),
    h("div", { class: "line" }, button, input),
    status,
    result,
  );
}

function differences(diff) {
  if (diff.same) return h("p", { class: "verdict good", id: "compared" }, "Both are the same.");
  const names = (title, list, text) =>
    list.length > 0 && [
      h("h3", {}, `${title} (${count(list.length)})`),
      h("ul", { class: "names" }, list.slice(0, MOST).map((item) => h("li", {}, text(item)))),
      list.length > MOST && h("p", { class: "quiet" }, `and ${count(list.length - MOST)} more`),
    ];
  return [
    h("p", { class: "verdict bad", id: "compared" }, "They differ."),
    changed(diff.changed),
    names("Only in the first", diff.only_in_a, (name) => name),
    names("Only in the second", diff.only_in_b, (name) => name),
    names("Renamed", diff.renamed, ({ a, b }) => `${a} → ${b}`),
    names("Metadata", diff.metadata, ({ key, a, b }) => `${key}: ${brief(a)} → ${brief(b)}`),
  ];
}

function brief(value) {
  const text = value === undefined || value === null ? "nothing" : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}

function changed(list) {
  if (list.length === 0) return null;
  const norms = list.some((item) => item.rel_norm !== undefined);
  const titles = ["tensor", "what", "largest difference", "relative", ...(norms ? ["rmse", "cosine", "‖a−b‖ / ‖a‖"] : [])];
  const cell = (value, i) => h("td", { class: "number", "data-title": titles[i + 2] }, value === undefined || value === null ? "" : typeof value === "number" ? number(value) : String(value));
  const row = (item) =>
    h("tr", {},
      h("th", { scope: "row" }, item.name),
      h("td", {}, item.what.join(", ")),
      [item.max_abs, item.max_rel, ...(norms ? [item.rmse, item.cosine, item.rel_norm] : [])].map(cell),
    );
  return [
    h("h3", {}, counted(list.length, "changed tensor")),
    h("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": "Changed tensors" },
      h("table", { class: "changed" },
        h("thead", {}, h("tr", {}, titles.map((title, i) => h("th", { scope: "col", class: i > 1 ? "number" : null }, title)))),
        h("tbody", {}, list.slice(0, MOST).map(row)),
      ),
    ),
    list.length > MOST && h("p", { class: "quiet" }, `and ${count(list.length - MOST)} more`),
  ];
}
