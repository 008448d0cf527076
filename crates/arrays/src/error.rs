//! Errors about zip archives and about arrays in records of a file.

use modelfmt_core::CommonFault;

/// The rules of zip archives and of the arrays in them. The fault type of each format contains this type.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file does not end with the end record of an archive.
    #[error("is not where a zip archive ends: the file is cut short, or bytes follow the archive")]
    NoEnd,
    /// The archive is split into several files.
    #[error("says that the archive is one of several files, which modelfmt does not read; join them first")]
    SeveralFiles,
    /// The end record and its 64-bit form disagree.
    #[error("says {short}, but the 64-bit end record says {long}")]
    EndsDiffer {
        /// The number in the end record.
        short: u64,
        /// The number in the 64-bit end record.
        long: u64,
    },
    /// The 64-bit end record is not right before its locator.
    #[error("does not lead to the 64-bit end record right before it")]
    Locator,
    /// The directory does not end where the end record begins.
    #[error(
        "ends at byte {end}, but the end record begins at byte {found}: bytes were put before or into the archive"
    )]
    DirectoryEnd {
        /// The end of the directory.
        end: u64,
        /// The start of the end record.
        found: u64,
    },
    /// A record does not begin with its signature.
    #[error("does not begin with its signature")]
    Signature,
    /// The number of entries in the directory differs from the number in the end record.
    #[error("has {left} bytes behind its {count} entries: the end record counts wrong")]
    Count {
        /// The number of entries that the end record states.
        count: u64,
        /// The number of bytes after these entries.
        left: u64,
    },
    /// A record is encrypted.
    #[error("is encrypted, which modelfmt does not read; unpack it with its password first")]
    Encrypted,
    /// The name contains a NUL, at which some readers end the name and others do not.
    #[error("has a NUL in its name, which readers of zip take for different names")]
    Nul,
    /// An extra field ends beyond the space for extra fields.
    #[error("has an extra field that ends behind it")]
    Extra,
    /// A number must be in the 64-bit extra field, but that field is missing.
    #[error("has a size or offset of 64 bits and no field that says it")]
    NoLong,
    /// Two records share bytes.
    #[error("begins at byte {at} and takes {len} bytes or more, which reach into what begins at byte {next}")]
    Overlap {
        /// The offset of the header of the first record.
        at: u64,
        /// The minimum number of bytes that this record takes.
        len: u64,
        /// The offset of the next record or of the directory.
        next: u64,
    },
    /// A record is stored without compression, but its two sizes differ.
    #[error("is stored as it is, but has {len} bytes where {stored} are stored")]
    StoredSizes {
        /// The size of the content.
        len: u64,
        /// The number of bytes that the content takes in the file.
        stored: u64,
    },
    /// The content is larger than a deflate stream of this length can produce.
    #[error("has {len} bytes, more than {stored} bytes of deflate can make")]
    Expansion {
        /// The size of the content.
        len: u64,
        /// The number of bytes that the content takes in the file.
        stored: u64,
    },
    /// The header before a record contradicts the directory.
    #[error("has another {0} than the directory says")]
    HeadersDiffer(&'static str),
    /// This crate does not read the compression method.
    #[error(
        "is compressed by method {0}, but modelfmt reads stored and deflated records; pack the archive again"
    )]
    Method(u16),
    /// A deflate stream cannot be decoded.
    #[error("is damaged: its deflate stream does not decode at byte {0} of the content")]
    Deflate(u64),
    /// A deflate stream expands to the wrong number of bytes.
    #[error("is damaged: its deflate stream makes {found} bytes, not {stated}")]
    DeflateLength {
        /// The number of bytes that it expands to, as far as it was decoded.
        found: u64,
        /// The number of bytes that the directory states.
        stated: u64,
    },
    /// The CRC-32 does not match.
    #[error(
        "has the CRC-32 {found:08x}, but the directory says {stated:08x}: it is damaged, or its writer did not compute it (torch has an option for that); to read it anyway, use --no-verify"
    )]
    Crc {
        /// The CRC of the bytes.
        found: u32,
        /// The CRC that the directory states.
        stated: u32,
    },
    /// The numbers of dimensions and of strides differ.
    #[error("has {dims} dimensions and {strides} strides")]
    Strides {
        /// The number of dimensions.
        dims: usize,
        /// The number of strides.
        strides: usize,
    },
    /// An array reaches beyond its record.
    #[error("needs {need} bytes of its record, which has {have}")]
    BeyondRecord {
        /// The bytes from the start of the record to the end of the last element.
        need: u64,
        /// The size of the record.
        have: u64,
    },
}

modelfmt_core::author::debug_as_sentence!(Fault);

impl Fault {
    /// Returns whether a truncated file breaks this rule.
    #[must_use]
    pub const fn is_end_missing(&self) -> bool {
        matches!(self, Self::NoEnd)
    }
}

/// The fault type of a format with arrays in records, which contains the rules of this crate.
pub trait ArrayFault: modelfmt_core::Fault + From<Fault> {}

impl<F: modelfmt_core::Fault + From<Fault>> ArrayFault for F {}

/// An error of a format with arrays in records.
pub(crate) type Error<F> = modelfmt_core::Error<F>;

/// Returns the error for a rule of this crate.
pub(crate) fn malformed<F: ArrayFault>(part: modelfmt_core::Part, at: u64, fault: Fault) -> Error<F> {
    Error::Malformed { part, at, fault: fault.into() }
}

/// Returns the error for a rule that all formats share.
pub(crate) fn common<F: ArrayFault>(part: modelfmt_core::Part, at: u64, fault: CommonFault) -> Error<F> {
    Error::Malformed { part, at, fault: fault.into() }
}
