//! Byte ranges at regular distances. Any number of them is described by a few numbers.

use std::ops::Range;

/// One dimension of [`Runs`]: the inner dimensions repeat `count` times, at distances of `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stride {
    /// The number of repetitions.
    pub count: u64,
    /// The distance in bytes from the beginning of one repetition to the beginning of the next.
    pub bytes: u64,
}

/// Byte runs of equal length at regular distances: a single range, or the rows of a slice that takes every
/// second row.
///
/// The runs ascend and do not overlap. Every second element of a tensor of 10^12 elements takes no more
/// memory than a single range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Runs {
    offset: u64,
    len: u64,
    /// The strides, the outermost first.
    strides: Vec<Stride>,
}

impl Runs {
    /// Creates a single run. A range that ends before it begins is empty.
    #[must_use]
    pub const fn contiguous(range: Range<u64>) -> Self {
        Self { offset: range.start, len: range.end.saturating_sub(range.start), strides: Vec::new() }
    }

    /// Creates runs of `len` bytes, the first of which begins at `offset`. The outermost stride comes first.
    /// `None` if runs would overlap, not ascend, or end beyond 2^64.
    #[must_use]
    pub fn new(offset: u64, len: u64, strides: impl Into<Vec<Stride>>) -> Option<Self> {
        let mut strides: Vec<Stride> = strides.into();
        if len == 0 || strides.iter().any(|stride| stride.count == 0) {
            return Some(Self::contiguous(offset..offset));
        }
        strides.retain(|stride| stride.count > 1);
        let mut extent = len;
        for stride in strides.iter().rev() {
            if stride.bytes < extent {
                return None;
            }
            extent = (stride.count - 1).checked_mul(stride.bytes)?.checked_add(extent)?;
        }
        offset.checked_add(extent)?;
        Some(Self { offset, len, strides }.joined(0))
    }

    /// Returns the offset of the first run.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the length of each run.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the strides, the outermost first; empty for a single run.
    #[must_use]
    pub fn strides(&self) -> &[Stride] {
        &self.strides
    }

    /// Returns the number of runs. None of them is empty.
    #[must_use]
    pub fn count(&self) -> u64 {
        if self.is_empty() { 0 } else { self.strides.iter().map(|stride| stride.count).product() }
    }

    /// Returns the total number of bytes in all runs.
    #[must_use]
    pub fn nbytes(&self) -> u64 {
        self.count() * self.len // runs do not overlap and end below 2^64
    }

    /// Returns the range from the first byte to the last.
    #[must_use]
    pub fn hull(&self) -> Range<u64> {
        let extent =
            self.strides.iter().fold(self.len, |sum, stride| sum + (stride.count - 1) * stride.bytes);
        self.offset..self.offset + extent
    }

    /// Returns the runs as one range, if there is at most one run.
    #[must_use]
    pub fn as_range(&self) -> Option<Range<u64>> {
        self.strides.is_empty().then(|| self.hull())
    }

    /// Moves the runs by `by` bytes; `None` if they would end beyond 2^64.
    #[must_use]
    pub fn moved(mut self, by: u64) -> Option<Self> {
        self.hull().end.checked_add(by)?;
        self.offset += by;
        Some(self)
    }

    /// Joins neighbouring runs with at most `gap` bytes between them.
    #[must_use]
    pub fn joined(mut self, gap: u64) -> Self {
        while let Some(&Stride { count, bytes }) = self.strides.last()
            && bytes - self.len <= gap
        {
            self.len += (count - 1) * bytes;
            self.strides.pop();
        }
        // Adjacent strides that continue each other are merged.
        let mut kept: Vec<Stride> = Vec::with_capacity(self.strides.len());
        for &outer in self.strides.iter().rev() {
            match kept.last_mut() {
                Some(inner) if inner.count.checked_mul(inner.bytes) == Some(outer.bytes) => {
                    inner.count *= outer.count; // at most the number of bytes below 2^64
                }
                _ => kept.push(outer),
            }
        }
        kept.reverse();
        Self { strides: kept, ..self }
    }

