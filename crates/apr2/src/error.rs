//! Errors about APR2 files, and about models to be written as such.

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
    /// The first four bytes are neither `APR2` nor `APR1`.
    #[error("the file begins with {0:02x?}, not with `APR2` or `APR1`: it is not of this format")]
    Magic([u8; 4]),
    /// The major version is not 2.
    #[error("the major version is {0}; this reader knows 2")]
    Version(u16),
    /// The file has feature flags that the specification does not name.
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
    /// A section begins before the previous one ends.
    #[error("the section begins at byte {found}, but the one before it ends at byte {end}")]
    SectionOrder {
        /// The offset of the section.
        found: u64,
        /// The end of the previous section.
        end: u64,
    },
    /// The data section is not aligned.
    #[error("the data section begins at byte {0}, which is not a multiple of 64")]
    DataAlignment(u64),
    /// The file does not end with the magic of a footer.
    #[error("the footer's magic is {0:02x?}, not `2RPA`: the file is cut short or has been appended to")]
    FooterMagic([u8; 4]),
    /// The CRC in the footer does not match the bytes before it.
    #[error("the file says {stated:#010x}, but its bytes give {found:#010x}")]
    Crc {
        /// The CRC of the bytes.
        found: u32,
        /// The CRC that the footer states.
        stated: u32,
    },
    /// The footer states a length that is not the length of the file.
    #[error("the footer says that the file has {0} bytes: it is cut short or has been appended to")]
    FileSize(u64),
    /// The index has bytes after its last entry.
    #[error("{0} bytes follow the last entry, and index_size must be used exactly")]
    TrailingIndex(u64),
    /// The name is empty.
    #[error("the name is empty")]
    EmptyName,
    /// The dtype code is not one of the specification.
    #[error("the dtype code {0} is not known")]
    UnknownDType(u8),
    /// The dtype name in an APR1 index is not known.
    #[error("the dtype {0:?} is not known")]
    UnknownDTypeName(String),
    /// The number of dimensions is outside 1 to 8.
    #[error("it has {0} dimensions; 1 to 8 are allowed")]
    Rank(u64),
    /// LZ4 cannot expand this few bytes to this many.
    #[error("says that {stored} stored bytes expand to {raw}, which LZ4 cannot do")]
    Expansion {
        /// The stored size, with block headers.
        stored: u64,
        /// The size that the bytes claim to expand to.
        raw: u64,
    },
    /// The stored size of an LZ4 block is impossible.
    #[error("LZ4 block {block} says that it is {len} bytes long, but at most {max} are possible here")]
    BlockLen {
        /// The block, counted from 0.
        block: u64,
        /// The stored size that its header claims.
        len: u64,
        /// The rest of the tensor's stored bytes, or the longest possible block.
        max: u64,
    },
    /// The stored bytes of a tensor end before its last block.
    #[error("the stored bytes end at LZ4 block {block} of {blocks}")]
    MissingBlocks {
        /// The first block that is not complete.
        block: u64,
        /// The number of blocks that the tensor should have.
        blocks: u64,
    },
    /// The stored bytes of a tensor continue after its last block.
    #[error("{0} bytes follow the last LZ4 block")]
    TrailingBlocks(u64),
    /// An LZ4 block cannot be decoded.
    #[error("LZ4 block {block} does not decode: {reason}")]
    BlockData {
        /// The block, counted from 0.
        block: u64,
        /// The message of the decoder.
        reason: String,
    },
    /// An LZ4 block expands to the wrong length.
    #[error("LZ4 block {block} expands to {found} bytes, not to {expected}")]
    BlockSize {
        /// The block, counted from 0.
        block: u64,
        /// The length that it expands to.
        found: u64,
        /// The length that it should expand to.
        expected: u64,
    },
    /// Two tensors share the same LZ4 blocks but claim different sizes.
    #[error(
        "says that its blocks expand to {found} bytes, but a tensor over the same blocks says {expected}"
    )]
    TiedSize {
        /// The size that this tensor claims.
        found: u64,
        /// The size that the other tensor claims.
        expected: u64,
    },
    /// The crate is built without the feature `lz4`.
    #[error("LZ4 is not compiled in: build with the feature `lz4`")]
    NoLz4,
    /// APR2 has no code for the tensor's dtype.
    #[error(
        "APR2 has no code for {0}; convert it to one of f32 f16 bf16 i8 i16 i32 i64 u8 q8_0 q4_0 q4_1 q5_0 q5_1"
    )]
    NoDTypeCode(modelfmt_core::DType),
    /// The tensor has no values.
    #[error("APR2 cannot hold a tensor without values")]
    NoValues,
    /// The name is longer than 65,535 bytes.
    #[error("the name has {0} bytes; at most 65,535 are allowed")]
    NameLen(u64),
    /// The length of a section does not fit its 32-bit field.
    #[error("takes {0} bytes, more than a 32-bit field can say; split the model into shards")]
    SectionLen(u64),
    /// The file would be longer than a file can be.
    #[error("ends beyond byte 2^63, where no file reaches")]
    TooLong,
    /// The stated number of shards is not the number of shards in the list.
    #[error("shard_count is {stated}, but {listed} shards are listed")]
    ShardCount {
        /// The number in `shard_count`.
        stated: u64,
        /// The number of shards in the list.
        listed: u64,
    },
    /// The path of a shard leads out of the manifest's folder.
    #[error("{path:?}: {fault}")]
    Path {
        /// The path.
        path: String,
        /// The rule that it breaks.
        fault: &'static str,
    },
    /// The file breaks a rule of the seal section, of its signatures or of encryption.
    #[error(transparent)]
    Seal(#[from] SealFault),
    /// A tensor is mapped to a shard that does not exist.
    #[error("is mapped to shard {shard}, but there are {shards} shards")]
    NoSuchShard {
        /// The shard, counted from 0.
        shard: u64,
        /// The number of shards.
        shards: u64,
    },
}

