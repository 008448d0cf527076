//! Errors about a key of an object.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use super::{Quoted, Value};

/// An error about a key: it is missing, its value has the wrong type, or it was inserted twice.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyError {
    key: String,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Missing { expected: &'static str },
    WrongType { expected: &'static str, found: &'static str },
    Duplicate,
}

tensor_core::debug_as_sentence!(KeyError);

impl KeyError {
    /// Creates the error for a `key` that is missing or has a value of the wrong type. `expected` is text
    /// such as "a string".
    #[must_use]
    pub fn new(key: impl Into<String>, expected: &'static str, found: Option<&Value>) -> Self {
        let what = match found {
            Some(found) => What::WrongType { expected, found: found.kind() },
            None => What::Missing { expected },
        };
        Self { key: key.into(), what }
    }

    /// Creates the error for a key that is already present.
    pub(super) const fn duplicate(key: String) -> Self {
        Self { key, what: What::Duplicate }
    }

    /// Adds the key `parent` of the object that contains this one: `path` becomes `parts[3].path`.
    #[must_use]
    pub fn within(mut self, parent: impl fmt::Display) -> Self {
        self.key = format!("{parent}.{}", self.key);
        self
    }

    /// Returns the key, preceded by the keys that lead to it, such as `parts[3].path`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns whether the key is missing.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        matches!(self.what, What::Missing { .. })
    }

    /// Returns whether the key was already present.
    #[must_use]
    pub const fn is_duplicate(&self) -> bool {
        matches!(self.what, What::Duplicate)
    }
}

impl std::error::Error for KeyError {}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match self.what {
            What::WrongType { expected, found } => {
                write!(f, "key `{key}`: expected {expected}, found {found}")
            }
            What::Missing { expected } => {
                write!(f, "key `{key}`: expected {expected}, but there is no such key")
            }
            What::Duplicate => write!(f, "duplicate key {}", Quoted(key)),
        }
    }
}
