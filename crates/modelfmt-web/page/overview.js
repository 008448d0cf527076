// What the model is, in a few numbers, and its tensors as a tree with sums.
import { fill, h } from "./elements.js";
import { seal } from "./seal.js";
import { count, counted, short, size } from "./units.js";

export function overview(element, model, tools) {
  const { summary } = model;
  const facts = [
    ["parameters", short(summary.parameters), summary.parameters >= 1000 && count(summary.parameters)],
    ["tensors", count(summary.tensors)],
    ["size", size(summary.file_size)],
    ["values", size(summary.nbytes)],
  ];
  const folder = summary.path.includes("/") ? summary.path : null;
  fill(
    element,
    folder && h("p", { class: "quiet" }, folder),
    h("dl", { class: "summary" }, facts.map(fact)),
    card("Signatures and encryption", seal(summary, tools)),
    card("Types", types(summary)),
    card("Tensors by name", tree(model, tools)),
    summary.pins.length > 0 && card("Pins", [
      h("p", { class: "quiet" }, "With --pin the program reads this file only if it is exactly this one."),
      h("ul", { class: "pins" }, summary.pins.map((pin) => h("li", {}, h("code", {}, pin)))),
    ]),
  );
}

function fact([name, value, exactly]) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("span", { id: `fact-${name}` }, value), exactly && h("small", {}, exactly)));
}

// Nothing for nothing.
function card(title, content) {
  return content && h("section", { class: "card" }, h("h3", {}, title), content);
}

function types({ dtypes, nbytes }) {
  if (dtypes.length === 0) return h("p", { class: "quiet" }, "There are no tensors.");
  const row = (type, i) => {
    const bar = h("meter", { class: "share", min: 0, max: 1, "aria-label": `share of ${type.dtype}` });
    bar.value = nbytes > 0 ? type.nbytes / nbytes : 0;
    return h("tr", {},
      h("th", { scope: "row" }, type.dtype),
      h("td", { class: "number" }, counted(type.tensors, "tensor")),
      h("td", { class: "number" }, counted(type.parameters, "parameter")),
      h("td", { class: "number" }, size(type.nbytes)),
      h("td", {}, bar),
    );
  };
  const sorted = [...dtypes].sort((a, b) => b.nbytes - a.nbytes);
  const head = ["type", "tensors", "parameters", "size", "share of bytes"].map((title) => h("th", { scope: "col" }, title));
  return h("table", { class: "types" }, h("thead", { class: "unseen" }, h("tr", {}, head)), h("tbody", {}, sorted.map(row)));
}

function tree(model, tools) {
  const branch = (prefix) => async (event) => {
    const details = event.target;
    if (!details.open || details.dataset.read) return;
    details.dataset.read = "1";
    details.append(await branches(prefix));
  };
  async function branches(prefix) {
    try {
      const { branches: found, more } = await model.ask("tree", { prefix });
      const rest = more > 0 && h("li", { class: "quiet" }, `and ${count(more)} more`);
      return h("ul", {}, found.map((item) => h("li", {}, one(prefix + item.name, item))), rest);
    } catch (error) {
      return h("p", { class: "quiet" }, error.message);
    }
  }
  function one(prefix, item) {
    const sums = h("span", { class: "sums" }, `${counted(item.tensors, "tensor")}, ${short(item.parameters)} parameter${item.parameters === 1 ? "" : "s"}, ${size(item.nbytes)}`);
    const name = h("span", { class: "name" }, item.name || "(no name)");
    if (!item.has_more) {
      const show = () => {
        tools.setState({ tensor: prefix });
        tools.go("tensors");
        dispatchEvent(new CustomEvent("modelfmt-tensor", { detail: prefix }));
      };
      return h("button", { type: "button", class: "leaf", onclick: show }, name, sums);
    }
    return h("details", { ontoggle: branch(prefix) }, h("summary", {}, name, sums));
  }
  const element = h("div", { class: "tree" });
  branches("").then((list) => {
    fill(element, list);
    // What all names begin with is opened at once.
    const [first, ...others] = element.querySelectorAll("details");
    if (first && others.length === 0) first.open = true;
  });
  return element;
}
