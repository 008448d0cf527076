// A map of all tensors on a canvas, with a cell for each. The cells are drawn once to a bitmap, somewhat
// larger than the visible part. A frame copies its part of the bitmap, and outlines the cell under the
// pointer. So a frame takes the same time for a hundred tensors as for a hundred thousand.
import { layOut } from "./treemap.js";

const LARGEST = 4096; // how far one can zoom in
const SETTLES = 150; // ms after which zooming is over
const MARGIN = 0.25; // of what is in sight, on each side of it in the bitmap
const [LABEL_WIDTH, LABEL_HEIGHT] = [64, 30]; // pixels that a group needs for its name

export class TensorMap {
  // The cell under the pointer, or -1.
  current = -1;
  onPoint = () => {};
  onOpen = () => {};
  #canvas;
  #bitmap = document.createElement("canvas");
  // { sizes, groupOf, groups }: see "atlas" in atlas.rs.
  #data;
  #colors;
  #layout;
  // In pixels of the page, and the number of screen pixels for each.
  #width = 0;
  #height = 0;
  #density = 1;
  // The visible part: its position on the map, and the magnification.
  #x = 0;
  #y = 0;
  #zoom = 1;
  // The part of the map that is in the bitmap, in the same form; null if it has to be redrawn.
  #drawn = null;
  #pixels = null;
  #isAsked = false;
  #zoomedAt = -Infinity;

