// Finds what people most want to know about a model in its metadata, whatever the format calls it.

// A title, and patterns for the end of its keys. The first pattern that matches a key counts.
const ASKED = [
  ["name", [/^general\.name$/, /(^|\.)model_name$/, /^name$/]],
  ["architecture", [/^general\.architecture$/, /(^|\.)architectures?$/, /(^|\.)model_type$/]],
  ["license", [/^general\.license$/, /(^|\.)licen[sc]e(\.(name|spdx|id))?$/]],
  ["author", [/^general\.(author|organization)$/, /(^|\.)(authors?|organization)$/]],
  ["context", [/(^|\.)(context_length|max_position_embeddings|n_ctx|n_positions|max_seq_len(gth)?)$/]],
  ["tokenizer", [/^tokenizer\.ggml\.model$/, /(^|\.)tokenizer(_class|_type|\.(model|type|class))?$/]],
  ["vocabulary", [/(^|\.)(vocab_size|vocabulary_size)$/]],
  ["layers", [/(^|\.)(block_count|num_hidden_layers|n_layers?|num_layers)$/]],
  ["width", [/(^|\.)(embedding_length|hidden_size|d_model|hidden_dim|n_embd)$/]],
  ["heads", [/(^|\.)(attention\.head_count|num_attention_heads|n_heads?|num_heads)$/]],
  ["quantized as", [/^general\.file_type$/, /(^|\.)(quant_method|quantization)$/]],
];
const LONGEST = 80;
const DEEPEST = 3;

// `entries` are those of "metadata": [{ key, text, is_cut }]. Returns [title, value] for everything that is
// found.
export function about(entries) {
  const flat = entries.flatMap(({ key, text, is_cut: isCut }) => (isCut ? [[key, text]] : flattened(key, text)));
  const found = (patterns) => {
    for (const pattern of patterns) {
      const entry = flat.find(([key, text]) => pattern.test(key) && text !== "" && text !== "null");
      if (entry) return brief(entry[1]);
    }
    return null;
  };
  return ASKED.map(([title, patterns]) => [title, found(patterns)]).filter(([, value]) => value !== null);
}

// Returns the leaves below a value that may be JSON.
function flattened(key, text) {
  if (!/^[{[]/.test(text)) return [[key, text]];
  try {
    return leaves(key, JSON.parse(text), 0);
  } catch {
    return [[key, text]];
  }
}

function leaves(key, value, depth) {
  if (value === null || typeof value !== "object") return [[key, String(value)]];
  // Short lists, such as of architectures or authors, are shown as one value.
  if (Array.isArray(value)) return value.length <= 4 && value.every((one) => typeof one !== "object") ? [[key, value.join(", ")]] : [];
  return depth === DEEPEST ? [] : Object.entries(value).flatMap(([name, inner]) => leaves(`${key}.${name}`, inner, depth + 1));
}

function brief(text) {
  const line = text.replace(/\s+/g, " ").trim();
  const number = /^\d{4,15}$/.test(line) ? Number(line).toLocaleString("en-US") : line;
  return number.length > LONGEST ? `${number.slice(0, LONGEST)}…` : number;
}
