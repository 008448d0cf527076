//! The index of a file: the index of `modelfmt-apr2`, and the seal around it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use apr2::{Flags, Generation, Metadata, Sections};
use modelfmt_core::{Location, TensorTable};

use crate::error::SealFault;
use crate::seal::{Seal, Section};

/// The content of an APR2 or APR1 file, sealed or not. It is owned and can be shared by any number of
/// readers.
///
/// Every offset, length, name and shape in it has been checked against the specification and the length of the file.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) plain: apr2::Index,
    /// The decoded seal section of a sealed file.
    pub(crate) seal: Option<Arc<Section>>,
    /// The reason why the signatures of a signed file cannot be checked.
    pub(crate) fault: Option<SealFault>,
}

impl Index {
    /// Returns the signatures and the encryption, or `None` if the file is not sealed or its seal section is
    /// broken.
    #[must_use]
    pub fn seal(&self) -> Option<Seal<'_>> {
        self.seal.as_deref().map(Seal)
    }

    /// Returns whether the file is APR1 or APR2.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.plain.generation()
    }

    /// Returns the major and minor version; (1, 0) for APR1, which states none.
    #[must_use]
    pub const fn version(&self) -> (u16, u16) {
        self.plain.version()
    }

    /// Returns the feature flags. APR1 has none.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.plain.flags()
    }

    /// Returns the alignment that the file promises for its tensors: 64, 32 or none.
    #[must_use]
    pub const fn alignment(&self) -> Option<u64> {
        self.plain.alignment()
    }

    /// Returns the sections of the file.
    #[must_use]
    pub const fn sections(&self) -> Sections {
        self.plain.sections()
    }

    /// Returns the length in bytes of the file that this index was made for.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.plain.file_len()
    }

    /// Returns the metadata.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        self.plain.metadata()
    }

    /// Returns the tensors, in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        self.plain.tensors()
    }

    /// Returns the location of the tensor at a position, from the start of the file.
    #[must_use]
    pub fn location(&self, position: usize) -> Option<Location> {
        self.plain.location(position)
    }

    /// Returns the heap memory in bytes that the tensors take. Metadata is not counted.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.plain.heap_size()
    }
}
