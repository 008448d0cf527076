//! Errors about safetensors files, and about models to be written as such.

use modelfmt_core::DType;

/// The error for a file that cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The error for a file that cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// The error for a file that cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of safetensors that a file, or a model to be written, can break.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The header is not a JSON object.
    #[error("does not begin with `{{`: not a safetensors file")]
    NotAnObject,
    /// A tensor's entry, or the index of a set, lacks a key.
    #[error("has no key `{0}`")]
    Missing(&'static str),
    /// The format does not have this dtype.
    #[error("{0:?} is no dtype of safetensors")]
    UnknownDType(String),
    /// A tensor ends before it begins.
    #[error("ends at byte {end} of the data, before it begins at byte {begin}")]
    Reversed {
        /// The offset at which the tensor begins.
        begin: u64,
        /// The offset at which the tensor ends.
        end: u64,
    },
    /// There is a hole before a tensor, or the tensor overlaps the previous one.
    #[error(
        "begins at byte {found} of the data, but the tensors before it end at byte {expected}: holes and overlaps are not allowed"
    )]
    NotContiguous {
        /// The offset at which the tensor should begin.
        expected: u64,
        /// The offset at which the tensor begins.
        found: u64,
    },
    /// Bytes follow the last tensor.
    #[error("{0} bytes follow the last tensor, which must end the file")]
    TrailingBytes(u64),
    /// A tensor has the name `__metadata__`, which is the key of the metadata.
    #[error("the name `__metadata__` is reserved, rename the tensor")]
    ReservedName,
    /// The format has no type for these elements.
    #[error("safetensors has no dtype for {0}, convert it first")]
    NoCounterpart(DType),
    /// The tensor has no values, and the format cannot declare such a tensor.
    #[error("has no values, and safetensors cannot hold a tensor without")]
    NoValues,
    /// A metadata value is not a string.
    #[error("is {0}, but metadata of safetensors are strings")]
    NotAString(&'static str),
    /// The header would be longer than other readers accept.
    #[error(
        "would be {len} bytes long, readers accept {max}: split the model (shards) or raise it in WriteOptions"
    )]
    HeaderTooLong {
        /// The length of the JSON text.
        len: u64,
        /// The longest text that is allowed.
        max: u64,
    },
    /// The path of a file of a set leads out of the set's folder.
    #[error("{0}")]
    Path(&'static str),
}

modelfmt_core::author::debug_as_sentence!(Fault);

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::Common(common) if common.is_end_missing())
    }
}
