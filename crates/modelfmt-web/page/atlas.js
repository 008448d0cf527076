// The atlas: all tensors at once on a map, each with an area in proportion to its bytes, colored by the
// chosen property.
import { color, colorScale, onScale } from "./charts.js";
import { fill, h } from "./elements.js";
import { TensorMap, packed } from "./map.js";
import { count, counted, number, shape, size } from "./units.js";

const KINDS = [
  ["type", "type"],
  ["size", "size"],
  ["magnitude", "magnitude of the values"],
  ["difference", "difference to another model"],
];
// The colors of Okabe and Ito, which color-blind people can distinguish, and some more; then they repeat.
const TYPES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7a5195", "#8c8c8c", "#a05a2c"];
const [NOTHING, SAME, MISSING] = ["#8b919b", "#b4bbc6", "#b3261e"];
// The number of values that are read for the magnitudes, of all tensors together.
const BUDGET = 1 << 26;

export async function atlas(element, model, tools) {
  const kind = h("select", { id: "atlas-color" }, KINDS.map(([value, title]) => h("option", { value }, title)));
  const label = "Map of all tensors: arrow keys go from one to the next, Enter opens it, plus and minus zoom. The list of tensors has the same in text.";
  const canvas = h("canvas", { class: "atlas-map", id: "atlas-map", tabindex: "0", role: "application", "aria-label": label, "aria-describedby": "atlas-current" });
  const current = h("p", { id: "atlas-current", class: "current", role: "status" }, "Point at a cell to see which tensor it is.");
  const legend = h("div", { class: "legend", id: "atlas-legend" });
  const status = h("div", { class: "line", id: "atlas-status" });
  fill(element, h("p", { class: "quiet", role: "status" }, "Reading…"));
  const data = await cells(model).catch((error) => void fill(element, h("p", { class: "problem" }, error.message)));
  if (!data) return;
  const map = new TensorMap(canvas, data);
  const button = (title, name, onclick) => h("button", { type: "button", "aria-label": name, title: name, onclick }, title);
  const asList = h("button", { type: "button", onclick: () => tools.listBySize() }, "As a list");
  const empty = data.sizes.reduce((sum, nbytes) => sum + (nbytes === 0), 0);
  fill(
    element,
    h("div", { class: "line tools" },
      h("label", { for: "atlas-color" }, "Color by"), kind, legend,
      h("div", { class: "zoom" }, button("+", "Zoom in", () => map.zoomBy(2)), button("−", "Zoom out", () => map.zoomBy(0.5)), button("All", "Show all", () => map.reset()), asList),
    ),
    canvas,
    h("div", { class: "line below" }, current, status),
    empty > 0 && h("p", { class: "quiet" }, `${counted(empty, "tensor")} without values ${empty === 1 ? "has" : "have"} no cell.`),
  );
  const painter = new Painter(model, data, map, { legend, status, tools });
  kind.onchange = () => painter.by(kind.value);
  model.onCompared = () => {
    kind.value = "difference";
    painter.by("difference");
  };
  if (model.compared) kind.value = "difference";
  painter.by(kind.value);
  map.onPoint = tell(model, current, canvas);
  map.onOpen = async (i) => {
    if (i < 0) return;
    try {
      tools.showTensor((await model.ask("tensor", { position: i })).name);
    } catch (error) {
      fill(current, error.message);
    }
  };
}

// Returns what the library knows about all tensors: { sizes, groupOf, typeOf, types, groups }.
async function cells(model) {
  const { value, bytes } = await model.bytes("atlas", {});
  const number = bytes.length / 13;
  const { buffer } = bytes;
  const [groupsAt, typesAt] = [number * 8, number * 12];
  return {
    ...value,
    sizes: new Float64Array(buffer, 0, number),
    groupOf: new Uint32Array(buffer, groupsAt, number),
    typeOf: new Uint8Array(buffer, typesAt, number),
  };
}

// Shows which tensor the pointer is on. If the pointer is faster than the answers, shows the last one.
function tell(model, current, canvas) {
  let [wanted, isAsking] = [-1, false];
  return async (i) => {
    wanted = i;
    if (isAsking) return;
    isAsking = true;
    try {
      for (let told = null; told !== wanted; ) {
        told = wanted;
        if (told < 0) fill(current, "Point at a cell to see which tensor it is.");
        else {
          const info = await model.ask("tensor", { position: told });
          if (told === wanted) fill(current, h("span", { class: "name" }, info.name || "(no name)"), h("span", { class: "quiet" }, ` ${info.dtype}, ${shape(info.shape)}, ${size(info.nbytes)}`));
        }
        canvas.dataset.told = told;
      }
    } catch (error) {
      fill(current, error.message);
    } finally {
      isAsking = false;
    }
  };
}

// Colors the map, and explains the colors.
class Painter {
  #model;
  #data;
  #map;
  #parts;
  // Counts the requests, so that results of an earlier request are ignored.
  #asked = 0;
  #magnitudes = null;

  constructor(model, data, map, parts) {
    this.#model = model;
    this.#data = data;
    this.#map = map;
    this.#parts = parts;
  }

