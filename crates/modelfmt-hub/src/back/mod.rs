//! The way back: a GGUF as a folder of the hub.
//!
//! [`carried`] makes keys of what GGUF has no key for, when a folder becomes a GGUF; they begin with [`PREFIX`]. [`Folder::of`] makes
//! tensors, `config.json` and tokenizer files of the metadata and the tensors of a GGUF. Neither reads values: both return programs
//! that the caller compares, so that what is not exact is known. Keys of a GGUF are bytes of a stranger: they are bounded, checked,
//! and have to agree with the tensors.
//!
//! - `modelfmt.hub.map`: the name of the map.
//! - `modelfmt.hub.tensors`: what names and shapes do not show of tensors, as JSON.
//! - `modelfmt.hub.values.NAME`: the bytes of a tensor whose steps cannot be undone exactly.
//! - `modelfmt.hub.file.NAME`: what a file has beyond what the GGUF's own keys say, as JSON; for `tokenizer.model` the bytes between
//!   its pieces.
//! - `modelfmt.hub.version`: the version of all that.

mod carry;
mod config;
mod delta;
#[cfg(test)]
mod file_tests;
mod files;
mod folder;
mod licence;
mod made;
mod names;
mod number;
mod pieces;
mod rope;
mod table;
#[cfg(test)]
mod tests;
mod tokenizer;

use std::collections::BTreeMap;

use modelfmt_value::Object;

use crate::HubTensor;
pub use carry::{Carried, carried, doubtful};
pub use files::file_names;
pub use folder::{Check, Folder, Group, Loss};
pub use licence::licence_keys;
pub use rope::FACTORS;

/// What the keys begin with.
pub const PREFIX: &str = "modelfmt.hub.";

/// The key with the version of the others, and the version that is known.
const VERSION: &str = "modelfmt.hub.version";
const KNOWN_VERSION: u32 = 1;
/// The key with the name of the map.
const MAP: &str = "modelfmt.hub.map";
/// The key about tensors.
const TENSORS: &str = "modelfmt.hub.tensors";
/// The member that lists the keys of a config that follow from the GGUF.
const OF: &str = "of";
/// What keys with the values of a tensor begin with.
const VALUES: &str = "modelfmt.hub.values.";
/// What keys about a file begin with.
const FILE: &str = "modelfmt.hub.file.";
/// The file that says what a folder is.
const CONFIG: &str = "config.json";

/// What is known of a GGUF.
#[derive(Clone, Debug)]
pub struct Gguf<'a> {
    /// The keys of its metadata.
    pub keys: &'a Object,
    /// Its tensors, in order.
    pub tensors: &'a [HubTensor<'a>],
    /// The values of those of the tensors [`FACTORS`] that it has.
    pub factors: BTreeMap<String, Vec<f32>>,
}
