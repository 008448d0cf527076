// Creates elements of the document in one call: h("p", { class: "x", onclick }, "text", child).

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

// Returns the children that are present. They may be in lists and may be missing.
function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

export const $ = (id) => document.getElementById(id);

// Offers a blob as a file download.
export function download(name, blob) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// Offers several downloads, `{ name, blob }`. Browsers drop downloads that are requested all at once.
export async function downloadAll(files) {
  for (const [number, { name, blob }] of files.entries()) {
    if (number > 0) await new Promise((resume) => setTimeout(resume, BETWEEN_DOWNLOADS));
    download(name, blob);
  }
}

const BETWEEN_DOWNLOADS = 300; // ms

// Replaces the content of an element, and returns the element.
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}
