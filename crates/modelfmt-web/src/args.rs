//! The arguments of an operation, as JavaScript passes them.

use serde_json::{Map, Value};

use crate::answers::{Result, usage};

/// The arguments of an operation.
pub(crate) struct Args(Map<String, Value>);

impl Args {
    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        match serde_json::from_slice(json)? {
            Value::Object(map) => Ok(Self(map)),
            _ => Err(usage("arguments are an object")),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(Value::as_u64)
    }

    pub(crate) fn size(&self, key: &str) -> Option<usize> {
        self.number(key).and_then(|number| usize::try_from(number).ok())
    }

    pub(crate) fn is(&self, key: &str) -> bool {
        self.get(key) == Some(&Value::Bool(true))
    }

    pub(crate) fn need_text(&self, key: &str) -> Result<&str> {
        self.text(key).ok_or_else(|| usage(format!("{key}: a text is needed")))
    }

    /// Returns a text on which trust depends: anything else in its place is an error, and never ignored.
    pub(crate) fn text_or_none(&self, key: &str) -> Result<Option<&str>> {
        self.get(key).map(|_| self.need_text(key)).transpose()
    }

    pub(crate) fn need_size(&self, key: &str) -> Result<usize> {
        self.size(key).ok_or_else(|| usage(format!("{key}: a whole number is needed")))
    }
}

/// Reads a list of texts; `key` is its name.
pub(crate) fn texts(key: &str, value: &Value) -> Result<Vec<String>> {
    let texts = value.as_array().map(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    let texts = texts.flatten().ok_or_else(|| usage(format!("{key}: a list of texts is needed")))?;
    Ok(texts.into_iter().map(str::to_owned).collect())
}
