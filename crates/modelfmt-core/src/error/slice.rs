//! Errors about slices of tensors.

use tensor_core::DType;

/// The error for a slice that cannot be taken.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// The text is not a slice.
    #[error("{0:?} is no slice; write positions of each dimension as in 0:4,:8 or -1 or ::2")]
    Syntax(String),
    /// The step is 0 or negative.
    #[error("the step in dimension {dim} must be 1 or more")]
    Step {
        /// The dimension, counted from 0.
        dim: usize,
    },
    /// The slice has more dimensions than the tensor.
    #[error("the slice has {given} dimensions, the tensor {rank}")]
    Rank {
        /// The number of dimensions of the slice.
        given: usize,
        /// The number of dimensions of the tensor.
        rank: usize,
    },
    /// The dimension has no such position.
    #[error("there is no position {index} in dimension {dim}, which has {size}")]
    Index {
        /// The position.
        index: i64,
        /// The dimension, counted from 0.
        dim: usize,
        /// The number of positions in the dimension.
        size: u64,
    },
    /// The slice would split a block, whose elements share bytes.
    #[error(
        "{dtype} has {elements} elements to a block, and the slice would cut one; take whole rows, or whole blocks of them"
    )]
    PartialBlock {
        /// The dtype.
        dtype: DType,
        /// The number of elements in a block.
        elements: u64,
    },
    /// The shape does not determine where each row begins, because the format pads rows or packs the values.
    #[error(
        "a slice of {dtype} {shape} cannot be taken, because its shape does not say where each row begins; read the whole tensor"
    )]
    Layout {
        /// The dtype.
        dtype: DType,
        /// The shape, as text.
        shape: String,
    },
}

tensor_core::debug_as_sentence!(SliceError);
