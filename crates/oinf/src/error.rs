//! Errors about OINF files, and about models to be written as such.

use modelfmt_core::DType;
use modelfmt_core::value::KeyError;

use crate::value_type::ValueType;

/// The error for a file that cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The error for a file that cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// The error for a file that cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of OINF that a file, or a model to be written, can break.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The file does not begin with `OINF` and a zero byte.
    #[error("is not \"OINF\\0\": this is not an OINF file")]
    Magic,
    /// The file states another version.
    #[error("is {0}; this library reads versions 1 and 2")]
    Version(u32),
    /// A field that the format reserves is not zero.
    #[error("is {0:#x}, but the format keeps it zero")]
    NotZero(u64),
    /// An offset is not a multiple of 8.
    #[error("is {0}, which is not a multiple of 8")]
    Unaligned(u64),
    /// A section begins inside the header, or before the section that should precede it.
    #[error("is {offset}, but the section before it reaches to {before}")]
    NotAscending {
        /// The offset of the section.
        offset: u64,
        /// The smallest offset that the section can have.
        before: u64,
    },
    /// The file is longer or shorter than its header says.
    #[error("is {stated}, but the file has {actual} bytes")]
    FileSize {
        /// The length in the header.
        stated: u64,
        /// The length of the file.
        actual: u64,
    },
    /// A payload begins before the data section.
    #[error("is {offset}, before the data section at {data}")]
    BeforeData {
        /// The offset of the payload.
        offset: u64,
        /// The offset of the data section.
        data: u64,
    },
    /// A string is empty.
    #[error("is empty; an OINF string has one character of A-Z a-z 0-9 . _ - or more")]
    EmptyString,
    /// A string has a character that OINF does not allow.
    #[error("has {found} at position {position}; an OINF string has only A-Z a-z 0-9 . _ -")]
    Character {
        /// The character (in a file, the byte) and its kind.
        found: String,
        /// The position of the character in the string, in bytes.
        position: usize,
    },
    /// A value type that the format does not define.
    #[error("is value type {0}, which OINF does not define")]
    UnknownType(u32),
    /// A type that tensors and arrays cannot have.
    #[error("is {0}, but tensors and arrays hold numbers or booleans")]
    NotNumeric(ValueType),
    /// The flags of a tensor have bits that the file's version does not define.
    #[error("has the unknown bits {0:#x}")]
    FlagBits(u32),
    /// A tensor without data has an offset or a length.
    #[error("is {0}, but a tensor without HAS_DATA has 0")]
    DeclaredData(u64),
    /// A tensor without a quant payload has an offset or a length for one.
    #[error("is {0}, but a tensor without HAS_QUANT has 0")]
    UndeclaredQuant(u64),
    /// The format does not define this scheme or mode of a quant payload.
    #[error("is {0}, which the format does not define")]
    QuantCode(u32),
    /// The scales are along a dimension that the tensor does not have.
    #[error("is {axis}, but the tensor has {rank} dimensions")]
    QuantAxis {
        /// The dimension.
        axis: u64,
        /// The number of dimensions.
        rank: usize,
    },
    /// The number of scales or zero points is not the number that the shape implies.
    #[error("is {found}, but the shape of the tensor implies {expected}")]
    QuantCount {
        /// The number in the file.
        found: u64,
        /// The number that the shape implies.
        expected: u64,
    },
    /// A symmetric payload has zero points, or the number of zero points of an asymmetric payload does not
    /// match its scales.
    #[error(
        "does not fit: asymmetric payloads have zero points as they have scales, symmetric ones have none"
    )]
    QuantZeroPoints,
    /// A quant payload has the wrong length.
    #[error("is {found}, but a payload of this content takes {expected} bytes")]
    QuantLen {
        /// The length that the file states.
        found: u64,
        /// The length that the content implies.
        expected: u64,
    },
    /// OpenInfer's writer has stored the quant payload at another offset than the file says.
    #[error(
        "is not a quant payload: the payload is at byte {0}. This is a bug of OpenInfer's writer: it stores the values of all tensors \
         before all quant payloads, but its offsets do not, so the values of later tensors are not where the file says either; \
         write the file again with a writer that does not have this bug"
    )]
    QuantElsewhere(u64),
    /// Quant payloads share bytes, and their lengths add up to more than the length of the file.
    #[error("have {0} bytes together, which is more than the file has: many share the same ones")]
    SharedQuants(u64),
    /// A metadata payload has the wrong length.
    #[error("is {found}, but a {value_type} payload of this content takes {expected} bytes")]
    PayloadLen {
        /// The type of the value.
        value_type: ValueType,
        /// The length that the file states.
        found: u64,
        /// The length that type and content imply.
        expected: u64,
    },
    /// Metadata values share bytes, and their lengths add up to more than the length of the file.
    #[error("have {0} bytes together, which is more than the file has: many share the same ones")]
    SharedMetadata(u64),
    /// The byte count of a bitset does not match its bit count.
    #[error("is {found}, but {bits} bits take {expected} bytes")]
    BitsetBytes {
        /// The byte count that the file states.
        found: u64,
        /// The number of bits in the set.
        bits: u32,
        /// The number of bytes that this many bits take.
        expected: u64,
    },

    /// Padding is not zero.
    #[error("is padding and must be zero, but is {0:#04x}")]
    Padding(u8),
    /// The file ends inside the padding of its last payload.
    #[error("the file ends before the padding of its last payload does, at byte {0}")]
    CutPadding(u64),
    /// Bytes between two parts belong to neither of them and are not padding to a multiple of 8.
    #[error("{0} bytes belong to no part of the file")]
    Gap(u64),
    /// Two payloads share bytes.
    #[error("shares bytes with {0}")]
    Overlap(String),
    /// A boolean is neither 0 nor 1.
    #[error("is boolean and must be 0 or 1, but is {value} ({count} such bytes in all)")]
    Bool {
        /// The first such byte.
        value: u8,
        /// The number of such bytes.
        count: u64,
    },
    /// A ternary is −2, although the type allows only −1, 0 and 1.
    #[error("is ternary and must be -1, 0 or 1, but is -2 ({0} such elements in all)")]
    Ternary(u64),
    /// A bitset has bits set beyond its bit count.
    #[error("has bits set beyond its {0}")]
    StrayBits(u32),

    /// A value type that the document of version 1 does not have.
    #[error(
        "the document of OINF 1 has no {0}, though the package that is published reads it; write version 2, or ask for extended \
         types"
    )]
    Extended(ValueType),
    /// A quant payload for a file of version 1.
    #[error("has a quant payload, and OINF 1 has none; write version 2")]
    NoQuants,
    /// A quant payload for a tensor that is not written.
    #[error("has a quant payload, and no such tensor is to be written")]
    QuantOfNothing,
    /// OINF does not have this element type.
    #[error(
        "OINF cannot hold {0}; convert the values to a type that it has (bool, i8 to u64, f16, bf16, f32, f64)"
    )]
    NoCode(DType),
    /// The number of entries does not fit a 32-bit count.
    #[error("are {0}, and OINF counts up to 4,294,967,295")]
    TooMany(u64),
    /// No metadata type has this name.
    #[error(
        "no value type is named {0:?}; there are bool, i8 to u64, f16, f32, f64, str, bitset and ndarray, and bf16, f8_e5m2, i4 to u1, \
         t2 and t1"
    )]
    UnknownTypeName(String),
    /// A metadata value is not of the kind that its type requires.
    #[error("expected {expected}, found {found}")]
    WrongKind {
        /// The kind that the type requires.
        expected: &'static str,
        /// The kind of the value.
        found: &'static str,
    },
    /// A number does not fit its type.
    #[error("{number} does not fit {dtype}")]
    NumberRange {
        /// The number.
        number: String,
        /// The type.
        dtype: DType,
    },
    /// The hex digits are not the bits of a float of this type.
    #[error("{digits:?} are not the hex digits of the bits of {dtype}")]
    FloatBits {
        /// The digits in the value.
        digits: String,
        /// The type.
        dtype: DType,
    },
    /// A plain JSON value has no counterpart in the metadata of OINF.
    #[error(
        "{0} is no metadata value of OINF: it takes booleans, numbers, strings, flat lists of booleans or numbers, and \
         {{\"type\": …, \"value\": …}}"
    )]
    NoValue(&'static str),
    /// An object with `type` has a member that a typed metadata value does not have.
    #[error("{{\"type\": …, \"value\": …}} has a member {0:?} that metadata of OINF cannot hold")]
    Member(String),
    /// A list has both integers and floats, but an array has one type.
    #[error(
        "a list of integers and floats; an array of OINF has one type: write all as floats (1.0), or all as integers"
    )]
    MixedList,
    /// The file would be longer than a 64-bit offset can express.
    #[error("the file would be too long")]
    TooLong,
}

modelfmt_core::author::debug_as_sentence!(Fault);

/// A key of a metadata value is missing or of the wrong type.
impl From<KeyError> for Fault {
    fn from(error: KeyError) -> Self {
        modelfmt_core::CommonFault::Metadata(error.to_string()).into()
    }
}

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        match self {
            Self::Common(common) => common.is_end_missing(),
            other => matches!(other, Self::FileSize { .. }),
        }
    }
}
