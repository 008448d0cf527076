//! Errors about tensors.

use std::fmt;

use crate::dtype::DType;

/// The error for an impossible combination of dtype, shape and bytes, or for values that cannot be read as
/// the wanted type.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorError {
    /// The product of the dimensions, or the bytes they imply, is more than 2^63 − 1.
    TooManyElements {
        /// The shape, as text.
        shape: String,
    },
    /// The number of elements is not a multiple of the block type's block size.
    PartialBlock {
        /// The block type.
        dtype: DType,
        /// The shape, as text.
        shape: String,
    },
    /// The number of bytes does not match the dtype and shape.
    Length {
        /// The number of bytes found.
        found: u64,
        /// The number of bytes that dtype and shape imply.
        expected: u64,
    },
    /// The tensor has a different dtype.
    DType {
        /// The dtype of the tensor.
        found: DType,
        /// The dtype that was asked for.
        wanted: DType,
    },
    /// The bytes do not start at a multiple of the type's alignment. Copying (`to_vec`) works.
    Unaligned {
        /// The alignment that the type needs, in bytes.
        alignment: usize,
    },
    /// The values are little-endian and this machine is not. Copying (`to_vec`) works.
    Endianness,
    /// The values are ggml blocks, which the crate `ggml-quant` decodes.
    Blocks(DType),
    /// The dtype is not numeric.
    NotNumeric(DType),
}

crate::debug_as_sentence!(TensorError);

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyElements { shape } => {
                write!(f, "the shape {shape} has more elements than a file can hold")
            }
            Self::PartialBlock { dtype, shape } => {
                write!(f, "the shape {shape} does not divide into whole blocks of {dtype}")
            }
            Self::Length { found, expected } => {
                write!(f, "{found} bytes are not the {expected} that dtype and shape imply")
            }
            Self::DType { found, wanted } => write!(f, "the tensor holds {found}, not {wanted}"),
            Self::Unaligned { alignment } => write!(
                f,
                "the values start at an address that is not a multiple of {alignment}; copy them with to_vec instead"
            ),
            Self::Endianness => f.write_str(
                "the values are little-endian and this machine is not; copy them with to_vec instead",
            ),
            Self::Blocks(dtype) => {
                write!(f, "the values are blocks of {dtype}; decode them with the crate ggml-quant")
            }
            Self::NotNumeric(dtype) => write!(f, "{dtype} cannot be read as numbers"),
        }
    }
}

impl std::error::Error for TensorError {}
