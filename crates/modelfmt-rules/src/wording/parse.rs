//! The error for a text that cannot be parsed.

use std::fmt;

use super::Choice;
use super::{FieldNames, Words};

/// A text that is not a valid `Format`, `Target`, `Pin`, `Globs`, `TypeRule`, `Preset` or `Receipt`. The message says what would be
/// valid.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseError {
    why: String,
    /// What the caller probably wanted instead: a choice and its value.
    instead: Option<(Choice, String)>,
}

modelfmt_core::author::debug_as_sentence!(ParseError);

impl ParseError {
    /// Makes an error that says why the text is invalid.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), instead: None }
    }

    /// Adds another choice that would do what the caller wanted.
    pub(crate) fn with_instead(self, choice: Choice, chosen: impl fmt::Display) -> Self {
        Self { instead: Some((choice, chosen.to_string())), ..self }
    }

    /// Returns the error in one line, in the words of a program.
    #[must_use]
    pub fn in_words(&self, words: &dyn Words) -> String {
        match &self.instead {
            Some((choice, chosen)) => {
                format!("{}; use {} {chosen}", self.why, words.choice(*choice))
            }
            None => self.why.clone(),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(&FieldNames))
    }
}

impl std::error::Error for ParseError {}
