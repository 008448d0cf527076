//! Reads ahead. Verifying, converting and loading read a file in short pieces, one after the other, on a few
//! threads. Each piece would have to wait for its own response. So if reads follow each other, the next
//! ranges are requested before they are needed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::error::Result;
use crate::object::Object;

/// The length in bytes of one request ahead.
const PIECE: u64 = 2 << 20;
/// The maximum number of bytes that are held ahead of the reads.
const MOST: u64 = 32 << 20;
/// Reading ahead begins after this many bytes in a row,
const BEGIN: u64 = 2 << 20;
/// in this many reads.
const READS: u32 = 4;
/// A longer read makes several requests at once by itself, so nothing is read ahead for it.
const SHORT: u64 = 4 << 20;
/// Reads that follow each other may leave a gap of this many bytes.
const GAP: u64 = 64 << 10;
/// The maximum number of places at which a file is read ahead at the same time.
const RUNS: usize = 8;
/// After this many reads elsewhere, ranges that were requested ahead may be dropped.
const STALE: u64 = 256;

type Coming = Shared<BoxFuture<'static, Result<Arc<[Bytes]>>>>;

/// The ranges of one file that were requested ahead.
#[derive(Debug)]
pub(crate) struct Ahead {
    runs: Mutex<Runs>,
    piece: u64,
    most: u64,
}

#[derive(Debug, Default)]
struct Runs {
    runs: Vec<Run>,
    /// The number of reads so far.
    now: u64,
}

/// Reads that follow each other.
#[derive(Debug, Default)]
struct Run {
    /// The start of the first read.
    begin: u64,
    /// The furthest end of a read.
    end: u64,
    /// The bytes read in a row.
    nbytes: u64,
    reads: u32,
    /// The end of the ranges that were requested ahead.
    asked: u64,
    pieces: VecDeque<Piece>,
    /// The number of the last read that belonged to it.
    used: u64,
}

/// A range that was requested ahead.
#[derive(Debug)]
struct Piece {
    range: Range<u64>,
    /// How many of its bytes have not been read.
    left: u64,
    coming: Coming,
    task: AbortHandle,
}

impl Drop for Piece {
    fn drop(&mut self) {
        // A reader that waits for the range has the future too, and continues to drive it.
        self.task.abort();
    }
}

/// Says where the bytes at an offset are.
pub(crate) enum Found {
    /// In this range, which was requested ahead.
    Ahead(Range<u64>, Coming),
    /// Not requested ahead, up to this offset.
    Until(u64),
}

impl Ahead {
    /// Returns the state for a file. `bytes_in_flight` is the limit on bytes that were requested and have not
    /// arrived.
    pub(crate) fn new(bytes_in_flight: u64) -> Self {
        let most = MOST.min(bytes_in_flight / 2);
        Self { runs: Mutex::default(), piece: PIECE.min(most), most }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a range is being read, and requests the bytes after it if they will probably be needed.
    pub(crate) fn note(&self, object: &Arc<Object>, runtime: &Handle, range: &Range<u64>) {
        let mut runs = self.runs();
        let number = runs.of(range, self.most);
        let size = object.version().size;
        while let Some(next) = runs.next(number, size, self) {
            let (of, at) = (Arc::clone(object), next.clone());
            let coming: Coming = async move { of.chunks(at).await.map(Arc::from) }.boxed().shared();
            let task = runtime.spawn(coming.clone()).abort_handle();
            runs.add(number, Piece { left: next.end - next.start, range: next, coming, task });
        }
    }

    /// Finds the bytes at `at`; bytes up to `end` are wanted. Bytes that are found count as read.
    pub(crate) fn find(&self, at: u64, end: u64) -> Found {
        let mut runs = self.runs();
        let mut until = end;
        for run in &mut runs.runs {
            for piece in &mut run.pieces {
                if piece.range.contains(&at) {
                    let read = piece.range.end.min(end) - at;
                    piece.left = piece.left.saturating_sub(read);
                    let found = Found::Ahead(piece.range.clone(), piece.coming.clone());
                    run.pieces.retain(|piece| piece.left > 0);
                    return found;
                }
                if piece.range.start > at {
                    until = until.min(piece.range.start);
                }
            }
        }
        Found::Until(until)
    }

    /// Drops all ranges after one of them could not be read. The next read then requests its bytes again.
    pub(crate) fn forget(&self) {
        self.runs().runs.clear();
    }
}

impl Runs {
    /// Returns the number of the run that a read continues, or of a new run, and adds the read to it.
    fn of(&mut self, range: &Range<u64>, late: u64) -> usize {
        self.now += 1;
        let belongs = |run: &Run| {
            range.start.saturating_add(late) >= run.end
                && range.start <= run.asked.max(run.end.saturating_add(GAP))
        };
        let number = self.runs.iter().position(belongs).unwrap_or_else(|| {
            let oldest = self.runs.iter().enumerate().min_by_key(|(_, run)| run.used);
            if let Some((oldest, _)) = oldest.filter(|_| self.runs.len() >= RUNS) {
                self.runs.remove(oldest);
            }
            self.runs.push(Run { begin: range.start, end: range.start, ..Run::default() });
            self.runs.len() - 1
        });
        let now = self.now;
        if let Some(run) = self.runs.get_mut(number) {
            run.note(range, late);
            run.used = now;
        }
        self.join(number)
    }

