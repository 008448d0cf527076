//! The content of a `config.json`, whichever generation of the hub's libraries wrote it.

use modelfmt_value::{Object, Value, json};

use crate::MapError;
use crate::number::cut;

/// The separator between the keys of a path.
const SEPARATOR: char = '.';

/// A `config.json`, with the names that both generations of it have in common.
///
/// A path such as `rope_scaling.factor` names a value. The following names exist even if the file does not
/// have them, as long as their meaning follows from other values:
///
/// - `head_dim`: `hidden_size / num_attention_heads`; `hidden_per_head` is this quotient, whatever `head_dim`
///   is.
/// - `num_key_value_heads`: `num_attention_heads`.
/// - `rope_theta`, `rope_scaling`, `partial_rotary_factor` and `original_max_position_embeddings`: from
///   `rope_parameters`, if the file has this newer object.
/// - `rope_dim`: the dimensions of a head that are rotated, `head_dim * partial_rotary_factor`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    written: Object,
    all: Object,
}

impl Config {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// If it is not a JSON object.
    pub fn parse(text: &[u8]) -> Result<Self, MapError> {
        let parsed =
            json::parse(text).map_err(|error| MapError::Config(format!("it is not good JSON: {error}")))?;
        match parsed {
            Value::Object(object) => Ok(Self::of(object)),
            other => Err(MapError::Config(format!("it is {}, not an object", other.kind()))),
        }
    }

    pub(crate) fn of(written: Object) -> Self {
        let mut object = written.clone();
        if let Some(Value::Object(rope)) = object.get("rope_parameters").cloned() {
            // Models with two kinds of layers have one object for each. The object of full attention is the
            // model's own.
            let own = match rope.get("full_attention") {
                Some(Value::Object(own)) => own.clone(),
                _ => rope.clone(),
            };
            if let Some(theta) = own.get("rope_theta") {
                insert_missing(&mut object, "rope_theta", theta.clone());
            }
            if let Some(theta) = rope.get("sliding_attention").and_then(|rope| rope.get("rope_theta")) {
                insert_missing(&mut object, "rope_local_base_freq", theta.clone());
            }
            for key in ["partial_rotary_factor", "original_max_position_embeddings"] {
                if let Some(value) = own.get(key) {
                    insert_missing(&mut object, key, value.clone());
                }
            }
            insert_missing(&mut object, "rope_scaling", Value::Object(own));
        }
        Self { written, all: object }
    }

    /// Returns the config with the defaults of the hub's library for missing values, and with the values that
    /// follow from others.
    pub(crate) fn completed(&self, defaults: &Object, aliases: &[(String, String)]) -> Self {
        let mut config = self.clone();
        let object = &mut config.all;
        for (key, other) in aliases {
            if let Some(value) = object.get(other).cloned() {
                insert_missing(object, key, value);
            }
        }
        for (key, value) in defaults {
            if object.get(key).is_none() {
                object.insert(key, value.clone()); // null states that there is no value
            }
        }
        let heads = config.get("num_attention_heads").and_then(Value::as_u64);
        if let Some(heads) = heads.filter(|heads| *heads > 0) {
            config.insert_missing("num_key_value_heads", heads);
            if let Some(hidden) = config.get("hidden_size").and_then(Value::as_u64) {
                config.insert_missing("head_dim", hidden / heads);
                config.insert_missing("hidden_per_head", hidden / heads);
            }
        }
        if let Some(head) = config.get("head_dim").and_then(Value::as_u64) {
            let part = config.get("partial_rotary_factor").and_then(Value::as_f64).unwrap_or(1.0);
            if (0.0..=1.0).contains(&part) {
                config.insert_missing("rope_dim", cut(head, part));
            }
        }
        config
    }

    /// Returns the object in the file, without the common names.
    #[must_use]
    pub const fn written(&self) -> &Object {
        &self.written
    }

    /// Returns the value at a path; `None` if it does not exist or is null.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        let mut keys = path.split(SEPARATOR);
        let mut value = self.all.get(keys.next()?)?;
        for key in keys {
            value = value.get(key)?;
        }
        Some(value).filter(|value| !value.is_null())
    }

    /// Returns the text at a path.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path)?.as_str()
    }

    /// Returns the count at a path.
    ///
    /// # Errors
    /// If there is none, or it is not a count.
    pub fn count(&self, path: &str) -> Result<u64, MapError> {
        let value = self.get(path).ok_or_else(|| MapError::Missing { path: path.to_owned() })?;
        value.as_u64().ok_or_else(|| MapError::Wrong {
            path: path.to_owned(),
            found: value.kind(),
            wants: "a count",
        })
    }

    /// Sets a value at top level that the file does not have.
    fn insert_missing(&mut self, key: &str, value: impl Into<Value>) {
        insert_missing(&mut self.all, key, value.into());
    }

    /// Returns the family, as `model_type` names it.
    #[must_use]
    pub fn model_type(&self) -> Option<&str> {
        self.text("model_type")
    }
}

fn insert_missing(object: &mut Object, key: &str, value: Value) {
    if object.get(key).is_none_or(Value::is_null) {
        object.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text.as_bytes()).unwrap().completed(&Object::new(), &[])
    }

    #[test]
    fn both_generations_say_the_same() {
        let old = config(
            r#"{"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}"#,
        );
        let new = config(
            r#"{"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": null,
                "rope_parameters": {"rope_theta": 5.0, "rope_type": "linear", "factor": 2.0}}"#,
        );
        for config in [old, new] {
            assert_eq!(config.get("rope_theta").and_then(Value::as_f64), Some(5.0));
            assert_eq!(config.get("rope_scaling.factor").and_then(Value::as_f64), Some(2.0));
            assert_eq!(config.text("rope_scaling.rope_type"), Some("linear"));
            assert_eq!(
                (config.count("head_dim").unwrap(), config.count("num_key_value_heads").unwrap()),
                (16, 4)
            );
        }
    }

    #[test]
    fn layers_of_two_kinds_have_two_bases() {
        let config = config(
            r#"{"rope_parameters": {"full_attention": {"rope_theta": 1e6, "rope_type": "default"},
                "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}}"#,
        );
        assert_eq!(config.get("rope_theta").and_then(Value::as_f64), Some(1e6));
        assert_eq!(config.get("rope_local_base_freq").and_then(Value::as_f64), Some(1e4));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [("[1]", "it is an array"), ("{", "not good JSON")] {
            let error = Config::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("config.json: ") && error.contains(why), "{error}");
        }
        let config =
            config(r#"{"a": "x", "hidden_size": 5, "num_attention_heads": 0, "partial_rotary_factor": 7}"#);
        assert_eq!(config.count("a").unwrap_err().to_string(), "config.json: `a` is a string, not a count");
        assert_eq!(config.count("b.c").unwrap_err().to_string(), "config.json has no `b.c`");
        assert!(config.get("head_dim").is_none());
    }
}
