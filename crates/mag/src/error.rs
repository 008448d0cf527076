//! What can be wrong with a MAG file, or with what is to be written into one.

use modelfmt_core::DType;

/// An error of this crate.
pub type Error = modelfmt_core::Error<Fault>;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The rules of MAG 1 that a file, or a model to be written, can break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A rule that all formats share.
    #[error(transparent)]
    Common(#[from] modelfmt_core::CommonFault),
    /// The file does not begin with `MAG!`.
    #[error("is {0:02x?} and not \"MAG!\": this is not a MAG file")]
    Magic([u8; 4]),
    /// Another version of the format.
    #[error("is {0}; only version 1 is known")]
    Version(u32),
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
    /// More than 255 dimensions, which only a model that is to be written can have.
    #[error("it has {0} dimensions; MAG tensors have 1 to 255")]
    Rank(usize),
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
    /// file opens all the same.
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
    /// MAG has no code for this dtype.
    #[error("{0} has no code in MAG (f32, f16, bool, i8, i16, u16, i32, u32, i64 and u64 have)")]
    NoCode(DType),
    /// MAG has no tensors without data.
    #[error("it has no data, and MAG cannot declare a tensor without")]
    Declared,
    /// More tensors or metadata entries than the header can count.
    #[error("there are more than 2^32 - 1")]
    TooMany,
}