    /// Joins a run with the runs that it has reached. If threads share a pass, the thread with the later
    /// range may be first, and its bytes must not be requested again. Returns the number of the run.
    fn join(&mut self, mut number: usize) -> usize {
        loop {
            let Some(run) = self.runs.get(number) else { return number };
            let (begin, end) = (run.begin, run.end);
            let is_reached = |(other, run): (usize, &Run)| {
                other != number && run.end > end && (begin..=end.saturating_add(GAP)).contains(&run.begin)
            };
            let Some(other) = self.runs.iter().enumerate().position(is_reached) else { return number };
            let reached = self.runs.remove(other);
            number -= usize::from(other < number);
            if let Some(run) = self.runs.get_mut(number) {
                run.end = reached.end;
                run.nbytes += reached.nbytes;
                run.reads += reached.reads;
                run.asked = run.asked.max(reached.asked);
                run.pieces.extend(reached.pieces);
            }
        }
    }

    /// Returns the range to request next after a run.
    fn next(&mut self, number: usize, size: u64, limits: &Ahead) -> Option<Range<u64>> {
        let run = self.runs.get(number).filter(|run| run.nbytes >= BEGIN && run.reads >= READS)?;
        let start = run.asked.max(run.end);
        // Request at most as many bytes as were read so far. So at the end at most that many bytes were
        // requested in vain.
        let until = run.end.saturating_add(run.nbytes.min(limits.most)).min(size);
        let range = start..start.saturating_add(limits.piece).min(until);
        if range.is_empty() || (range.end - range.start < limits.piece && range.end < size) {
            return None;
        }
        let fits = |runs: &[Run]| runs.iter().map(Run::held).sum::<u64>() + limits.piece <= limits.most;
        if !fits(&self.runs) {
            let now = self.now;
            self.runs.iter_mut().filter(|run| run.used + STALE < now).for_each(|run| run.pieces.clear());
        }
        fits(&self.runs).then_some(range)
    }

    fn add(&mut self, number: usize, piece: Piece) {
        if let Some(run) = self.runs.get_mut(number) {
            run.asked = piece.range.end;
            run.pieces.push_back(piece);
        }
    }
}

impl Run {
    fn note(&mut self, range: &Range<u64>, late: u64) {
        let new = range.end.saturating_sub(range.start.max(self.end));
        if new == 0 {
            return; // another thread was faster
        }
        self.end = range.end;
        self.nbytes += new;
        self.reads += 1;
        if range.end - range.start > SHORT {
            (self.nbytes, self.reads) = (0, 0);
        }
        // Unread bytes this far behind were skipped by the reader.
        self.pieces.retain(|piece| piece.range.end.saturating_add(late) > range.end);
    }

    /// Returns the number of bytes of the run's pieces. A piece takes memory until all of it has been read.
    fn held(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.range.end - piece.range.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If threads share a pass, the thread with the later range may report its read first.
    #[test]
    fn reads_that_meet_are_one_run() {
        const LEN: u64 = 512 << 10;
        let limits = Ahead::new(64 << 20);
        let mut runs = Runs::default();
        let read = |runs: &mut Runs, number: u64| runs.of(&(number * LEN..(number + 1) * LEN), limits.most);
        for number in [0, 2, 1, 4, 3] {
            read(&mut runs, number);
        }
        assert_eq!(runs.runs.len(), 1, "{runs:?}");
        let number = read(&mut runs, 5);
        let next = runs.next(number, 1 << 30, &limits);
        assert_eq!(next, Some(6 * LEN..6 * LEN + PIECE));
        // A read elsewhere is a separate run.
        runs.of(&(100 * LEN..101 * LEN), limits.most);
        assert_eq!(runs.runs.len(), 2);
    }
}
