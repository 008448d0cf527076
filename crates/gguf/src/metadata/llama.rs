//! The metadata types that llama.cpp expects. It refuses a key of another type, and JSON does not say which
//! type is meant (docs/formats/gguf.md#types-of-values-from-json).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// The types of keys that every model may have.
const COMMON: &[(&str, &str)] = &[
    ("adapter.lora.alpha", "f32"),
    ("general.alignment", "u32"),
    ("general.file_type", "u32"),
    ("general.quantization_version", "u32"),
    ("tokenizer.ggml.scores", "f32[]"),
    ("tokenizer.ggml.token_type", "i32[]"),
    ("tokenizer.ggml.token_type_count", "u32"),
];

/// The parts after the architecture of keys whose values are u32.
const NUMBERS: &[&str] = &[
    "attention.group_norm_groups",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.key_length_mla",
    "attention.kv_lora_rank",
    "attention.q_lora_rank",
    "attention.relative_buckets_count",
    "attention.sliding_window",
    "attention.value_length",
    "attention.value_length_mla",
    "block_count",
    "context_length",
    "decoder_start_token_id",
    "embedding_length",
    "expert_count",
    "expert_feed_forward_length",
    "expert_gating_func",
    "expert_group_count",
    "expert_group_used_count",
    "expert_shared_count",
    "expert_shared_feed_forward_length",
    "expert_used_count",
    "feed_forward_length",
    "interleave_moe_layer_step",
    "leading_dense_block_count",
    "nextn_predict_layers",
    "pooling_type",
    "rescale_every_n_layers",
    "rope.dimension_count",
    "rope.scaling.original_context_length",
    "shortconv.l_cache",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "time_decay_extra_dim",
    "time_mix_extra_dim",
    "token_shift_count",
    "vocab_size",
    "wkv.head_size",
];

/// The parts after the architecture of keys whose values are f32.
const FLOATS: &[&str] = &[
    "attention.clamp_kqv",
    "attention.group_norm_epsilon",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.max_alibi_bias",
    "attention.scale",
    "attn_logit_softcapping",
    "embedding_scale",
    "expert_weights_scale",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.yarn_log_multiplier",
];

/// Returns the name of the type that llama.cpp expects, or `None` for a key that it does not read, or accepts
/// in several types.
#[must_use]
pub fn llama_type(key: &str) -> Option<&'static str> {
    if let Some((_, name)) = COMMON.iter().find(|(common, _)| *common == key) {
        return Some(name);
    }
    let (first, rest) = key.split_once('.')?;
    match first {
        "tokenizer" => (rest.starts_with("ggml.") && rest.ends_with("_token_id")).then_some("u32"),
        "general" | "split" | "adapter" => None,
        _ if NUMBERS.contains(&rest) => Some("u32"),
        _ if FLOATS.contains(&rest) => Some("f32"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_may_be_any() {
        for (key, name) in [
            ("llama.block_count", Some("u32")),
            ("qwen2moe.rope.freq_base", Some("f32")),
            ("tokenizer.ggml.eos_token_id", Some("u32")),
            ("tokenizer.chat_template", None),
            ("general.block_count", None),
            ("llama.rope.scaling.type", None),
            ("answer", None),
        ] {
            assert_eq!(llama_type(key), name, "{key}");
        }
    }
}
