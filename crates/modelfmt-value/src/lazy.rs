//! A JSON object that is kept as text and parsed into a tree on first use.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::sync::OnceLock;

use super::{CheckSeed, Object, ParseOptions, Value, json};

/// A JSON object of a file. The text is checked when the file is opened. It is parsed into a tree on first
/// use, because a tree takes up to ten times the memory of its text.
#[derive(Clone, Default)]
pub struct JsonObject {
    /// The checked text of an object; empty if there was no text.
    text: Box<str>,
    options: ParseOptions,
    tree: OnceLock<Object>,
}

impl JsonObject {
    /// Checks the text and keeps it.
    ///
    /// # Errors
    /// The offset and the reason if the text is not JSON, is not an object, or exceeds the options.
    pub fn parse(text: &[u8], options: ParseOptions) -> Result<Self, (usize, String)> {
        let kind = json::parse_seed(text, CheckSeed::new(options))
            .map_err(|error| (error.offset().unwrap_or(0), format!("is not good JSON: {error}")))?;
        if kind != "an object" {
            return Err((0, format!("expected a JSON object, found {kind}")));
        }
        let text = String::from_utf8_lossy(text).into_owned(); // it has been checked
        Ok(Self { text: text.into_boxed_str(), options, tree: OnceLock::new() })
    }

    /// Returns the parsed object, with its keys in the order of the file.
    #[must_use]
    pub fn object(&self) -> &Object {
        self.tree.get_or_init(|| self.parsed())
    }

    /// Returns a new tree. If there was none yet, only the text is kept here, so that the tree is in memory
    /// once.
    #[must_use]
    pub fn to_object(&self) -> Object {
        self.tree.get().cloned().unwrap_or_else(|| self.parsed())
    }

    /// Converts this into the parsed object.
    #[must_use]
    pub fn into_object(self) -> Object {
        let _ = self.object();
        self.tree.into_inner().unwrap_or_default()
    }

    fn parsed(&self) -> Object {
        // The text has been checked, so parsing fails only if the text is empty.
        match json::parse_with(self.text.as_bytes(), self.options) {
            Ok(Value::Object(object)) => object,
            _ => Object::new(),
        }
    }
}

impl From<Object> for JsonObject {
    fn from(object: Object) -> Self {
        Self { tree: object.into(), ..Self::default() }
    }
}

impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.object() == other.object()
    }
}

impl Eq for JsonObject {}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object().fmt(f)
    }
}
