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
  const signature = h("input", { type: "file", id: "signature", accept: ".sig" });
  const signers = h("input", { type: "file", id: "signers", multiple: true, accept: ".pub,.pem" });
  const beside = model.files.find(({ name, blob }) => blob && name === `${model.name}.sig`);
  const run = h("button", { type: "button", class: "primary", id: "verify" }, "Verify");
  const status = h("div", { role: "status" });
  const result = h("div", { id: "report" });
  run.onclick = async () => {
    run.disabled = true;
    fill(result);
    const started = performance.now();
    try {
      const signed = await signedBy(signature.files[0] ?? beside?.blob, signers.files);
      const total = (level.value === "full" ? model.summary.file_size : 0) + (signed ? model.summary.file_size : 0);
      const answer = await watched(status, "Verifying", total, (told) => model.verify({ level: level.value, ...signed }, told));
      const unchecked = beside && !signed && h("p", { id: "unchecked" }, `${beside.name} was not looked at: give the public key of the signer.`);
      fill(result, answer ? [report(answer.value, level.value, performance.now() - started), unchecked] : h("p", { class: "quiet" }, "Stopped."));
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
    h("details", { class: "card", id: "beside", open: Boolean(beside) },
      h("summary", {}, "A signature beside the file (OpenSSF Model Signing)"),
      h("div", { class: "form" },
        h("label", { for: "signature" }, "Signature"), h("div", {}, beside && h("p", { class: "name" }, beside.name), signature),
        h("label", { for: "signers" }, "Public keys"), signers,
        h("span"), h("span", { class: "quiet" }, "Keys (ECDSA, PEM) of those whom you trust. Every byte of the file must be what one of them signed."),
      ),
    ),
    status,
    result,
  );
}

// What the job takes of a signature and of keys of signers; nothing without keys.
async function signedBy(signature, keys) {
  const LONGEST = 16 << 20;
  if (keys.length === 0) return null;
  if (!signature) throw new Error("Give the file with the signature too, NAME.sig.");
  if (signature.size > LONGEST) throw new Error(`A signature of ${signature.size} bytes is longer than any of a single file.`);
  return { signature: await signature.text(), signers: await Promise.all(Array.from(keys, (key) => key.text())) };
}

// Names of checks that look at what the values are.
const OF_VALUES = /crc|hash|sign|digest|encrypt/;

function report({ ok, checks, errors }, level, milliseconds) {
  const made = checks.filter(({ status }) => status === "ok");
  const verdict = ok ? `Nothing is wrong (${made.length} ${made.length === 1 ? "check" : "checks"}, ${(milliseconds / 1000).toFixed(1)}\u00a0s).` : "This file is damaged, or breaks a rule of its format.";
  const row = ({ name, status, detail }) =>
    h("tr", { class: status },
      h("th", { scope: "row" }, name),
      h("td", { class: "status" }, WORDS[status]),
      h("td", {}, detail),
    );
  const isBare = ok && level === "full" && !made.some(({ name }) => OF_VALUES.test(name));
  const more = errors.length > 1 && [h("h3", {}, `All ${errors.length} findings`), h("ul", { class: "findings" }, errors.slice(0, 1000).map((text) => h("li", {}, text)))];
  return [
    h("p", { class: ok ? "verdict good" : "verdict bad", id: "verdict" }, verdict),
    isBare && h("p", { class: "quiet", id: "bare" }, "This file carries no hash and no checksum, so nobody can see whether its values have changed. AERO and APR2 carry them."),
    h("div", { class: "card" }, h("table", { class: "entries checks" }, h("tbody", {}, checks.map(row)))),
    more,
  ];
}
