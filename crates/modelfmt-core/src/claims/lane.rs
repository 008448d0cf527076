//! Claims that share no bytes, and how far each has got.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::{Claim, DigestKind};
use crate::error::AnyError;

/// Runs that may wait for their neighbours. Beyond them, bytes are passed over and read again at the end, so that memory does not
/// depend on the order in which a hostile file has its values read.
pub(super) const MAX_RUNS: usize = 1 << 14;

/// A [`Lane`] of any kind of digest.
pub(super) trait AnyLane: Send + Sync {
    /// Takes note of bytes of the file, and adds to `taken` which of them it hashed; false if a claim does not hold.
    fn saw(&self, at: u64, bytes: &[u8], keep_all: bool, taken: &mut Vec<Range<u64>>) -> bool;
    /// The ranges of the claims that have bytes of a range.
    fn covered(&self, range: &Range<u64>) -> Vec<Range<u64>>;
    /// What kind of digest it has.
    fn name(&self) -> &'static str;
    /// The ranges that have not been seen, of all claims.
    fn missing(&self) -> Vec<Range<u64>>;
    /// The first claim that was found not to hold.
    fn failure(&self) -> Option<AnyError>;
}

pub(super) struct Lane<K: DigestKind, W, F> {
    /// In ascending order.
    claims: Vec<Claim<K::Digest, W>>,
    state: Mutex<State<K::Run>>,
    failed: OnceLock<(usize, K::Digest)>,
    describe: F,
}

struct State<R> {
    /// For each claim, whether all of its bytes have been seen.
    done: Vec<bool>,
    /// The claims of which some bytes have been seen.
    open: HashMap<usize, Open<R>>,
    /// The runs of all of them.
    runs: usize,
}

/// The state of a claim; bytes are counted from the first of its range.
struct Open<R> {
    /// What has been handed out to be hashed: starts and ends of ranges that do not touch.
    taken: BTreeMap<u64, u64>,
    /// What has been hashed: start, end, and what is known. Neighbours are joined at once.
    runs: BTreeMap<u64, (u64, R)>,
}

impl<R> Default for Open<R> {
    fn default() -> Self {
        Self { taken: BTreeMap::new(), runs: BTreeMap::new() }
    }
}

