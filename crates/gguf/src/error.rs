//! Errors about GGUF files, and about models to be written as such.

use modelfmt_core::DType;
use modelfmt_core::value::Integer;

/// The error for a file that cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The error for a file that cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// The error for a file that cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of GGUF that a file, or a model to be written, can break.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The file does not begin with `GGUF`.
    #[error("is not `GGUF`: not a GGUF file")]
    Magic,
    /// The file is big-endian and has blocks. The format does not say which of their bytes are swapped.
    #[error(
        "the file is big-endian, and blocks of {0} have no big-endian form; convert it with gguf's gguf-convert-endian"
    )]
    BigEndianBlocks(DType),
    /// The file has version 1 of the format, which is no longer written.
    #[error("GGUF version 1 is not supported, versions 2 and 3 are; convert the model again")]
    Version1,
    /// The file has a version that this library does not know.
    #[error("GGUF version {0} is not supported, versions 2 and 3 are")]
    Version(u32),
    /// There is no metadata type with this number.
    #[error("{0} is no type of metadata value")]
    ValueType(u32),
    /// There is no tensor type with this number.
    #[error("ggml type {0} is unknown")]
    TensorType(u32),
    /// The tensor has a type that has been removed from ggml.
    #[error("ggml type {number} ({name}) has been removed from ggml; quantize the model again")]
    RemovedType {
        /// The number of the type in ggml.
        number: u32,
        /// The former name of the type.
        name: &'static str,
    },
    /// The file is part of a split, but its name is not the name of such a file.
    #[error(
        "the file is one of a split of {count} files, but its name is not of the form NAME-00001-of-{count:05}.gguf"
    )]
    SplitName {
        /// The number of files of the split, as the file states it.
        count: u64,
    },
    /// A file of a split is expected, but this file is not part of a split.
    #[error("the file is not one of a split: split.count is no number of files")]
    NoSplit,
    /// A key that every file of a split has is missing or not a number.
    #[error("every file of a split has the number {0}")]
    SplitKey(&'static str),
    /// A file of a split contradicts its name or the other files of the split.
    #[error("is {found}, where {expected} is expected")]
    SplitDisagrees {
        /// The number that the file states.
        found: u64,
        /// The number that its name or the other files imply.
        expected: u64,
    },
    /// The stem of a split is not a valid file name.
    #[error("{0}")]
    Path(&'static str),
    /// The key is reserved for files of a split. Only the writer of splits may set it.
    #[error("only the writer of split sets gives files this key")]
    SplitReserved,
    /// The key has characters other than ASCII.
    #[error("keys of GGUF are ASCII")]
    KeyNotAscii,
    /// The key is longer than 65,535 bytes.
    #[error("the key has {0} bytes, keys of GGUF have at most 65,535")]
    KeyLength(u64),
    /// The name is longer than ggml can read.
    #[error("the name has {0} bytes, and ggml reads names below 64")]
    NameLength(u64),
    /// The tensor has no data.
    #[error("it has no data, and GGUF cannot declare a tensor without")]
    Declared,
    /// ggml has no type for this dtype.
    #[error(
        "ggml has no type for {0} (f32, f16, bf16, f64, integers of 8 to 64 bits with a sign, and its blocks)"
    )]
    NoType(DType),
    /// The tensor has more dimensions than ggml supports.
    #[error("the rank is {0}, and ggml has at most 4 dimensions")]
    Rank(usize),
    /// The split has more files or tensors than its fields can count.
    #[error("there are more than a split can count")]
    TooMany,
    /// An array element has another type than the array.
    #[error("the list is of another type")]
    MixedArray,
    /// Arrays are nested deeper than this library reads.
    #[error("lists are nested more than 126 levels deep")]
    ArrayDepth,
    /// GGUF has no type for this value.
    #[error("GGUF holds numbers, booleans, strings and lists, not {0}")]
    NoValue(&'static str),
    /// No type can hold this integer.
    #[error("GGUF holds integers from -2^63 to 2^64 - 1, and this is {0}")]
    Integer(Integer),
    /// A list has elements of different types.
    #[error("a list of GGUF has members of one type, and this has {0} and {1}")]
    MixedList(&'static str, &'static str),
    /// No single type can hold all integers of a list.
    #[error("a list of GGUF has members of one type, and none holds both {0} and {1}")]
    IntegerList(Integer, Integer),
    /// The named type cannot hold the value.
    #[error("the type {0} does not hold {1}")]
    NotOfType(String, &'static str),
    /// The text under `stored` does not hold the bytes of a value in hex digits.
    #[error("`stored` is not a value of GGUF in hex digits")]
    Stored,
    /// `general.alignment` is not a u32.
    #[error("general.alignment must be a u32")]
    AlignmentType,
    /// `general.alignment` is not a power of two.
    #[error("general.alignment is {0}, which is not a power of two")]
    Alignment(u32),
    /// The rows of a tensor do not consist of whole blocks.
    #[error("rows of {row} elements do not divide into whole blocks of {dtype}")]
    PartialRow {
        /// The block type.
        dtype: DType,
        /// The number of elements in a row: the tensor's last dimension.
        row: u64,
    },
}

modelfmt_core::author::debug_as_sentence!(Fault);

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::Common(common) if common.is_end_missing())
    }
}

/// Returns the error for a metadata key that cannot be written.
pub(crate) fn unfit_key(key: &str, fault: Fault) -> WriteError {
    WriteError::Unsupported { part: modelfmt_core::Part::named("metadata key", key), fault }
}
