// The search. A script provides the words of all sections, because a page that is opened as a file may not
// fetch others.
const field = document.querySelector("#search");
const list = document.querySelector("#found");
const root = document.documentElement.dataset.root;
const SHOWN = 12;
let loading = false;

function load() {
  if (loading) {
    return;
  }
  loading = true;
  const script = document.createElement("script");
  script.src = root + "search-index.js";
  script.onload = show;
  document.head.append(script);
}

/** How well a section fits: every word has to be in it, and counts most in a title or a heading. */
function score([, title, heading, text], words) {
  const places = [[title.toLowerCase(), 8], [heading.toLowerCase(), 6], [text.toLowerCase(), 1]];
  let sum = 0;
  for (const word of words) {
    const found = places.filter(([place]) => place.includes(word)).map(([, weight]) => weight);
    if (found.length === 0) {
      return 0;
    }
    sum += Math.max(...found);
  }
  return sum;
}

/** The text around the first word that is found, with the word marked. */
function excerpt(text, words) {
  const low = text.toLowerCase();
  const word = words.find((word) => low.includes(word));
  const small = document.createElement("small");
  const at = word === undefined ? 0 : low.indexOf(word);
  const begin = Math.max(0, at - 50);
  small.append((begin > 0 ? "…" : "") + text.slice(begin, at));
  if (word !== undefined) {
    const mark = document.createElement("mark");
    mark.textContent = text.slice(at, at + word.length);
    small.append(mark);
  }
  const rest = at + (word === undefined ? 0 : word.length);
  small.append(text.slice(rest, rest + 90));
  return small;
}

function entry([url, title, heading, text], words) {
  const link = document.createElement("a");
  link.href = root + url;
  link.append(heading === "" ? title : `${title} · ${heading}`, excerpt(text, words));
  const item = document.createElement("li");
  item.append(link);
  return item;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  list.hidden = words.length === 0 || window.sections === undefined;
  if (list.hidden) {
    return;
  }
  const scored = window.sections.map((section) => [score(section, words), section]);
  const found = scored.filter(([points]) => points > 0).sort(([a], [b]) => b - a).slice(0, SHOWN);
  if (found.length === 0) {
    const none = document.createElement("p");
    none.textContent = "No page has all of these words.";
    list.replaceChildren(none);
  } else {
    list.replaceChildren(...found.map(([, section]) => entry(section, words)));
  }
}

field.addEventListener("focus", load);
field.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  const links = [...list.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const inSearch = document.activeElement === field || at >= 0;
  if (event.key === "/" && !inSearch) {
    field.focus();
  } else if (event.key === "Escape" && inSearch) {
    list.hidden = true;
    field.blur();
  } else if (event.key === "Enter" && document.activeElement === field && !list.hidden) {
    links[0]?.click();
  } else if (event.key === "ArrowDown" && inSearch) {
    links[at + 1]?.focus();
  } else if (event.key === "ArrowUp" && inSearch) {
    (links[at - 1] ?? field).focus();
  } else {
    return;
  }
  event.preventDefault();
});
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) {
    list.hidden = true;
  }
});
