//! The normalizers of a `tokenizer.json`, as a list.

use base64ct::{Base64, Encoding as _};
use modelfmt_value::Value;

use super::error::fault;
use super::sequence::flat;
use crate::MapError;

/// The character that stands for a space in tokens of SentencePiece.
pub(super) const SPACE: char = '\u{2581}';

/// A step of a normalizer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Normalizer {
    /// Composed characters, which llama.cpp leaves to its caller.
    Composed,
    /// A space before the text.
    Prefix,
    /// Spaces are written as [`SPACE`].
    Spaces,
    /// Several spaces are one.
    OneSpace,
    /// No spaces at the ends.
    Strip,
    /// SentencePiece's table of replacements.
    Charsmap(Vec<u8>),
    /// BERT's rules.
    Bert { lowercase: bool, strip_accents: bool },
    /// A step that llama.cpp does not have, with its name.
    Other(String),
}

/// Reads the steps of the normalizer in a `tokenizer.json`.
pub(super) fn normalizers(file: &str, value: Option<&Value>) -> Result<Vec<Normalizer>, MapError> {
    flat(file, value, "normalizers")?.iter().map(|step| normalizer(file, step)).collect()
}

fn normalizer(file: &str, step: &Value) -> Result<Normalizer, MapError> {
    let text = |key: &str| step.get(key).and_then(Value::as_str).unwrap_or_default();
    let flag = |key: &str| step.get(key).and_then(Value::as_bool);
    let pattern = |kind: &str| step.get("pattern")?.get(kind)?.as_str();
    let space = SPACE.to_string();
    Ok(match text("type") {
        "NFC" => Normalizer::Composed,
        "Prepend" if text("prepend") == space => Normalizer::Prefix,
        "Replace" if pattern("String") == Some(" ") && text("content") == space => Normalizer::Spaces,
        "Replace" if pattern("Regex") == Some(" {2,}") && [" ", &space].contains(&text("content")) => {
            Normalizer::OneSpace
        }
        "Strip" => Normalizer::Strip,
        "Precompiled" => {
            let bad = |_| fault(file, "its `precompiled_charsmap` is not base64");
            Normalizer::Charsmap(Base64::decode_vec(text("precompiled_charsmap")).map_err(bad)?)
        }
        "BertNormalizer"
            if flag("clean_text") != Some(false) && flag("handle_chinese_chars") != Some(false) =>
        {
            let lowercase = flag("lowercase").unwrap_or(true);
            Normalizer::Bert { lowercase, strip_accents: flag("strip_accents").unwrap_or(lowercase) }
        }
        other => Normalizer::Other(other.to_owned()),
    })
}
