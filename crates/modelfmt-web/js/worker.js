// A worker in a browser.
import { ofChannel } from "./channel.js";
import { isNote } from "./parts.js";
import { scratch } from "./scratch.js";
import { serving } from "./serving.js";
import { besideUrl, ofBlob, ofUrl, whole } from "./sources.js";

const post = (message, transfer = []) => self.postMessage(message, transfer);

const answer = serving(post, {
  scratch,
  work: () => new WebAssembly.Module(whole(new URL("./modelfmt-work.wasm", import.meta.url))),
  source(file) {
    if (file.channel) return ofChannel(file, post);
    return file.url ? ofUrl(file.url) : ofBlob(file.blob);
  },
  // If the index of a set has a URL, the other files are in the same folder.
  missing(files) {
    const [first, ...others] = files.filter((file) => !isNote(file));
    return first?.url && others.length === 0 ? (name) => besideUrl(first.url, name) : null;
  },
});
self.onmessage = ({ data }) => answer(data);
