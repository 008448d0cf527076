//! A tensor as a pickle describes it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::DType;

/// A tensor: a view of a storage.
#[derive(Clone, Debug)]
pub(crate) struct TensorAt {
    /// The number of the value in the pickle, for errors.
    pub(crate) value: u64,
    /// The storage, by its number.
    pub(crate) storage: usize,
    pub(crate) dtype: DType,
    /// Where its first element is in the storage, in bytes.
    pub(crate) start: u64,
    pub(crate) dims: Dims,
}

/// Dimensions and strides, in elements.
#[derive(Clone, Debug)]
pub(crate) struct Dims {
    pub(crate) shape: Box<[u64]>,
    pub(crate) strides: Box<[u64]>,
}
