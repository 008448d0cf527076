// A job with a bar and a button that stops it.
import { fill, h } from "./elements.js";
import { size } from "./units.js";

// Runs `begin(onProgress)`, which returns { done, stop }, and shows its progress in `element`, out of `total`
// bytes if that is known. Returns the result of the job, or null if it was stopped.
export async function watched(element, label, total, begin) {
  const bar = h("progress", { "aria-label": label });
  if (total > 0) Object.assign(bar, { max: total, value: 0 });
  const text = h("span", { class: "quiet" }, `${label}…`);
  const started = performance.now();
  const job = begin((done) => {
    if (total > 0) bar.value = Math.min(done, total);
    const rate = done / Math.max(0.001, (performance.now() - started) / 1000);
    fill(text, `${label}: ${size(done)}${total > 0 ? ` of ${size(total)}` : ""}, ${size(Math.round(rate))}/s`);
  });
  const stop = h("button", { type: "button", onclick: () => job.stop() }, "Stop");
  fill(element, h("div", { class: "progress" }, bar, text, stop));
  try {
    return await job.done;
  } catch (error) {
    if (error.code === "stopped") return null;
    throw error;
  } finally {
    fill(element);
  }
}
