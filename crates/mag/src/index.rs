//! The content of a MAG file: its tensors and metadata, and where the values are; checked and owned.
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
    /// The version of the format that the file has.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The tensors in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// The metadata, in file order: numbers in version 1, the user's metadata (`usr_metadata`) in version 0.3, and nothing in
    /// versions 0.1 and 0.2. Floats may be NaN or infinite.
    #[must_use]
    pub fn metadata(&self) -> &Object {
        #[cfg(feature = "v0_3")]
        if let Some(manifest) = &self.manifest {
            return manifest.metadata();
        }
        self.numbers.as_object()
    }

    /// A new copy of the metadata, equal to [`metadata`](Self::metadata). The index keeps no copy of it, since it takes several
    /// times the memory of the file's bytes.
    #[must_use]
    pub fn to_metadata(&self) -> Object {
        #[cfg(feature = "v0_3")]
        if let Some(manifest) = &self.manifest {
            return manifest.to_metadata();
        }
        self.numbers.to_object()
    }

    /// The number of metadata entries.
    pub(crate) fn metadata_len(&self) -> usize {
        if self.numbers.len() == 0 { self.metadata().len() } else { self.numbers.len() }
    }

    /// The manifest of version 0.3: when the file was written, and by which magnetron.
    #[cfg(feature = "v0_3")]
    #[must_use]
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_deref()
    }

    /// The kind of checksum of the file. `None` if its version has none (0.3), or if it matches neither kind and the file was
    /// opened with [`OpenOptions::ignore_checksum`](crate::OpenOptions::ignore_checksum).
    #[must_use]
    pub const fn checksum(&self) -> Option<Checksum> {
        self.checksum
    }

    /// Whether the file stores values big-endian, as version 0.3 allows. They are returned little-endian even then.
    #[must_use]
    pub const fn is_big_endian(&self) -> bool {
        self.is_big_endian
    }

    /// The length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Bytes of heap memory that the index takes, without the tree that [`metadata`](Self::metadata) makes on first use.
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