    /// Divides the runs, in order, into at most `most` parts of about equal size.
    #[must_use]
    pub(crate) fn parts(self, most: u64) -> Vec<Self> {
        let Some((&Stride { count, bytes }, inner)) = self.strides.split_first() else { return vec![self] };
        let of = |first: u64, count: u64| {
            let outer = (count > 1).then_some(Stride { count, bytes });
            let strides = outer.into_iter().chain(inner.iter().copied()).collect();
            Self { offset: self.offset + first * bytes, len: self.len, strides }
        };
        if most <= 1 {
            return vec![self];
        }
        if count > most / 2 {
            let each = count.div_ceil(most);
            return (0..count.div_ceil(each)).map(|n| of(n * each, each.min(count - n * each))).collect();
        }
        (0..count).flat_map(|n| of(n, 1).parts(most / count)).collect()
    }

    /// Returns the runs that contain `bytes`, which count from the first byte of the first run, without gaps.
    /// They ascend and are as few as possible.
    ///
    /// ```
    /// use modelfmt_core::plan::{Runs, Stride};
    ///
    /// let rows = Runs::new(100, 4, [Stride { count: 3, bytes: 10 }]).unwrap();
    /// assert_eq!(rows.part(4..9), [Runs::contiguous(110..114), Runs::contiguous(120..121)]);
    /// ```
    #[must_use]
    pub fn part(&self, bytes: Range<u64>) -> Vec<Self> {
        let (mut at, end) = (bytes.start, bytes.end.min(self.nbytes()));
        let mut parts = Vec::new();
        while at < end {
            let (part, len) = self.part_at(at, end - at);
            parts.push(part);
            at += len;
        }
        parts
    }

    /// Returns the longest part that begins at byte `at` of these runs, has at most `left` bytes and is
    /// itself regular; and its length in bytes.
    fn part_at(&self, at: u64, left: u64) -> (Self, u64) {
        let mut inner = self.nbytes(); // the bytes within one step of the stride
        let mut offset = self.offset + at % self.len;
        let mut found = None;
        for (depth, stride) in self.strides.iter().enumerate() {
            inner /= stride.count;
            let passed = at / inner % stride.count;
            offset += passed * stride.bytes;
            if found.is_none() && at.is_multiple_of(inner) && inner <= left {
                found = Some((depth, inner, (left / inner).min(stride.count - passed)));
            }
        }
        let Some((depth, inner, count)) = found else {
            let len = left.min(self.len - at % self.len);
            return (Self { offset, len, strides: Vec::new() }, len);
        };
        let mut strides = self.strides.get(depth..).unwrap_or_default().to_vec();
        strides.first_mut().into_iter().for_each(|stride| stride.count = count);
        strides.retain(|stride| stride.count > 1);
        (Self { offset, len: self.len, strides }, count * inner)
    }

    /// Returns the runs, ascending.
    #[must_use]
    pub fn iter(&self) -> RunsIter<'_> {
        RunsIter { runs: self, left: self.count(), at: self.offset, counts: vec![0; self.strides.len()] }
    }
}

impl<'a> IntoIterator for &'a Runs {
    type Item = Range<u64>;
    type IntoIter = RunsIter<'a>;

    fn into_iter(self) -> RunsIter<'a> {
        self.iter()
    }
}

/// The runs of [`Runs`], ascending.
#[derive(Clone, Debug)]
pub struct RunsIter<'a> {
    runs: &'a Runs,
    left: u64,
    at: u64,
    /// The number of repetitions of each stride that have been passed.
    counts: Vec<u64>,
}

impl Iterator for RunsIter<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        self.left = self.left.checked_sub(1)?;
        let range = self.at..self.at + self.runs.len;
        if self.left > 0 {
            for (stride, passed) in self.runs.strides.iter().zip(&mut self.counts).rev() {
                if *passed + 1 < stride.count {
                    *passed += 1;
                    self.at += stride.bytes;
                    break;
                }
                self.at -= *passed * stride.bytes;
                *passed = 0;
            }
        }
        Some(range)
    }
}
