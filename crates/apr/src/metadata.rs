//! The metadata section: JSON, and what aprender's tools require of the keys that they know.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use modelfmt_core::author::parse_object;
use modelfmt_core::value::{JsonObject, KeyError, Object, ParseOptions, Value};
use modelfmt_core::{Limits, Part};

use crate::error::{Fault, Result, WriteError, unfit};

/// The metadata of a model: a complete JSON object, in file order. If a key occurs several times, the last
/// value counts, as in aprender's tools (docs/formats/apr.md#metadata).
///
/// The JSON text is checked when the file is opened. It is parsed into a tree on first use, because a tree
/// takes up to ten times the memory of its text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata(JsonObject);

/// The type that a value must have for aprender's tools to read the metadata at all
/// (docs/formats/apr.md#keys-that-upstream-cannot-read).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    TextOrNull,
    Count,
    CountOrNull,
    NumberOrNull,
    Quantization,
    Sharding,
    SpecialTokens,
}

/// The keys that aprender's tools know. Any other key may have any value.
const KEYS: &[(&str, Kind)] = &[
    ("model_type", Kind::Text),
    ("name", Kind::TextOrNull),
    ("description", Kind::TextOrNull),
    ("author", Kind::TextOrNull),
    ("license", Kind::TextOrNull),
    ("data_source", Kind::TextOrNull),
    ("data_license", Kind::TextOrNull),
    ("version", Kind::TextOrNull),
    ("source", Kind::TextOrNull),
    ("original_format", Kind::TextOrNull),
    ("created_at", Kind::TextOrNull),
    ("total_size", Kind::Count),
    ("param_count", Kind::Count),
    ("quantization", Kind::Quantization),
    ("sharding", Kind::Sharding),
    ("chat_template", Kind::TextOrNull),
    ("chat_format", Kind::TextOrNull),
    ("special_tokens", Kind::SpecialTokens),
    ("architecture", Kind::TextOrNull),
    ("hf_architecture", Kind::TextOrNull),
    ("hf_model_type", Kind::TextOrNull),
    ("hidden_size", Kind::CountOrNull),
    ("num_layers", Kind::CountOrNull),
    ("num_heads", Kind::CountOrNull),
    ("num_kv_heads", Kind::CountOrNull),
    ("vocab_size", Kind::CountOrNull),
    ("intermediate_size", Kind::CountOrNull),
    ("max_position_embeddings", Kind::CountOrNull),
    ("rope_theta", Kind::NumberOrNull),
    ("rope_type", Kind::CountOrNull),
    ("rms_norm_eps", Kind::NumberOrNull),
    ("head_dim", Kind::CountOrNull),
    ("num_experts", Kind::CountOrNull),
    ("num_experts_per_tok", Kind::CountOrNull),
    ("moe_intermediate_size", Kind::CountOrNull),
];

/// Groups of spellings of one key. If a file has two spellings from a group, aprender's serving program does
/// not read its metadata.
const ALIASES: &[&[&str]] = &[
    &["hidden_size", "hidden_dim", "d_model", "n_embd"],
    &["num_layers", "num_hidden_layers", "n_layers", "n_layer"],
    &["num_heads", "num_attention_heads", "n_heads", "n_head"],
    &["num_kv_heads", "num_key_value_heads", "n_kv_heads"],
    &["vocab_size", "n_vocab"],
    &["intermediate_size", "ffn_dim", "intermediate_dim", "n_inner"],
    &["max_position_embeddings", "max_seq_len", "context_length", "n_ctx"],
    &["rms_norm_eps", "layer_norm_eps", "norm_eps"],
];

/// The key of the model's tokens, in the order of their numbers.
const VOCABULARY: &str = "tokenizer.vocabulary";

impl Metadata {
    /// Returns whether the metadata has the model's tokens. `apr run` looks for them only in a file with
    /// [`Flags::HAS_VOCAB`](crate::Flags::HAS_VOCAB) (docs/formats/apr.md#vocabulary).
    #[must_use]
    pub fn has_vocabulary(&self) -> bool {
        let tokens = self.object().get(VOCABULARY).and_then(Value::as_array);
        tokens.is_some_and(|tokens| !tokens.is_empty())
    }

    /// Creates metadata with `model_type`, which every file has, and other keys.
    #[must_use]
    pub fn new(model_type: &str, others: Object) -> Self {
        let mut object = Object::new();
        object.insert("model_type", model_type);
        object.extend(others);
        object.into()
    }

    /// Parses the metadata section, which begins at byte `at` of the file.
    pub(crate) fn parse(text: &[u8], at: u64, limits: &Limits) -> Result<Self> {
        let depth = u32::try_from(limits.depth).unwrap_or(u32::MAX);
        let options = ParseOptions::new().with_max_depth(depth).with_last_of_repeated();
        Ok(Self(parse_object(text, at, options)?))
    }

    /// Returns all keys, in the order of the file.
    #[must_use]
    pub fn object(&self) -> &Object {
        self.0.object()
    }

    /// Returns a new tree of all keys, equal to [`object`](Self::object). The metadata does not keep a copy
    /// of it.
    #[must_use]
    pub fn to_object(&self) -> Object {
        self.0.to_object()
    }

    /// Converts the metadata into the tree of all keys.
    #[must_use]
    pub fn into_object(self) -> Object {
        self.0.into_object()
    }

    /// Returns the kind of model, such as `llama`.
    ///
    /// # Errors
    /// If the key is missing or not a string.
    pub fn model_type(&self) -> Result<&str, KeyError> {
        self.object().required_str("model_type")
    }

