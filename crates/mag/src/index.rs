//! What a MAG file holds and where, checked and owned.

use modelfmt_core::TensorTable;

use crate::checksum::Checksum;
use crate::error::Fault;
use crate::metadata::Metadata;

/// What a MAG file holds: its tensors, its metadata, and where the values lie.
///
/// Every offset, length and name in it has been checked against the specification and the file's length.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) tensors: TensorTable,
    pub(crate) metadata: Metadata,
    pub(crate) checksum: Option<Checksum>,
    pub(crate) checksum_fault: Option<Fault>,
    pub(crate) records_end: u64,
    pub(crate) file_len: u64,
}

impl Index {
    /// The tensors in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// The metadata in file order.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Which checksum the file carries; `None` if it matches neither, which only
    /// [`OpenOptions::ignore_checksum`](crate::OpenOptions::ignore_checksum) lets pass.
    #[must_use]
    pub const fn checksum(&self) -> Option<Checksum> {
        self.checksum
    }

    /// How the checksum fails, if it does.
    pub(crate) const fn checksum_fault(&self) -> Option<&Fault> {
        self.checksum_fault.as_ref()
    }

    /// Where the last tensor record ends.
    pub(crate) const fn records_end(&self) -> u64 {
        self.records_end
    }

    /// The length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Bytes of heap that the index holds.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.tensors.heap_size() + self.metadata.heap_size()
    }
}
