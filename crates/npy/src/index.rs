//! What a file holds and where.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_arrays::Arrays;
use modelfmt_core::TensorTable;

/// What a .npy or .npz file holds.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) arrays: Arrays,
    pub(crate) is_archive: bool,
    /// The version of the header of a single array.
    pub(crate) version: Option<u8>,
    /// Arrays and other files of the archive that are left out, and why.
    pub(crate) left_out: Vec<String>,
}

impl Index {
    /// The arrays in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        self.arrays.tensors()
    }

    /// The length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.arrays.file_len()
    }

    /// Whether the file is an archive of arrays (.npz), and not a single one.
    #[must_use]
    pub const fn is_archive(&self) -> bool {
        self.is_archive
    }

    /// What the archive holds that is no tensor: arrays of text, of objects or of records, and files that are no arrays.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}
