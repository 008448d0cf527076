// Runs all checks of the file, and names each.
import { fill, h } from "./elements.js";
import { policy } from "./policy.js";
import { watched } from "./progress.js";
import { count, counted } from "./units.js";

const LEVELS = [
  ["full", "everything", "every byte that a hash, a checksum or a rule covers"],
  ["control", "structure and metadata", "also the checksums of structure and metadata"],
  ["header", "structure", "the index and its rules; nothing is hashed"],
];
const WORDS = { ok: "ok", failed: "failed", absent: "none in this file" };

export function verify(element, model, tools) {
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
      const chosen = signature.files[0] ?? beside?.blob;
      const signed = await signedBy(chosen, signers.files);
      const total = (level.value === "full" ? model.summary.file_size : 0) + (signed ? model.summary.file_size : 0);
      const answer = await watched(status, "Verifying", total, (told) => model.verify({ level: level.value, ...signed }, told));
      const name = signature.files[0]?.name ?? beside?.name;
      const unchecked = chosen && !signed && h("p", { id: "unchecked" }, `${name} was not looked at: give the public key of the signer.`);
      fill(result, answer ? [report(answer.value, level.value, performance.now() - started, model, tools), unchecked] : h("p", { class: "quiet" }, "Stopped."));
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
    policy(model),
  );
}

// Returns the job's arguments for a signature and its signers' keys; null without keys.
async function signedBy(signature, keys) {
  const LONGEST = 16 << 20;
  if (keys.length === 0) return null;
  if (!signature) throw new Error("Give the file with the signature too, NAME.sig.");
  if (signature.size > LONGEST) throw new Error(`A signature of ${signature.size} bytes is longer than any of a single file.`);
  return { signature: await signature.text(), signers: await Promise.all(Array.from(keys, (key) => key.text())) };
}

// Names of checks that cover the values.
const OF_VALUES = /crc|hash|sign|digest|encrypt/;

// A finding about a tensor begins with its name, as a string literal of Rust; in a set, the name of the file
// precedes it.
const OF_TENSOR = /(?:^|: )tensor "((?:[^"\\]|\\.)*)"/;

// Returns the tensors that have findings: the findings by tensor name.
export function byTensor(errors) {
  const found = new Map();
  for (const text of errors) {
    const name = OF_TENSOR.exec(text)?.[1];
    if (name === undefined) continue;
    const plain = unescaped(name);
    if (!found.has(plain)) found.set(plain, []);
    found.get(plain).push(text);
  }
  return found;
}

function unescaped(text) {
  const ONE = { n: "\n", r: "\r", t: "\t", 0: "\0" };
  const code = (digits) => (parseInt(digits, 16) <= 0x10ffff ? String.fromCodePoint(parseInt(digits, 16)) : "");
  return text.replace(/\\(?:u\{([0-9a-f]{1,6})\}|(.))/g, (_, digits, one) => (digits ? code(digits) : (ONE[one] ?? one)));
}

const NAMED = 3;

// Describes the faults in a sentence: the tensors first, if only some are affected.
function verdictOf(errors, checks, model, tools) {
  const tensors = byTensor(errors);
  const failed = checks.filter(({ status }) => status === "failed").map(({ name }) => name);
  if (tensors.size === 0) return ["This file is damaged, or breaks a rule of its format: ", failed.join(", "), "."];
  const isDamage = [...tensors.values()].every((texts) => texts.some((text) => /damaged/.test(text)));
  const [one, many] = isDamage ? ["is damaged", "are damaged"] : ["breaks a rule", "break a rule"];
  const name = (text) => h("button", { type: "button", class: "link name", onclick: () => tools.showTensor(text) }, text || "(no name)");
  const names = [...tensors.keys()];
  const shown = names.slice(0, NAMED).flatMap((text, i) => [i > 0 && ", ", name(text)]);
  const all = model.summary.tensors;
  const rest = names.length > NAMED && ` and ${count(names.length - NAMED)} more`;
  return [`${count(names.length)} of ${counted(all, "tensor")} ${names.length === 1 ? one : many}: `, shown, rest, "."];
}

function report({ ok, checks, errors }, level, milliseconds, model, tools) {
  const made = checks.filter(({ status }) => status === "ok");
  const verdict = ok ? `Nothing is wrong (${counted(made.length, "check")}, ${(milliseconds / 1000).toFixed(1)}\u00a0s).` : verdictOf(errors, checks, model, tools);
  const row = ({ name, status, detail }) =>
    h("tr", { class: status },
      h("th", { scope: "row" }, name),
      h("td", { class: "status" }, WORDS[status]),
      h("td", {}, detail),
    );
  // Failed checks come first.
  const rank = { failed: 0, ok: 1, absent: 2 };
  const sorted = [...checks].sort((a, b) => rank[a.status] - rank[b.status]);
  const isBare = ok && level === "full" && !made.some(({ name }) => OF_VALUES.test(name));
  const told = checks.filter(({ status }) => status === "failed").length;
  const more = errors.length > told && [h("h3", {}, `All ${errors.length} findings`), h("ul", { class: "findings" }, errors.slice(0, 1000).map((text) => h("li", {}, text)))];
  return [
    h("p", { class: ok ? "verdict good" : "verdict bad", id: "verdict" }, verdict),
    isBare && h("p", { class: "quiet", id: "bare" }, "This file carries no hash and no checksum, so nobody can see whether its values have changed. AERO and APR2 carry them."),
    h("div", { class: "card" }, h("table", { class: "entries checks" }, h("tbody", {}, sorted.map(row)))),
    more,
  ];
}
