//! What a conversion says of itself.

use modelfmt_core::DType;

#[cfg(doc)]
use super::MetadataOptions;
use super::output::WrittenFile;
use super::values::clipped::Clipped;
use super::warnings::Warning;
use modelfmt_model::formats::Format;
use modelfmt_model::unsupported::Unsupported;
use modelfmt_rules::wording::{Note, Words};

/// The result of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// The format that was written.
    pub format: Format,
    /// The number of tensors that were written, also those that are only declared.
    pub tensors: usize,
    /// What was chosen, and what became of types and values: for standard error.
    pub notes: Vec<Note>,
    /// What is perhaps not what was meant.
    pub warnings: Vec<Warning>,
    /// The tensors that became another type.
    pub changed: Vec<TypeChanged>,
    /// Tensors some of whose values became infinite or the end of the range of the type that they were cast to, or many of whose values became 0.
    pub clipped: Vec<Clipped>,
    /// Metadata that the target cannot hold, and that [`MetadataOptions::lossy`] allowed to drop.
    pub dropped: Vec<Unsupported>,
    /// The files, in the order in which they were begun.
    pub files: Vec<WrittenFile>,
}

impl Converted {
    /// What to warn of, a line each: [`warnings`](Self::warnings), and the sums of [`clipped`](Self::clipped).
    #[must_use]
    pub fn warning_lines(&self, words: &dyn Words) -> Vec<String> {
        let warnings = self.warnings.iter().map(|warning| warning.in_words(words));
        warnings.chain(Clipped::lines(&self.clipped)).collect()
    }
}

/// A tensor that became another type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeChanged {
    /// Its new name.
    pub tensor: String,
    /// The type that it had.
    pub from: DType,
    /// The type that it has now.
    pub to: DType,
}
