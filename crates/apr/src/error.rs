//! Errors about APR files, and about models to be written as such.

/// The error for a file that cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The error for a file that cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// The error for a file that cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// The result type of this crate's functions.
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
    /// The header has the layout of whisper-apr's private writer.
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
    /// The header does not match its checksum.
    #[error("is {stated:#010x}, but the header gives {found:#010x}: the header is damaged")]
    HeaderCrc {
        /// The checksum of the header's bytes.
        found: u32,
        /// The checksum that the header states.
        stated: u32,
    },
    /// The CRC in the footer does not match the bytes before it.
    #[error("the file says {stated:#010x}, but its bytes give {found:#010x}")]
    Crc {
        /// The CRC of the bytes.
        found: u32,
        /// The CRC that the footer states.
        stated: u32,
    },
    /// A section begins before the previous one ends.
    #[error("the section begins at byte {found}, but the one before it ends at byte {end}")]
    SectionOrder {
        /// The offset of the section.
        found: u64,
        /// The end of the previous section.
        end: u64,
    },
    /// The dtype code is not one that aprender's writers use.
    #[error("the dtype code {0} is not known")]
    UnknownDType(u8),
    /// More than 8 dimensions.
    #[error("it has {0} dimensions; at most 8 are allowed")]
    Rank(u64),
    /// LZ4 or zstd cannot expand this few bytes to this many, or the limits do not allow it.
    #[error("{stored} stored bytes would expand to {expanded}, more than the limits allow")]
    Expansion {
        /// The stored size.
        stored: u64,
        /// The size that the content claims to expand to, or has reached.
        expanded: u64,
    },
    /// The content cannot be decompressed.
    #[error("the {0} content does not decode: {1}")]
    Payload(&'static str, String),
    /// The content is compressed, and the feature that decompresses it is off.
    #[error("the content is compressed, and this build cannot decompress it (the feature `{0}` is off)")]
    NoDecoder(&'static str),
    /// APR has no code for the tensor's type.
    #[error(
        "APR has no code for {0}; convert it to one of f32 f16 bf16 f64 i8 u8 i32 i64 q4_k q6_k apr_q4 apr_q8"
    )]
    NoDTypeCode(modelfmt_core::DType),
    /// The tensor has no values.
    #[error("APR cannot hold a tensor without values")]
    NoValues,
    /// The name is empty or longer than 256 bytes.
    #[error("the name has {0} bytes; aprender's tools take 1 to 256")]
    NameLen(u64),
    /// A metadata value has a type with which aprender's tools cannot read the metadata.
    #[error("must be {expected}, or aprender's tools read nothing of the metadata; it is {found}")]
    MetadataType {
        /// The type that the tools expect.
        expected: &'static str,
        /// The type of the value.
        found: &'static str,
    },
    /// The metadata has a key in two spellings.
    #[error("is another spelling of {0:?}: with both, aprender's tools read nothing of the metadata")]
    MetadataAlias(&'static str),
    /// A count or an offset does not fit its 32-bit field.
    #[error("is {0}, more than a 32-bit field can say")]
    TooMany(u64),
    /// The file would be longer than a file can be.
    #[error("ends beyond byte 2^63, where no file reaches")]
    TooLong,
}

modelfmt_core::author::debug_as_sentence!(Fault);

/// Returns the error for a part of a file that breaks a rule.
pub(crate) fn malformed(part: modelfmt_core::Part, at: u64, fault: impl Into<Fault>) -> Error {
    Error::Malformed { part, at, fault: fault.into() }
}

/// Returns the error for a part that cannot be written.
pub(crate) fn unfit(part: modelfmt_core::Part, fault: impl Into<Fault>) -> WriteError {
    WriteError::unsupported(part, fault)
}

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::Common(common) if common.is_end_missing())
    }
}
