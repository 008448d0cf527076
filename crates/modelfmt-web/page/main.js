// The page: opens models, and shows the chosen view.
import { atlas } from "./atlas.js";
import { $, download, fill, h } from "./elements.js";
import { chosen, dropped } from "./files.js";
import { Model, choose, prepare } from "./model.js";
import { compare } from "./compare.js";
import { convert } from "./convert.js";
import { metadata } from "./metadata.js";
import { overview } from "./overview.js";
import { sweep } from "./scratch.js";
import { tensors } from "./tensors.js";
import { size } from "./units.js";
import { verify } from "./verify.js";

const VIEWS = [
  ["overview", "Overview", overview],
  ["tensors", "Tensors", tensors],
  ["atlas", "Atlas", atlas],
  ["metadata", "Metadata", metadata],
  ["verify", "Verify", verify],
  ["compare", "Compare", compare],
  ["convert", "Convert", convert],
];

let model = null;
// Aborts what is being opened: only the last request counts.
let opening = null;

// The state in the address: #url=…&view=…&tensor=…
function state() {
  return new URLSearchParams(location.hash.slice(1));
}

function setState(changes) {
  const next = state();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") next.delete(key);
    else next.set(key, value);
  }
  history.replaceState(null, "", `#${next}`);
}

// Begins to open something instead of what is being opened. Returns what connect() in model.js takes. `from`
// is the form with the request.
function begin(label, from = null) {
  opening?.abort();
  const controller = new AbortController();
  opening = controller;
  delete document.body.dataset.done;
  // The message may be within a view that disappears with the next model.
  $("main").prepend($("problem"));
  $("problem").hidden = true;
  const read = h("span", { class: "quiet" });
  const cancel = h("button", { type: "button", id: "cancel", onclick: () => end(controller) }, "Cancel");
  fill($("busy"), h("progress", { "aria-label": label }), h("span", { class: "busy-text", role: "status" }, `${label}…`), read, cancel).hidden = false;
  const stages = { code: "fetching the reader", files: "waiting for the first bytes" };
  return {
    signal: controller.signal,
    onStage: (stage) => fill(read, stages[stage]),
    onRead: (nbytes) => fill(read, `${size(nbytes)} read`),
    isOver: () => opening !== controller,
    fail: (error) => opening === controller && fail(error, from),
    end: () => end(controller),
  };
}

// The opening has ended, successfully or not.
function end(controller) {
  if (opening !== controller) return;
  opening = null;
  controller.abort();
  $("busy").hidden = true;
  document.body.dataset.done = "";
}

// Opens a model. If that fails, the previous model stays open.
async function open(files, name, keys, from) {
  const step = begin(`Opening ${name}`, from);
  try {
    const opened = await Model.open(files, name, keys, step);
    if (step.isOver()) return opened.close();
    // From now on, another opening must not abort this worker.
    opening = null;
    model?.close();
    model = opened;
    setState({ url: files.length === 1 && files[0].url ? files[0].url : null });
    show();
    $("busy").hidden = true;
    document.body.dataset.done = "";
  } catch (error) {
    step.fail(error);
    step.end();
  }
}

// Shows an error: below the form with the request if that still exists, otherwise above everything.
export function fail(error, from = null) {
  const lines = (error.details ?? []).map((line) => h("li", {}, line));
  const close = h("button", { type: "button", class: "close", "aria-label": "Close this message", onclick: () => ($("problem").hidden = true) }, "×");
  const problem = fill($("problem"), close, h("p", {}, error.message), lines.length > 0 && h("ul", {}, lines));
  if (from?.checkVisibility?.()) from.after(problem);
  else $("main").prepend(problem);
  problem.hidden = false;
  problem.scrollIntoView({ block: "nearest" });
}

function show() {
  const { summary } = model;
  $("start").hidden = $("choice").hidden = true;
  $("model").hidden = false;
  const name = summary.path.split("/").pop();
  fill($("model-name"), name);
  fill($("badge"), `${summary.format}${summary.version ? ` ${summary.version}` : ""}`);
  document.title = `${name} · modelfmt`;
  const tools = { fail, state, setState, go, showTensor, listBySize, reopen: (keys, from) => open(model.files, model.name, keys, from) };
  const panel = ([id, title, make]) => {
    const properties = { id: `view-${id}`, role: "tabpanel", "aria-labelledby": `tab-${id}`, class: `view ${id}`, hidden: true };
    const element = h("section", properties);
    // A view is created when it is first shown.
    return { id, title, element, make: () => make(element, model, tools), isMade: false };
  };
  views = VIEWS.map(panel);
  fill($("panels"), views.map(({ element }) => element));
  fill($("tabs"), views.map(tab));
  go(views.some(({ id }) => id === state().get("view")) ? state().get("view") : "overview");
}

