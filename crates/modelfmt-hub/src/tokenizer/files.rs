//! The files of a folder that concern its tokenizer.

use std::collections::BTreeMap;

use modelfmt_value::{Object, ParseOptions, Value, json};

use super::error::fault;
use crate::MapError;

/// The files of a tokenizer, with the maximum size of each.
const NAMES: &[(&str, u64)] = &[
    ("added_tokens.json", 8 << 20),
    ("chat_template.jinja", 1 << 20),
    ("chat_template.json", 1 << 20),
    ("generation_config.json", 1 << 20),
    ("merges.txt", 64 << 20),
    ("special_tokens_map.json", 8 << 20),
    ("spiece.model", 64 << 20),
    ("tokenizer.json", 256 << 20),
    ("tokenizer.model", 64 << 20),
    ("tokenizer_config.json", 32 << 20),
    ("vocab.json", 64 << 20),
    ("vocab.txt", 64 << 20),
];

/// The contents of the files of a folder that concern its tokenizer.
#[derive(Clone, Debug, Default)]
pub struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    /// Makes an empty set of files.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns the names of the files that are read, and the maximum size in bytes of each.
    pub fn names() -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.iter().copied()
    }

    /// Adds the content of a file, by its name in the folder. Other names than those of [`names`](Self::names) are ignored.
    pub fn insert(&mut self, name: &str, content: Vec<u8>) {
        self.0.insert(name.to_owned(), content);
    }

    /// Returns the content of a file, if it exists.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Returns the text of a file, if it exists.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, MapError> {
        let text = |content| std::str::from_utf8(content).map_err(|_| fault(name, "it is not UTF-8"));
        self.get(name).map(text).transpose()
    }

    /// Reads the JSON object in a file, if the file exists.
    pub(super) fn object(&self, name: &str) -> Result<Option<Object>, MapError> {
        const MAX_NODES: u64 = 1 << 24;
        let Some(text) = self.get(name) else { return Ok(None) };
        let options = ParseOptions::new().with_max_nodes(MAX_NODES);
        let parsed = json::parse_with(text, options)
            .map_err(|error| fault(name, format!("it is not good JSON: {error}")))?;
        match parsed {
            Value::Object(object) => Ok(Some(object)),
            other => Err(fault(name, format!("it is {}, not an object", other.kind()))),
        }
    }
}
