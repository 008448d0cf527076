//! GGUF's names of tensors, and the corresponding names in Hugging Face checkpoints.

use std::borrow::Cow;

/// The name of a tensor that the rules match.
pub(super) struct Canonical<'a> {
    /// GGUF's name, or the tensor's own name if none is known.
    pub(super) name: Cow<'a, str>,
    /// The expert of the layer that the tensor belongs to, if each expert has tensors of its own.
    pub(super) expert: Option<u64>,
}

/// Prefixes of all tensor names of a model.
const WRAPPERS: &[&str] = &[
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "model.",
    "transformer.",
    "gpt_neox.",
    "backbone.",
    "bert.",
    "roberta.",
    "distilbert.",
];

/// Prefixes before the number of a layer.
const LAYERS: &[&str] = &["layers.", "h.", "blocks.", "encoder.layer.", "transformer.layer.", "layer."];

/// Tensors outside of layers: GGUF's name, then Hugging Face's names.
const GLOBALS: &[(&str, &[&str])] = &[
    (
        "token_embd",
        &[
            "embed_tokens",
            "tok_embeddings",
            "wte",
            "word_embeddings",
            "embed_in",
            "embeddings.word_embeddings",
            "embedding",
            "embeddings",
        ],
    ),
    ("output", &["lm_head", "embed_out"]),
    ("position_embd", &["wpe", "embeddings.position_embeddings"]),
    ("token_types", &["embeddings.token_type_embeddings"]),
];

/// Tensors of layers: GGUF's name, then Hugging Face's names.
const PARTS: &[(&str, &[&str])] = &[
    (
        "attn_q",
        &["self_attn.q_proj", "attn.q_proj", "attention.wq", "attention.self.query", "attention.q_lin"],
    ),
    ("attn_k", &["self_attn.k_proj", "attn.k_proj", "attention.wk", "attention.self.key", "attention.k_lin"]),
    (
        "attn_v",
        &["self_attn.v_proj", "attn.v_proj", "attention.wv", "attention.self.value", "attention.v_lin"],
    ),
    (
        "attn_qkv",
        &[
            "self_attn.qkv_proj",
            "self_attn.query_key_value",
            "self_attention.query_key_value",
            "attention.query_key_value",
            "attn.c_attn",
            "attn.Wqkv",
        ],
    ),
    ("attn_kv_b", &["self_attn.kv_b_proj"]),
    (
        "attn_output",
        &[
            "self_attn.o_proj",
            "self_attn.out_proj",
            "self_attn.dense",
            "self_attention.dense",
            "attention.dense",
            "attention.wo",
            "attention.output.dense",
            "attention.out_lin",
            "attn.c_proj",
            "attn.out_proj",
        ],
    ),
    ("ffn_gate", &["mlp.gate_proj", "feed_forward.w1", "feed_forward.gate_proj"]),
    (
        "ffn_up",
        &[
            "mlp.up_proj",
            "mlp.gate_up_proj",
            "mlp.c_fc",
            "mlp.fc1",
            "mlp.fc_in",
            "mlp.dense_h_to_4h",
            "feed_forward.w3",
            "feed_forward.up_proj",
            "intermediate.dense",
            "ffn.lin1",
            "ffn.up_proj",
        ],
    ),
    (
        "ffn_down",
        &[
            "mlp.down_proj",
            "mlp.c_proj",
            "mlp.fc2",
            "mlp.fc_out",
            "mlp.dense_4h_to_h",
            "feed_forward.w2",
            "output.dense",
            "ffn.lin2",
            "ffn.down_proj",
        ],
    ),
    (
        "ffn_gate_inp",
        &["mlp.gate", "mlp.router", "block_sparse_moe.gate", "feed_forward.gate", "feed_forward.router"],
    ),
    ("ffn_gate_inp_shexp", &["mlp.shared_expert_gate"]),
    (
        "ffn_gate_exps",
        &[
            "mlp.experts.gate_proj",
            "block_sparse_moe.experts.w1",
            "feed_forward.experts.w1",
            "feed_forward.experts.gate_proj",
        ],
    ),
    (
        "ffn_up_exps",
        &[
            "mlp.experts.up_proj",
            "block_sparse_moe.experts.w3",
            "feed_forward.experts.w3",
            "feed_forward.experts.up_proj",
        ],
    ),
    (
        "ffn_down_exps",
        &[
            "mlp.experts.down_proj",
            "block_sparse_moe.experts.w2",
            "feed_forward.experts.w2",
            "feed_forward.experts.down_proj",
        ],
    ),
    (
        "ffn_gate_shexp",
        &[
            "mlp.shared_expert.gate_proj",
            "mlp.shared_experts.gate_proj",
            "feed_forward.shared_expert.gate_proj",
        ],
    ),
    (
        "ffn_up_shexp",
        &["mlp.shared_expert.up_proj", "mlp.shared_experts.up_proj", "feed_forward.shared_expert.up_proj"],
    ),
    (
        "ffn_down_shexp",
        &[
            "mlp.shared_expert.down_proj",
            "mlp.shared_experts.down_proj",
            "feed_forward.shared_expert.down_proj",
        ],
    ),
    ("ssm_conv1d", &["mixer.conv1d", "linear_attn.conv1d"]),
];

