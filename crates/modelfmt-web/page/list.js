// A list of any length. Only the visible rows are elements.
import { fill, h } from "./elements.js";

const ROW = 28; // pixels; style.css has the same
const PAGE = 200;
// Browsers cannot lay out anything taller than about 16 million pixels, so a longer list scrolls in larger
// steps.
const TALLEST = 8_000_000;

export class List {
  #box;
  #space;
  #rows;
  #total = 0;
  #pages = new Map();
  #fetchPage;
  #renderRow;
  // Answers to earlier requests, and earlier drawings, are ignored.
  #asked = 0;
  #drawn = 0;
  #chosen = -1;
  onChoose = () => {};

  // `fetchPage(from, count)` returns { total, rows }, `renderRow(row)` returns the cells of a row.
  constructor(label, fetchPage, renderRow) {
    this.#fetchPage = fetchPage;
    this.#renderRow = renderRow;
    this.#rows = h("div", { class: "rows", role: "presentation" });
    this.#space = h("div", { class: "space", role: "presentation" }, this.#rows);
    this.#box = h("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": label }, this.#space);
    this.#box.addEventListener("scroll", () => this.#draw());
    this.#box.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.#box);
  }

  get element() {
    return this.#box;
  }

  // Shows another list from its beginning, and returns its length.
  async reset() {
    this.#chosen = -1;
    const asked = ++this.#asked;
    const { total, rows } = await this.#fetchPage(0, PAGE);
    if (asked !== this.#asked) return this.#total;
    this.#pages.clear();
    this.#total = total;
    this.#pages.set(0, rows);
    this.#space.style.height = `${Math.min(total * ROW, TALLEST)}px`;
    this.#box.scrollTop = 0;
    await this.#draw();
    return total;
  }

  #first() {
    const room = this.#box.clientHeight;
    const tall = Math.min(this.#total * ROW, TALLEST);
    if (tall <= room) return 0;
    const most = this.#total - room / ROW;
    return Math.max(0, Math.min(most, (this.#box.scrollTop / (tall - room)) * most));
  }

  async #draw() {
    const drawn = ++this.#drawn;
    const first = this.#first();
    const from = Math.floor(first);
    const to = Math.min(this.#total, from + Math.ceil(this.#box.clientHeight / ROW) + 1);
    const wanted = [];
    for (let page = Math.floor(from / PAGE); page * PAGE < to; page++) wanted.push(page);
    await Promise.all(wanted.filter((page) => !this.#pages.has(page)).map((page) => this.#fetch(page)));
    if (drawn !== this.#drawn) return;
    const shown = [];
    for (let i = from; i < to; i++) shown.push(this.#row(i));
    this.#rows.style.transform = `translateY(${this.#box.scrollTop - (first - from) * ROW}px)`;
    fill(this.#rows, shown);
    this.#box.setAttribute("aria-activedescendant", this.#chosen >= from && this.#chosen < to ? `row-${this.#chosen}` : "");
  }

  async #fetch(page) {
    const asked = this.#asked;
    const { rows } = await this.#fetchPage(page * PAGE, PAGE);
    if (asked !== this.#asked) return;
    if (this.#pages.size > 50) this.#pages.delete(this.#pages.keys().next().value);
    this.#pages.set(page, rows);
  }

  #data(i) {
    return this.#pages.get(Math.floor(i / PAGE))?.[i % PAGE];
  }

  #row(i) {
    const data = this.#data(i);
    const properties = {
      class: i === this.#chosen ? "row chosen" : "row",
      role: "option",
      id: `row-${i}`,
      "aria-setsize": this.#total,
      "aria-posinset": i + 1,
      "aria-selected": String(i === this.#chosen),
      onclick: () => this.#choose(i),
    };
    return h("div", properties, data ? this.#renderRow(data) : "…");
  }

  async #choose(i) {
    this.#chosen = i;
    this.#reveal(i);
    await this.#draw();
    const data = this.#data(i);
    if (data) this.onChoose(data);
  }

  #reveal(i) {
    const [first, room] = [this.#first(), this.#box.clientHeight / ROW];
    const wanted = i < first ? i : i + 1 > first + room ? i + 1 - room : first;
    if (wanted === first) return;
    const tall = Math.min(this.#total * ROW, TALLEST) - this.#box.clientHeight;
    this.#box.scrollTop = (wanted / (this.#total - room)) * tall;
  }

  #key(event) {
    const room = Math.max(1, Math.floor(this.#box.clientHeight / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: room, PageUp: -room, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || this.#total === 0) return;
    event.preventDefault();
    this.#choose(Math.max(0, Math.min(this.#total - 1, this.#chosen + step)));
  }
}
