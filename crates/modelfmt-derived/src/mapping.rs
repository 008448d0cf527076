//! Definitions that the maps in both directions share.

use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::Metadata;
use modelfmt_rules::wording::Note;
use modelfmt_rules::wording::unsupported::Unsupported;

/// The value of `map` with which names and metadata are written unchanged.
pub const NONE: &str = "none";

/// Whether a map takes a tensor with this name.
pub type Takes = dyn Fn(&str) -> bool;

/// The rest of a hub folder, besides its weights.
#[derive(Debug, Default)]
pub struct Restored {
    /// The files beside the weights: name and bytes.
    pub files: Vec<(String, Vec<u8>)>,
    /// What is not restored exactly.
    pub losses: Vec<Unsupported>,
    /// What was done, for the user.
    pub notes: Vec<Note>,
}

/// Checks whether this is GGUF, in one file or several.
#[must_use]
pub fn is_gguf(format: Format) -> bool {
    format.capabilities().metadata == Metadata::TypedLists
}
