// A worker in Node.
import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { ofChannel } from "./channel.js";
import { serving } from "./serving.js";

const post = (message, transfer = []) => parentPort.postMessage(message, transfer);

function ofPath(path) {
  const file = openSync(path);
  return {
    size: fstatSync(file).size,
    read(offset, out) {
      for (let done = 0; done < out.length; ) {
        const got = readSync(file, out, done, out.length - done, offset + done);
        if (got === 0) throw new Error("the file is shorter than it was");
        done += got;
      }
    },
  };
}

// Output first goes to a temporary file, which is handed over when it is complete. The other thread has chosen
// its path, and removes it.
function scratch(path) {
  const file = openSync(path, "wx+", 0o600);
  return {
    write(offset, bytes) {
      for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done, bytes.length - done, offset + done);
    },
    read(offset, out) {
      let done = 0;
      for (let got = 1; got > 0 && done < out.length; done += got) got = readSync(file, out, done, out.length - done, offset + done);
      out.fill(0, done);
    },
    resize: (size) => ftruncateSync(file, size),
    finish() {
      closeSync(file);
      return { scratch: path };
    },
    abandon: () => closeSync(file),
  };
}

parentPort.on(
  "message",
  serving(post, {
    scratch,
    work: () => new WebAssembly.Module(readFileSync(new URL("./modelfmt-work.wasm", import.meta.url))),
    source: (file) => (file.path ? ofPath(file.path) : ofChannel(file, post)),
  }),
);
