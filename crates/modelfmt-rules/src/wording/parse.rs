//! What is wrong with a text that somebody has written.

use std::fmt;

use super::Choice;
use super::{FieldNames, Words};

/// A text is not what it is read as: the name of a `Format`, a `Target`, a `Pin`, patterns
/// (`Globs`), a `TypeRule`, a `Preset` or a
/// `Receipt`. The message says what would be right.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseError {
    why: String,
    /// What would do what was meant: a choice, and what is chosen.
    instead: Option<(Choice, String)>,
}

modelfmt_core::author::debug_as_sentence!(ParseError);

impl ParseError {
    /// Text that says no such thing, and why.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), instead: None }
    }

    /// The same error, with another choice that would do what was meant.
    pub(crate) fn with_instead(self, choice: Choice, chosen: impl fmt::Display) -> Self {
        Self { instead: Some((choice, chosen.to_string())), ..self }
    }

    /// The error in a line, in the words of a program.
    #[must_use]
    pub fn in_words(&self, words: &dyn Words) -> String {
        match &self.instead {
            Some((choice, chosen)) => {
                format!("{}; what helps: {} {chosen}", self.why, words.choice(*choice))
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
