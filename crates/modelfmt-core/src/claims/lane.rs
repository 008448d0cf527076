//! A lane: claims whose ranges do not overlap, and the claims that failed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::Claim;
use crate::error::AnyError;
use crate::ledger::{DigestKind, Lane, Ranges};

/// A [`Checked`] lane with any kind of digest.
pub(super) trait AnyLane: Send + Sync {
    /// Hashes the parts of `bytes` that claims cover, and adds the hashed ranges to `taken`. `bytes` begin at
    /// byte `at` of the file. Returns false if a claim has failed.
    fn hash_bytes(&self, at: u64, bytes: &[u8], keep_all: bool, taken: &mut Vec<Range<u64>>) -> bool;
    /// Returns the ranges of the claims that overlap `range`.
    fn covered(&self, range: &Range<u64>) -> Vec<Range<u64>>;
    /// Returns the name of the kind of digest, such as `crc32`.
    fn name(&self) -> &'static str;
    /// Returns whether the digest takes bytes only in order.
    fn is_in_order(&self) -> bool;
    /// Returns the ranges of the claims that have not been hashed yet.
    fn missing(&self) -> Vec<Range<u64>>;
    /// Returns the ranges of the claims that failed, in ascending order.
    fn failed(&self) -> Vec<Range<u64>>;
    /// Returns the error of the first claim that failed.
    fn failure(&self) -> Option<AnyError>;
}

pub(super) struct Checked<K: DigestKind, W, F> {
    /// The claims, in ascending order.
    lane: Lane<K, Listed<K::Digest, W>>,
    failed: OnceLock<(usize, K::Digest)>,
    /// The numbers of all claims that failed.
    all_failed: Mutex<Vec<usize>>,
    describe: F,
}

/// Claims in ascending order.
#[derive(Debug)]
struct Listed<D, W>(Vec<Claim<D, W>>);

impl<D, W> Ranges for Listed<D, W> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn range(&self, number: usize) -> Option<Range<u64>> {
        self.0.get(number).map(|claim| claim.extent.range())
    }

    fn first_behind(&self, at: u64) -> usize {
        self.0.partition_point(|claim| claim.extent.end() <= at)
    }
}

impl<K: DigestKind, W, F> Checked<K, W, F> {
    /// Creates a lane of claims that are in ascending order and do not overlap. Claims of empty ranges are
    /// checked at once.
    pub(super) fn new(claims: Vec<Claim<K::Digest, W>>, describe: F) -> Self {
        let checked = Self {
            lane: Lane::new(Listed(claims)),
            failed: OnceLock::new(),
            all_failed: Mutex::default(),
            describe,
        };
        let empty = |(_, claim): &(usize, &Claim<_, W>)| claim.extent.is_empty();
        for (number, _) in checked.lane.list().0.iter().enumerate().filter(empty) {
            checked.judge(number, K::whole(&[]));
        }
        checked
    }

    /// Compares the digest of a claim's bytes with the expected one, and records a failure.
    fn judge(&self, number: usize, found: K::Digest) {
        if self.lane.list().0.get(number).is_some_and(|claim| claim.expected != found) {
            let _ = self.failed.set((number, found)); // only the first failure becomes an error
            self.all_failed.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        }
    }
}

impl<K, W, F> AnyLane for Checked<K, W, F>
where
    K: DigestKind,
    W: Send + Sync,
    F: Fn(&Claim<K::Digest, W>, K::Digest) -> AnyError + Send + Sync,
{
    fn hash_bytes(&self, at: u64, bytes: &[u8], keep_all: bool, taken: &mut Vec<Range<u64>>) -> bool {
        self.lane.observe(at, bytes, keep_all, taken, |number, found| self.judge(number, found));
        self.failed.get().is_none()
    }

    fn covered(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.lane.list().first_behind(range.start);
        let here = self.lane.list().0.iter().skip(first);
        here.take_while(|claim| claim.extent.offset() < range.end).map(|claim| claim.extent.range()).collect()
    }

    fn name(&self) -> &'static str {
        K::NAME
    }

    fn is_in_order(&self) -> bool {
        K::IN_ORDER
    }

    fn missing(&self) -> Vec<Range<u64>> {
        self.lane.missing()
    }

    fn failed(&self) -> Vec<Range<u64>> {
        let mut numbers = self.all_failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        numbers.sort_unstable();
        numbers.into_iter().filter_map(|number| self.lane.list().range(number)).collect()
    }

    fn failure(&self) -> Option<AnyError> {
        let &(number, found) = self.failed.get()?;
        self.lane.list().0.get(number).map(|claim| (self.describe)(claim, found))
    }
}
