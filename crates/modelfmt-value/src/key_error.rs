//! What is wrong with a key of an object.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use super::{Quoted, Value};

/// A key is missing, its value is of another type than was asked for, or it was to be inserted and is there already.
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
    /// The error of `key` having `found` (or nothing) where there should be `expected`, described as in "a string".
    #[must_use]
    pub fn new(key: impl Into<String>, expected: &'static str, found: Option<&Value>) -> Self {
        let what = match found {
            Some(found) => What::WrongType { expected, found: found.kind() },
            None => What::Missing { expected },
        };
        Self { key: key.into(), what }
    }

    /// The error of a key that is there already.
    pub(super) const fn duplicate(key: String) -> Self {
        Self { key, what: What::Duplicate }
    }

    /// The same error, seen from the object that holds this one under `parent`: `path` becomes `parts[3].path`.
    #[must_use]
    pub fn within(mut self, parent: impl fmt::Display) -> Self {
        self.key = format!("{parent}.{}", self.key);
        self
    }

    /// The key, after those that lead to it: `parts[3].path`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether there is no such key.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        matches!(self.what, What::Missing { .. })
    }

    /// Whether the key is there already.
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
