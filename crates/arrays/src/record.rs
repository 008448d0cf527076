//! Records: ranges of a file, and how their bytes are stored.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

/// How the bytes of a record are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Uncompressed.
    Stored,
    /// As a deflate stream.
    Deflated,
}

impl Method {
    pub(crate) const STORED: u16 = 0;
    pub(crate) const DEFLATED: u16 = 8;

    /// Returns the method with this number in a zip archive, or `None` if this crate does not read it.
    pub(crate) const fn of(number: u16) -> Option<Self> {
        match number {
            Self::STORED => Some(Self::Stored),
            Self::DEFLATED => Some(Self::Deflated),
            _ => None,
        }
    }

    /// Returns the most bytes that a deflate stream of this length can expand to: two bits produce at most
    /// 258 bytes.
    pub(crate) const fn most_of(stored_len: u64) -> u64 {
        stored_len.saturating_mul(1032)
    }
}

/// A range of a file that contains arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The offset of the record in the file.
    pub at: u64,
    /// The number of bytes that the record takes in the file.
    pub stored_len: u64,
    /// The number of bytes after decompression.
    pub len: u64,
    /// How the bytes are stored.
    pub method: Method,
    /// The CRC-32 of the decompressed bytes, if the file states one.
    pub crc: Option<u32>,
}

impl Record {
    /// Creates a record that is not compressed and has no CRC.
    #[must_use]
    pub const fn plain(at: u64, len: u64) -> Self {
        Self { at, stored_len: len, len, method: Method::Stored, crc: None }
    }

    /// Returns the range of the file that the record takes.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.at..self.at.saturating_add(self.stored_len)
    }
}
