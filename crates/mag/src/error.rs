//! Errors about MAG files, and about models to be written as such.

use modelfmt_core::DType;

use crate::version::Version;

/// The error for a file that cannot be read.
pub type Error = modelfmt_core::Error<Fault>;

/// The error for a file that cannot be written.
pub type WriteError = modelfmt_write::WriteError<Fault>;

/// The error for a file that cannot be edited.
pub type EditError = modelfmt_write::edit::EditError<Fault>;

/// The result type of this crate's functions.
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
    /// The version of the format is not known.
    #[error("is {0}; 1, 100 (0.1.0), 200 (0.2.0) and 300 (0.3.0) are known")]
    Version(u32),
    /// The crate is built without the feature `v0_3`.
    #[error("is 300 (0.3.0), which is not compiled in: build with the feature `v0_3`")]
    WithoutV0_3,
    /// The file has a layout that was never released, with the version number of a released one.
    #[error(
        "is not \"SRP!\": sources of magnetron between 0.1.2 and 0.1.5, which were never released, wrote other files under version 100; write the model again with a released magnetron"
    )]
    Unreleased,
    /// A part does not begin with its mark, the four bytes that name it.
    #[error("is {found:02x?} and not {expected:?}")]
    Mark {
        /// The expected mark.
        expected: &'static str,
        /// The bytes in its place.
        found: [u8; 4],
    },
    /// The string pool has more strings than versions 0.1 and 0.2 allow.
    #[error("is {0}; a pool has at most 65,534 strings")]
    PoolCount(u32),
    /// The string pool has more bytes than versions 0.1 and 0.2 allow.
    #[error("is {0}; the strings of a pool take at most 128 MiB")]
    PoolLength(u32),
    /// The string offsets do not begin at 0 and ascend, so a string would be empty or overlap another.
    #[error("is not where the strings before it end: offsets begin with 0 and ascend")]
    PoolOffsets,
    /// A string contains a NUL.
    #[error("has a NUL")]
    Nul,
    /// A descriptor names a string that the pool does not have.
    #[error("is {found}, but the pool has {count} strings")]
    NameNumber {
        /// The number of the string in the descriptor.
        found: u32,
        /// The number of strings in the pool.
        count: usize,
    },
    /// The tensor has more dimensions than versions 0.1 and 0.2 allow.
    #[error("is {0}; tensors have at most 63 dimensions")]
    Rank64(u8),
    /// The tensor has no elements, which versions 0.1 and 0.2 do not allow.
    #[error("is 0; every tensor has elements")]
    NoElements,
    /// The version has no dtype with this code.
    #[error("has code {code}, which MAG {version} does not have")]
    DType {
        /// The code.
        code: u64,
        /// The version.
        version: Version,
    },
    /// The manifest or the values are at a place where they cannot be.
    #[error("is {found}; {rule}")]
    Place {
        /// The number in the file.
        found: u64,
        /// The rule for that number.
        rule: &'static str,
    },
    /// The manifest lacks a key.
    #[error("has no {0:?}")]
    Missing(&'static str),
    /// The manifest has an unknown version.
    #[error("is {0}; manifests of version 1 are known")]
    ManifestVersion(u64),
    /// The manifest states a version other than the header's.
    #[error("is {0:?}, but the header says \"0.3.0\"")]
    SnapshotVersion(String),
    /// Reserved bits of an auxiliary field are set.
    #[error("has reserved bits set: {0:#010x}")]
    Reserved(u32),
    /// The metadata type is not one of MAG 1.
    #[error("has type {0}; MAG 1 has 1 (i64) and 2 (f64)")]
    MetadataType(u8),
    /// The dtype code is not one of MAG 1.
    #[error("has code {0}; MAG 1 has the codes 0 to 10")]
    DTypeCode(u8),
    /// The tensor has no dimensions.
    #[error("is 0; MAG tensors have 1 to 255 dimensions")]
    Rank0,
    /// The tensor to be written has more dimensions than the version allows.
    #[error("it has {found} dimensions; tensors of this version of MAG have at most {max}")]
    Rank {
        /// The number of dimensions of the tensor.
        found: usize,
        /// The largest number of dimensions: 255 in version 1, and 16 in version 0.3, because magnetron reads
        /// no more.
        max: usize,
    },
    /// A dimension is greater than 2^63 − 1.
    #[error("is {0}, more than 2^63 - 1")]
    Dimension(u64),
    /// The stated number of elements is not the product of the dimensions.
    #[error("is {found}, but the dimensions have the product {expected}")]
    Numel {
        /// The number that the file states.
        found: u64,
        /// The product of the dimensions.
        expected: u64,
    },
    /// The key is empty.
    #[error("is empty")]
    EmptyKey,
    /// The key is longer than 65,535 bytes.
    #[error("has {0} bytes; MAG keys have at most 65,535")]
    KeyLength(u64),
    /// The checksum is neither of the two kinds that writers use.
    /// [`OpenOptions::ignore_checksum`](crate::OpenOptions::ignore_checksum) opens the file anyway.
    #[error(
        "is {stored:#010x}, but the records give {crc32:#010x} (CRC-32) or {crc32c:#010x} (CRC-32C): the file is damaged"
    )]
    Checksum {
        /// The checksum in the header.
        stored: u32,
        /// The CRC-32 of the header and the records.
        crc32: u32,
        /// The CRC-32C of the records, as magnetron computes it.
        crc32c: u32,
    },
    /// The CRC-32C of a snapshot (versions 0.1 and 0.2) does not match.
    /// [`OpenOptions::ignore_checksum`](crate::OpenOptions::ignore_checksum) opens the file anyway.
    #[error("is {stored:#010x}, but the descriptors give {computed:#010x} (CRC-32C): the file is damaged")]
    Crc32c {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// MAG has no code for this dtype.
    #[error("{0} has no code in MAG (f32, f16, bool, i8, i16, u16, i32, u32, i64 and u64 have)")]
    NoCode(DType),
    /// MAG 0.3 has no code for this dtype.
    #[error("{0} has no code in MAG 0.3 (f32, f16, bf16, f8_e4m3, bool and integers of 8 to 64 bits have)")]
    NoCodeIn0_3(DType),
    /// The model has no values, and MAG 0.3 cannot hold such a model.
    #[error("it has no tensor with values, and MAG 0.3 needs one")]
    NoValues,
    /// The metadata has a value that version 1 cannot hold.
    #[error("its value is {0}; metadata of MAG 1 can only be signed 64-bit integers and floats")]
    NoNumber(&'static str),
    /// The tensor has no data, and MAG cannot declare such a tensor.
    #[error("it has no data, and MAG cannot declare a tensor without")]
    Declared,
    /// There are more tensors or metadata entries than the header can count.
    #[error("there are more than 2^32 - 1")]
    TooMany,
}

modelfmt_core::author::debug_as_sentence!(Fault);

impl modelfmt_core::Fault for Fault {
    fn is_end_missing(&self) -> bool {
        matches!(self, Self::Common(common) if common.is_end_missing())
    }
}
