//! Digests of ranges of bytes whose pieces come in any order, from any thread or process.
//!
//! A [`DigestKind`] defines the intermediate state of a piece without the rest of its range, and how the
//! states of neighbours are joined. A lane is a list of ranges that do not overlap, with how much of each has
//! been hashed. Two types are made of lanes:
//!
//! - `modelfmt_core::claims::Claims` holds what a file claims about its bytes. It watches reads that are made
//!   for another purpose, hashes no byte twice, and knows what is missing;
//! - a [`Ledger`] is for one pass over all bytes, in pieces. It computes the digests of several lists of
//!   ranges at once, such as those of tensors and of pages, and the results for a piece can be sent to
//!   another process.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "blake3")]
mod blake3;
#[cfg(feature = "crc32")]
mod crc32;
mod cuts;
mod hasher;
mod lane;
mod parcel;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "blake3")]
pub use self::blake3::Blake3;
#[cfg(feature = "crc32")]
pub use self::crc32::{Crc, Crc32};
pub use self::hasher::Hasher;
pub use self::lane::{Lane, MAX_RUNS, Ranges};
pub use self::parcel::Parcel;

/// The number of bytes that are hashed together before the next digest covers them: few enough to stay in a
/// near cache, enough for every digest to run at full speed.
pub const BLOCK: u64 = 256 << 10;

/// A kind of digest for bytes whose pieces come in any order.
pub trait DigestKind: 'static {
    /// The name of the kind, such as `blake3` or `crc32`.
    const NAME: &'static str;
    /// Whether bytes can only be hashed after all bytes before them, as with SHA-256. Bytes that come too early are skipped.
    const IN_ORDER: bool = false;
    /// The digest of a whole range.
    type Digest: Copy + PartialEq + Send + Sync + 'static;
    /// The intermediate state of consecutive bytes of a range.
    type Run: Send + 'static;

    /// Creates the state of an empty run at byte `at` of a range; `at` is 0 if bytes are taken in order.
    fn begin(at: u64) -> Self::Run;

    /// Adds the next bytes to a run. The range has `total` bytes.
    fn extend(total: u64, run: &mut Self::Run, bytes: &[u8]);

    /// Joins two runs; the second begins where the first ends. Never called if bytes are taken in order.
    fn join(total: u64, first: Self::Run, second: Self::Run) -> Self::Run;

    /// Returns the digest of a range, from a run that covers it.
    fn finish(total: u64, run: Self::Run) -> Self::Digest;

    /// Returns the digest of a range whose bytes are all in memory.
    fn whole(bytes: &[u8]) -> Self::Digest {
        let (total, mut run) = (bytes.len() as u64, Self::begin(0));
        Self::extend(total, &mut run, bytes);
        Self::finish(total, run)
    }

    /// Returns how many bytes to add at once for best speed, at least 1 and at most `most`. They begin `at`
    /// bytes into a range.
    fn step(at: u64, most: u64) -> u64 {
        let _ = at;
        most.min(BLOCK)
    }
}

/// Ranges that do not overlap, in ascending order.
#[derive(Clone, Debug)]
pub enum Spans {
    /// One range from byte 0 on, with this length.
    Whole(u64),
    /// Consecutive ranges of `size` bytes from byte 0 to byte `len`; the last one may be shorter. There are none if `size` or
    /// `len` is 0.
    Even {
        /// The end of the last range.
        len: u64,
        /// The length of each range in bytes.
        size: u64,
    },
    /// A list of ranges.
    Listed(Vec<Range<u64>>),
}

impl Ranges for Spans {
    fn count(&self) -> usize {
        match self {
            Self::Whole(_) => 1,
            Self::Even { size: 0, .. } => 0,
            Self::Even { len, size } => usize::try_from(len.div_ceil(*size)).unwrap_or(0),
            Self::Listed(spans) => spans.len(),
        }
    }

    fn range(&self, number: usize) -> Option<Range<u64>> {
        match self {
            Self::Whole(len) => (number == 0).then_some(0..*len),
            Self::Even { len, size } => {
                let start = (number as u64).checked_mul(*size).filter(|start| start < len && *size > 0)?;
                Some(start..start.saturating_add(*size).min(*len))
            }
            Self::Listed(spans) => spans.get(number).cloned(),
        }
    }

    fn first_behind(&self, at: u64) -> usize {
        match self {
            Self::Whole(_) => 0,
            Self::Even { size, .. } => {
                usize::try_from(at.checked_div(*size).unwrap_or_default()).unwrap_or(usize::MAX)
            }
            Self::Listed(spans) => spans.partition_point(|span| span.end <= at),
        }
    }
}