  constructor(canvas, data) {
    this.#canvas = canvas;
    this.#data = data;
    this.#colors = new Uint32Array(data.sizes.length);
    new ResizeObserver(() => this.#resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#stale());
    this.#listen();
  }

  // A color for each tensor, as 0xAABBGGRR.
  paint(colors) {
    this.#colors = colors;
    this.#stale();
  }

  // Zooms around a point of the canvas, or its middle.
  zoomBy(factor, atX = this.#width / 2, atY = this.#height / 2) {
    const before = this.#zoom;
    this.#zoomedAt = performance.now();
    this.#zoom = Math.max(1, Math.min(LARGEST, before * factor));
    this.#moveTo(this.#x + atX / before - atX / this.#zoom, this.#y + atY / before - atY / this.#zoom);
    this.#canvas.classList.toggle("zoomed", this.#zoom > 1);
  }

  reset() {
    this.zoomBy(0);
  }

  #moveTo(x, y) {
    this.#x = Math.max(0, Math.min(this.#width * (1 - 1 / this.#zoom), x));
    this.#y = Math.max(0, Math.min(this.#height * (1 - 1 / this.#zoom), y));
    this.#ask();
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const density = devicePixelRatio || 1;
    if (width === 0 || height === 0 || (width === this.#width && height === this.#height && density === this.#density)) return;
    [this.#width, this.#height, this.#density] = [width, height, density];
    this.#canvas.width = Math.round(width * density);
    this.#canvas.height = Math.round(height * density);
    const { sizes, groupOf, groups } = this.#data;
    this.#layout = layOut(sizes, groupOf, groups.length, width, height);
    this.#stale();
    this.reset();
  }

  #stale() {
    this.#drawn = null;
    this.#ask();
  }

  // Requests a frame, only one at a time.
  #ask() {
    if (this.#isAsked || !this.#layout) return;
    this.#isAsked = true;
    requestAnimationFrame(() => {
      this.#isAsked = false;
      this.#frame();
    });
  }

  #frame() {
    // During a zoom, the bitmap is stretched; it is redrawn at the end.
    const isZooming = performance.now() - this.#zoomedAt < SETTLES;
    if (!this.#holdsSight() || (this.#drawn.zoom !== this.#zoom && !isZooming)) this.#rasterize();
    const [from, scale] = [this.#drawn.zoom * this.#density, this.#zoom * this.#density];
    const { width, height } = this.#canvas;
    const context = this.#canvas.getContext("2d");
    const [x, y] = [Math.round((this.#x - this.#drawn.x) * from), Math.round((this.#y - this.#drawn.y) * from)];
    context.drawImage(this.#bitmap, x, y, (width * from) / scale, (height * from) / scale, 0, 0, width, height);
    if (this.current >= 0) this.#outline(context, scale);
    if (this.#drawn.zoom !== this.#zoom) this.#ask();
  }

  #outline(context, scale) {
    const { cells } = this.#layout;
    const i = this.current;
    // A cell that is smaller than a pixel is still outlined.
    const side = (length) => Math.max(4 * this.#density, length * scale);
    const place = [(cells.x[i] - this.#x) * scale, (cells.y[i] - this.#y) * scale, side(cells.width[i]), side(cells.height[i])];
    for (const [color, width] of [[this.#theme("--ground"), 5], [this.#theme("--ink"), 2.5]]) {
      context.strokeStyle = color;
      context.lineWidth = width * this.#density;
      context.strokeRect(...place);
    }
  }

  #theme(name) {
    return getComputedStyle(this.#canvas).getPropertyValue(name).trim();
  }

  #holdsSight() {
    const drawn = this.#drawn;
    if (!drawn || this.#zoom > drawn.zoom * 2) return false;
    const [right, bottom] = [this.#x + this.#width / this.#zoom, this.#y + this.#height / this.#zoom];
    const slack = 0.5 / (this.#zoom * this.#density);
    return this.#x >= drawn.x - slack && this.#y >= drawn.y - slack && right <= drawn.right + slack && bottom <= drawn.bottom + slack;
  }

  // Draws the cells in and around the visible part to the bitmap.
  #rasterize() {
    const [wide, tall] = [this.#width / this.#zoom, this.#height / this.#zoom];
    const scale = this.#zoom * this.#density;
    const x = Math.max(0, this.#x - MARGIN * wide);
    const y = Math.max(0, this.#y - MARGIN * tall);
    const right = Math.min(this.#width, this.#x + (1 + MARGIN) * wide);
    const bottom = Math.min(this.#height, this.#y + (1 + MARGIN) * tall);
    this.#drawn = { x, y, right, bottom, zoom: this.#zoom };
    // In steps, so that the same memory can be used for the next one.
    const [width, height] = [right - x, bottom - y].map((side) => Math.ceil((side * scale) / 64) * 64);
    if (this.#bitmap.width !== width || this.#bitmap.height !== height) [this.#bitmap.width, this.#bitmap.height] = [width, height];
    if (this.#pixels?.width !== width || this.#pixels?.height !== height) this.#pixels = new ImageData(width, height);
    const ground = packed(this.#theme("--ground"));
    const out = new Pixels(new Uint32Array(this.#pixels.data.buffer), width, height, ground);
    const { cells, groups, members, drawn } = this.#layout;
    const place = (all, i) => [(all.x[i] - x) * scale, (all.y[i] - y) * scale, (all.x[i] + all.width[i] - x) * scale, (all.y[i] + all.height[i] - y) * scale];
    const named = [];
    for (const group of drawn) {
      const around = place(groups, group);
      if (around[2] < 0 || around[3] < 0 || around[0] > width || around[1] > height) continue;
      for (const i of members[group]) out.cell(...place(cells, i), this.#colors[i]);
      out.frame(...around);
      named.push([group, around]);
    }
    const context = this.#bitmap.getContext("2d");
    context.putImageData(this.#pixels, 0, 0);
    this.#names(context, named);
    this.#canvas.dataset.drawn = Number(this.#canvas.dataset.drawn ?? 0) + 1;
  }

  #names(context, named) {
    const density = this.#density;
    context.font = `${12 * density}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    const [ground, ink] = [this.#theme("--raised"), this.#theme("--ink")];
    for (const [group, [left, top, right, bottom]] of named) {
      if (right - left < LABEL_WIDTH * density || bottom - top < LABEL_HEIGHT * density) continue;
      const whole = this.#data.groups[group].slice(0, 200);
      const fits = (text) => context.measureText(text).width <= right - left - 16 * density;
      const text = [whole, whole.split(/[./]/).slice(-2).join("."), whole.split(/[./]/).pop()].find(fits);
      if (!text) continue;
      context.fillStyle = ground;
      context.fillRect(left + 3 * density, top + 3 * density, context.measureText(text).width + 8 * density, 18 * density);
      context.fillStyle = ink;
      context.fillText(text, left + 7 * density, top + 12 * density);
    }
  }

  // Returns the cell at a position of the map, or -1.
  #at(x, y) {
    const { cells, groups, members, drawn } = this.#layout;
    const isIn = (all) => (i) => x >= all.x[i] && y >= all.y[i] && x < all.x[i] + all.width[i] && y < all.y[i] + all.height[i];
    const group = drawn.find(isIn(groups));
    return group === undefined ? -1 : (members[group].find(isIn(cells)) ?? -1);
  }

  // Highlights a cell, and scrolls it into view if it `isFar`.
  #point(i, isFar = false) {
    if (i === this.current) return;
    this.current = i;
    if (isFar && i >= 0) {
      const { cells } = this.#layout;
      const near = (from, at, length, room) => (at < from ? at : at + length > from + room ? Math.min(at, at + length - room) : from);
      this.#moveTo(
        near(this.#x, cells.x[i], cells.width[i], this.#width / this.#zoom),
        near(this.#y, cells.y[i], cells.height[i], this.#height / this.#zoom),
      );
    }
    this.#ask();
    this.onPoint(i);
  }

  #listen() {
    const canvas = this.#canvas;
    let [held, moved] = [null, 0];
    const onMap = ({ offsetX, offsetY }) => this.#at(this.#x + offsetX / this.#zoom, this.#y + offsetY / this.#zoom);
    canvas.addEventListener("pointerdown", (event) => {
      [held, moved] = [event, 0];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) return this.#point(onMap(event));
      moved += Math.abs(event.clientX - held.clientX) + Math.abs(event.clientY - held.clientY);
      this.#moveTo(this.#x - (event.clientX - held.clientX) / this.#zoom, this.#y - (event.clientY - held.clientY) / this.#zoom);
      held = event;
    });
    canvas.addEventListener("pointerup", (event) => {
      const isClick = held && moved < 6;
      held = null;
      if (!isClick) return;
      const i = onMap(event);
      // A finger first highlights a cell, and opens it at the second tap.
      if (event.pointerType === "mouse" || i === this.current) this.onOpen(i);
      this.#point(i);
    });
    canvas.addEventListener("pointercancel", () => (held = null));
    canvas.addEventListener("pointerleave", () => held || document.activeElement === canvas || this.#point(-1));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-Math.max(-100, Math.min(100, event.deltaY)) / 250), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.#layout) return;
    const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    const { cells, drawn, members } = this.#layout;
    const i = this.current;
    if (steps[event.key] && drawn.length > 0) {
      if (i < 0) this.#point(members[drawn[0]][0], true);
      else {
        // The cell beyond the middle of that side.
        const [right, down] = steps[event.key];
        const reach = (length) => length / 2 + 0.01 + length * 1e-4;
        const next = this.#at(cells.x[i] + cells.width[i] / 2 + right * reach(cells.width[i]), cells.y[i] + cells.height[i] / 2 + down * reach(cells.height[i]));
        if (next >= 0) this.#point(next, true);
      }
    } else if (event.key === "Enter" && i >= 0) this.onOpen(i);
    else if (event.key === "+" || event.key === "-") this.#zoomAtCurrent(event.key === "+" ? 2 : 0.5);
    else if (event.key === "0" || event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }

  #zoomAtCurrent(factor) {
    const { cells } = this.#layout;
    const i = this.current;
    if (i < 0) return this.zoomBy(factor);
    this.zoomBy(factor, (cells.x[i] + cells.width[i] / 2 - this.#x) * this.#zoom, (cells.y[i] + cells.height[i] / 2 - this.#y) * this.#zoom);
  }
}

// A color of the style sheet, #rrggbb, as 0xAABBGGRR.
export function packed(text) {
  const hex = parseInt(text.slice(1), 16) || 0;
  return (0xff000000 | ((hex & 0xff) << 16) | (hex & 0xff00) | (hex >> 16)) >>> 0;
}

// The image into which cells are drawn: a canvas takes several times as long for so many rectangles.
class Pixels {
  constructor(data, width, height, ground) {
    Object.assign(this, { data, width, height, ground });
    data.fill(ground);
  }

  // Fills a rectangle; a large one leaves a gap to the next.
  cell(left, top, right, bottom, color) {
    const [x0, y0] = [Math.round(left), Math.round(top)];
    let [x1, y1] = [Math.round(right), Math.round(bottom)];
    if (x1 - x0 > 4 && y1 - y0 > 4) [x1, y1] = [x1 - 1, y1 - 1];
    this.#fill(x0, y0, x1, y1, color);
  }

  // Draws the right and lower edge of a group, in the color of the ground.
  frame(left, top, right, bottom) {
    const [x0, y0, x1, y1] = [left, top, right, bottom].map(Math.round);
    if (x1 - x0 < 12 || y1 - y0 < 12) return;
    this.#fill(x1 - 3, y0, x1, y1, this.ground);
    this.#fill(x0, y1 - 3, x1, y1, this.ground);
  }

  #fill(x0, y0, x1, y1, color) {
    const [from, to] = [Math.max(0, x0), Math.min(this.width, x1)];
    const bottom = Math.min(this.height, y1);
    if (from >= to) return;
    for (let y = Math.max(0, y0); y < bottom; y++) {
      const row = y * this.width;
      if (to - from > 16) this.data.fill(color, row + from, row + to);
      else for (let x = row + from; x < row + to; x++) this.data[x] = color;
    }
  }
}
