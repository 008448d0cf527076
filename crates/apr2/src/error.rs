//! The rules of APR2, as errors name them.

/// Why an APR2 file cannot be read.
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
    /// The first four bytes are neither `APR2` nor `APR1`.
    #[error("the file begins with {0:02x?}, not with `APR2` or `APR1`: it is not of this format")]
    Magic([u8; 4]),
    /// The major version is not 2.
    #[error("the major version is {0}; this reader knows 2")]
    Version(u16),
    /// Feature flags that the specification does not name.
    #[error("the feature flags {0:#x} are not known: the file needs a newer reader")]
    UnknownFlags(u32),
    /// The file is encrypted.
    #[error(
        "the file is encrypted (flag ENCRYPTED), and what reads it here cannot decrypt: use a `Reader` of the crate modelfmt-apr2-seal, which modelfmt has with its feature `seal`"
    )]
    Encrypted,
    /// The metadata section does not begin right after the header.
    #[error("the metadata section begins at byte {0}, not at byte 32")]
    MetadataOffset(u64),
    /// A section begins before the one that precedes it ends.
    #[error("the section begins at byte {found}, but the one before it ends at byte {end}")]
    SectionOrder {
        /// Where it begins.
        found: u64,
        /// Where the section before it ends.
        end: u64,
    },
    /// The data section is not aligned.
    #[error("the data section begins at byte {0}, which is not a multiple of 64")]
    DataAlignment(u64),
    /// The last bytes are not those of a footer.
    #[error("the footer's magic is {0:02x?}, not `2RPA`: the file is cut short or has been appended to")]
    FooterMagic([u8; 4]),
    /// The bytes before the footer do not match its CRC.
    #[error("the file says {stated:#010x}, but its bytes give {found:#010x}")]
    Crc {
        /// What the bytes give.
        found: u32,
        /// What the footer says.
        stated: u32,
    },
    /// The footer states another length than the file has.
    #[error("the footer says that the file has {0} bytes: it is cut short or has been appended to")]
    FileSize(u64),
    /// The index has bytes after its last entry.
    #[error("{0} bytes follow the last entry, and index_size must be used exactly")]
    TrailingIndex(u64),
    /// A name without a byte.
    #[error("the name is empty")]
    EmptyName,
    /// A dtype code that the specification does not name.
    #[error("the dtype code {0} is not known")]
    UnknownDType(u8),
    /// An APR1 dtype name that is not known.
    #[error("the dtype {0:?} is not known")]
    UnknownDTypeName(String),
    /// A number of dimensions outside 1 to 8.
    #[error("it has {0} dimensions; 1 to 8 are allowed")]
    Rank(u64),
    /// LZ4 cannot expand so few bytes to so many.
    #[error("says that {stored} stored bytes expand to {raw}, which LZ4 cannot do")]
    Expansion {
        /// The stored size, with block headers.
        stored: u64,
        /// The size that it claims to expand to.
        raw: u64,
    },
    /// An LZ4 block whose stored size cannot be right.
    #[error("LZ4 block {block} says that it is {len} bytes long, but at most {max} are possible here")]
    BlockLen {
        /// The block, counted from 0.
        block: u64,
        /// The size that it claims.
        len: u64,
        /// What is left of the tensor, or the longest that a block can be.
        max: u64,
    },
    /// A tensor's stored bytes end before its last block does.
    #[error("the stored bytes end at LZ4 block {block} of {blocks}")]
    MissingBlocks {
        /// The first block that is not whole.
        block: u64,
        /// How many there should be.
        blocks: u64,
    },
    /// A tensor's stored bytes go on after its last block.
    #[error("{0} bytes follow the last LZ4 block")]
    TrailingBlocks(u64),
    /// An LZ4 block that does not decode.
    #[error("LZ4 block {block} does not decode: {reason}")]
    BlockData {
        /// The block, counted from 0.
        block: u64,
        /// The decoder's words.
        reason: String,
    },
    /// An LZ4 block that expands to another length than it must.
    #[error("LZ4 block {block} expands to {found} bytes, not to {expected}")]
    BlockSize {
        /// The block, counted from 0.
        block: u64,
        /// What came out.
        found: u64,
        /// What should have.
        expected: u64,
    },
    /// Two tensors over the same LZ4 blocks that claim different sizes.
    #[error(
        "says that its blocks expand to {found} bytes, but a tensor over the same blocks says {expected}"
    )]
    TiedSize {
        /// What this one says.
        found: u64,
        /// What the other says.
        expected: u64,
    },
    /// The crate is built without the feature `lz4`.
    #[error("LZ4 is not compiled in: build with the feature `lz4`")]
    NoLz4,
    /// A dtype that APR2 has no code for.
    #[error(
        "APR2 has no code for {0}; convert it to one of f32 f16 bf16 i8 i16 i32 i64 u8 q8_0 q4_0 q4_1 q5_0 q5_1"
    )]
    NoDTypeCode(modelfmt_core::DType),
    /// A tensor without values.
    #[error("APR2 cannot hold a tensor without values")]
    NoValues,
    /// A name of more than 65,535 bytes.
    #[error("the name has {0} bytes; at most 65,535 are allowed")]
    NameLen(u64),
    /// A section that its 32-bit field cannot describe.
    #[error("takes {0} bytes, more than a 32-bit field can say; split the model into shards")]
    SectionLen(u64),
    /// More bytes than a file can have.
    #[error("ends beyond byte 2^63, where no file reaches")]
    TooLong,
    /// A list of shards and their stated number disagree.
    #[error("shard_count is {stated}, but {listed} shards are listed")]
    ShardCount {
        /// What `shard_count` says.
        stated: u64,
        /// How many there are.
        listed: u64,
    },
    /// A path of a shard that leads elsewhere than into the manifest's folder.
    #[error("{path:?}: {fault}")]
    Path {
        /// The path.
        path: String,
        /// The rule that it breaks.
        fault: &'static str,
    },
    /// A rule of the seal section, of its signatures or of encryption.
    #[error(transparent)]
    Seal(#[from] SealFault),
    /// A tensor that is mapped to a shard that does not exist.
    #[error("is mapped to shard {shard}, but there are {shards} shards")]
    NoSuchShard {
        /// The shard, counted from 0.
        shard: u64,
        /// How many there are.
        shards: u64,
    },
}

