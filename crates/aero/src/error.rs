//! Errors about AERO files and sets, and about models to be written as such.

use modelfmt_core::DType;

use crate::fourcc::FourCC;

/// The error for a file that cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The error for a file that cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// The error for a file that cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of AERO 0.1 and AEROSET that a file, or a model to be written, can break.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The hash of the head does not cover the whole file.
    #[error("the file cannot be pinned by its head: {0}; pin it by the hash of the whole file")]
    Unpinnable(&'static str),
    /// The file does not begin with `AERO`.
    #[error("is {0:02x?} and not \"AERO\": this is not an AERO file")]
    Magic([u8; 4]),
    /// The file has another version of the container.
    #[error("is {major}.{minor}; only version 0.1 is known")]
    Version {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
    /// The header is not 96 bytes long.
    #[error("is {0}; the header of version 0.1 has 96 bytes")]
    HeaderSize(u32),
    /// `file_flags` is reserved.
    #[error("is {0:#x}; version 0.1 has no file flags")]
    FileFlags(u64),
    /// The TOC's length does not match its number of entries.
    #[error("is {found}, but {entries} entries take {expected} bytes")]
    TocLength {
        /// The length in the header.
        found: u64,
        /// The number of entries.
        entries: u32,
        /// 16 + 80 × entries.
        expected: u64,
    },
    /// A part of the control region overlaps another.
    #[error("lies over the {0}")]
    Overlaps(&'static str),
    /// A chunk's name contains a NUL.
    #[error("has a NUL inside, which separates names")]
    Nul,
    /// Two chunks have the same type and name, where only one is allowed.
    #[error("there is another {0} chunk of that name, so it is not clear which is meant")]
    DuplicateChunk(FourCC),
    /// A chunk has the name of the control hash (IHSH) but another type: its type was changed.
    #[error("has the name of the control hash and the type {0}")]
    ControlName(FourCC),
    /// There is a second tensor index.
    #[error("there is another tensor index (TIDX), so it is not clear which is meant")]
    SecondIndex,
    /// A chunk is compressed whose type never is.
    #[error("is compressed, and {0} chunks never are")]
    Compressed(FourCC),
    /// The two lengths of an uncompressed chunk differ.
    #[error("has {stored} bytes, but chunk_ulen is {ulen} and it is not compressed")]
    PlainLength {
        /// `chunk_length`.
        stored: u64,
        /// `chunk_ulen`.
        ulen: u64,
    },
    /// The content compresses so well that readers would refuse it.
    #[error(
        "would expand from {stored} to {ulen} bytes, which readers refuse by default: write it uncompressed"
    )]
    Expansion {
        /// `chunk_length`.
        stored: u64,
        /// `chunk_ulen`.
        ulen: u64,
    },
    /// A compressed chunk cannot be decompressed.
    #[error("does not decompress: {0}")]
    Zstd(String),
    /// The decompressed length of a chunk differs from the one in the TOC.
    #[error("decompresses to {0} than the {1} bytes of chunk_ulen")]
    ZstdLength(&'static str, u64),
    /// This build cannot (de)compress.
    #[error("{0}")]
    NoZstd(&'static str),
    /// The content does not match its hash.
    #[error("has BLAKE3 {found}, but the {stated} says {expected}: the content is damaged")]
    Hash {
        /// The record that states the hash.
        stated: &'static str,
        /// The hash of the bytes.
        found: Hex,
        /// The stated hash.
        expected: Hex,
    },
    /// A chunk whose hash would have to be checked overlaps another.
    #[error("shares bytes with another chunk, so its hash cannot be checked")]
    SharedBytes,
    /// A `hash_b3` that is not a hash.
    #[error("is not 64 lower-case hex digits")]
    HashText,
    /// MessagePack that the specification does not allow.
    #[error("{0}")]
    MessagePack(&'static str),
    /// A required key is missing.
    #[error("has no key {0:?}")]
    MissingKey(&'static str),
    /// A dtype code that AERO 0.1 does not have.
    #[error("has code {0}; AERO 0.1 has 0 to 12 and 0x8000 (packed)")]
    DTypeCode(u64),
    /// No chunk holds the shard of a tensor.
    #[error("its values are in shard {shard}, and the file has no chunk WTSH \"weights.shard{shard}\"")]
    MissingShard {
        /// The `shard_id`.
        shard: u64,
    },
    /// Page hashes that do not fit their shard.
    #[error("{0}")]
    Pages(String),
    /// The control hash (IHSH) is not usable.
    #[error("{0}")]
    Control(String),
    /// There is no chunk of that type and name.
    #[error("there is no such chunk")]
    NoChunk,
    /// A path of a set leads out of its folder.
    #[error("{path:?}: {fault}")]
    Path {
        /// The path.
        path: String,
        /// The rule that it breaks.
        fault: &'static str,
    },
    /// The index of a set breaks a rule of AEROSET.
    #[error("{0}")]
    Set(String),
    /// A file of a set does not match the set's index.
    #[error("the file {path:?} of the set: {fault}")]
    File {
        /// The file, as the index names it.
        path: String,
        /// The difference.
        fault: String,
    },
    /// AERO has no code for this dtype.
    #[error(
        "{0} has no code in AERO (f16 f32 bf16 f64, the integers, bool, packed and ggml's block types have)"
    )]
    NoCode(DType),
    /// AERO has no tensors without data.
    #[error("it has no data, and AERO cannot declare a tensor without")]
    Declared,
    /// MJSN must name the model.
    #[error("is missing or no string; an AERO model needs model_name and architecture")]
    NoModelKey,
    /// MJSN must not claim that shapes are in ggml's order.
    #[error(
        "is \"gguf\", which marks files with shapes in ggml's order, and shapes are written in the usual order: leave it out"
    )]
    SourceFormat,
    /// A file identity is needed, but none can be made here.
    #[error(
        "cannot be made here (no source of randomness, or the feature `uuid` is off): give one with WriteOptions::uuid"
    )]
    NoUuid,
    /// The model exceeds what the format can hold.
    #[error("is {found}, and AERO 0.1 allows {max}")]
    TooMuch {
        /// The number that would be written.
        found: u64,
        /// The largest one allowed.
        max: u64,
    },
    /// A shard or page size of zero.
    #[error("is 0")]
    Zero,
    /// The methods of the chunk writer were called in a wrong order.
    #[error("{0}")]
    ChunkUse(&'static str),
    /// A tensor cannot share the bytes of another.
    #[error("cannot have the bytes of another tensor: {0}")]
    Tie(&'static str),
}

modelfmt_core::author::debug_as_sentence!(Fault);

/// A hash of 32 bytes that prints as hex digits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Hex(Box<[u8; 32]>);

impl Hex {
    pub(crate) fn new(hash: [u8; 32]) -> Self {
        Self(Box::new(hash))
    }

    /// Returns the hash.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::Common(common) if common.is_end_missing())
    }
}
