//! Lanes: ranges that do not overlap, and how much of each has been hashed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::DigestKind;

/// The greatest number of runs that wait for their neighbours. Beyond it, bytes are skipped and read again at
/// the end. This bounds memory use even if a hostile file has its values read in an unfavourable order.
pub const MAX_RUNS: usize = 1 << 14;

/// Ranges that do not overlap, in ascending order.
pub trait Ranges {
    /// Returns the number of ranges.
    fn count(&self) -> usize;

    /// Returns the range with this number.
    fn range(&self, number: usize) -> Option<Range<u64>>;

    /// Returns the number of the first range that ends after byte `at`.
    fn first_behind(&self, at: u64) -> usize;
}

/// A list of ranges that do not overlap, and how much of each has been hashed. Pieces come in any order, from
/// any thread.
pub struct Lane<K: DigestKind, L> {
    list: L,
    state: Mutex<State<K::Run>>,
}

struct State<R> {
    /// For each range, whether it has been hashed completely.
    done: Vec<bool>,
    /// The ranges that have been hashed in part.
    open: HashMap<usize, Open<R>>,
    /// The number of runs of all open ranges.
    runs: usize,
}

/// The state of a range. Offsets count from the start of the range.
struct Open<R> {
    /// The bytes that have been handed out for hashing: starts and ends of ranges that do not touch.
    taken: BTreeMap<u64, u64>,
    /// The bytes that have been hashed: start, end, and the state of the digest. Neighbours are joined at once.
    runs: BTreeMap<u64, (u64, R)>,
}

impl<R> Default for Open<R> {
    fn default() -> Self {
        Self { taken: BTreeMap::new(), runs: BTreeMap::new() }
    }
}

impl<R> Open<R> {
    /// Marks a range as taken. Returns the parts of it that had not been taken before.
    fn take(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let Range { mut start, mut end } = range.clone();
        let mut new = Vec::new();
        let mut at = range.start;
        // The ranges that touch this one: the last that starts before it, and those that start in it or right
        // after it.
        let before = self.taken.range(..range.start).next_back().filter(|&(_, &end)| end >= range.start);
        let first = before.map_or(range.start, |(&start, _)| start);
        let touching: Vec<(u64, u64)> = self.taken.range(first..=range.end).map(|(&s, &e)| (s, e)).collect();
        for (from, to) in touching {
            self.taken.remove(&from);
            (start, end) = (start.min(from), end.max(to));
            if from > at {
                new.push(at..from);
            }
            at = at.max(to);
        }
        if at < range.end {
            new.push(at..range.end);
        }
        self.taken.insert(start, end);
        new
    }

    /// Returns whether the range touches a run.
    fn touches(&self, range: &Range<u64>) -> bool {
        let near = self.runs.range(..=range.end).next_back();
        near.is_some_and(|(_, &(end, _))| end >= range.start)
    }

    fn missing(&self, len: u64) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = 0;
        for (&start, &end) in &self.taken {
            if start > at {
                missing.push(at..start);
            }
            at = end;
        }
        if at < len {
            missing.push(at..len);
        }
        missing
    }
}

/// The bytes of a range that remain to be hashed.
enum Task<R> {
    Nothing,
    /// All bytes of a range.
    Whole,
    Parts(Vec<Unseen<R>>),
}

/// Bytes to be hashed.
struct Unseen<R> {
    /// The start of the run that the bytes extend.
    start: u64,
    part: Range<u64>,
    run: R,
}

impl<R> State<R> {
    fn task<K: DigestKind<Run = R>>(
        &mut self,
        number: usize,
        len: u64,
        range: &Range<u64>,
        keep_all: bool,
    ) -> Task<R> {
        let Some(done) = self.done.get_mut(number).filter(|done| !**done) else { return Task::Nothing };
        if *range == (0..len) && !self.open.contains_key(&number) {
            *done = true;
            return Task::Whole;
        }
        if K::IN_ORDER {
            return self.next::<K>(number, range).map_or(Task::Nothing, |next| Task::Parts(vec![next]));
        }
        let is_full = self.runs >= MAX_RUNS && !keep_all;
        if is_full && !self.open.get(&number).is_some_and(|open| open.touches(range)) {
            return Task::Nothing;
        }
        let parts = self.open.entry(number).or_default().take(range.clone()).into_iter();
        let unseen = |part: Range<u64>| Unseen { start: part.start, run: K::begin(part.start), part };
        Task::Parts(parts.map(unseen).collect())
    }

    /// Returns the next bytes in order, and the run that they extend; `None` while another thread has that
    /// run.
    fn next<K: DigestKind<Run = R>>(&mut self, number: usize, range: &Range<u64>) -> Option<Unseen<R>> {
        let seen = self.open.get(&number).and_then(|open| open.taken.get(&0)).copied().unwrap_or(0);
        if range.start > seen || range.end <= seen {
            return None;
        }
        let open = self.open.entry(number).or_default();
        let run = if seen == 0 {
            K::begin(0)
        } else {
            let (_, run) = open.runs.remove(&0)?;
            self.runs = self.runs.saturating_sub(1);
            run
        };
        open.taken.insert(0, range.end);
        Some(Unseen { start: 0, part: seen..range.end, run })
    }

