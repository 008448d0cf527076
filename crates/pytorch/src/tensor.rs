//! A tensor as a pickle describes it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::DType;

/// A tensor: a view of a storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorAt {
    /// The number of the tensor's value in the pickle, for errors.
    pub(crate) value: u64,
    /// The number of the storage.
    pub(crate) storage: usize,
    pub(crate) dtype: DType,
    /// The offset of the first element in the storage, in bytes.
    pub(crate) start: u64,
    pub(crate) dims: Dims,
}

/// The place of a tensor's dimensions in the list of all tensors' numbers. The strides follow the dimensions.
/// Both are in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims {
    pub(crate) at: usize,
    /// The number of dimensions.
    pub(crate) rank: usize,
    /// The number of strides.
    pub(crate) strides: usize,
}

impl Dims {
    /// Returns the dimensions and the strides from the list of all tensors' numbers.
    pub(crate) fn of(self, all: &[u64]) -> (&[u64], &[u64]) {
        let rest = all.get(self.at..).unwrap_or_default();
        let (shape, rest) = rest.split_at_checked(self.rank).unwrap_or_default();
        (shape, rest.get(..self.strides).unwrap_or_default())
    }
}
