//! What can be wrong with an OINF file, and with what is to become one.

use modelfmt_core::DType;
use modelfmt_core::value::KeyError;

use crate::value_type::ValueType;

/// Why a file cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// Why a file cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// Why a file cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// The result of this crate's functions.
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
    /// A section begins before the one in front of it does, or inside the header.
    #[error("is {offset}, but the section before it reaches to {before}")]
    NotAscending {
        /// Where the section begins.
        offset: u64,
        /// The least it could be.
        before: u64,
    },
    /// The file is longer or shorter than its header says.
    #[error("is {stated}, but the file has {actual} bytes")]
    FileSize {
        /// What the header says.
        stated: u64,
        /// The length of the file.
        actual: u64,
    },
    /// A payload begins before the data section.
    #[error("is {offset}, before the data section at {data}")]
    BeforeData {
        /// Where the payload begins.
        offset: u64,
        /// Where the data section begins.
        data: u64,
    },
    /// A string without characters.
    #[error("is empty; an OINF string has one character of A-Z a-z 0-9 . _ - or more")]
    EmptyString,
    /// A string with a character that OINF does not have.
    #[error("has {found} at position {position}; an OINF string has only A-Z a-z 0-9 . _ -")]
    Character {
        /// The character (the byte, in a file) and what it is.
        found: String,
        /// Where it is in the string, in bytes.
        position: usize,
    },
    /// A value type that the format does not define.
    #[error("is value type {0}, which OINF does not define")]
    UnknownType(u32),
    /// A type that tensors and arrays cannot have.
    #[error("is {0}, but tensors and arrays hold numbers or booleans")]
    NotNumeric(ValueType),
    /// Flag bits of a tensor that its version does not have.
    #[error("has the unknown bits {0:#x}")]
    FlagBits(u32),
    /// A tensor without data that has an offset or a length.
    #[error("is {0}, but a tensor without HAS_DATA has 0")]
    DeclaredData(u64),
    /// A tensor without a quant payload that has an offset or a length of one.
    #[error("is {0}, but a tensor without HAS_QUANT has 0")]
    UndeclaredQuant(u64),
    /// A scheme or a mode of a quant payload that the format does not define.
    #[error("is {0}, which the format does not define")]
    QuantCode(u32),
    /// Scales along a dimension that the tensor does not have.
    #[error("is {axis}, but the tensor has {rank} dimensions")]
    QuantAxis {
        /// The dimension.
        axis: u64,
        /// How many there are.
        rank: usize,
    },
    /// Not as many scales or zero points as the shape implies.
    #[error("is {found}, but the shape of the tensor implies {expected}")]
    QuantCount {
        /// What is there.
        found: u64,
        /// What the shape implies.
        expected: u64,
    },
    /// Zero points where there are none, or not along the dimension of the scales.
    #[error(
        "does not fit: asymmetric payloads have zero points as they have scales, symmetric ones have none"
    )]
    QuantZeroPoints,
    /// A quant payload of the wrong length.
    #[error("is {found}, but a payload of this content takes {expected} bytes")]
    QuantLen {
        /// What the file says.
        found: u64,
        /// What the content implies.
        expected: u64,
    },
    /// OpenInfer's writer has stored the quant payload elsewhere than the file says.
    #[error(
        "is not a quant payload: it stands at byte {0}. OpenInfer's writer has this fault: it stores the values of all tensors \
         before all quant payloads, and its offsets say otherwise, so values of later tensors are not where the file says either; \
         write the file again with a writer without the fault"
    )]
    QuantElsewhere(u64),
    /// Quant payloads that share bytes, and together have more than the file.
    #[error("have {0} bytes together, which is more than the file has: many share the same ones")]
    SharedQuants(u64),
    /// A metadata payload of the wrong length.
    #[error("is {found}, but a {value_type} payload of this content takes {expected} bytes")]
    PayloadLen {
        /// The type of the value.
        value_type: ValueType,
        /// What the file says.
        found: u64,
        /// What type and content imply.
        expected: u64,
    },
    /// Metadata values that share bytes, and together have more than the file.
    #[error("have {0} bytes together, which is more than the file has: many share the same ones")]
    SharedMetadata(u64),
    /// A bitset whose byte count does not follow from its bit count.
    #[error("is {found}, but {bits} bits take {expected} bytes")]
    BitsetBytes {
        /// What the file says.
        found: u64,
        /// Bits in the set.
        bits: u32,
        /// What they take.
        expected: u64,
    },

    /// Padding that is not zero.
    #[error("is padding and must be zero, but is {0:#04x}")]
    Padding(u8),
    /// The file ends inside the padding of its last payload.
    #[error("the file ends before the padding of its last payload does, at byte {0}")]
    CutPadding(u64),
    /// Bytes between two parts that belong to neither, beyond the padding to 8.
    #[error("{0} bytes belong to no part of the file")]
    Gap(u64),
    /// Two payloads share bytes.
    #[error("shares bytes with {0}")]
    Overlap(String),
    /// Booleans other than 0 and 1.
    #[error("is boolean and must be 0 or 1, but is {value} ({count} such bytes in all)")]
    Bool {
        /// The first such byte.
        value: u8,
        /// How many there are.
        count: u64,
    },
    /// A ternary that is neither −1, 0 nor 1.
    #[error("is ternary and must be -1, 0 or 1, but is -2 ({0} such elements in all)")]
    Ternary(u64),
    /// Bits of a bitset beyond its bit count are set.
    #[error("has bits set beyond its {0}")]
    StrayBits(u32),

    /// A value type that came after version 1's document.
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
    /// An element type that OINF lacks.
    #[error(
        "OINF cannot hold {0}; convert the values to a type that it has (bool, i8 to u64, f16, bf16, f32, f64)"
    )]
    NoCode(DType),
    /// More entries than a 32-bit count can say.
    #[error("are {0}, and OINF counts up to 4,294,967,295")]
    TooMany(u64),
    /// No type of metadata has this name.
    #[error(
        "no value type is named {0:?}; there are bool, i8 to u64, f16, f32, f64, str, bitset and ndarray, and bf16, f8_e5m2, i4 to u1, \
         t2 and t1"
    )]
    UnknownTypeName(String),
    /// A metadata value of another kind than its type asks for.
    #[error("expected {expected}, found {found}")]
    WrongKind {
        /// What the type asks for.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A number that its type cannot hold.
    #[error("{number} does not fit {dtype}")]
    NumberRange {
        /// The number.
        number: String,
        /// The type.
        dtype: DType,
    },
    /// Hex digits that are not those of a float of this type.
    #[error("{digits:?} are not the hex digits of the bits of {dtype}")]
    FloatBits {
        /// What is there.
        digits: String,
        /// The type.
        dtype: DType,
    },
    /// A tree that plain JSON cannot express as metadata of OINF.
    #[error(
        "{0} is no metadata value of OINF: it takes booleans, numbers, strings, flat lists of booleans or numbers, and \
         {{\"type\": …, \"value\": …}}"
    )]
    NoValue(&'static str),
    /// A member that a typed metadata value does not have.
    #[error("{{\"type\": …, \"value\": …}} has a member {0:?} that metadata of OINF cannot hold")]
    Member(String),
    /// A list with integers and floats, which an array of one type cannot tell apart.
    #[error(
        "a list of integers and floats; an array of OINF has one type: write all as floats (1.0), or all as integers"
    )]
    MixedList,
    /// The file would be longer than an offset can say.
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