    /// Joins a run with its neighbours. Returns the run if it now covers the whole range.
    fn put<K: DigestKind<Run = R>>(
        &mut self,
        number: usize,
        len: u64,
        range: Range<u64>,
        run: R,
    ) -> Option<R> {
        if self.done.get(number).is_none_or(|done| *done) {
            return None;
        }
        let open = self.open.entry(number).or_default();
        let (mut start, mut end, mut run) = (range.start, range.end, run);
        if let Some((&from, _)) = open.runs.range(..start).next_back().filter(|(_, (to, _))| *to == start)
            && let Some((_, before)) = open.runs.remove(&from)
        {
            run = K::join(len, before, run);
            start = from;
            self.runs = self.runs.saturating_sub(1);
        }
        if let Some((to, after)) = open.runs.remove(&end) {
            run = K::join(len, run, after);
            end = to;
            self.runs = self.runs.saturating_sub(1);
        }
        if (start, end) == (0, len) {
            self.open.remove(&number);
            if let Some(done) = self.done.get_mut(number) {
                *done = true;
            }
            return Some(run);
        }
        open.runs.insert(start, (end, run));
        self.runs = self.runs.saturating_add(1);
        None
    }
}

impl<K: DigestKind, L: fmt::Debug> fmt::Debug for Lane<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane({}, {:?})", K::NAME, self.list)
    }
}

impl<K: DigestKind, L: Ranges> Lane<K, L> {
    /// Creates a lane without any bytes hashed. Empty ranges count as complete.
    #[must_use]
    pub fn new(list: L) -> Self {
        let done = (0..list.count()).map(|number| list.range(number).is_none_or(|range| range.is_empty()));
        let state = State { done: done.collect(), open: HashMap::new(), runs: 0 };
        Self { list, state: Mutex::new(state) }
    }

    /// Returns the list of ranges.
    #[must_use]
    pub const fn list(&self) -> &L {
        &self.list
    }

    fn lock(&self) -> MutexGuard<'_, State<K::Run>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hashes the bytes from `at` on that have not been hashed before, and appends their ranges to `taken`.
    /// Calls `settle` with the digest of each range that is now complete. Hashing is done outside the lock.
    pub fn observe(
        &self,
        at: u64,
        bytes: &[u8],
        keep_all: bool,
        taken: &mut Vec<Range<u64>>,
        mut settle: impl FnMut(usize, K::Digest),
    ) {
        let end = at.saturating_add(bytes.len() as u64);
        for number in self.list.first_behind(at)..usize::MAX {
            let Some(range) = self.list.range(number).filter(|range| range.start < end) else { break };
            if range.is_empty() {
                continue;
            }
            let total = range.end.saturating_sub(range.start);
            let within = |at: u64| at.saturating_sub(range.start);
            let here = within(range.start.max(at))..within(range.end.min(end));
            let of_part = |part: &Range<u64>| {
                let from = |within: u64| range.start.saturating_add(within).saturating_sub(at);
                slice(bytes, from(part.start), from(part.end))
            };
            let task = self.lock().task::<K>(number, total, &here, keep_all);
            match task {
                Task::Nothing => {}
                Task::Whole => {
                    settle(number, K::whole(of_part(&here)));
                    taken.push(range);
                }
                Task::Parts(parts) => {
                    for Unseen { start, part, mut run } in parts {
                        K::extend(total, &mut run, of_part(&part));
                        let of_file = |within| range.start.saturating_add(within);
                        taken.push(of_file(part.start)..of_file(part.end));
                        if let Some(digest) = self.put(number, start..part.end, run) {
                            settle(number, digest);
                        }
                    }
                }
            }
        }
    }

    /// Joins the run of a part of a range with its neighbours. Returns the digest of the range if it is complete now.
    pub fn put(&self, number: usize, part: Range<u64>, run: K::Run) -> Option<K::Digest> {
        let range = self.list.range(number)?;
        let total = range.end.saturating_sub(range.start);
        let complete = self.lock().put::<K>(number, total, part, run)?;
        Some(K::finish(total, complete))
    }

    /// Returns the ranges, or parts of ranges, that have not been hashed.
    #[must_use]
    pub fn missing(&self) -> Vec<Range<u64>> {
        let state = self.lock();
        let mut missing = Vec::new();
        for (number, _) in state.done.iter().enumerate().filter(|(_, done)| !**done) {
            let Some(range) = self.list.range(number) else { continue };
            match state.open.get(&number) {
                Some(open) => {
                    let of_file = |within| range.start.saturating_add(within);
                    let parts = open.missing(range.end.saturating_sub(range.start)).into_iter();
                    missing.extend(parts.map(|part| of_file(part.start)..of_file(part.end)));
                }
                None => missing.push(range),
            }
        }
        missing
    }
}

pub(super) fn slice(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    range.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default()
}
