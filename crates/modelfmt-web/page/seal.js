// Shows who has signed a sealed file, and a form for the keys that open it. A key goes only from the form to
// the workers of this page.
import { h } from "./elements.js";

// Returns null for a file that is neither signed nor encrypted. `reopen` opens the model again with keys.
export function seal({ signatures, encryption }, { reopen, fail }) {
  const signers = signatures ?? [];
  if (signers.length === 0 && !encryption) return null;
  return h("div", { id: "seal" },
    signers.length > 0 ? h("ul", { class: "signers" }, signers.map(signer)) : h("p", {}, "Nobody has signed it."),
    encryption && h("p", { id: "encryption" }, encrypted(encryption)),
    form(encryption, reopen, fail),
  );
}

function signer({ algorithm, key_id: id, is_named: isTrusted }) {
  const verdict = isTrusted
    ? h("span", { class: "good" }, "signed by the key that you gave: index, metadata and every tensor are what was signed, and each read is checked")
    : h("span", { class: "quiet" }, "not checked: give the signer's public key, from a place that you trust");
  return h("li", {}, h("code", {}, id ? `${id.slice(0, 16)}…` : "a key without a name"), ` ${algorithm}, `, verdict);
}

function encrypted({ recipients, is_open: isOpen, hides_index: hidesIndex }) {
  const who = recipients.length === 1 ? "One key or passphrase opens it" : `${recipients.length} keys or passphrases open it`;
  if (isOpen) return `Encrypted, and open here. ${who}.`;
  return `Encrypted${hidesIndex ? ", names and shapes too" : ", except names and shapes"}. ${who}.`;
}

function form(encryption, reopen, fail) {
  const passphrase = h("input", { type: "password", id: "passphrase", autocomplete: "off" });
  const files = h("input", { type: "file", id: "keys", multiple: true });
  const isLocked = encryption && !encryption.is_open;
  const element = h("form", { class: "form" },
    isLocked && [h("label", { for: "passphrase" }, "Passphrase"), passphrase],
    h("label", { for: "keys" }, "Key files"), files,
    h("span"), h("div", {}, h("button", { type: "submit", class: "primary", id: "unseal" }, isLocked ? "Open with these" : "Check with these")),
    h("span"), h("span", { class: "quiet" }, "Public keys of signers, X25519 keys (PEM) or keys of 32 bytes. They stay in this page."),
  );
  element.onsubmit = async (event) => {
    event.preventDefault();
    try {
      const keys = await Promise.all(Array.from(files.files, text));
      if (keys.length === 0 && !passphrase.value) throw new Error("Choose a key file, or give a passphrase.");
      await reopen({ passphrase: passphrase.value || null, files: keys.length > 0 ? keys : null }, element);
    } catch (error) {
      fail(error);
    }
  };
  return element;
}

// Returns the text of a key file; bytes as hex digits.
async function text(file) {
  const LONGEST = 64 << 10;
  const bytes = new Uint8Array(await file.slice(0, LONGEST).arrayBuffer());
  if (bytes.length !== 32) return new TextDecoder().decode(bytes);
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
