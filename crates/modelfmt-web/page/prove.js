// Shows a proof: whether a model is derived from a base, tensor by tensor.
import { h } from "./elements.js";
import { count, counted, number } from "./units.js";

const MOST = 1000;
// Faults come first.
const RANK = { differs: 0, foreign: 1, missing: 2, exact: 3 };
const WHAT = { exact: "exact", differs: "different", foreign: "not of the base", missing: "only in the base" };

// `proof` is the output of `modelfmt prove --json`.
export function proof({ ok, tensors, metadata }, tools) {
  const many = (result) => tensors.filter((tensor) => tensor.result === result).length;
  const kinds = Object.keys(RANK).reverse().map((result) => [many(result), WHAT[result]]).filter(([some]) => some > 0);
  const sorted = [...tensors].sort((a, b) => RANK[a.result] - RANK[b.result]);
  const odd = metadata.filter(({ result }) => !["same", "mapped"].includes(result));
  return [
    h("p", { class: ok ? "verdict good" : "verdict bad", id: "proved" }, ok ? "It is made of this base, and of nothing else." : "It is not made of this base alone."),
    h("ul", { class: "kinds" }, kinds.map(([some, what]) => h("li", {}, h("strong", {}, count(some)), ` ${what}`))),
    h("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": "Proved tensors" }, table(sorted.slice(0, MOST), tools)),
    sorted.length > MOST && h("p", { class: "quiet" }, `And ${count(sorted.length - MOST)} more.`),
    odd.length > 0 && [
      h("h3", {}, `Metadata that the base does not explain (${count(odd.length)})`),
      h("ul", { class: "names", id: "proved-keys" }, odd.slice(0, MOST).map(({ key, result }) => h("li", {}, `${key}: ${result}`))),
    ],
  ];
}

function table(tensors, tools) {
  const titles = ["tensor", "result", "from", "by", "differs in", "largest difference"];
  const row = (tensor) => {
    const name = tensor.result === "missing" ? tensor.name : h("button", { type: "button", class: "link name", onclick: () => tools.showTensor(tensor.name) }, tensor.name || "(no name)");
    const differs = tensor.result === "differs" ? `${count(tensor.different)} of ${counted(tensor.blocks, "block")}` : "";
    const largest = tensor.max_abs === null ? "" : typeof tensor.max_abs === "number" ? number(tensor.max_abs) : tensor.max_abs;
    const cells = [tensor.result, tensor.from.join(", "), tensor.steps.join(", "), differs, largest];
    return h("tr", { class: tensor.result === "exact" ? null : "failed" }, h("th", { scope: "row" }, name), cells.map((cell, i) => h("td", { "data-title": titles[i + 1] }, cell)));
  };
  return h("table", { class: "changed", id: "proof" },
    h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, tensors.map(row)),
  );
}
