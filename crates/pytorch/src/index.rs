//! The content of a checkpoint: its tensors, and where their values are.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_arrays::Arrays;
use modelfmt_core::TensorTable;
use modelfmt_core::value::Object;

use crate::checkpoint::Named;

/// The form of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A zip archive, as PyTorch 1.6 and later write it.
    Archive,
    /// Several pickles one after another, followed by the storages, as older versions of PyTorch write it.
    Stream,
}

/// The content of a checkpoint.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) arrays: Arrays,
    pub(crate) form: Form,
    pub(crate) protocol: u8,
    /// The version that the archive states.
    pub(crate) version: Option<String>,
    pub(crate) metadata: Object,
    pub(crate) globals: Vec<Named>,
    pub(crate) warnings: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Index {
    /// Returns the tensors in the order of the pickle.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        self.arrays.tensors()
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.arrays.file_len()
    }

    /// Returns whether the file is an archive or an older stream.
    #[must_use]
    pub const fn form(&self) -> Form {
        self.form
    }

    /// Returns the version of the pickle protocol.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Returns the numbers and texts of the checkpoint, with names like those of tensors.
    #[must_use]
    pub const fn metadata(&self) -> &Object {
        &self.metadata
    }

    /// Returns the classes and functions that the pickle names, in order. Loading the file with `pickle` or
    /// `torch.load(weights_only=False)` imports each of them, and calls those that are marked as
    /// [called](Named::is_called).
    #[must_use]
    pub fn globals(&self) -> &[Named] {
        &self.globals
    }

    /// Returns whether the file names a global that does more than build plain values and tensors. If so,
    /// loading the file runs code of the file's choice.
    #[must_use]
    pub fn runs_code(&self) -> bool {
        self.globals.iter().any(|global| !global.is_known)
    }

    /// Returns oddities that were tolerated when the file was opened.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns useful facts about the file, such as that several parts of the checkpoint hold tensors.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
