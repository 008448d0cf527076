//! The rules of APR, as errors name them.

/// Why an APR file cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// Why a file cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// Why a file cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of the format that a file, or a model to be written, can break.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The first four bytes are neither `APR\0` nor `APR2`.
    #[error("the file begins with {0:02x?}, not with `APR\\0` or `APR2`: it is not of this format")]
    Magic([u8; 4]),
    /// The header is that of whisper-apr's private writer.
    #[error(
        "the metadata would begin at byte {0}, not at byte 64: the file has whisper-apr's private layout, which is not read, or is damaged"
    )]
    PrivateLayout(u64),
    /// The first four bytes of a file of the first generation are not `APRN`.
    #[error("the file begins with {0:02x?}, not with `APRN`: it is not of this format")]
    MagicV1([u8; 4]),
    /// The major version of a file of the first generation is not 1.
    #[error("the major version is {0}; this reader knows 1")]
    VersionV1(u8),
    /// The major version is not 2.
    #[error("the major version is {0}; this reader knows 2")]
    Version(u8),
    /// The values are stored column by column.
    #[error(
        "LAYOUT_COLUMN_MAJOR is set: the values are column-major, and aprender's tools refuse them too; import the model again with a tool of today"
    )]
    ColumnMajor,
    /// The content does not parse, and the header says that it is encrypted.
    #[error("the file is encrypted (flag ENCRYPTED), and the format does not say how, so it cannot be read")]
    Encrypted,
    /// The header is not what its checksum says.
    #[error("is {stated:#010x}, but the header gives {found:#010x}: the header is damaged")]
    HeaderCrc {
        /// What the bytes give.
        found: u32,
        /// What the header says.
        stated: u32,
    },
    /// The bytes before the footer are not those that it has the CRC of.
    #[error("the file says {stated:#010x}, but its bytes give {found:#010x}")]
    Crc {
        /// What the bytes give.
        found: u32,
        /// What the footer says.
        stated: u32,
    },
    /// A section begins before the one that precedes it ends.
    #[error("the section begins at byte {found}, but the one before it ends at byte {end}")]
    SectionOrder {
        /// Where it begins.
        found: u64,
        /// Where the section before it ends.
        end: u64,
    },
    /// A dtype code that no writer uses.
    #[error("the dtype code {0} is not known")]
    UnknownDType(u8),
    /// More than 8 dimensions.
    #[error("it has {0} dimensions; at most 8 are allowed")]
    Rank(u64),
    /// LZ4 or zstd cannot have made so much of so little, or more than the limits allow.
    #[error("{stored} stored bytes would expand to {expanded}, more than the limits allow")]
    Expansion {
        /// The stored size.
        stored: u64,
        /// The size that it claims to expand to, or has reached.
        expanded: u64,
    },
    /// The content does not expand.
    #[error("the {0} content does not decode: {1}")]
    Payload(&'static str, String),
    /// The content is compressed, and the feature that reads it is off.
    #[error("the content is compressed, and this build cannot decompress it (the feature `{0}` is off)")]
    NoDecoder(&'static str),
    /// A tensor of a type that APR has no code for.
    #[error(
        "APR has no code for {0}; convert it to one of f32 f16 bf16 f64 i8 u8 i32 i64 q4_k q6_k apr_q4 apr_q8"
    )]
    NoDTypeCode(modelfmt_core::DType),
    /// A tensor without values.
    #[error("APR cannot hold a tensor without values")]
    NoValues,
    /// A name without a byte, or of more than 256 bytes.
    #[error("the name has {0} bytes; aprender's tools take 1 to 256")]
    NameLen(u64),
    /// A metadata key that aprender's tools could not read.
    #[error("must be {expected}, or aprender's tools read nothing of the metadata; it is {found}")]
    MetadataType {
        /// What they take.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A metadata key and another spelling of it.
    #[error("is another spelling of {0:?}: with both, aprender's tools read nothing of the metadata")]
    MetadataAlias(&'static str),
    /// A count or a section that its field cannot describe.
    #[error("is {0}, more than a 32-bit field can say")]
    TooMany(u64),
    /// More bytes than a file can have.
    #[error("ends beyond byte 2^63, where no file reaches")]
    TooLong,
}

modelfmt_core::author::debug_as_sentence!(Fault);

/// The error of a part of a file that breaks a rule.
pub(crate) fn malformed(part: modelfmt_core::Part, at: u64, fault: impl Into<Fault>) -> Error {
    Error::Malformed { part, at, fault: fault.into() }
}

/// The error of something that cannot be written.
pub(crate) fn unfit(part: modelfmt_core::Part, fault: impl Into<Fault>) -> WriteError {
    WriteError::unsupported(part, fault)
}

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::Common(common) if common.is_end_missing())
    }
}
