//! The result of a conversion.

use modelfmt_core::DType;

#[cfg(doc)]
use super::MetadataOptions;
use super::output::WrittenFile;
use super::programs::Programs;
use super::values::clipped::Clipped;
use super::warnings::Warning;
use modelfmt_model::formats::Format;
use modelfmt_rules::wording::unsupported::Unsupported;
use modelfmt_rules::wording::{Note, Words};

/// The result of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// The format that was written.
    pub format: Format,
    /// The number of tensors that were written, including tensors that are only declared.
    pub tensors: usize,
    /// Notes for standard error about what was selected and how types and values changed.
    pub notes: Vec<Note>,
    /// Warnings about results that you may not want.
    pub warnings: Vec<Warning>,
    /// The tensors whose dtype changed.
    pub changed: Vec<TypeChanged>,
    /// Tensors that lost values in a cast: some became infinite or the end of the range of the dtype, or many became 0.
    pub clipped: Vec<Clipped>,
    /// Metadata that the target cannot hold and that was dropped because of [`MetadataOptions::lossy`].
    pub dropped: Vec<Unsupported>,
    /// What happens to each tensor. Set only by a dry run.
    pub programs: Option<Programs>,
    /// The output files, in the order in which they were created.
    pub files: Vec<WrittenFile>,
    /// Whether the output is a hub folder. Its files are then in the folder that was named as the output.
    pub is_hub_folder: bool,
}

impl Converted {
    /// Returns one line for each of the [`warnings`](Self::warnings), and lines that sum up
    /// [`clipped`](Self::clipped).
    #[must_use]
    pub fn warning_lines(&self, words: &dyn Words) -> Vec<String> {
        let warnings = self.warnings.iter().map(|warning| warning.in_words(words));
        warnings.chain(Clipped::lines(&self.clipped)).collect()
    }
}

/// A tensor whose dtype changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeChanged {
    /// The name of the tensor in the output.
    pub tensor: String,
    /// The dtype in the source.
    pub from: DType,
    /// The dtype in the output.
    pub to: DType,
}