impl<R> Open<R> {
    /// Marks a range as taken, and returns the parts of it that were not yet.
    fn take(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let Range { mut start, mut end } = range.clone();
        let mut new = Vec::new();
        let mut at = range.start;
        // The one that begins at or before the range, and those that begin in it or right after it.
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

    /// Whether a range touches a run.
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

/// Whether bytes are to be hashed, and which.
enum Task {
    Nothing,
    /// All bytes of a claim.
    Whole,
    Parts(Vec<Range<u64>>),
}

impl<R> State<R> {
    fn task(&mut self, number: usize, len: u64, range: &Range<u64>, keep_all: bool) -> Task {
        let Some(done) = self.done.get_mut(number).filter(|done| !**done) else { return Task::Nothing };
        if *range == (0..len) && !self.open.contains_key(&number) {
            *done = true;
            return Task::Whole;
        }
        let is_full = self.runs >= MAX_RUNS && !keep_all;
        if is_full && !self.open.get(&number).is_some_and(|open| open.touches(range)) {
            return Task::Nothing;
        }
        Task::Parts(self.open.entry(number).or_default().take(range.clone()))
    }

    /// Joins a run with its neighbours; returns it if it has all bytes of the claim now.
    fn put<K: DigestKind<Run = R>>(
        &mut self,
        number: usize,
        len: u64,
        range: Range<u64>,
        run: R,
    ) -> Option<R> {
        let open = self.open.get_mut(&number)?;
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

impl<K, W, F> Lane<K, W, F>
where
    K: DigestKind,
    F: Fn(&Claim<K::Digest, W>, K::Digest) -> AnyError,
{
    /// Claims in ascending order, which share no bytes. Claims of no bytes are checked now.
    pub(super) fn new(claims: Vec<Claim<K::Digest, W>>, describe: F) -> Self {
        let done = claims.iter().map(|claim| claim.extent.is_empty()).collect();
        let state = Mutex::new(State { done, open: HashMap::new(), runs: 0 });
        let lane = Self { claims, state, failed: OnceLock::new(), describe };
        for (number, claim) in lane.claims.iter().enumerate().filter(|(_, claim)| claim.extent.is_empty()) {
            lane.judge(number, claim, K::hash(0, 0, &[]));
        }
        lane
    }

    fn lock(&self) -> MutexGuard<'_, State<K::Run>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a claim holds, of which all bytes have been seen.
    fn judge(&self, number: usize, claim: &Claim<K::Digest, W>, run: K::Run) {
        let found = K::finish(claim.extent.len(), run);
        if found != claim.expected {
            let _ = self.failed.set((number, found)); // one is enough
        }
    }

    /// Bytes of a claim, from byte `at` of the file on. Nothing is hashed under the lock but what joins two runs.
    fn look(
        &self,
        number: usize,
        claim: &Claim<K::Digest, W>,
        at: u64,
        bytes: &[u8],
        keep_all: bool,
        taken: &mut Vec<Range<u64>>,
    ) {
        let (begin, len) = (claim.extent.offset(), claim.extent.len());
        let at = at.saturating_sub(begin);
        let range = at..at.saturating_add(bytes.len() as u64);
        let task = self.lock().task(number, len, &range, keep_all);
        match task {
            Task::Nothing => {}
            Task::Whole => {
                taken.push(claim.extent.range());
                self.judge(number, claim, K::hash(len, 0, bytes));
            }
            Task::Parts(parts) => {
                for part in parts {
                    taken.push(begin.saturating_add(part.start)..begin.saturating_add(part.end));
                    let run = K::hash(
                        len,
                        part.start,
                        slice(bytes, part.start.saturating_sub(at), part.end.saturating_sub(at)),
                    );
                    let complete = self.lock().put::<K>(number, len, part, run);
                    if let Some(run) = complete {
                        self.judge(number, claim, run);
                    }
                }
            }
        }
    }
}

impl<K, W, F> AnyLane for Lane<K, W, F>
where
    K: DigestKind,
    W: Send + Sync,
    F: Fn(&Claim<K::Digest, W>, K::Digest) -> AnyError + Send + Sync,
{
    fn saw(&self, at: u64, bytes: &[u8], keep_all: bool, taken: &mut Vec<Range<u64>>) -> bool {
        let end = at.saturating_add(bytes.len() as u64);
        let first = self.claims.partition_point(|claim| claim.extent.end() <= at);
        let here =
            self.claims.iter().enumerate().skip(first).take_while(|(_, claim)| claim.extent.offset() < end);
        for (number, claim) in here.filter(|(_, claim)| !claim.extent.is_empty()) {
            let (from, to) = (claim.extent.offset().max(at), claim.extent.end().min(end));
            let bytes = slice(bytes, from.saturating_sub(at), to.saturating_sub(at));
            self.look(number, claim, from, bytes, keep_all, taken);
        }
        self.failed.get().is_none()
    }

    fn covered(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.claims.partition_point(|claim| claim.extent.end() <= range.start);
        let here = self.claims.iter().skip(first).take_while(|claim| claim.extent.offset() < range.end);
        here.map(|claim| claim.extent.range()).collect()
    }

    fn name(&self) -> &'static str {
        K::NAME
    }

    fn missing(&self) -> Vec<Range<u64>> {
        let state = self.lock();
        let mut missing = Vec::new();
        for (number, (claim, _)) in
            self.claims.iter().zip(&state.done).enumerate().filter(|(_, (_, done))| !**done)
        {
            let begin = claim.extent.offset();
            match state.open.get(&number) {
                Some(open) => {
                    let ranges = open.missing(claim.extent.len()).into_iter();
                    missing.extend(
                        ranges
                            .map(|range| begin.saturating_add(range.start)..begin.saturating_add(range.end)),
                    );
                }
                None => missing.push(claim.extent.range()),
            }
        }
        missing
    }

    fn failure(&self) -> Option<AnyError> {
        let &(number, found) = self.failed.get()?;
        self.claims.get(number).map(|claim| (self.describe)(claim, found))
    }
}

fn slice(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    range.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default()
}