    /// Returns the number of this shard, counted from 0, and the number of shards, or `None` if the metadata
    /// does not have both.
    #[must_use]
    pub fn shard(&self) -> Option<(u64, u64)> {
        let sharding = self.object().get("sharding")?;
        Some((sharding.get("shard_index")?.as_u64()?, sharding.get("shard_count")?.as_u64()?))
    }

    /// Returns the keys that a file must not contain, with the reason: the value has a type that keeps
    /// aprender's tools from reading the metadata at all, or the key is another spelling of a key that is
    /// also present.
    pub fn unreadable_keys(&self) -> impl Iterator<Item = (&str, Fault)> {
        let object = self.object();
        let of_kind = KEYS.iter().filter_map(|&(key, kind)| {
            let value = object.get(key)?;
            let fault = || Fault::MetadataType { expected: kind.name(), found: value.kind() };
            (!kind.takes(value)).then(|| (key, fault()))
        });
        let doubled = ALIASES.iter().flat_map(|&row| {
            let mut there = row.iter().copied().filter(|key| object.contains_key(key));
            let first = there.next().unwrap_or_default();
            there.map(move |key| (key, Fault::MetadataAlias(first)))
        });
        of_kind.chain(doubled)
    }

    /// Checks that the metadata has `model_type` and no key that aprender's tools cannot read.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        let refuse = |text: String| unfit(Part::new("metadata"), modelfmt_core::CommonFault::Metadata(text));
        self.model_type().map_err(|error| refuse(format!("{error}, which APR requires")))?;
        match self.unreadable_keys().next() {
            Some((key, fault)) => Err(unfit(Part::named("metadata key", key), fault)),
            None => Ok(()),
        }
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::TextOrNull => "a string or null",
            Self::Count => "an integer of at most 64 bits, not below zero",
            Self::CountOrNull => "an integer of at most 64 bits, not below zero, or null",
            Self::NumberOrNull => "a number or null",
            Self::Quantization => "an object with quant_type, bits, block_size and symmetric, or null",
            Self::Sharding => "an object with shard_count, shard_index, total_size and pattern, or null",
            Self::SpecialTokens => "an object of strings, or null",
        }
    }

    fn takes(self, value: &Value) -> bool {
        let member = |key: &str| value.get(key);
        let text_or_null = |value: &Value| value.is_null() || value.as_str().is_some();
        let count = |key| member(key).and_then(Value::as_u64).is_some();
        match self {
            Self::Text => value.as_str().is_some(),
            Self::TextOrNull => text_or_null(value),
            Self::Count => value.as_u64().is_some(),
            Self::CountOrNull => value.is_null() || value.as_u64().is_some(),
            Self::NumberOrNull => value.is_null() || matches!(value, Value::Int(_) | Value::Float(_)),
            _ if value.is_null() => true,
            Self::Quantization => {
                let block_size = member("block_size").is_none_or(|n| n.is_null() || n.as_u64().is_some());
                let bits = member("bits").and_then(Value::as_u64);
                block_size
                    && member("quant_type").and_then(Value::as_str).is_some()
                    && bits.is_some_and(|bits| u8::try_from(bits).is_ok())
                    && member("symmetric").and_then(Value::as_bool).is_some()
            }
            Self::Sharding => {
                let pattern = member("pattern").is_none_or(text_or_null);
                pattern && count("shard_count") && count("shard_index") && count("total_size")
            }
            Self::SpecialTokens => {
                const TOKENS: [&str; 6] =
                    ["bos_token", "eos_token", "unk_token", "pad_token", "im_start_token", "im_end_token"];
                value.as_object().is_some()
                    && TOKENS.iter().all(|token| member(token).is_none_or(text_or_null))
            }
        }
    }
}

impl From<Object> for Metadata {
    fn from(object: Object) -> Self {
        Self(object.into())
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metadata").field(self.object()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(text: &str) -> Metadata {
        Metadata::parse(text.as_bytes(), 64, &Limits::default()).unwrap()
    }

    #[test]
    fn the_last_of_repeated_keys_counts() {
        let m = metadata(r#"{"model_type":"a","x":{"y":1,"y":2},"model_type":"b"}"#);
        assert_eq!(m.model_type(), Ok("b"));
        assert_eq!(m.object().len(), 2);
        assert_eq!(m.object().get("x").and_then(|x| x.get("y")).and_then(Value::as_u64), Some(2));
    }

    #[test]
    fn keys_that_upstream_could_not_read_are_found() {
        for (text, key) in [
            (r#"{"model_type":1}"#, "model_type"),
            (r#"{"architecture":{}}"#, "architecture"),
            (r#"{"total_size":null}"#, "total_size"),
            (r#"{"hidden_size":-1}"#, "hidden_size"),
            (r#"{"rope_theta":"x"}"#, "rope_theta"),
            (r#"{"quantization":{"method":"Q8_0","bits_per_weight":8.5}}"#, "quantization"),
            (r#"{"sharding":{"shard_count":2}}"#, "sharding"),
            (r#"{"special_tokens":{"bos_token":1}}"#, "special_tokens"),
            (r#"{"n_embd":1,"hidden_size":1}"#, "n_embd"),
        ] {
            let m = metadata(text);
            let found: Vec<_> = m.unreadable_keys().map(|(key, _)| key).collect();
            assert_eq!(found, [key], "{text}");
        }
        let good = metadata(
            r#"{"model_type":"x","name":null,"hidden_size":4,"n_layer":2,"rope_theta":1e4,"own":[1],
            "quantization":{"quant_type":"int8","bits":8,"block_size":null,"symmetric":true},
            "sharding":{"shard_count":2,"shard_index":1,"total_size":0,"pattern":null}}"#,
        );
        assert_eq!((good.unreadable_keys().count(), good.shard()), (0, Some((1, 2))));
        assert!(good.check().is_ok() && metadata("{}").check().is_err());
    }
}
