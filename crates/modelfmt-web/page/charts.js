// A heat map and a histogram. Both also describe in words what they show.
import { h } from "./elements.js";
import { count, number } from "./units.js";

const SVG = "http://www.w3.org/2000/svg";

// `cells` are means, row by row; { width, height, rows, columns, is_whole } describes what they cover.
export function heatMap(cells, { width, height, rows, columns, is_whole: isWhole }) {
  const canvas = h("canvas", { class: "heat", width, height, role: "img" });
  const finite = Array.from(cells).filter(Number.isFinite).sort((a, b) => a - b);
  if (finite.length === 0) return h("p", { class: "quiet" }, "There is no finite value to draw.");
  // The range of most values: with the extremes, a few outliers would leave one color for all others.
  const at = (part) => finite[Math.round(part * (finite.length - 1))];
  const [low, high] = [at(0.01), at(0.99)];
  const isSigned = low < 0 && high > 0;
  const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  cells.forEach((value, i) => {
    const place = isSigned ? value / reach : high > low ? ((value - low) / (high - low)) * 2 - 1 : 0;
    image.data.set(Number.isFinite(value) ? color(Math.max(-1, Math.min(1, place)), isSigned) : [255, 0, 255, 255], i * 4);
  });
  context.putImageData(image, 0, 0);
  const [from, to] = isSigned ? [-reach, reach] : [low, high];
  const what = isWhole
    ? width < columns || height < rows ? "Each point is the mean of its part." : "Each point is a value."
    : "Each point is the mean of a sample of its part.";
  canvas.setAttribute("aria-label", `Heat map of ${count(rows)} rows and ${count(columns)} columns, from ${number(from)} to ${number(to)}`);
  const scale = colorScale((place) => color(place, isSigned));
  return h("figure", {}, canvas, h("figcaption", {}, h("span", { class: "line" }, number(from), scale, number(to)), h("span", { class: "quiet" }, what)));
}

// A strip with the colors from −1 to 1.
export function colorScale(colorOf) {
  const scale = h("canvas", { class: "scale", width: 128, height: 1, "aria-hidden": "true" });
  const line = scale.getContext("2d").createImageData(128, 1);
  for (let i = 0; i < 128; i++) line.data.set(colorOf(i / 63.5 - 1), i * 4);
  scale.getContext("2d").putImageData(line, 0, 0);
  return scale;
}

// Blue to white to red around zero; dark blue to yellow for values of one sign.
const SIGNED = [[33, 76, 154], [116, 169, 218], [247, 247, 247], [239, 138, 98], [165, 15, 35]];
const UNSIGNED = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

// Returns the color, [red, green, blue, alpha], for a position from −1 to 1.
export function color(place, isSigned) {
  const stops = isSigned ? SIGNED : UNSIGNED;
  const at = ((place + 1) / 2) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  return [...stops[i].map((from, channel) => from + (stops[i + 1][channel] - from) * (at - i)), 255];
}

// Returns the position of a relative difference between 10⁻⁸ and 1 on a logarithmic scale, from 0 to 1.
export function onScale(norm) {
  return norm > 0 ? Math.max(0, Math.min(1, 1 + Math.log10(norm) / 8)) : norm === 0 ? 0 : 1;
}

function svg(tag, properties, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Draws an answer to "sample" or "stats": equal bins between min and max, or each value with its count.
export function histogram({ bins, values, min, max }) {
  const bars = values ? values.map(([value, n]) => [String(value), n]) : bins.map((n, i) => {
    const edge = (at) => number(min + ((max - min) * at) / bins.length);
    return [`${edge(i)} to ${edge(i + 1)}`, n];
  });
  if (bars.length === 0) return null;
  const most = Math.max(1, ...bars.map(([, n]) => n));
  const [width, tall] = [512, 110];
  const step = width / bars.length;
  const drawn = bars.map(([title, n], i) => {
    const height = n > 0 ? Math.max(1, (n / most) * tall) : 0;
    const bar = svg("rect", { x: i * step, y: tall - height, width: Math.max(1, step - 1), height });
    bar.append(svg("title", {}));
    bar.firstChild.textContent = `${title}: ${count(n)}`;
    return bar;
  });
  const label = `Histogram from ${number(min)} to ${number(max)}; the fullest of ${bars.length} bars has ${count(most)} values`;
  const picture = svg("svg", { class: "histogram", viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": label, preserveAspectRatio: "none" }, ...drawn);
  return h("figure", {}, picture, h("figcaption", { class: "ends" }, h("span", {}, number(min)), h("span", {}, number(max))));
}
