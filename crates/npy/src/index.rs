//! The content of a file: its arrays, and where their values are.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_arrays::Arrays;
use modelfmt_core::TensorTable;

/// The content of a .npy or .npz file.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) arrays: Arrays,
    pub(crate) is_archive: bool,
    /// The major version of the header, for a single array.
    pub(crate) version: Option<u8>,
    /// The arrays and other files of the archive that are left out, with the reasons.
    pub(crate) left_out: Vec<String>,
    /// The members that hold Python objects.
    pub(crate) objects: Vec<String>,
}

impl Index {
    /// Returns the arrays in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        self.arrays.tensors()
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.arrays.file_len()
    }

    /// Returns whether the file is an archive of arrays (.npz) instead of a single array.
    #[must_use]
    pub const fn is_archive(&self) -> bool {
        self.is_archive
    }

    /// Returns the members of the archive that are not tensors: arrays of text, of objects or of records, and
    /// files that are not arrays.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns the members of the archive that hold Python objects, which are pickles.
    #[must_use]
    pub fn objects(&self) -> &[String] {
        &self.objects
    }
}
