//! What a checkpoint holds and where.
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
    /// Pickles behind each other and the storages behind them, as PyTorch wrote before.
    Stream,
}

/// What a checkpoint holds.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) arrays: Arrays,
    pub(crate) form: Form,
    pub(crate) protocol: u8,
    /// What the archive says its version is.
    pub(crate) version: Option<String>,
    pub(crate) metadata: Object,
    pub(crate) globals: Vec<Named>,
    pub(crate) warnings: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Index {
    /// The tensors in the order of the pickle.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        self.arrays.tensors()
    }

    /// The length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.arrays.file_len()
    }

    /// Whether the file is an archive, or the older stream.
    #[must_use]
    pub const fn form(&self) -> Form {
        self.form
    }

    /// The protocol of the pickle.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The numbers and texts beside the tensors, by names as tensors have them.
    #[must_use]
    pub const fn metadata(&self) -> &Object {
        &self.metadata
    }

    /// The classes and functions that the pickle names, in its order. Whoever loads the file with `pickle` or `torch.load(weights_only=False)`
    /// imports each of them, and calls those that are [called](Named::is_called).
    #[must_use]
    pub fn globals(&self) -> &[Named] {
        &self.globals
    }

    /// Whether the file names anything but what builds plain values and tensors, so that code of its choice runs where it is loaded.
    #[must_use]
    pub fn runs_code(&self) -> bool {
        self.globals.iter().any(|global| !global.is_known)
    }

    /// What opening has found and passed over.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What may be of use to know, such as that several parts of the checkpoint hold tensors.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
