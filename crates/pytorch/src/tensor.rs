//! A tensor as a pickle describes it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::DType;

/// A tensor: a view of a storage.
#[derive(Clone, Copy, Debug)]
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

/// Where the dimensions of a tensor are among the numbers of all, and the strides behind them, both in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims {
    pub(crate) at: usize,
    /// How many dimensions there are.
    pub(crate) rank: usize,
    /// How many strides there are.
    pub(crate) strides: usize,
}

impl Dims {
    /// The dimensions and the strides among the numbers of all tensors.
    pub(crate) fn of(self, all: &[u64]) -> (&[u64], &[u64]) {
        let rest = all.get(self.at..).unwrap_or_default();
        let (shape, rest) = rest.split_at_checked(self.rank).unwrap_or_default();
        (shape, rest.get(..self.strides).unwrap_or_default())
    }
}
