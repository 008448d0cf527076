// The metadata and details of the format, one row per key. Long values are cut until they are opened.
import { download, fill, h } from "./elements.js";
import { watched } from "./progress.js";

const CUT = 300;

export async function metadata(element, model) {
  fill(element, h("p", { class: "quiet", role: "status" }, "Reading…"));
  try {
    const parts = await model.ask("metadata", { cut: CUT });
    fill(element, part(model, "metadata", "Metadata", parts.metadata), part(model, "details", "Details of the format", parts.details), bom(model));
  } catch (error) {
    fill(element, h("p", { class: "problem" }, error.message));
  }
}

function part(model, name, title, entries) {
  const shown = entries.filter(({ text }) => text !== "null");
  const row = ({ key, text, is_cut: isCut }) => {
    const value = h("td", {}, h("span", { class: "value" }, isCut ? `${text}…` : text));
    if (isCut) value.append(h("button", { type: "button", class: "small", onclick: () => whole(model, name, key, value) }, "all of it"));
    return h("tr", {}, h("th", { scope: "row" }, key), value);
  };
  return h("section", { class: "card" },
    h("h3", {}, title),
    shown.length > 0 ? h("table", { class: "entries" }, h("tbody", {}, shown.map(row))) : h("p", { class: "quiet" }, "There is none."),
  );
}

// Bills of materials, in the same form as the program writes.
function bom(model) {
  const status = h("div", { role: "status" });
  const give = async (spec) => {
    try {
      const answer = await watched(status, "Hashing", model.summary.file_size, (told) => model.job("bom", { spec }, told));
      if (answer) download(`${model.name.split("/").pop()}.${spec}.json`, new Blob([answer.bytes], { type: "application/json" }));
    } catch (error) {
      fill(status, h("p", { class: "problem" }, error.message));
    }
  };
  const button = ([spec, title]) => h("button", { type: "button", id: `bom-${spec}`, onclick: () => give(spec) }, title);
  return h("section", { class: "card" },
    h("h3", {}, "Bill of materials"),
    h("p", { class: "quiet" }, "What the file says of its name, license and base, with its types and the hashes of its files."),
    h("div", { class: "line" }, [["cyclonedx", "CycloneDX"], ["spdx", "SPDX"]].map(button)),
    status,
  );
}

async function whole(model, part, key, cell) {
  try {
    const text = await model.ask("metadata", { part, key });
    fill(cell, h("textarea", { class: "whole", readonly: true, rows: 16, "aria-label": key }, text));
  } catch (error) {
    fill(cell, error.message);
  }
}
