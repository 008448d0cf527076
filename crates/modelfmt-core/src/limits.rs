//! Limits on the memory and work that a file may cause.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::error::{CommonError, Part};

/// Limits on the memory and work that a file may cause. The defaults come from the specifications, or are far
/// above real models. Lower them if memory is scarce, or raise them for a file that you trust.
///
/// Whatever the limits, nothing is allocated for a count that the bytes of the file could not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The number of tensors in a model. Default 2^32 − 1.
    pub tensors: u64,
    /// The number of metadata entries, size variables, chunks or files of a set. Default 1,000,000.
    pub entries: u64,
    /// The length of a name or key in bytes. Default 65,535.
    pub name_len: u64,
    /// The number of dimensions of a tensor. Default 255.
    pub rank: u64,
    /// The length of an index (headers, records, a table of strings) in bytes. Default 2^31.
    pub index_len: u64,
    /// The length of one piece of metadata, decompressed, in bytes. Default 2^31.
    pub metadata_len: u64,
    /// Compressed metadata may expand to at most this many times its stored size, plus 1 MiB. Default 1024.
    pub expansion: u64,
    /// The levels that JSON and MessagePack may nest. Default 127.
    pub depth: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tensors: u64::from(u32::MAX),
            entries: 1_000_000,
            name_len: 65_535,
            rank: 255,
            index_len: 1 << 31,
            metadata_len: 1 << 31,
            expansion: 1024,
            depth: 127,
        }
    }
}

impl Limits {
    /// Returns `found` as a `usize`, if it is at most `max`.
    ///
    /// # Errors
    /// [`CommonError::Limit`] if it is larger, or more than this machine can address.
    pub fn check(what: &'static str, found: u64, max: u64) -> Result<usize, CommonError> {
        match usize::try_from(found) {
            Ok(size) if found <= max => Ok(size),
            _ => Err(CommonError::Limit { what, found, max: max.min(usize::MAX as u64) }),
        }
    }

    /// Returns `count` as a `usize`, if this number of records of at least `min_len` bytes fits the `have`
    /// bytes that exist from byte `at` on. Call this before anything is allocated for the count.
    ///
    /// # Errors
    /// [`CommonError::Truncated`] if the records do not fit.
    pub fn fits(part: Part, at: u64, count: u64, min_len: u64, have: u64) -> Result<usize, CommonError> {
        let need = count.saturating_mul(min_len);
        match usize::try_from(count) {
            Ok(size) if need <= have => Ok(size),
            _ => Err(CommonError::Truncated { part, at, need, have }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_checked_before_use() {
        assert_eq!(Limits::check("tensors", 5, 5), Ok(5));
        assert_eq!(
            Limits::check("tensors", 6, 5),
            Err(CommonError::Limit { what: "tensors", found: 6, max: 5 })
        );
        let part = Part::new("records");
        assert_eq!(Limits::fits(part.clone(), 24, 10, 8, 80), Ok(10));
        let truncated = CommonError::Truncated { part: part.clone(), at: 24, need: 88, have: 80 };
        assert_eq!(Limits::fits(part.clone(), 24, 11, 8, 80), Err(truncated));
        assert!(Limits::fits(part, 24, u64::MAX, 8, 80).is_err());
    }
}
