//! What can be wrong with a zip archive, or with an array in a record of a file.

use modelfmt_core::CommonFault;

/// The rules of zip archives and of the arrays in them. A format's own fault carries these among its own.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// There is no end record where an archive ends.
    #[error("is not where a zip archive ends: the file is cut short, or bytes follow the archive")]
    NoEnd,
    /// The archive is one of several files.
    #[error("says that the archive is one of several files, which modelfmt does not read; join them first")]
    SeveralFiles,
    /// The end record and its 64-bit form disagree.
    #[error("says {short}, but the 64-bit end record says {long}")]
    EndsDiffer {
        /// What the record says.
        short: u64,
        /// What the 64-bit record says.
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
        /// Where it ends.
        end: u64,
        /// Where the end record begins.
        found: u64,
    },
    /// A record does not begin with its signature.
    #[error("does not begin with its signature")]
    Signature,
    /// The directory has another number of entries than the end record says.
    #[error("has {left} bytes behind its {count} entries: the end record counts wrong")]
    Count {
        /// What the end record says.
        count: u64,
        /// The bytes behind them.
        left: u64,
    },
    /// A record is encrypted.
    #[error("is encrypted, which modelfmt does not read; unpack it with its password first")]
    Encrypted,
    /// The name has a byte that ends it for some readers and not for others.
    #[error("has a NUL in its name, which readers of zip take for different names")]
    Nul,
    /// An extra field does not fit.
    #[error("has an extra field that ends behind it")]
    Extra,
    /// A number is only in the 64-bit extra field, and that is missing.
    #[error("has a size or offset of 64 bits and no field that says it")]
    NoLong,
    /// Two records share bytes.
    #[error("begins at byte {at} and takes {len} bytes or more, which reach into what begins at byte {next}")]
    Overlap {
        /// Where its header begins.
        at: u64,
        /// What it takes at least.
        len: u64,
        /// Where the next record, or the directory, begins.
        next: u64,
    },
    /// A stored record has two sizes.
    #[error("is stored as it is, but has {len} bytes where {stored} are stored")]
    StoredSizes {
        /// Its size.
        len: u64,
        /// The bytes that it takes.
        stored: u64,
    },
    /// More than a deflate stream of that length can make.
    #[error("has {len} bytes, more than {stored} bytes of deflate can make")]
    Expansion {
        /// Its size.
        len: u64,
        /// The bytes that it takes.
        stored: u64,
    },
    /// The header before a record says something else than the directory.
    #[error("has another {0} than the directory says")]
    HeadersDiffer(&'static str),
    /// A compression that is not read.
    #[error(
        "is compressed by method {0}, but modelfmt reads stored and deflated records; pack the archive again"
    )]
    Method(u16),
    /// A deflate stream that does not decode.
    #[error("is damaged: its deflate stream does not decode at byte {0} of the content")]
    Deflate(u64),
    /// A deflate stream that makes another number of bytes.
    #[error("is damaged: its deflate stream makes {found} bytes, not {stated}")]
    DeflateLength {
        /// What it makes, as far as it was decoded.
        found: u64,
        /// What the directory says.
        stated: u64,
    },
    /// The CRC-32 does not match.
    #[error(
        "has the CRC-32 {found:08x}, but the directory says {stated:08x}: it is damaged, or its writer did not compute it, as torch can be told; --no-verify reads it"
    )]
    Crc {
        /// The CRC of the bytes.
        found: u32,
        /// What the directory says.
        stated: u32,
    },
    /// The numbers of dimensions and strides differ.
    #[error("has {dims} dimensions and {strides} strides")]
    Strides {
        /// The dimensions.
        dims: usize,
        /// The strides.
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
    /// Whether a file that lacks its end breaks this rule.
    #[must_use]
    pub const fn is_end_missing(&self) -> bool {
        matches!(self, Self::NoEnd)
    }
}

/// A fault of a format that has arrays in records: it carries the rules of this crate among its own.
pub trait ArrayFault: modelfmt_core::Fault + From<Fault> {}

impl<F: modelfmt_core::Fault + From<Fault>> ArrayFault for F {}

/// An error of such a format.
pub(crate) type Error<F> = modelfmt_core::Error<F>;

/// The error of a rule of this crate.
pub(crate) fn malformed<F: ArrayFault>(part: modelfmt_core::Part, at: u64, fault: Fault) -> Error<F> {
    Error::Malformed { part, at, fault: fault.into() }
}

/// The error of a rule that all formats share.
pub(crate) fn common<F: ArrayFault>(part: modelfmt_core::Part, at: u64, fault: CommonFault) -> Error<F> {
    Error::Malformed { part, at, fault: fault.into() }
}
