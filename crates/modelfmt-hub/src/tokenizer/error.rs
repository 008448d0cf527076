//! Errors about files of a tokenizer.

use crate::MapError;

/// Makes the error for a file that is not what it should be.
pub(super) fn fault(file: &str, why: impl Into<String>) -> MapError {
    MapError::Tokenizer { file: file.to_owned(), why: why.into() }
}

/// Returns the start of a text, quoted, so that an error stays short.
pub(super) fn quoted(text: &str) -> String {
    const MAX: usize = 60;
    let start: String = text.chars().take(MAX).collect();
    if start.len() == text.len() { format!("{text:?}") } else { format!("{start:?}…") }
}