let views = [];

function tab({ id, title }) {
  const properties = { id: `tab-${id}`, role: "tab", type: "button", "aria-controls": `view-${id}`, onclick: () => go(id), onkeydown: walk };
  return h("button", properties, title);
}

// Arrow keys move between tabs.
function walk(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const at = views.findIndex(({ id }) => `tab-${id}` === event.target.id);
  const next = views[(at + step + views.length) % views.length];
  go(next.id);
  $(`tab-${next.id}`).focus();
}

// Shows a view.
function go(wanted) {
  for (const view of views) {
    const isWanted = view.id === wanted;
    view.element.hidden = !isWanted;
    $(`tab-${view.id}`).setAttribute("aria-selected", String(isWanted));
    $(`tab-${view.id}`).tabIndex = isWanted ? 0 : -1;
    if (isWanted) $(`tab-${view.id}`).scrollIntoView({ block: "nearest", inline: "nearest" });
    if (isWanted && !view.isMade) {
      view.isMade = true;
      Promise.resolve(view.make()).catch(({ message }) => fill(view.element, h("p", { class: "problem" }, message)));
    }
  }
  setState({ view: wanted === "overview" ? null : wanted });
}

// Shows a tensor by its name.
function showTensor(name) {
  setState({ tensor: name });
  go("tensors");
  dispatchEvent(new CustomEvent("modelfmt-tensor", { detail: name }));
}

// Lists the tensors, the largest first.
function listBySize() {
  setState({ sort: "-size" });
  go("tensors");
  dispatchEvent(new CustomEvent("modelfmt-sort", { detail: "-size" }));
}

// Takes files, and opens the model among them, if there is one.
async function take(files) {
  if (files.length === 0) return;
  if (files.length === 1) return open(files, files[0].name);
  const step = begin(`Looking at ${files.length} files`);
  try {
    const { models, foreign } = await choose(files, step);
    if (step.isOver()) return;
    if (models.length === 1) return await open(files, models[0]);
    if (models.length > 1) offer(files, models);
    else if (foreign) step.fail({ message: `${foreign.name}: ${foreign.hint}` });
    else step.fail({ message: `There is no model among these ${files.length} files.` });
  } catch (error) {
    step.fail(error);
  }
  step.end();
}

function offer(files, models) {
  $("start").hidden = $("model").hidden = true;
  $("choice").hidden = false;
  const button = (name) => h("li", {}, h("button", { type: "button", onclick: () => open(files, name) }, name));
  fill($("choice-list"), models.map(button));
}

function openUrl(url, from) {
  const last = new URL(url).pathname.split("/").pop();
  let name = last;
  try {
    name = decodeURIComponent(last);
  } catch {
    // The name is not valid UTF-8, so it stays as it is written.
  }
  name ||= url;
  return open([{ name, url }], name, undefined, from);
}

async function downloadJson() {
  try {
    const { bytes } = await model.bytes("inspect", {});
    download(`${model.summary.path.split("/").pop()}.json`, new Blob([bytes], { type: "application/json" }));
  } catch (error) {
    fail(error);
  }
}

function listen() {
  $("json").onclick = downloadJson;
  for (const button of document.querySelectorAll("[data-opens]")) button.onclick = () => $(button.dataset.opens).click();
  for (const input of [$("files"), $("folder")]) input.onchange = () => take(chosen(input));
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dragging");
  });
  addEventListener("drop", async (event) => {
    event.preventDefault();
    document.body.classList.remove("dragging");
    take(await dropped(event.dataTransfer));
  });
  $("url-form").onsubmit = (event) => {
    event.preventDefault();
    openUrl($("url").value.trim(), event.target);
  };
  // A slash moves the focus to the search, as in many programs.
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, textarea, select") || !model) return;
    event.preventDefault();
    go("tensors");
    $("search")?.focus();
  });
}

listen();
prepare();
sweep().catch(() => {});
navigator.serviceWorker?.register(new URL("offline.js", import.meta.url)).catch(() => {});
const url = state().get("url");
if (url && /^https?:/.test(url)) openUrl(url);
