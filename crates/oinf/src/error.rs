//! What can be wrong with an OINF file, and with what is to become one.

use modelfmt_core::DType;

use crate::value_type::ValueType;

/// Why a file cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// Why a file cannot be written.
pub type WriteError = modelfmt_core::write::WriteError<Fault>;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rule of OINF 1 that a file breaks, or that is in the way of writing one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The file does not begin with `OINF` and a zero byte.
    #[error("is not \"OINF\\0\": this is not an OINF file")]
    Magic,
    /// The file states another version.
    #[error("is {0}; this library reads version 1")]
    Version(u32),
    /// A field that version 1 reserves is not zero.
    #[error("is {0:#x}, but version 1 keeps it zero")]
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
        /// Where it stands in the string, in bytes.
        position: usize,
    },
    /// A value type that version 1 does not define.
    #[error("is value type {0}, which OINF does not define")]
    UnknownType(u32),
    /// A value type of later revisions, which go by the same version number.
    #[error("is value type {code} ({name}), which came after version 1 as specified and is not read here")]
    LaterType {
        /// The number.
        code: u32,
        /// What later revisions call it.
        name: &'static str,
    },
    /// A type that tensors and arrays cannot have.
    #[error("is {0}, but tensors and arrays hold numbers or booleans")]
    NotNumeric(ValueType),
    /// Flag bits of a tensor beyond HAS_DATA.
    #[error("has the unknown bits {0:#x}")]
    FlagBits(u32),
    /// A tensor without data that has an offset or a length.
    #[error("is {0}, but a tensor without HAS_DATA has 0")]
    DeclaredData(u64),
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
    /// Bits of a bitset beyond its bit count are set.
    #[error("has bits set beyond its {0}")]
    StrayBits(u32),

    /// An element type that OINF lacks.
    #[error(
        "OINF cannot hold {0}; convert the values to a type that it has (bool, i8 to u64, f16, f32, f64)"
    )]
    NoCode(DType),
    /// More entries than a 32-bit count can say.
    #[error("are {0}, and OINF counts up to 4,294,967,295")]
    TooMany(u64),
    /// The file would be longer than an offset can say.
    #[error("the file would be too long")]
    TooLong,
}

impl modelfmt_core::Fault for Fault {}
