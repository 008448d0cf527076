// Describes the model in a few numbers, and shows its tensors as a tree with sums.
import { about } from "./about.js";
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
  const line = h("p", { class: "sentence", id: "sentence" }, sentence(summary, null));
  const known = h("div", { id: "about" }, h("p", { class: "quiet" }, "Reading…"));
  fill(
    element,
    line,
    folder && h("p", { class: "quiet" }, folder),
    h("dl", { class: "summary" }, facts.map(fact)),
    h("div", { class: "columns" },
      h("div", {}, card("Tensors by name", tree(model, tools))),
      h("div", {},
        card("Signatures and encryption", seal(summary, tools)),
        card("About", known),
        card("Types", types(summary)),
        summary.pins.length > 0 && card("Pins", [
          h("p", { class: "quiet" }, "With --pin the program reads this file only if it is exactly this one."),
          h("ul", { class: "pins" }, summary.pins.map((pin) => h("li", {}, h("code", {}, pin)))),
        ]),
      ),
    ),
  );
  tell(model, known, line, tools);
}

// Shows the metadata that people most want to know.
async function tell(model, element, line, tools) {
  try {
    const { metadata } = await model.ask("metadata", { cut: 1000 });
    const found = about(metadata);
    fill(line, sentence(model.summary, found));
    const more = h("button", { type: "button", class: "small", onclick: () => tools.go("metadata") }, `All ${counted(metadata.length, "entry", "entries")} of metadata`);
    const rows = found.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value)));
    fill(
      element,
      rows.length > 0 ? h("dl", { class: "about" }, rows) : h("p", { class: "quiet" }, "The file does not say what it is of, or under which license."),
      metadata.length > 0 && more,
    );
  } catch (error) {
    fill(element, h("p", { class: "quiet" }, error.message));
  }
  element.dataset.done = "";
}

// Describes the model in a sentence.
function sentence({ format, version, parameters, tensors, file_size: nbytes, dtypes }, found) {
  const architecture = found?.find(([title]) => title === "architecture")?.[1];
  const sorted = [...dtypes].sort((a, b) => b.parameters - a.parameters).map(({ dtype }) => dtype);
  const types = sorted.length > 2 ? ["mostly ", sorted[0], " and ", sorted[1]].join("") : sorted.join(" and ");
  const file = `${size(nbytes)} as ${format}${version ? ` ${version}` : ""}`;
  const all = [architecture, `${short(parameters)} parameters in ${counted(tensors, "tensor")}`, types, file];
  return all.filter(Boolean).join(" · ");
}

function fact([name, value, exactly]) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("span", { id: `fact-${name}` }, value), exactly && h("small", {}, exactly)));
}

// Returns a card, or nothing without content.
function card(title, content) {
  return content && h("section", { class: "card" }, h("h3", {}, title), content);
}

function types({ dtypes, nbytes }) {
  if (dtypes.length === 0) return h("p", { class: "quiet" }, "There are no tensors.");
  const row = (type) => {
    const bar = h("meter", { class: "share", min: 0, max: 1, "aria-label": `share of ${type.dtype}` });
    bar.value = nbytes > 0 ? type.nbytes / nbytes : 0;
    return h("tr", {},
      h("th", { scope: "row" }, type.dtype),
      h("td", {}, bar),
      h("td", { class: "number" }, size(type.nbytes)),
      h("td", { class: "number quiet", title: counted(type.parameters, "parameter") }, counted(type.tensors, "tensor")),
    );
  };
  const sorted = [...dtypes].sort((a, b) => b.nbytes - a.nbytes);
  const head = ["type", "share of bytes", "size", "tensors"].map((title) => h("th", { scope: "col" }, title));
  return h("table", { class: "types" }, h("thead", { class: "unseen" }, h("tr", {}, head)), h("tbody", {}, sorted.map(row)));
}

function tree(model, tools) {
  const branch = (prefix) => async (event) => {
    const details = event.target;
    if (!details.open || details.dataset.read) return;
    details.dataset.read = "1";
    details.append(await branches(prefix));
    openLargest(details);
  };
  // The branch with most of the bytes is opened immediately, as long as few rows are shown.
  const FEW = 12;
  function openLargest(parent) {
    const rows = element.querySelectorAll("li").length;
    const largest = Array.from(parent.querySelectorAll(":scope > ul > li > details")).sort((a, b) => b.dataset.nbytes - a.dataset.nbytes)[0];
    if (largest && rows < FEW) largest.open = true;
  }
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
    const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("i"));
    bar.firstChild.style.width = `${model.summary.nbytes > 0 ? (100 * item.nbytes) / model.summary.nbytes : 0}%`;
    const what = item.has_more ? counted(item.tensors, "tensor") : "";
    const sums = [
      bar,
      h("span", { class: "sums size" }, size(item.nbytes)),
      h("span", { class: "sums" }, [what, `${short(item.parameters)} parameter${item.parameters === 1 ? "" : "s"}`].filter(Boolean).join(", ")),
    ];
    const name = h("span", { class: "name" }, item.name || "(no name)");
    if (!item.has_more) {
      const show = () => tools.showTensor(prefix);
      return h("button", { type: "button", class: "leaf", onclick: show }, name, sums);
    }
    return h("details", { ontoggle: branch(prefix), "data-nbytes": item.nbytes }, h("summary", {}, name, sums));
  }
  const element = h("div", { class: "tree" });
  branches("").then((list) => {
    fill(element, list);
    openLargest(element);
  });
  return element;
}
