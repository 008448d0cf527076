//! Read plans: which tensors or parts of tensors are read, from which ranges of which files, in which
//! requests, and which digests verify each range.
//!
//! A plan is built from an index without reading values. You can print a plan, run it over an object store
//! with many requests in flight, or read it into memory.
//!
//! ```
//! use modelfmt_core::plan::{PlanOptions, ReadPlan, Runs, Stride};
//!
//! // Two tensors that are near to each other, and every tenth row of a third.
//! let mut plan = ReadPlan::builder(PlanOptions { gap: 64, max_request: 4096 });
//! plan.add(0, Runs::contiguous(0..1000));
//! plan.add(0, Runs::contiguous(1024..3000));
//! plan.extend(1, Runs::new(0, 100, [Stride { count: 5, bytes: 1000 }]));
//! let plan = plan.finish(vec![None]);
//!
//! let totals = plan.totals();
//! assert_eq!((totals.requests, totals.wanted, totals.read, totals.overhead()), (6, 3476, 3500, 24));
//! let requests: Vec<_> = plan.requests().map(|request| request.range).collect();
//! assert_eq!(requests[..3], [0..3000, 0..100, 1000..1100]);
//! ```

mod build;
mod gather;
mod new;
mod runs;
#[cfg(feature = "serde")]
mod serde;
pub(crate) mod slice;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use self::build::PlanBuilder;
pub use self::gather::TensorSlice;
pub(crate) use self::gather::{gather, gathered};
pub(crate) use self::new::{add, wanted_of};
pub use self::runs::{Runs, RunsIter, Stride};
pub use self::slice::{Slice, SliceLayout, Span};
pub use crate::error::SliceError;

/// The options by which ranges become requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// The maximum number of bytes between ranges that are merged into one.
    pub gap: u64,
    /// The maximum length of a request in bytes.
    pub max_request: u64,
}

impl PlanOptions {
    /// Returns the options for local files: gaps of 64 KiB, requests of 8 MiB.
    #[must_use]
    pub const fn local() -> Self {
        Self { gap: 64 << 10, max_request: 8 << 20 }
    }

    /// Returns the options for remote files, where a request takes as long as reading about a mebibyte: gaps
    /// of 1 MiB, requests of 16 MiB.
    #[must_use]
    pub const fn remote() -> Self {
        Self { gap: 1 << 20, max_request: 16 << 20 }
    }
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self::local()
    }
}

/// A tensor to read, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The position of the tensor.
    pub position: usize,
    /// The part to read; `None` for all values.
    pub slice: Option<Slice>,
}

impl Pick {
    /// Picks all values of the tensor at a position.
    #[must_use]
    pub const fn whole(position: usize) -> Self {
        Self { position, slice: None }
    }

    /// Picks a part of the tensor at a position.
    #[must_use]
    pub const fn part(position: usize, slice: Slice) -> Self {
        Self { position, slice: Some(slice) }
    }
}

/// Bytes of a file that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRange {
    /// The number of the file, as in [`Container::read_file`](crate::Container::read_file).
    pub file: usize,
    /// The bytes: one range, or several at regular distances.
    pub runs: Runs,
    /// The number of these bytes that are wanted values, as they are stored.
    pub wanted: u64,
}

/// A digest that verifies a range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofRange {
    /// The number of the file.
    pub file: usize,
    /// The bytes that must be read to check any of them.
    pub range: Range<u64>,
    /// The kind of digest: `blake3`, `crc32`, …
    pub by: &'static str,
}

/// One range of a file that is read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the file.
    pub file: usize,
    /// The bytes.
    pub range: Range<u64>,
}

/// The totals of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of requests.
    pub requests: u64,
    /// The number of wanted bytes, as they are stored.
    pub wanted: u64,
    /// The number of bytes that are read.
    pub read: u64,
}

impl Totals {
    /// Returns the number of bytes that are read without being wanted.
    #[must_use]
    pub const fn overhead(&self) -> u64 {
        self.read.saturating_sub(self.wanted)
    }
}

/// The reads to make: ranges of files, ordered by file and offset.
///
/// A plan has at most one entry for each range, however many requests that takes, and fewer if ranges are
/// close to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPlan {
    files: Vec<Option<String>>,
    ranges: Vec<PlannedRange>,
    proofs: Vec<ProofRange>,
    options: PlanOptions,
}

impl ReadPlan {
    /// Begins a plan, to which you add ranges.
    #[must_use]
    pub const fn builder(options: PlanOptions) -> PlanBuilder {
        PlanBuilder::new(options)
    }

    /// Returns the names of a set's files, as its index has them; for a single file, one entry without a
    /// name.
    #[must_use]
    pub fn files(&self) -> &[Option<String>] {
        &self.files
    }

    /// Returns the name of the file with this number; `None` for a single file.
    #[must_use]
    pub fn file(&self, number: usize) -> Option<&str> {
        self.files.get(number)?.as_deref()
    }

    /// Returns the ranges that are read, ordered by file and offset.
    #[must_use]
    pub fn ranges(&self) -> &[PlannedRange] {
        &self.ranges
    }

    /// Returns how ranges become requests.
    #[must_use]
    pub const fn options(&self) -> PlanOptions {
        self.options
    }

    /// Returns the digests that verify the ranges, ordered by file and offset.
    #[must_use]
    pub fn proofs(&self) -> &[ProofRange] {
        &self.proofs
    }

    /// Sets the digests that verify the ranges of the plan.
    #[must_use]
    pub fn with_proofs(mut self, mut proofs: Vec<ProofRange>) -> Self {
        proofs.sort_by_key(|cover| (cover.file, cover.range.start, cover.range.end, cover.by));
        proofs.dedup();
        self.proofs = proofs;
        self
    }

    /// Returns the digests that verify the bytes of a range.
    pub fn proofs_of(&self, range: &PlannedRange) -> impl Iterator<Item = &ProofRange> {
        let (file, hull) = (range.file, range.runs.hull());
        let (start, end) = (hull.start, hull.end);
        let first = self.proofs.partition_point(|cover| cover.file < file);
        let of_file = self.proofs.iter().skip(first).take_while(move |cover| cover.file == file);
        of_file.take_while(move |cover| cover.range.start < end).filter(move |cover| cover.range.end > start)
    }

    /// Returns the requests in order, none longer than [`PlanOptions::max_request`].
    pub fn requests(&self) -> impl Iterator<Item = Request> {
        let longest = self.options.max_request.max(1);
        self.ranges.iter().flat_map(move |range| {
            let cut = move |run: Range<u64>| {
                let count = (run.end - run.start).div_ceil(longest);
                (0..count).map(move |number| {
                    let start = run.start + number * longest;
                    start..run.end.min(start.saturating_add(longest))
                })
            };
            range.runs.iter().flat_map(cut).map(|part| Request { file: range.file, range: part })
        })
    }

    /// Returns the totals of the plan. The time that this takes depends on the number of ranges, not of
    /// requests.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let longest = self.options.max_request.max(1);
        let add = |sum: Totals, range: &PlannedRange| Totals {
            requests: sum
                .requests
                .saturating_add(range.runs.count().saturating_mul(range.runs.len().div_ceil(longest))),
            wanted: sum.wanted.saturating_add(range.wanted),
            read: sum.read.saturating_add(range.runs.nbytes()),
        };
        self.ranges.iter().fold(Totals::default(), add)
    }
}
