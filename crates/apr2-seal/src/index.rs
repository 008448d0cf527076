//! The index of a file: the one of `modelfmt-apr2`, and the seal around it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use apr2::{Flags, Generation, Metadata, Sections};
use modelfmt_core::{Location, TensorTable};

use crate::error::SealFault;
use crate::seal::{Seal, Section};

/// The content of an APR2 or APR1 file, sealed or not. It is owned and checked, and can be shared by any number of readers.
///
/// Every offset, length, name and shape in it has been checked against the specification and the length of the file.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) plain: apr2::Index,
    /// The decoded seal section of a sealed file.
    pub(crate) seal: Option<Arc<Section>>,
    /// Why the signatures of a signed file cannot be checked.
    pub(crate) fault: Option<SealFault>,
}

impl Index {
    /// Signatures and encryption; `None` for a file that is not sealed, or whose seal section is broken.
    #[must_use]
    pub fn seal(&self) -> Option<Seal<'_>> {
        self.seal.as_deref().map(Seal)
    }

    /// Whether the file is APR1 or APR2.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.plain.generation()
    }

    /// Major and minor version; (1, 0) for APR1, which states none.
    #[must_use]
    pub const fn version(&self) -> (u16, u16) {
        self.plain.version()
    }

    /// The feature flags; none for APR1.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.plain.flags()
    }

    /// The alignment that the file promises for its tensors: 64, 32 or none.
    #[must_use]
    pub const fn alignment(&self) -> Option<u64> {
        self.plain.alignment()
    }

    /// The sections of the file.
    #[must_use]
    pub const fn sections(&self) -> Sections {
        self.plain.sections()
    }

    /// The length of the file that this index was made for.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.plain.file_len()
    }

    /// The metadata.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        self.plain.metadata()
    }

    /// The tensors in the order of the file.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        self.plain.tensors()
    }

    /// Where the tensor at a position lies, from the start of the file.
    #[must_use]
    pub fn location(&self, position: usize) -> Option<Location> {
        self.plain.location(position)
    }

    /// Bytes of heap that the tensors take; metadata is not counted.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.plain.heap_size()
    }
}