modelfmt_core::author::debug_as_sentence!(Fault);

/// A check of a sealed file that fails. Each names itself as the specification of SEAL 1 does.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealFault {
    /// Bytes that no writer of SEAL 1 makes.
    #[error("SealStructure: {0}")]
    Structure(String),
    /// A later version, an unknown flag or reserved bits.
    #[error("SealVersion: {0}: the file needs a newer reader")]
    Version(String),
    /// A cap or a range of the specification is exceeded.
    #[error("SealLimit: {0}")]
    Limit(String),
    /// The caller demands a signature or encryption that the file does not claim.
    #[error("SealMissing: {0}")]
    Missing(&'static str),
    /// The signature of a named key is wrong.
    #[error(
        "SealBadSignature: the signature of key {0} is not one of this file: it was changed after it had been signed"
    )]
    BadSignature(String),
    /// Too few of the named keys have signed.
    #[error(
        "SealNoTrustedSignature: {found} of the keys that you named have signed the file, {threshold} must have"
    )]
    NoTrustedSignature {
        /// How many of them have signed.
        found: usize,
        /// How many must have.
        threshold: usize,
    },
    /// The file is another one than was demanded, or a shard of another set.
    #[error("SealSet: {0}")]
    Set(String),
    /// The file is older than was demanded.
    #[error(
        "SealRevision: the file is revision {found}, but at least {least} is demanded: it is an older one"
    )]
    Revision {
        /// What the file says.
        found: u64,
        /// What was demanded.
        least: u64,
    },
    /// Nothing that was given opens the file.
    #[error("SealNoKey: {0}")]
    NoKey(&'static str),
    /// A slot opens, but to a key that is not this file's.
    #[error("SealKeyCommitment: what was unwrapped is not the key that the file was encrypted with")]
    KeyCommitment,
    /// The slots were changed by somebody without the key.
    #[error("SealKeysMac: the list of who can open the file was changed by somebody who cannot")]
    KeysMac,
    /// The content was changed by somebody without the key.
    #[error("SealStatementMac: header, metadata, index or digests were changed by somebody without the key")]
    StatementMac,
    /// An entry of the index and its extent in the seal section disagree.
    #[error("SealExtent: tensor {0} lies elsewhere than the seal section says")]
    Extent(u64),
    /// Stored bytes are not those that were sealed.
    #[error("SealDigest: the stored bytes are not those that were sealed")]
    Digest,
    /// A table of pages does not belong to its tensor.
    #[error("SealPages: the table of its pages does not give the tensor's digest")]
    Pages,
    /// A segment does not decrypt.
    #[error("SealSegment: segment {0} does not decrypt: its bytes were changed, or belong elsewhere")]
    Segment(u64),
    /// A gap that is not zero.
    #[error("SealGap: the gap is not zero at byte {0}")]
    Gap(u64),
    /// A CRC that does not match.
    #[error("SealCrc: {0}")]
    Crc(String),
}

modelfmt_core::author::debug_as_sentence!(SealFault);

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
        match self {
            Self::Common(common) => common.is_end_missing(),
            other => matches!(other, Self::FooterMagic(_) | Self::FileSize(_)),
        }
    }
}
