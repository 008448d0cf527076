//! Records: where some bytes are in a file, and how they are stored.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

/// How the bytes of a record are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// As they are.
    Stored,
    /// In a deflate stream.
    Deflated,
}

impl Method {
    pub(crate) const STORED: u16 = 0;
    pub(crate) const DEFLATED: u16 = 8;

    /// The method of that number in a zip archive.
    pub(crate) const fn of(number: u16) -> Option<Self> {
        match number {
            Self::STORED => Some(Self::Stored),
            Self::DEFLATED => Some(Self::Deflated),
            _ => None,
        }
    }

    /// The most bytes that a deflate stream of that length can expand to: a symbol of two bits makes at most 258 bytes.
    pub(crate) const fn most_of(stored_len: u64) -> u64 {
        stored_len.saturating_mul(1032)
    }
}

/// Some bytes of a file, which arrays are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Where they begin.
    pub at: u64,
    /// How many bytes they take in the file.
    pub stored_len: u64,
    /// How many bytes they have when decompressed.
    pub len: u64,
    /// How they are stored.
    pub method: Method,
    /// The CRC-32 that they must have, if the file states one.
    pub crc: Option<u32>,
}

impl Record {
    /// Bytes that are in the file as they are, without a CRC.
    #[must_use]
    pub const fn plain(at: u64, len: u64) -> Self {
        Self { at, stored_len: len, len, method: Method::Stored, crc: None }
    }

    /// The bytes of the file that it takes.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.at..self.at.saturating_add(self.stored_len)
    }
}
