//! The content of a file: metadata, and where each tensor is; checked and owned.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::TensorTable;
use modelfmt_core::value::Object;

use crate::metadata::Metadata;

/// The content of a file. It has no lifetime, so it can be kept and shared; opening the file again with it reads nothing.
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

    /// The strings of `__metadata__`, in file order. `None` if the file has no metadata; an empty object is not the same.
    #[must_use]
    pub fn metadata(&self) -> Option<&Object> {
        self.metadata.as_ref().map(Metadata::object)
    }

    /// A new copy of the metadata, equal to [`metadata`](Self::metadata). The index keeps no copy of it, since it takes several
    /// times the memory of the file's bytes.
    #[must_use]
    pub fn to_metadata(&self) -> Option<Object> {
        self.metadata.as_ref().map(Metadata::to_object)
    }

    /// The length of the header's JSON in bytes, with the spaces that fill it up.
    #[must_use]
    pub const fn header_len(&self) -> u64 {
        self.header_len
    }

    /// The length of the file that this index was made for.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Bytes of heap memory that the tensors take; metadata is not counted.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.tensors.heap_size()
    }
}
