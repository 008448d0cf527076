//! The keys of the metadata.

use modelfmt_value::Value;

use super::Map;
use super::apply::Mapped;
use super::file::{KeyEntry, Kind, Required};
use crate::number::rounded;
use crate::{Config, Key, MapError};

/// The list of the kinds of layers, and the kind that sees all tokens.
const LAYER_TYPES: &str = "layer_types";
const FULL: &str = "full_attention";

/// The prefixes of keys that do not belong to the architecture.
const WHOLE: [&str; 2] = ["general.", "tokenizer."];

impl Map {
    /// Fails for a config that asks for something that llama.cpp computes differently.
    pub(super) fn check_required(&self, config: &Config) -> Result<(), MapError> {
        for (path, required) in &self.file.require {
            let found = config.get(path).cloned().unwrap_or_default();
            let wants = match required {
                Required::Nothing if is_nothing(&found) => continue,
                Required::Nothing => "without it only".to_owned(),
                Required::OneOf(values) if values.iter().any(|value| is_same(&found, value)) => continue,
                Required::OneOf(values) => {
                    format!("with {} only", values.iter().map(text).collect::<Vec<_>>().join(" or "))
                }
                Required::FromLayers(count) => {
                    let is_deep = config.count(&self.file.layers)? >= *count;
                    if if is_deep { found.as_bool() == Some(true) } else { is_nothing(&found) } {
                        continue;
                    }
                    format!("with it in models of {count} layers and more, and without it in others")
                }
                Required::AtMost(key) => {
                    if config.count(path)? <= config.count(key)? {
                        continue;
                    }
                    format!("with at most `{key}`")
                }
                Required::Same { key, with_layers } => {
                    let layers = config.count(&self.file.layers)?;
                    let key = match with_layers {
                        Some((count, other)) if *count == layers => other,
                        _ => key,
                    };
                    let other = config.get(key).cloned().unwrap_or_default();
                    if is_same(&found, &other) {
                        continue;
                    }
                    format!("with `{key}` there, which is {}", text(&other))
                }
            };
            return Err(MapError::Unsupported {
                path: path.to_owned(),
                found: text(&found),
                why: format!("llama.cpp computes {} {wants}", self.architecture()),
            });
        }
        match self.file.full_attention_each {
            Some(each) => self.check_full_attention(config, each),
            None => Ok(()),
        }
    }

    /// Fails unless exactly the last of each group of `each` layers sees all tokens.
    fn check_full_attention(&self, config: &Config, each: u64) -> Result<(), MapError> {
        let wrong = |path: &str, found: String| MapError::Unsupported {
            path: path.to_owned(),
            found,
            why: format!(
                "llama.cpp computes {} with full attention in the last of {each} layers",
                self.architecture()
            ),
        };
        for path in ["sliding_window_pattern", "_sliding_window_pattern"] {
            if let Some(found) = config.get(path).filter(|found| found.as_u64() != Some(each)) {
                return Err(wrong(path, text(found)));
            }
        }
        let Some(kinds) = config.get(LAYER_TYPES).and_then(Value::as_array) else { return Ok(()) };
        let is_full = kinds.iter().map(|kind| kind.as_str() == Some(FULL));
        let other = (1_u64..).zip(is_full).find(|(number, is_full)| *is_full != number.is_multiple_of(each));
        let found = |(number, _): (u64, bool)| format!("a list whose item {number} is of the other kind");
        other.map_or(Ok(()), |other| Err(wrong(LAYER_TYPES, found(other))))
    }

    /// Adds a note if llama.cpp lets every token see all tokens before it, although the model has a window
    /// for some.
    pub(super) fn note_window(&self, config: &Config, mapped: &mut Mapped) {
        let is_off = config.get("use_sliding_window").and_then(Value::as_bool) == Some(false);
        let kinds = config.get(LAYER_TYPES).and_then(Value::as_array);
        let is_full = kinds.is_some_and(|kinds| kinds.iter().all(|kind| kind.as_str() == Some(FULL)));
        let window = config.count("sliding_window").ok().filter(|window| {
            *window > 0 && config.count("max_position_embeddings").is_ok_and(|longest| *window < longest)
        });
        if let Some(window) = window.filter(|_| self.file.ignores_window && !is_off && !is_full) {
            mapped.notes.push(format!(
                "llama.cpp computes {} without a sliding window: it differs from the model for texts longer than the window of {window} tokens",
                self.architecture(),
            ));
        }
    }

    /// Returns the full name of a key of the map's metadata.
    pub(crate) fn key_name(&self, name: &str) -> String {
        match WHOLE.iter().any(|start| name.starts_with(start)) {
            true => name.to_owned(),
            false => format!("{}.{name}", self.architecture()),
        }
    }

    /// Returns the keys of the architecture and the keys of every model.
    pub(super) fn keys(&self, config: &Config) -> Result<Vec<(String, Key)>, MapError> {
        let architecture = self.architecture();
        let mut keys = vec![
            ("general.architecture".to_owned(), Key::Text(architecture.to_owned())),
            ("general.type".to_owned(), Key::Text("model".to_owned())),
        ];
        for (name, entry) in &self.file.metadata {
            if let Some(value) = key(config, entry)? {
                keys.push((self.key_name(name), value));
            }
        }
        Ok(keys)
    }
}

/// Returns the value of a key; `None` for an optional key without one.
fn key(config: &Config, entry: &KeyEntry) -> Result<Option<Key>, MapError> {
    let KeyEntry::Config { kind, path, or, times, otherwise, is_optional } = entry else {
        let KeyEntry::Is(value) = entry else { return Ok(None) };
        return Ok(own(value));
    };
    let (path, times) = match or {
        Some(other) if config.get(path).is_none() => (other, times),
        _ => (path, &1),
    };
    let Some(value) = config.get(path).or(otherwise.as_ref()) else {
        return if *is_optional { Ok(None) } else { Err(MapError::Missing { path: path.clone() }) };
    };
    let wrong = |wants| MapError::Wrong { path: path.clone(), found: value.kind(), wants };
    match kind {
        Kind::U32 => {
            let count = value.as_u64().and_then(|count| count.checked_mul(u64::from(*times)));
            let count = count.and_then(|count| u32::try_from(count).ok());
            count.map(|count| Some(Key::U32(count))).ok_or_else(|| wrong("a count below 2^32"))
        }
        Kind::Bool => value.as_bool().map(|flag| Some(Key::Bool(flag))).ok_or_else(|| wrong("true or false")),
        Kind::F32 => {
            let number = value.as_f64().map(rounded).filter(|number| number.is_finite());
            number.map(|number| Some(Key::F32(number))).ok_or_else(|| wrong("a number that fits in f32"))
        }
    }
}

/// Returns a value that a map states.
fn own(value: &Value) -> Option<Key> {
    match value {
        Value::Bool(value) => Some(Key::Bool(*value)),
        Value::String(text) => Some(Key::Text(text.clone())),
        Value::Float(number) => Some(Key::F32(rounded(*number))),
        other => other.as_u64().and_then(|count| u32::try_from(count).ok()).map(Key::U32),
    }
}

/// Checks whether two values are the same, even if only one is written as an integer.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null()
        || value.as_bool() == Some(false)
        || value.as_array().is_some_and(|values| values.is_empty())
}

fn text(value: &Value) -> String {
    modelfmt_value::json::to_string(value).unwrap_or_default()
}
