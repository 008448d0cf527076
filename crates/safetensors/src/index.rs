//! The content of a file, checked and owned: metadata, and where each tensor is.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::TensorTable;
use modelfmt_core::value::Object;

use crate::metadata::Metadata;

/// The content of a safetensors file. It is owned and can be shared by any number of readers. Opening the
/// file again with it reads nothing.
///
/// Tensors are in the order of the header, which may differ from the order of their data.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) tensors: TensorTable,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) header_len: u64,
    pub(crate) file_len: u64,
}

impl Index {
    /// Returns the tensors, in the order of the header.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Returns the strings of `__metadata__`, in file order. Returns `None` if the file has no metadata,
    /// which differs from an empty object.
    #[must_use]
    pub fn metadata(&self) -> Option<&Object> {
        self.metadata.as_ref().map(Metadata::object)
    }

    /// Returns a new copy of the metadata, equal to [`metadata`](Self::metadata). The index does not keep it,
    /// because it takes several times the memory of the file's bytes.
    #[must_use]
    pub fn to_metadata(&self) -> Option<Object> {
        self.metadata.as_ref().map(Metadata::to_object)
    }

    /// Returns the length of the header's JSON in bytes, including the spaces that fill it up.
    #[must_use]
    pub const fn header_len(&self) -> u64 {
        self.header_len
    }

    /// Returns the length in bytes of the file that this index was made for.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the heap memory in bytes that the tensors take. Metadata is not counted.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.tensors.heap_size()
    }
}
