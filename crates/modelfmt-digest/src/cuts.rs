//! Cuts a piece at the ranges of a lane, and into steps that are efficient to hash at once.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::marker::PhantomData;

use super::{BLOCK, DigestKind, Ranges};

/// Bytes of a piece that are hashed at once for one range.
pub(super) struct Cut {
    /// The number of the range, and its length in bytes.
    pub(super) number: usize,
    pub(super) total: u64,
    /// The offset of the bytes in the range.
    pub(super) offset: u64,
    /// The offset of the bytes in the file.
    pub(super) at: u64,
    pub(super) len: u64,
}

/// Cuts the bytes from `at` to `end`.
pub(super) struct Cuts<'a, K, L> {
    list: &'a L,
    number: usize,
    at: u64,
    end: u64,
    kind: PhantomData<K>,
}

impl<'a, K, L: Ranges> Cuts<'a, K, L> {
    pub(super) fn new(list: &'a L, at: u64, end: u64) -> Self {
        Self { list, number: list.first_behind(at), at, end, kind: PhantomData }
    }
}

impl<K: DigestKind, L: Ranges> Iterator for Cuts<'_, K, L> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        loop {
            let (number, range) = (self.number, self.list.range(self.number)?);
            let (at, stop) = (self.at.max(range.start), range.end.min(self.end));
            if at >= stop {
                if range.end > self.end || range.start >= self.end {
                    return None;
                }
                self.number = self.number.saturating_add(1);
                continue;
            }
            let (offset, left) = (at.saturating_sub(range.start), stop.saturating_sub(at));
            let is_whole = offset == 0 && stop == range.end && left <= BLOCK;
            let len = if is_whole { left } else { K::step(offset, left).max(1).min(left) };
            self.at = at.saturating_add(len);
            return Some(Cut { number, total: range.end.saturating_sub(range.start), offset, at, len });
        }
    }
}
