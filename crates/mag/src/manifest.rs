//! The manifest of version 0.3, without the tensors.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::sync::OnceLock;

use modelfmt_core::value::{Object, Value, json};

/// The manifest of version 0.3, without the tensors.
///
/// The metadata is checked when the file is opened. It is parsed into a tree on first use, because a tree
/// takes up to ten times the memory of its text.
#[derive(Clone)]
pub struct Manifest {
    timestamp: Box<str>,
    magnetron_version: Box<str>,
    /// A JSON object whose floats may be bare words such as `NaN` (docs/formats/mag.md#bare-words).
    metadata_text: Box<str>,
    metadata: OnceLock<Object>,
}

impl Manifest {
    /// Creates a manifest. `metadata_text` must be an object that has been checked.
    pub(crate) fn new(timestamp: &str, magnetron_version: &str, metadata_text: &str) -> Self {
        Self {
            timestamp: timestamp.into(),
            magnetron_version: magnetron_version.into(),
            metadata_text: metadata_text.into(),
            metadata: OnceLock::new(),
        }
    }

    /// Returns the time when the file was written, as text. magnetron writes ISO 8601 with a time zone.
    #[must_use]
    pub fn timestamp(&self) -> &str {
        &self.timestamp
    }

    /// Returns the version of magnetron that wrote the file, such as `0.2.2`.
    #[must_use]
    pub fn magnetron_version(&self) -> &str {
        &self.magnetron_version
    }

    /// Returns the user's metadata (`usr_metadata`), in file order.
    pub(crate) fn metadata(&self) -> &Object {
        self.metadata.get_or_init(|| self.parsed())
    }

    /// Returns a new tree of the metadata. The manifest does not keep a copy of it.
    pub(crate) fn to_metadata(&self) -> Object {
        self.metadata.get().cloned().unwrap_or_else(|| self.parsed())
    }

    fn parsed(&self) -> Object {
        // The text has been checked, so it parses as an object.
        match json::parse_with_bare_words(self.metadata_text.as_bytes()) {
            Ok(Value::Object(object)) => object,
            _ => Object::new(),
        }
    }

    /// Returns the heap memory in bytes that the manifest takes, without the tree.
    pub(crate) fn heap_size(&self) -> usize {
        self.timestamp
            .len()
            .saturating_add(self.magnetron_version.len())
            .saturating_add(self.metadata_text.len())
    }
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest")
            .field("timestamp", &self.timestamp)
            .field("magnetron_version", &self.magnetron_version)
            .finish_non_exhaustive()
    }
}
