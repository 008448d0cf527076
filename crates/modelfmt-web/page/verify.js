// Checks everything that the file says of itself, and names every check.
import { fill, h } from "./elements.js";
import { watched } from "./progress.js";

const LEVELS = [
  ["full", "everything", "every byte that a hash, a checksum or a rule covers"],
  ["control", "structure and metadata", "also the checksums of structure and metadata"],
  ["header", "structure", "the index and its rules; nothing is hashed"],
];
const WORDS = { ok: "ok", failed: "failed", absent: "none in this file" };

export function verify(element, model) {
  const level = h("select", { id: "level" }, LEVELS.map(([value, title, what]) => h("option", { value }, `${title}: ${what}`)));
  const run = h("button", { type: "button", class: "primary", id: "verify" }, "Verify");
  const status = h("div", { role: "status" });
  const result = h("div", { id: "report" });
  run.onclick = async () => {
    run.disabled = true;
    fill(result);
    const started = performance.now();
    try {
      const total = level.value === "full" ? model.summary.file_size : 0;
      const answer = await watched(status, "Verifying", total, (told) => model.job("verify", { level: level.value }, told));
      fill(result, answer ? report(answer.value, performance.now() - started) : h("p", { class: "quiet" }, "Stopped."));
    } catch (error) {
      fill(result, h("p", { class: "problem" }, error.message));
    } finally {
      run.disabled = false;
    }
  };
  fill(
    element,
    h("p", {}, "A file can carry hashes and checksums. This computes them anew and compares."),
    h("div", { class: "line" }, h("label", { for: "level" }, "Check"), level, run),
    status,
    result,
  );
}

function report({ ok, checks, errors }, milliseconds) {
  const made = checks.filter(({ status }) => status === "ok");
  const verdict = ok ? `Nothing is wrong (${made.length} ${made.length === 1 ? "check" : "checks"}, ${(milliseconds / 1000).toFixed(1)} s).` : "This file is damaged, or breaks a rule of its format.";
  const row = ({ name, status, detail }) =>
    h("tr", { class: status },
      h("th", { scope: "row" }, name),
      h("td", { class: "status" }, WORDS[status]),
      h("td", {}, detail),
    );
  const more = errors.length > 1 && [h("h3", {}, `All ${errors.length} findings`), h("ul", { class: "findings" }, errors.slice(0, 1000).map((text) => h("li", {}, text)))];
  return [
    h("p", { class: ok ? "verdict good" : "verdict bad", id: "verdict" }, verdict),
    h("div", { class: "card" }, h("table", { class: "entries checks" }, h("tbody", {}, checks.map(row)))),
    more,
  ];
}
