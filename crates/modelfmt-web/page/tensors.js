// The view of the tensors: a search, the list, and details of the chosen tensor.
import { fill, h } from "./elements.js";
import { List } from "./list.js";
import { tensor } from "./tensor.js";
import { count, counted, shape, size } from "./units.js";

// The columns by which the list can be sorted, and whether the first click shows the largest first.
const COLUMNS = [["name", false], ["type", false], ["shape", true], ["size", true]];

export function tensors(element, model, tools) {
  let query = tools.state().get("search") ?? "";
  // As in the address: a column, with a minus for descending order; empty for the order of the file.
  let sort = tools.state().get("sort") ?? "";
  const found = h("p", { class: "quiet", role: "status", id: "found" });
  const detail = h("div", { class: "detail", id: "detail" }, h("p", { class: "quiet" }, "Choose a tensor to see what is in it."));
  const list = new List(
    "Tensors",
    (from, number) => model.ask("rows", { query, sort: sort.replace("-", ""), descending: sort.startsWith("-"), from, count: number }),
    (row) => [
      h("span", { class: "name" }, h("bdi", { dir: "ltr" }, row.name || "(no name)")),
      h("span", { class: "dtype" }, row.dtype),
      h("span", { class: "shape" }, shape(row.shape)),
      h("span", { class: "size" }, row.has_data ? size(row.nbytes) : "no data"),
    ],
  );
  list.onChoose = (row) => {
    tools.setState({ tensor: row.name });
    tensor(detail, model, row.position);
  };
  const search = h("input", {
    type: "search",
    id: "search",
    value: query,
    placeholder: "part of a name, or a pattern: *.attn.*",
    autocomplete: "off",
    spellcheck: "false",
  });
  search.oninput = () => {
    query = search.value;
    tools.setState({ search: query });
    refresh();
  };
  search.onkeydown = (event) => {
    if (event.key === "ArrowDown") list.element.focus();
  };
  const heads = COLUMNS.map(([column, isLargeFirst]) => {
    const turns = isLargeFirst ? [`-${column}`, column, ""] : [column, `-${column}`, ""];
    const next = () => turns[(turns.indexOf(sort) + 1) % turns.length];
    return h("button", { type: "button", class: column, id: `sort-${column}`, onclick: () => by(next()) });
  });
  function by(wanted) {
    sort = wanted;
    tools.setState({ sort });
    showSort();
    refresh();
  }
  function showSort() {
    for (const [i, [column]] of COLUMNS.entries()) {
      const isBy = sort.replace("-", "") === column;
      const words = isBy ? `sorted by ${column}, ${sort.startsWith("-") ? "descending" : "ascending"}` : `sort by ${column}`;
      fill(heads[i], column, isBy && h("span", { "aria-hidden": "true" }, sort.startsWith("-") ? " ▼" : " ▲"));
      heads[i].setAttribute("aria-label", words);
    }
  }
  async function refresh() {
    try {
      const total = await list.reset();
      const all = model.summary.tensors;
      fill(found, total === all ? counted(all, "tensor") : `${count(total)} of ${counted(all, "tensor")}`);
    } catch (error) {
      fill(found, error.message);
    }
  }
  async function showNamed(name) {
    try {
      const { position } = await model.ask("find", { tensor: name });
      tensor(detail, model, position);
    } catch {
      // The address names a tensor of another model.
      tools.setState({ tensor: null });
    }
  }
  addEventListener("modelfmt-tensor", ({ detail: name }) => {
    if (element.isConnected) showNamed(name);
  });
  addEventListener("modelfmt-sort", ({ detail: wanted }) => {
    if (element.isConnected) by(wanted);
  });
  if (!COLUMNS.some(([column]) => column === sort.replace("-", ""))) sort = "";
  showSort();
  fill(
    element,
    h("div", { class: "pane" },
      h("div", { class: "search" }, h("label", { for: "search" }, "Search"), search, found),
      h("div", { class: "row head", role: "group", "aria-label": "Order of the list" }, heads),
      list.element,
    ),
    detail,
  );
  refresh();
  const named = tools.state().get("tensor");
  if (named !== null) showNamed(named);
}
