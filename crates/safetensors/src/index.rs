//! What a file holds and where, checked and owned.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::TensorTable;
use modelfmt_core::value::Object;

use crate::metadata::Metadata;

/// What a file holds. Owned, without a lifetime: it can be kept and shared, and opening again with it costs nothing.
///
/// Tensors are in the order of the header, which need not be that of their data.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) tensors: TensorTable,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) header_len: u64,
    pub(crate) file_len: u64,
}

impl Index {
    /// The tensors, in the order of the header.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// `__metadata__`: text by text, in the file's order. `None` if the file has none, which is not the same as an
    /// empty one.
    #[must_use]
    pub fn metadata(&self) -> Option<&Object> {
        self.metadata.as_ref().map(Metadata::object)
    }

    /// The same for the caller, of which nothing stays here: it takes several times the memory of the file's bytes.
    #[must_use]
    pub fn to_metadata(&self) -> Option<Object> {
        self.metadata.as_ref().map(Metadata::to_object)
    }

    /// The length of the header's JSON in bytes, with the spaces that fill it up.
    #[must_use]
    pub const fn header_len(&self) -> u64 {
        self.header_len
    }

    /// The length of the file that this is the index of.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Bytes of heap that the tensors take; the metadata's come on top.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.tensors.heap_size()
    }
}
