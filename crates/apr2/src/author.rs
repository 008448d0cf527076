//! Items for crates that store APR2 files in another form, such as sealed files. You do not need them to read
//! files.
//!
//! The crate `modelfmt-apr2-seal` signs and encrypts files. Its index of a file contains an [`Index`], and it
//! uses this crate for everything that does not depend on the seal:
//!
//! - Opening: [`begin`] decodes the header. When the other crate has gathered the parts that follow,
//!   [`Front::parse`] makes an index of them; [`Sealing`] says how the stored bytes are sealed.
//!   [`parse_manifest`] parses the manifest of a set, and [`add_tensor`] adds a tensor that the manifest does
//!   not list.
//! - Reading: an [`Index`] reads from any source. The source of the other crate returns plaintext.
//! - Verifying: [`findings`] and [`verify_set`] check files and sets. The other crate supplies what it knows
//!   through [`Seal`] and [`Verified`]. [`check_blocks`] decodes the blocks of a tensor that only the other
//!   crate can decrypt.
//! - Editing: [`edit`] and [`without_signatures`] take a callback that returns which part of a file remains
//!   without its signatures.
//! - Writing: [`Planned`] exposes the decisions of a plan, a [`Compressor`] makes blocks from values, and
//!   [`manifest`] makes the text of a set's manifest. [`Header`], [`Entry`] and [`Footer`] are the records of
//!   a file.

use std::collections::BTreeMap;

use modelfmt_core::value::Object;
use modelfmt_core::{CommonFault, Limits, Source};
use modelfmt_write::edit::NewFile;

use crate::error::{EditError, Result};
use crate::index::Index;
use crate::metadata::Metadata;
use crate::set::SetIndex;

pub use crate::claims::claims;
#[cfg(feature = "lz4")]
pub use crate::compress::Compressor;
pub use crate::index::{Head, Sealing};
pub use crate::layout::Planned;
pub use crate::parser::{Front, IndexParser, begin, too_short};
pub use crate::set::manifest;
pub use crate::set::verify::{add_signature as add_set_signature, verify_set};
pub use crate::stored::Stored;
pub use crate::verify::{Findings, Pass, Seal, Verified, about, add_signature, check_blocks, findings};
pub use crate::wire::{
    DATA_ALIGNMENT, Entry, FOOTER_LEN, Footer, HEADER_LEN, Header, TENSOR_COMPRESSED, entry_part, identity,
};

/// Returns how the tensor at a position is stored.
#[must_use]
pub fn stored(index: &Index, position: usize) -> Option<Stored> {
    index.tensors.stored(position)
}

/// Returns how every tensor is stored, in the order of the index. This is cheaper than one call per tensor.
pub fn all_stored(index: &Index) -> impl Iterator<Item = Stored> {
    index.tensors.all_stored()
}

/// Returns how the stored bytes of the tensors are sealed.
#[must_use]
pub const fn sealing(index: &Index) -> Sealing {
    index.tensors.sealing
}

/// Parses the JSON text of a manifest. `also` is called with the manifest's object and the number of its
/// shards before the map of tensors is read.
///
/// # Errors
/// If the manifest breaks a rule or exceeds a limit, or if `also` fails.
pub fn parse_manifest(
    text: &[u8],
    limits: &Limits,
    also: impl FnOnce(&Object, usize) -> Result<()>,
) -> Result<SetIndex> {
    SetIndex::parse_with(text, limits, also)
}

/// Adds a tensor that a shard lists but the manifest does not. `shard` is the number of the shard.
///
/// # Errors
/// If the set already has a tensor with this name.
pub fn add_tensor(set: &mut SetIndex, name: &str, shard: u32) -> Result<(), CommonFault> {
    set.found_in(name, shard)
}

/// Changes the names or the metadata of a file, signed or not; see [`Index::edit`]. If the file is signed,
/// `unsigned` must return the end of its tensors, and the CRC of everything before that end.
///
/// # Errors
/// If the format cannot hold the new metadata or names, or if `unsigned` fails.
/// If the format cannot hold the new metadata or names; the errors of `unsigned`.
pub fn edit(
    index: &Index,
    source: &impl Source,
    names: &BTreeMap<usize, String>,
    metadata: Option<&Metadata>,
    unsigned: impl FnOnce() -> Result<(u64, u32), EditError>,
) -> Result<NewFile, EditError> {
    index.edit_with(source, names, metadata, unsigned)
}

/// Removes the signatures of a file: returns its content without the seal section. `unsigned` must return the
/// end of its tensors, and the CRC of everything before that end.
///
/// # Errors
/// If the file cannot be read, or if `unsigned` fails.
pub fn without_signatures(
    index: &Index,
    source: &impl Source,
    unsigned: impl FnOnce() -> Result<(u64, u32), EditError>,
) -> Result<NewFile, EditError> {
    index.without_signatures_with(source, unsigned)
}