impl<'a> Canonical<'a> {
    pub(super) fn of(name: &'a str) -> Self {
        Self::known(name).unwrap_or(Self { name: Cow::Borrowed(name), expert: None })
    }

    fn known(name: &str) -> Option<Self> {
        if name.starts_with("blk.") {
            return None;
        }
        let (stem, suffix) =
            name.rsplit_once('.').filter(|(_, suffix)| matches!(*suffix, "weight" | "bias"))?;
        let inner = WRAPPERS.iter().find_map(|wrapper| stem.strip_prefix(wrapper)).unwrap_or(stem);
        if let Some(global) = gguf_name(GLOBALS, inner) {
            return Some(Self { name: format!("{global}.{suffix}").into(), expert: None });
        }
        // Some models have another prefix before their layers: `transformer.layer.0`, `transformer.h.0`.
        let (layer, part) = layer_of(inner).or_else(|| layer_of(stem))?;
        let (part, expert) = without_expert(part);
        let part = gguf_name(PARTS, &part)?;
        Some(Self { name: format!("blk.{layer}.{part}.{suffix}").into(), expert })
    }

    /// Returns the number of the tensor's layer; `None` outside of layers.
    pub(super) fn layer(&self) -> Option<u64> {
        self.number_after("blk.")
    }

    /// Returns the number of the tensor's layer in an encoder that has a decoder beside it, as in T5.
    pub(super) fn encoder_layer(&self) -> Option<u64> {
        self.number_after("enc.blk.")
    }

    fn number_after(&self, prefix: &str) -> Option<u64> {
        let rest = self.name.strip_prefix(prefix)?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        // A number above `u32::MAX` does not count as a layer.
        digits.parse::<u32>().ok().map(u64::from)
    }

    /// Returns the key by which llama.cpp sorts tensors. Tensors outside of layers come first.
    pub(super) fn order(&self) -> (Option<u64>, &str) {
        (self.layer(), &self.name)
    }
}

fn gguf_name(table: &[(&'static str, &[&str])], name: &str) -> Option<&'static str> {
    table.iter().find(|(_, known)| known.contains(&name)).map(|&(gguf, _)| gguf)
}

/// Splits the number of the layer from the rest of a name, such as `layers.3.mlp.up_proj`.
fn layer_of(name: &str) -> Option<(u32, &str)> {
    LAYERS.iter().find_map(|layers| {
        let (number, rest) = name.strip_prefix(layers)?.split_once('.')?;
        Some((number.parse().ok()?, rest))
    })
}

/// Removes the number of the expert from the rest of a name, such as `mlp.experts.5.up_proj`.
fn without_expert(part: &str) -> (Cow<'_, str>, Option<u64>) {
    const EXPERTS: &str = ".experts.";
    let found = part.split_once(EXPERTS).and_then(|(before, after)| {
        let (number, after) = after.split_once('.')?;
        Some((before, number.parse::<u32>().ok()?, after))
    });
    match found {
        Some((before, number, after)) => (format!("{before}{EXPERTS}{after}").into(), Some(number.into())),
        None => (part.into(), None),
    }
}
