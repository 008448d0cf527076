//! The way back: restores a hub folder from a GGUF.
//!
//! When a folder becomes a GGUF, [`extra_keys()`] makes keys for the data that GGUF has no key for; they
//! begin with [`PREFIX`]. [`Folder::of`] makes tensors, `config.json` and tokenizer files from the metadata
//! and the tensors of a GGUF. Neither reads values: both return programs that the caller compares to find out
//! what is not exact. The keys of a GGUF are untrusted: they are bounded, checked, and have to agree with the
//! tensors.
//!
//! - `modelfmt.hub.map`: the name of the map.
//! - `modelfmt.hub.tensors`: the properties of tensors that names and shapes do not show, as JSON.
//! - `modelfmt.hub.values.NAME`: the bytes of a tensor whose steps cannot be undone exactly.
//! - `modelfmt.hub.file.NAME`: what a file has beyond the GGUF's own keys, as JSON; for `tokenizer.model` the
//!   bytes between its pieces.
//! - `modelfmt.hub.version`: the version of these keys.

mod config;
mod delta;
mod extra_keys;
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
pub use extra_keys::{ExtraKeys, extra_keys, inverse_programs};
pub use files::file_names;
pub use folder::{Check, Folder, Group, Loss};
pub use licence::licence_keys;
pub use rope::FACTORS;

/// The prefix of the keys.
pub const PREFIX: &str = "modelfmt.hub.";

/// The key with the version of the other keys, and the version that is known.
const VERSION: &str = "modelfmt.hub.version";
const KNOWN_VERSION: u32 = 1;
/// The key with the name of the map.
const MAP: &str = "modelfmt.hub.map";
/// The key about tensors.
const TENSORS: &str = "modelfmt.hub.tensors";
/// The member that lists the keys of a config that follow from the GGUF.
const BASE_KEYS: &str = "of";
/// The prefix of keys with the values of a tensor.
const VALUES: &str = "modelfmt.hub.values.";
/// The prefix of keys about a file.
const FILE: &str = "modelfmt.hub.file.";
/// The file that describes the model of a folder.
const CONFIG: &str = "config.json";

/// The metadata and the tensors of a GGUF.
#[derive(Clone, Debug)]
pub struct Gguf<'a> {
    /// The keys of its metadata.
    pub keys: &'a Object,
    /// Its tensors, in order.
    pub tensors: &'a [HubTensor<'a>],
    /// The values of the tensors [`FACTORS`], as far as the GGUF has them.
    pub factors: BTreeMap<String, Vec<f32>>,
}
