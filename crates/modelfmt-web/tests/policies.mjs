// Policies about one model, and the program's verdicts.
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { demo } from "./demo.mjs";
import { PROGRAM } from "./models.mjs";

// Makes a folder with a model, its signature, a sealed one and keys. Returns the folder and [model, policy]
// for each case.
export function policies() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "modelfmt-policies-")));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const run = (...args) => execFileSync(PROGRAM, args, { cwd: folder, encoding: "utf8" });
  copyFileSync(demo(), join(folder, "m.aero"));
  copyFileSync(demo(), join(folder, "unsigned.aero"));
  for (const [name, type] of [["a", "p256"], ["b", "p256"], ["e", "ed25519"], ["f", "ed25519"]]) run("keygen", "--type", type, "-o", `${name}.pem`, "--quiet");
  for (const name of ["a", "b", "e", "f"]) copyFileSync(join(folder, `${name}.pem.pub`), join(folder, `${name}.pub`));
  run("sign", "m.aero", "--key", "a.pem", "--quiet");
  run("convert", "m.aero", "s.apr", "--to", "apr2", "--sign", "e.pem", "--quiet");
  const pins = JSON.parse(run("inspect", "m.aero", "--json")).pins;
  const aero = pins.find((pin) => pin.startsWith("aero:"));
  const b3 = `b3:${run("outboard", "unsigned.aero", "--quiet").trim()}`;
  // The page does not get this file.
  rmSync(join(folder, "unsigned.aero.obao4"));
  const zeros = "0".repeat(64);
  const rule = (rest, match = `${folder}/**`) => `[[rule]]\nmatch = ["${match}"]\n${rest}\n`;
  const cases = [
    ["m.aero", ""],
    ["m.aero", 'default = "allow"'],
    ["m.aero", rule("", "/elsewhere/**")],
    ["m.aero", rule("")],
    ["m.aero", rule('formats = ["aero"]')],
    ["m.aero", rule('formats = ["gguf", "safetensors"]')],
    ["m.aero", rule(`pins = { "m.aero" = "${aero}" }`)],
    ["m.aero", rule(`pins = { "m.aero" = "aero:${zeros}" }`)],
    ["m.aero", rule(`pins = { "m.aero" = "${b3}" }`)],
    ["unsigned.aero", rule(`pins = { "unsigned.aero" = "b3:${zeros}" }`)],
    ["m.aero", rule('keys = ["a.pub"]')],
    ["m.aero", rule('keys = ["b.pub"]')],
    ["m.aero", rule('keys = ["b.pub", "a.pub"]')],
    ["m.aero", rule('keys = ["e.pub"]')],
    ["m.aero", rule('keys = ["a.pub", "b.pub"]\nthreshold = 2')],
    ["unsigned.aero", rule('keys = ["a.pub"]')],
    ["m.aero", rule("min_revision = 1")],
    ["s.apr", rule('keys = ["e.pub"]')],
    ["s.apr", rule('keys = ["f.pub"]')],
    ["s.apr", rule('keys = ["e.pub", "f.pub"]\nthreshold = 2')],
    ["s.apr", rule('keys = ["a.pub", "e.pub"]')],
    ["s.apr", rule('keys = ["e.pub"]\nmin_revision = 99')],
    ["s.apr", rule('formats = ["apr2"]')],
  ];
  return { folder, cases };
}

// Returns the program's verdict: { allowed, said }.
export function judged(folder, model, policy) {
  const path = join(folder, "policy.toml");
  writeFileSync(path, policy);
  const { status, stderr } = spawnSync(PROGRAM, ["inspect", "--json", model, "--policy", "policy.toml"], { cwd: folder, encoding: "utf8" });
  return { allowed: status === 0, said: status === 0 ? "" : JSON.parse(stderr).error };
}

// Returns the keys that these policies name, by those names.
export function keys(folder) {
  return Object.fromEntries(["a", "b", "e", "f"].map((name) => [`${name}.pub`, readFileSync(join(folder, `${name}.pub`), "utf8")]));
}
