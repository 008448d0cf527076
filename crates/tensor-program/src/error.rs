//! Why a step does not fit a program, and why its values cannot be computed.

use ggml_quant::QuantError;
use tensor_core::DType;

/// Why a step cannot be added to a program, or cannot be undone.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A step that moves elements, applied to a dtype whose elements are not whole bytes.
    #[error("{step} moves elements of whole bytes, and {dtype} has none; dequantize it first")]
    NotMovable {
        /// The step.
        step: &'static str,
        /// The dtype.
        dtype: DType,
    },
    /// A step that computes, applied to a dtype that it does not take.
    #[error("{step} takes {takes}, not {dtype}")]
    WrongType {
        /// The step.
        step: &'static str,
        /// What it takes.
        takes: &'static str,
        /// The dtype.
        dtype: DType,
    },
    /// A step that cannot make this dtype.
    #[error("{step} makes {makes}, not {dtype}")]
    WrongResult {
        /// The step.
        step: &'static str,
        /// What it makes.
        makes: &'static str,
        /// The dtype.
        dtype: DType,
    },
    /// A step that does not fit a shape.
    #[error("{step} does not fit the shape {shape:?}: {why}")]
    WrongShape {
        /// The step.
        step: &'static str,
        /// The shape of the tensor before the step.
        shape: Vec<u64>,
        /// What is wrong.
        why: String,
    },
    /// Too many steps in a row.
    #[error("a program has at most {0} steps in a row")]
    TooDeep(u32),
    /// A step that cannot be undone.
    #[error("{0} cannot be undone")]
    NotInvertible(&'static str),
}

/// A value that a step cannot compute. Elements are counted from the first one of the step's result.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// A NaN, in a dtype that has none.
    #[error("element {element} is a NaN, and {dtype} has none")]
    NotANumber {
        /// The element.
        element: u64,
        /// The dtype of the step.
        dtype: DType,
    },
    /// A NaN or an infinity, in blocks that can hold neither.
    #[error("element {element} is a NaN or beyond the range of f32, and blocks of {dtype} cannot say so")]
    NotFinite {
        /// The element.
        element: u64,
        /// The dtype of the blocks.
        dtype: DType,
    },
    /// Values that are too large or too far apart for one block.
    #[error(
        "the block at element {element} needs a scale or minimum beyond 65504, the largest that {dtype} has"
    )]
    ScaleOverflow {
        /// The first element of the block.
        element: u64,
        /// The dtype of the blocks.
        dtype: DType,
    },
    /// A number that is larger than the result can hold.
    #[error("element {element} is {found}, and at most {most} can be kept")]
    TooLarge {
        /// The element.
        element: u64,
        /// The number.
        found: u8,
        /// The largest one.
        most: u8,
    },
    /// Blocks that cannot be decoded or encoded.
    #[error(transparent)]
    Blocks(#[from] QuantError),
}

impl ValueError {
    /// Converts the error of an encoder, counting its elements from `first` on.
    pub(crate) fn encoding(error: QuantError, first: u64, dtype: DType) -> Self {
        let absolute = |element: usize| first.saturating_add(element as u64);
        match error {
            QuantError::NotFinite { element } => Self::NotFinite { element: absolute(element), dtype },
            QuantError::ScaleOverflow { element } => {
                Self::ScaleOverflow { element: absolute(element), dtype }
            }
            other => Self::Blocks(other),
        }
    }
}

/// Why values of a program cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError<E> {
    /// The values of an input cannot be read.
    Read(E),
    /// A value cannot be computed.
    Values(ValueError),
}

impl<E> ReadError<ReadError<E>> {
    /// Flattens the error of a program within a program.
    pub(crate) fn flatten(self) -> ReadError<E> {
        match self {
            Self::Read(inner) => inner,
            Self::Values(error) => ReadError::Values(error),
        }
    }
}

impl<E> From<ValueError> for ReadError<E> {
    fn from(error: ValueError) -> Self {
        Self::Values(error)
    }
}

impl<E> From<QuantError> for ReadError<E> {
    fn from(error: QuantError) -> Self {
        Self::Values(error.into())
    }
}

tensor_core::debug_as_sentence!(ProgramError);
tensor_core::debug_as_sentence!(ValueError);
