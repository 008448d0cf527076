//! Byte ranges that have been checked against the length of their file.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use crate::error::CommonFault;

/// A byte range that is within a file. The constructor checks it, so the check cannot be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    offset: u64,
    len: u64,
}

impl Extent {
    /// Creates the extent of the `len` bytes from `offset` on. They must be within the first `end` bytes. An
    /// empty range may be at the end.
    ///
    /// # Errors
    /// [`CommonFault::OutOfBounds`] if they are not.
    pub const fn new(offset: u64, len: u64, end: u64) -> Result<Self, CommonFault> {
        match offset.checked_add(len) {
            Some(e) if e <= end => Ok(Self { offset, len }),
            _ => Err(CommonFault::OutOfBounds { offset, len, end }),
        }
    }

    /// Returns the offset of the first byte.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.len
    }

    /// Returns whether the extent has no bytes.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the offset after the last byte.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.offset.saturating_add(self.len) // does not overflow: checked by `new`
    }

    /// Returns the extent as a range.
    #[must_use]
    pub const fn range(self) -> Range<u64> {
        self.offset..self.end()
    }

    /// Returns the part of the extent that begins at its byte `offset` and has `len` bytes.
    ///
    /// # Errors
    /// [`CommonFault::OutOfBounds`], with offsets relative to this extent, if it has fewer bytes.
    pub fn part(self, offset: u64, len: u64) -> Result<Self, CommonFault> {
        Self::new(offset, len, self.len)
            .map(|inner| Self { offset: self.offset.saturating_add(inner.offset), len })
    }
}

/// Two extents that overlap without being the same; see [`overlaps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Index in the input of the extent that begins first.
    pub first: usize,
    /// Index of the extent that begins inside it.
    pub second: usize,
}

/// Finds extents that overlap in part. Equal extents (tied weights) are allowed, and an empty extent overlaps
/// nothing.
///
/// Takes O(n log n). Each extent that begins inside an earlier one is reported once, together with the
/// earlier one that ends last.
#[must_use]
pub fn overlaps(extents: &[Extent]) -> Vec<Overlap> {
    let mut order: Vec<usize> =
        (0..extents.len()).filter(|&i| extents.get(i).is_some_and(|e| !e.is_empty())).collect();
    order.sort_by_key(|&i| extents.get(i).copied());
    let mut found = Vec::new();
    let mut furthest: Option<(usize, Extent)> = None;
    for i in order {
        let Some(&extent) = extents.get(i) else { continue };
        match furthest {
            Some((first, reach)) if extent.offset < reach.end() => {
                if extent != reach {
                    found.push(Overlap { first, second: i });
                }
                if extent.end() > reach.end() {
                    furthest = Some((i, extent));
                }
            }
            _ => furthest = Some((i, extent)),
        }
    }
    found
}

/// Returns the first multiple of `alignment` that is not below `offset`; `None` if it does not fit `u64`. An
/// alignment of 0 counts as 1.
#[must_use]
pub const fn align_up(offset: u64, alignment: u64) -> Option<u64> {
    if alignment == 0 { Some(offset) } else { offset.checked_next_multiple_of(alignment) }
}

/// Converts to usize. A number that does not fit becomes the largest usize, and slicing by it then fails.
#[must_use]
pub fn to_usize_saturating(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_lie_inside() {
        assert_eq!(Extent::new(4, 6, 10).map(Extent::range), Ok(4..10));
        assert!(Extent::new(10, 0, 10).is_ok());
        assert_eq!(Extent::new(4, 7, 10), Err(CommonFault::OutOfBounds { offset: 4, len: 7, end: 10 }));
        assert!(Extent::new(u64::MAX, 2, u64::MAX).is_err());
        assert!(Extent::new(11, 0, 10).is_err());
        let extent = Extent::new(4, 6, 10).unwrap();
        assert_eq!(extent.part(2, 4).map(Extent::range), Ok(6..10));
        assert!(extent.part(2, 5).is_err());
    }

    #[test]
    fn overlaps_are_found_and_tied_weights_are_not() {
        let of = |ranges: &[(u64, u64)]| {
            let extents: Vec<_> = ranges.iter().map(|&(o, l)| Extent::new(o, l, 100).unwrap()).collect();
            overlaps(&extents).into_iter().map(|o| (o.first, o.second)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[(0, 4), (4, 4), (0, 4), (2, 0)]), []);
        assert_eq!(of(&[(0, 4), (3, 4)]), [(0, 1)]);
        assert_eq!(of(&[(10, 4), (0, 50), (20, 1), (50, 1)]), [(1, 0), (1, 2)]);
        assert_eq!(of(&[(0, 4), (0, 5)]), [(0, 1)]);
    }

    #[test]
    fn alignment_is_checked() {
        assert_eq!((align_up(65, 64), align_up(64, 64), align_up(7, 0)), (Some(128), Some(64), Some(7)));
        assert_eq!(align_up(u64::MAX, 64), None);
    }
}
