//! What can be wrong with a GGUF file.

use modelfmt_core::DType;
use modelfmt_core::value::Integer;

/// Why a file cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// Why a file cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// Why a file cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// The result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of GGUF.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The file does not begin with `GGUF`.
    #[error("is not `GGUF`: not a GGUF file")]
    Magic,
    /// Blocks in a big-endian file: nothing says which of their bytes are turned around.
    #[error(
        "the file is big-endian, and blocks of {0} have no big-endian form; convert it with gguf's gguf-convert-endian"
    )]
    BigEndianBlocks(DType),
    /// The first version of the format, which is no longer written.
    #[error("GGUF version 1 is not supported, versions 2 and 3 are; convert the model again")]
    Version1,
    /// A version that this library does not know.
    #[error("GGUF version {0} is not supported, versions 2 and 3 are")]
    Version(u32),
    /// No type of metadata has this number.
    #[error("{0} is no type of metadata value")]
    ValueType(u32),
    /// No type of tensor has this number.
    #[error("ggml type {0} is unknown")]
    TensorType(u32),
    /// A type of tensor that ggml has given up.
    #[error("ggml type {number} ({name}) has been removed from ggml; quantize the model again")]
    RemovedType {
        /// ggml's number.
        number: u32,
        /// The name that it had.
        name: &'static str,
    },
    /// A file of a split is not called what such files are called.
    #[error(
        "the file is one of a split of {count} files, and its name is not NAME-00001-of-{count:05}.gguf or that of another of them"
    )]
    SplitName {
        /// How many files it says there are.
        count: u64,
    },
    /// A file that is no file of a split where one is wanted.
    #[error("the file is not one of a split: split.count is no number of files")]
    NoSplit,
    /// A key that every file of a split has is missing, or is no number.
    #[error("every file of a split has the number {0}")]
    SplitKey(&'static str),
    /// What a file of a split says about the split is not what its name or the other files say.
    #[error("is {found}, where {expected} is expected")]
    SplitDisagrees {
        /// What it says.
        found: u64,
        /// What its name, or the other files, say.
        expected: u64,
    },
    /// A stem of a split that is no name of a file.
    #[error("{0}")]
    Path(&'static str),
    /// A key that the writer of splits adds, or that makes one file of a split.
    #[error("only the writer of split sets gives files this key")]
    SplitReserved,
    /// A key with other than ASCII characters.
    #[error("keys of GGUF are ASCII")]
    KeyNotAscii,
    /// A key that is too long.
    #[error("the key has {0} bytes, keys of GGUF have at most 65,535")]
    KeyLength(u64),
    /// A name that ggml does not read.
    #[error("the name has {0} bytes, and ggml reads names below 64")]
    NameLength(u64),
    /// A tensor without data.
    #[error("it has no data, and GGUF cannot declare a tensor without")]
    Declared,
    /// ggml has no type for this dtype.
    #[error(
        "ggml has no type for {0} (f32, f16, bf16, f64, integers of 8 to 64 bits with a sign, and its blocks)"
    )]
    NoType(DType),
    /// More dimensions than ggml has.
    #[error("the rank is {0}, and ggml has at most 4 dimensions")]
    Rank(usize),
    /// More than the numbers of a split can count.
    #[error("there are more than a split can count")]
    TooMany,
    /// A member of a list of another type than the list.
    #[error("the list is of another type")]
    MixedArray,
    /// Lists in lists, deeper than is read.
    #[error("lists are nested more than 126 levels deep")]
    ArrayDepth,
    /// A tree that no type of metadata holds.
    #[error("GGUF holds numbers, booleans, strings and lists, not {0}")]
    NoValue(&'static str),
    /// An integer that no type holds.
    #[error("GGUF holds integers from -2^63 to 2^64 - 1, and this is {0}")]
    Integer(Integer),
    /// A list with members of several types.
    #[error("a list of GGUF has members of one type, and this has {0} and {1}")]
    MixedList(&'static str, &'static str),
    /// A list of integers that no single type holds.
    #[error("a list of GGUF has members of one type, and none holds both {0} and {1}")]
    IntegerList(Integer, Integer),
    /// A value that the named type does not hold.
    #[error("the type {0} does not hold {1}")]
    NotOfType(String, &'static str),
    /// A text that is not that of a value's bytes.
    #[error("`stored` is not a value of GGUF in hex digits")]
    Stored,
    /// `general.alignment` is not a u32.
    #[error("general.alignment must be a u32")]
    AlignmentType,
    /// `general.alignment` is not what an alignment can be.
    #[error("general.alignment is {0}, which is not a power of two")]
    Alignment(u32),
    /// The rows of a tensor do not consist of whole blocks.
    #[error("rows of {row} elements do not divide into whole blocks of {dtype}")]
    PartialRow {
        /// The block type.
        dtype: DType,
        /// The elements of a row, the tensor's last dimension.
        row: u64,
    },
}

modelfmt_core::author::debug_as_sentence!(Fault);

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::Common(common) if common.is_end_missing())
    }
}

/// A key of metadata cannot be written.
pub(crate) fn unfit_key(key: &str, fault: Fault) -> WriteError {
    WriteError::Unsupported { part: modelfmt_core::Part::named("metadata key", key), fault }
}
