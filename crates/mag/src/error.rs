//! What can be wrong with a MAG file, or with what is to be written into one.

use modelfmt_core::DType;

use crate::version::Version;

/// Why a file cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// Why a file cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// Why a file cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of MAG that a file, or a model to be written, can break.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The file does not begin with `MAG!`.
    #[error("is {0:02x?} and not \"MAG!\": this is not a MAG file")]
    Magic([u8; 4]),
    /// Another version of the format.
    #[error("is {0}; 1, 100 (0.1.0), 200 (0.2.0) and 300 (0.3.0) are known")]
    Version(u32),
    /// The crate is built without the feature `v0_3`.
    #[error("is 300 (0.3.0), which is not compiled in: build with the feature `v0_3`")]
    WithoutV0_3,
    /// A layout that was never released, under the number of one that was.
    #[error(
        "is not \"SRP!\": sources of magnetron between 0.1.2 and 0.1.5, which were never released, wrote other files under version 100; write the model again with a released magnetron"
    )]
    Unreleased,
    /// A part does not begin with its mark.
    #[error("is {found:02x?} and not {expected:?}")]
    Mark {
        /// The mark.
        expected: &'static str,
        /// What is there.
        found: [u8; 4],
    },
    /// More strings than a pool of version 0.1 or 0.2 has.
    #[error("is {0}; a pool has at most 65,534 strings")]
    PoolCount(u32),
    /// More bytes than a pool of version 0.1 or 0.2 has.
    #[error("is {0}; the strings of a pool take at most 128 MiB")]
    PoolLength(u32),
    /// The offsets of strings do not begin at 0, or a string has no bytes.
    #[error("is not where the strings before it end: offsets begin with 0 and ascend")]
    PoolOffsets,
    /// A string with a NUL.
    #[error("has a NUL")]
    Nul,
    /// A descriptor names a string that the pool does not have.
    #[error("is {found}, but the pool has {count} strings")]
    NameNumber {
        /// The number.
        found: u32,
        /// How many there are.
        count: usize,
    },
    /// More dimensions than version 0.1 or 0.2 has.
    #[error("is {0}; tensors have at most 63 dimensions")]
    Rank64(u8),
    /// A tensor without elements, which versions 0.1 and 0.2 do not have.
    #[error("is 0; every tensor has elements")]
    NoElements,
    /// A dtype code that the version does not have.
    #[error("has code {code}, which MAG {version} does not have")]
    DType {
        /// The code.
        code: u64,
        /// The version.
        version: Version,
    },
    /// The part of the manifest, or of the values, is not where it can be.
    #[error("is {found}; {rule}")]
    Place {
        /// What the file says.
        found: u64,
        /// Where it has to be.
        rule: &'static str,
    },
    /// The manifest lacks a key.
    #[error("has no {0:?}")]
    Missing(&'static str),
    /// The manifest is of another version.
    #[error("is {0}; manifests of version 1 are known")]
    ManifestVersion(u64),
    /// The manifest says another version than the header.
    #[error("is {0:?}, but the header says \"0.3.0\"")]
    SnapshotVersion(String),
    /// Reserved bits of an auxiliary field are set.
    #[error("has reserved bits set: {0:#010x}")]
    Reserved(u32),
    /// A metadata type that MAG 1 does not have.
    #[error("has type {0}; MAG 1 has 1 (i64) and 2 (f64)")]
    MetadataType(u8),
    /// A dtype code that MAG 1 does not have.
    #[error("has code {0}; MAG 1 has the codes 0 to 10")]
    DTypeCode(u8),
    /// A tensor without dimensions.
    #[error("is 0; MAG tensors have 1 to 255 dimensions")]
    Rank0,
    /// More dimensions than the version has, which only a model that is to be written can have.
    #[error("it has {found} dimensions; tensors of this version of MAG have at most {max}")]
    Rank {
        /// How many it has.
        found: usize,
        /// How many it can have: 255 in version 1, and 16 in 0.3, of which magnetron reads no more.
        max: usize,
    },
    /// A dimension beyond 2^63 − 1.
    #[error("is {0}, more than 2^63 - 1")]
    Dimension(u64),
    /// The stated number of elements is not the product of the dimensions.
    #[error("is {found}, but the dimensions have the product {expected}")]
    Numel {
        /// What the file says.
        found: u64,
        /// The product of the dimensions.
        expected: u64,
    },
    /// A key without bytes.
    #[error("is empty")]
    EmptyKey,
    /// A key beyond 65,535 bytes.
    #[error("has {0} bytes; MAG keys have at most 65,535")]
    KeyLength(u64),
    /// The checksum is neither of the two that writers use; with [`OpenOptions::ignore_checksum`](crate::OpenOptions::ignore_checksum) the
    /// file opens anyway.
    #[error(
        "is {stored:#010x}, but the records give {crc32:#010x} (CRC-32) or {crc32c:#010x} (CRC-32C): the file is damaged"
    )]
    Checksum {
        /// What the header says.
        stored: u32,
        /// CRC-32 of header and records.
        crc32: u32,
        /// CRC-32C of the records, as magnetron computes it.
        crc32c: u32,
    },
    /// The CRC-32C of a snapshot does not match; with [`OpenOptions::ignore_checksum`](crate::OpenOptions::ignore_checksum) the file opens
    /// anyway.
    #[error("is {stored:#010x}, but the descriptors give {computed:#010x} (CRC-32C): the file is damaged")]
    Crc32c {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// MAG has no code for this dtype.
    #[error("{0} has no code in MAG (f32, f16, bool, i8, i16, u16, i32, u32, i64 and u64 have)")]
    NoCode(DType),
    /// MAG 0.3 has no code for this dtype.
    #[error("{0} has no code in MAG 0.3 (f32, f16, bf16, f8_e4m3, bool and integers of 8 to 64 bits have)")]
    NoCodeIn0_3(DType),
    /// A model without values, which MAG 0.3 cannot hold.
    #[error("it has no tensor with values, and MAG 0.3 needs one")]
    NoValues,
    /// Metadata that version 1 cannot hold.
    #[error("its value is {0}; metadata of MAG 1 can only be signed 64-bit integers and floats")]
    NoNumber(&'static str),
    /// MAG has no tensors without data.
    #[error("it has no data, and MAG cannot declare a tensor without")]
    Declared,
    /// More tensors or metadata entries than the header can count.
    #[error("there are more than 2^32 - 1")]
    TooMany,
}

modelfmt_core::author::debug_as_sentence!(Fault);

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::Common(common) if common.is_end_missing())
    }
}
