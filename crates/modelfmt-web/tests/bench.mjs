// Measures how fast the page verifies, compared with the program on one thread: node bench.mjs FOLDER [MIB]
// [ROUNDS]. Needs the variables of the tests, and an optimised program in MODELFMT_PROGRAM. `cargo xtask
// bench --web` builds what it needs and runs it.
//
// One worker, two workers and the program take turns, so that a change in the speed of the machine affects
// all of them. The first rounds do not count, because the browser optimises the code while it runs.
import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { basename, join } from "node:path";
import { start } from "./browser.mjs";
import { PROGRAM } from "./models.mjs";

const [folder, mib = "512", rounds = "7"] = process.argv.slice(2);
const WARM = 3;

// 16 tensors of f16 between -1 and 1, an eighth of them zeros; the same numbers each time.
function source(path, nbytes) {
  const each = Math.floor(nbytes / 16 / 2048) * 2048;
  const header = {};
  for (let i = 0; i < 16; i++) header[`layers.${i}.weight`] = { dtype: "F16", shape: [each / 2048, 1024], data_offsets: [i * each, (i + 1) * each] };
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const file = openSync(path, "w");
  writeSync(file, Buffer.concat([length, text]));
  let state = 1;
  const values = new Uint16Array(each / 2);
  for (let i = 0; i < 16; i++) {
    for (let at = 0; at < values.length; at++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      values[at] = Math.floor(at / 4096) % 8 === 0 ? 0 : ((state >>> 16) & 0x83ff) | (0x2c00 + ((state >>> 5) & 0x0c00));
    }
    writeSync(file, Buffer.from(values.buffer));
  }
  closeSync(file);
}

const CASES = [
  ["AERO, chunk hashes", "a.aero", ["--no-zstd"]],
  ["AERO, chunk, tensor and page hashes", "b.aero", ["--no-zstd", "--tensor-hashes", "--page-hashes"]],
  ["APR2", "a.apr", []],
  ["APR2 LZ4", "b.apr", ["--compress", "lz4"]],
];

function seconds(work) {
  const begin = performance.now();
  work();
  return (performance.now() - begin) / 1000;
}

// Returns the median, and a text with the smallest and the largest.
function spread(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return { median: sorted[sorted.length >> 1], text: `(${sorted[0].toFixed(2)}–${sorted.at(-1).toFixed(2)})` };
}

mkdirSync(folder, { recursive: true });
const browser = await start(process.env.MODELFMT_PAGE);
try {
  const plain = join(folder, "plain.safetensors");
  source(plain, Number(mib) * 2 ** 20);
  const page = await browser.page();
  for (const [title, name, flags] of CASES) {
    const path = join(folder, name);
    execFileSync(PROGRAM, ["convert", plain, path, "--quiet", ...flags]);
    await page.evaluate(() => {
      const input = document.createElement("input");
      Object.assign(input, { type: "file", id: "measured" });
      document.querySelector("#measured")?.remove();
      document.body.append(input);
    });
    await page.setInputFiles("#measured", path);
    const verify = (workers) =>
      page.evaluate(
        async ([name, workers]) => {
          const [{ job }, { inParts }] = [await import("./model.js"), await import("./parts.js")];
          const own = [{ name, blob: document.querySelector("#measured").files[0] }];
          const begin = (more, beside, told) => {
            const files = [...own, ...Object.entries(beside).map(([name, blob]) => ({ name, blob }))];
            return job(files, "verify", { name, level: "full", ...more }, told).done;
          };
          const started = performance.now();
          const { value } = await inParts(begin, workers);
          if (!value.ok) throw new Error(value.errors.join("; "));
          return (performance.now() - started) / 1000;
        },
        [basename(path), workers],
      );
    const [rates, faster, times] = [[], [], []];
    for (let round = -WARM; round < Number(rounds); round++) {
      const [one, two] = [await verify(1), await verify(2)];
      const native = seconds(() => execFileSync(PROGRAM, ["verify", "--quiet", "--threads", "1", path]));
      if (round < 0) continue;
      rates.push(native / one);
      faster.push(one / two);
      times.push([one, two, native]);
    }
    const gb = statSync(path).size / 1e9;
    const rate = (which) => (gb / spread(times.map((all) => all[which])).median).toFixed(2);
    const [share, two] = [spread(rates), spread(faster)];
    console.log(`web/verify, ${title}: ${share.median.toFixed(2)} × the program's rate ${share.text}, target ≥ 0.6; ${rate(0)} GB/s, the program ${rate(2)} GB/s`);
    console.log(`web/threads, ${title}: two workers ${two.median.toFixed(2)} × one ${two.text}, target ≥ 1.7; ${rate(1)} GB/s`);
    rmSync(path);
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