  by(kind) {
    const asked = ++this.#asked;
    fill(this.#parts.status);
    const { sizes, types, typeOf } = this.#data;
    if (kind === "type") {
      const colors = types.map((_, i) => packed(TYPES[i % TYPES.length]));
      this.#map.paint(Uint32Array.from(typeOf, (type) => colors[type]));
      this.#legend(types.map((name, i) => [TYPES[i % TYPES.length], name]));
    } else if (kind === "size") this.#scaled(sizes, size);
    else if (kind === "difference") this.#differences();
    else this.#read(asked);
  }

  // Colors on a logarithmic scale. Values that are not numbers, or 0, have a separate color.
  #scaled(values, inWords, more = []) {
    const [from, to] = ends(values);
    const of = (value) => (value > 0 && value < Infinity ? packedColor(color(to > from ? (Math.log(value / from) / Math.log(to / from)) * 2 - 1 : 0, false)) : packed(NOTHING));
    this.#map.paint(Uint32Array.from(values, of));
    if (from > to) return this.#legend(more);
    this.#legend(more, h("span", { class: "key" }, inWords(from), colorScale((place) => color(place, false)), inWords(to)));
  }

  #legend(keys, ...others) {
    const key = ([color, title]) => {
      const swatch = h("i", { class: "swatch" });
      swatch.style.background = color;
      return h("span", { class: "key" }, swatch, title);
    };
    const MOST = 12;
    fill(this.#parts.legend, others, keys.slice(0, MOST).map(key), keys.length > MOST && `and ${keys.length - MOST} more`);
  }

  #differences() {
    const { compared } = this.#model;
    const { tools } = this.#parts;
    if (!compared) {
      this.#map.paint(new Uint32Array(this.#data.sizes.length).fill(packed(SAME)));
      this.#legend([]);
      fill(this.#parts.status, "Compare the model first.", h("button", { type: "button", onclick: () => tools.go("compare") }, "Compare"));
      return;
    }
    const colors = new Uint32Array(this.#data.sizes.length).fill(packed(SAME));
    for (const [position, norm] of compared.changed) colors[position] = packedColor(amber(onScale(norm)));
    for (const position of compared.missing) colors[position] = packed(MISSING);
    this.#map.paint(colors);
    this.#legend(
      [[SAME, "same"], ...(compared.missing.length > 0 ? [[MISSING, "not in the other"]] : [])],
      h("span", { class: "key" }, "‖a−b‖ / ‖a‖: 10⁻⁸", colorScale((place) => amber((place + 1) / 2)), "1"),
    );
  }

  // Reads a sample of each tensor, a few tensors at a time, so that the map stays responsive.
  async #read(asked) {
    const total = this.#data.sizes.length;
    this.#magnitudes ??= { values: new Float32Array(total).fill(NaN), done: 0 };
    const { values } = this.#magnitudes;
    const elements = Math.max(256, Math.min(1 << 14, Math.floor(BUDGET / Math.max(1, total))));
    const more = [[NOTHING, "no numbers, or all 0"]];
    let [batch, painted] = [this.#model.isRemote ? 1 : 8, 0];
    this.#scaled(values, inShort, more);
    const stop = h("button", { type: "button", class: "small", onclick: () => fill(this.#parts.status, `Stopped at ${count(this.#magnitudes.done)}.`, void this.#asked++) }, "Stop");
    try {
      while (this.#magnitudes.done < total) {
        fill(this.#parts.status, h("span", { class: "quiet" }, `${count(this.#magnitudes.done)} of ${count(total)} tensors`), stop);
        const begun = performance.now();
        const { value, bytes } = await this.#model.bytes("magnitudes", { from: this.#magnitudes.done, count: batch, elements });
        if (asked !== this.#asked) return;
        values.set(new Float32Array(bytes.buffer, 0, value), this.#magnitudes.done);
        this.#magnitudes.done += value;
        const took = performance.now() - begun;
        batch = Math.max(1, Math.min(4096, took < 50 ? batch * 2 : took > 200 ? batch >> 1 : batch));
        if (performance.now() - painted > 250) {
          this.#scaled(values, inShort, more);
          painted = performance.now();
        }
      }
      this.#scaled(values, inShort, more);
      fill(this.#parts.status, h("span", { class: "quiet" }, `Root mean square of a sample: ${count(elements)} values of each tensor at most.`));
    } catch (error) {
      if (asked === this.#asked) fill(this.#parts.status, error.message);
    }
  }
}

function inShort(value) {
  return number(Number(value.toPrecision(3)));
}

// Returns the first and the last percentile of positive values: with the extremes, a few outliers would leave
// one color for all others.
function ends(values) {
  const positive = values.filter((value) => value > 0 && value < Infinity).sort();
  const at = (part) => positive[Math.round(part * (positive.length - 1))];
  return positive.length > 0 ? [at(0.01), at(0.99)] : [1, 0];
}

// Returns a color between a light and a dark amber.
function amber(place) {
  const [light, dark] = [[255, 224, 150], [148, 72, 0]];
  return [...light.map((from, i) => from + (dark[i] - from) * place), 255];
}

function packedColor([red, green, blue]) {
  return (0xff000000 | (Math.max(0, Math.min(255, blue)) << 16) | (Math.max(0, Math.min(255, green)) << 8) | Math.max(0, Math.min(255, red))) >>> 0;
}
