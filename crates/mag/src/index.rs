//! The content of a MAG file, checked and owned: its tensors and metadata, and where the values are.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::Object;
use modelfmt_core::{TensorTable, author::Extent};

use crate::checksum::Checksum;
use crate::error::Fault;
#[cfg(feature = "v0_3")]
use crate::manifest::Manifest;
use crate::metadata::Numbers;
use crate::version::Version;

/// The content of a MAG file: its tensors, its metadata, and where the values are.
///
/// Every offset, length and name in it has been checked against the specification and the file's length.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) version: Version,
    pub(crate) tensors: TensorTable,
    pub(crate) numbers: Numbers,
    #[cfg(feature = "v0_3")]
    pub(crate) manifest: Option<Box<Manifest>>,
    pub(crate) checksum: Option<Checksum>,
    pub(crate) checksum_fault: Option<Fault>,
    /// The end of the records, the descriptors or the manifest.
    pub(crate) index_end: u64,
    /// The range of the file for values.
    pub(crate) data: Extent,
    pub(crate) is_big_endian: bool,
    pub(crate) file_len: u64,
}

impl Index {
    /// Returns the version of the format that the file has.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the tensors in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Returns the metadata, in file order: numbers in version 1, the user's metadata (`usr_metadata`) in
    /// version 0.3, and nothing in versions 0.1 and 0.2. Floats may be NaN or infinite.
    #[must_use]
    pub fn metadata(&self) -> &Object {
        #[cfg(feature = "v0_3")]
        if let Some(manifest) = &self.manifest {
            return manifest.metadata();
        }
        self.numbers.as_object()
    }

    /// Returns a new copy of the metadata, equal to [`metadata`](Self::metadata). The index does not keep it,
    /// because it takes several times the memory of the file's bytes.
    #[must_use]
    pub fn to_metadata(&self) -> Object {
        #[cfg(feature = "v0_3")]
        if let Some(manifest) = &self.manifest {
            return manifest.to_metadata();
        }
        self.numbers.to_object()
    }

    /// Returns the number of metadata entries.
    pub(crate) fn metadata_len(&self) -> usize {
        if self.numbers.len() == 0 { self.metadata().len() } else { self.numbers.len() }
    }

    /// Returns the manifest of version 0.3, which states when and by which magnetron the file was written.
    #[cfg(feature = "v0_3")]
    #[must_use]
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_deref()
    }

    /// Returns the kind of the file's checksum. Returns `None` if the version has no checksum (0.3), or if
    /// the checksum matches neither kind and the file was opened with
    /// [`OpenOptions::ignore_checksum`](crate::OpenOptions::ignore_checksum).
    #[must_use]
    pub const fn checksum(&self) -> Option<Checksum> {
        self.checksum
    }

    /// Returns whether the file stores values big-endian, as version 0.3 allows. Reads return them
    /// little-endian even then.
    #[must_use]
    pub const fn is_big_endian(&self) -> bool {
        self.is_big_endian
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the heap memory in bytes that the index takes, without the tree that
    /// [`metadata`](Self::metadata) makes on first use.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        #[cfg(feature = "v0_3")]
        let manifest = self
            .manifest
            .as_ref()
            .map_or(0, |manifest| size_of::<Manifest>().saturating_add(manifest.heap_size()));
        #[cfg(not(feature = "v0_3"))]
        let manifest = 0;
        self.tensors.heap_size().saturating_add(self.numbers.heap_size()).saturating_add(manifest)
    }
}