modelfmt_core::author::debug_as_sentence!(Fault);

/// A failed check of a sealed file. The names come from the SEAL 1 specification.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealFault {
    /// The seal section has bytes that no writer of SEAL 1 produces.
    #[error("SealStructure: {0}")]
    Structure(String),
    /// The seal section has a later version, an unknown flag or reserved bits.
    #[error("SealVersion: {0}: the file needs a newer reader")]
    Version(String),
    /// A number exceeds a limit or a range of the specification.
    #[error("SealLimit: {0}")]
    Limit(String),
    /// The caller requires a signature or encryption that the file does not have.
    #[error("SealMissing: {0}")]
    Missing(&'static str),
    /// A signature by a key that the caller named is wrong.
    #[error(
        "SealBadSignature: the signature of key {0} is not one of this file: it was changed after it had been signed"
    )]
    BadSignature(String),
    /// Fewer of the named keys have signed the file than the caller requires.
    #[error(
        "SealNoTrustedSignature: {found} of the keys that you named have signed the file, {threshold} must have"
    )]
    NoTrustedSignature {
        /// The number of named keys that have signed.
        found: usize,
        /// The number of named keys that must have signed.
        threshold: usize,
    },
    /// The file is not the required one, or it is a shard of another set.
    #[error("SealSet: {0}")]
    Set(String),
    /// The revision of the file is lower than the caller requires.
    #[error(
        "SealRevision: the file is revision {found}, but at least {least} is demanded: it is an older one"
    )]
    Revision {
        /// The revision that the file states.
        found: u64,
        /// The lowest revision that the caller accepts.
        least: u64,
    },
    /// None of the given keys opens the file.
    #[error("SealNoKey: {0}")]
    NoKey(&'static str),
    /// A slot opens, but the key that it holds is not this file's key.
    #[error("SealKeyCommitment: what was unwrapped is not the key that the file was encrypted with")]
    KeyCommitment,
    /// Somebody without the key has changed the slots.
    #[error(
        "SealKeysMac: the list of people who can open the file was changed by somebody who cannot open it"
    )]
    KeysMac,
    /// Somebody without the key has changed the content.
    #[error("SealStatementMac: header, metadata, index or digests were changed by somebody without the key")]
    StatementMac,
    /// The index and the seal section state different extents for a tensor.
    #[error("SealExtent: tensor {0} lies elsewhere than the seal section says")]
    Extent(u64),
    /// The stored bytes do not match the digest that was sealed.
    #[error("SealDigest: the stored bytes are not those that were sealed")]
    Digest,
    /// A page table does not belong to its tensor.
    #[error("SealPages: the table of its pages does not give the tensor's digest")]
    Pages,
    /// A segment cannot be decrypted.
    #[error("SealSegment: segment {0} does not decrypt: its bytes were changed, or belong elsewhere")]
    Segment(u64),
    /// A gap has bytes that are not zero.
    #[error("SealGap: the gap is not zero at byte {0}")]
    Gap(u64),
    /// A CRC does not match.
    #[error("SealCrc: {0}")]
    Crc(String),
}

modelfmt_core::author::debug_as_sentence!(SealFault);

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
        match self {
            Self::Common(common) => common.is_end_missing(),
            other => matches!(other, Self::FooterMagic(_) | Self::FileSize(_)),
        }
    }
}