/// The digests of all ranges of several lists, from one pass over the bytes.
#[derive(Debug)]
pub struct Ledger<K: DigestKind, const N: usize> {
    lanes: [Lane<K, Spans>; N],
    /// The digests of each lane.
    found: Mutex<[Vec<K::Digest>; N]>,
}

impl<K: DigestKind, const N: usize> Ledger<K, N> {
    /// Creates a ledger without any bytes hashed.
    #[must_use]
    pub fn new(lists: [Spans; N]) -> Self {
        const { assert!(!K::IN_ORDER, "pieces come in any order") };
        // The initial digest is that of an empty range, which no piece touches.
        let empty = K::whole(&[]);
        let found = std::array::from_fn(|n| vec![empty; lists.get(n).map_or(0, Ranges::count)]);
        Self { lanes: lists.map(Lane::new), found: Mutex::new(found) }
    }

    /// Hashes a piece, which starts at byte `at`, and keeps the results. Each byte must come once.
    pub fn observe(&self, at: u64, bytes: &[u8]) {
        self.take(self.hash(at, bytes));
    }

    /// Hashes a piece, which starts at byte `at`, and returns the results.
    pub fn hash(&self, at: u64, bytes: &[u8]) -> PieceDigests<K> {
        let mut hasher = self.hasher(at);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Returns a hasher for pieces that follow each other, from byte `at` on.
    pub fn hasher(&self, at: u64) -> Hasher<'_, K, N> {
        Hasher::new(self, at)
    }

    /// Keeps the results for a piece.
    pub fn take(&self, PieceDigests { done, parts }: PieceDigests<K>) {
        let joined = parts.into_iter().filter_map(|Part { lane, number, start, end, run }| {
            let digest = self.lanes.get(lane)?.put(number, start..end, run)?;
            Some((lane, number, digest))
        });
        let joined: Vec<_> = joined.collect();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for (lane, number, digest) in joined.into_iter().chain(done) {
            if let Some(place) = found.get_mut(lane).and_then(|found| found.get_mut(number)) {
                *place = digest;
            }
        }
    }

    /// Returns the ranges of a list, in ascending order.
    pub fn ranges(&self, lane: usize) -> impl Iterator<Item = Range<u64>> {
        let list = self.lanes.get(lane).map(Lane::list);
        list.into_iter().flat_map(|list| (0..list.count()).filter_map(|number| list.range(number)))
    }

    /// Returns the digest of a range of a list, once all bytes have come. `None` if the list does not have
    /// the range, or if the range is empty.
    pub fn digest(&self, lane: usize, range: &Range<u64>) -> Option<K::Digest> {
        let list = self.lanes.get(lane)?.list();
        let number = list.first_behind(range.start);
        list.range(number).filter(|found| found == range && !range.is_empty())?;
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(lane)?.get(number).copied()
    }

    /// Returns the digests of each list, once all bytes have come.
    pub fn finish(self) -> [Vec<K::Digest>; N] {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The results of a [`Ledger`] for a piece, or for consecutive pieces. The default is the result for no bytes.
#[derive(Debug)]
pub struct PieceDigests<K: DigestKind> {
    /// The digests of ranges that the piece contains completely, each with the number of its lane and of its range.
    done: Vec<(usize, usize, K::Digest)>,
    parts: Vec<Part<K::Run>>,
}

impl<K: DigestKind> Default for PieceDigests<K> {
    fn default() -> Self {
        Self { done: Vec::new(), parts: Vec::new() }
    }
}

/// The state of a range that a piece contains only in part.
#[derive(Debug)]
struct Part<R> {
    lane: usize,
    /// The number of the range.
    number: usize,
    /// The offset of the part in the range.
    start: u64,
    end: u64,
    run: R,
}

impl<K: DigestKind<Digest: Parcel, Run: Parcel>> Parcel for PieceDigests<K> {
    fn put(&self, out: &mut Vec<u8>) {
        self.done.put(out);
        self.parts.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self { done: Parcel::take(from)?, parts: Parcel::take(from)? })
    }
}

impl<R: Parcel> Parcel for Part<R> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.lane, self.number).put(out);
        (self.start, self.end).put(out);
        self.run.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (lane, number) = Parcel::take(from)?;
        let (start, end) = Parcel::take(from)?;
        Some(Self { lane, number, start, end, run: Parcel::take(from)? })
    }
}

/// The README's example, compiled as a test.
#[cfg(all(doctest, feature = "crc32"))]
#[doc = include_str!("../README.md")]
struct Readme;
