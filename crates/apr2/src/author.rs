//! Items for a crate that stores APR2 files in a form of its own, such as sealed ones. Readers of files do not need them.
//!
//! The crate `modelfmt-apr2-seal` signs and encrypts. Its index of a file contains an [`Index`], and it uses this crate for
//! everything that does not depend on the seal:
//!
//! - Opening: [`begin`] decodes the header. When the other crate has gathered the parts that follow, [`Front::parse`] makes an
//!   index of them, and [`Sealing`] says how the stored bytes are sealed. [`parse_manifest`] gives access to the manifest of a
//!   set, and [`add_tensor`] adds a tensor that the manifest does not list.
//! - Reading: an [`Index`] reads from any source; the source of the other crate returns plaintext.
//! - Verifying: [`findings`] and [`verify_set`] check files and sets. The other crate supplies what it knows through [`Seal`]
//!   and [`Verified`]. [`check_blocks`] decodes the blocks of a tensor that only the other crate can decrypt.
//! - Editing: [`edit`] and [`without_signatures`] take a callback that says which part of a file remains without its
//!   signatures.
//! - Writing: [`Planned`] shows the decisions of a plan, a [`Compressor`] makes blocks from values, and [`manifest`] makes the
//!   text of a set's manifest. [`Header`], [`Entry`] and [`Footer`] are the records of a file.

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

/// How the tensor at a position is stored.
#[must_use]
pub fn stored(index: &Index, position: usize) -> Option<Stored> {
    index.tensors.stored(position)
}

/// How every tensor is stored, in the order of the index. Cheaper than one call per tensor.
pub fn all_stored(index: &Index) -> impl Iterator<Item = Stored> {
    index.tensors.all_stored()
}

/// How the stored bytes of the tensors are sealed.
#[must_use]
pub const fn sealing(index: &Index) -> Sealing {
    index.tensors.sealing
}

/// Parses the JSON text of a manifest. `also` gets the text's object and the number of its shards before the map of tensors is
/// read.
///
/// # Errors
/// If the manifest breaks a rule or exceeds a limit; the errors of `also`.
pub fn parse_manifest(
    text: &[u8],
    limits: &Limits,
    also: impl FnOnce(&Object, usize) -> Result<()>,
) -> Result<SetIndex> {
    SetIndex::parse_with(text, limits, also)
}

/// Adds a tensor that a shard lists but the manifest does not; `shard` is the number of the shard.
///
/// # Errors
/// If the set has a tensor of that name.
pub fn add_tensor(set: &mut SetIndex, name: &str, shard: u32) -> Result<(), CommonFault> {
    set.found_in(name, shard)
}

/// Changes names or metadata of a file, signed or not: see [`Index::edit`]. If the file is signed, `unsigned` returns the end of
/// its tensors, and the CRC of everything before that.
///
/// # Errors
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

/// Removes the signatures of a file: returns its content without the seal section. `unsigned` returns the end of its tensors, and
/// the CRC of everything before that.
///
/// # Errors
/// If the file cannot be read; the errors of `unsigned`.
pub fn without_signatures(
    index: &Index,
    source: &impl Source,
    unsigned: impl FnOnce() -> Result<(u64, u32), EditError>,
) -> Result<NewFile, EditError> {
    index.without_signatures_with(source, unsigned)
}
