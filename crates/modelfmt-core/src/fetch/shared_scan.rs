//! Scans whose pieces are divided among several processes.

use std::ops::Range;

use super::{Scan, ScanError, one_piece};
use crate::execution::Execution;
use crate::ledger::Parcel;
use crate::source::{Share, Source};

/// Scans a source that has a share of a job.
pub(crate) fn scan<C: Scan>(
    source: &(impl Source + ?Sized),
    share: &Share,
    scan: &C,
    work: &Execution<'_>,
    mut take: impl FnMut(C::Seen),
) -> Result<(), ScanError> {
    let (number, count) = (share.begin(), scan.count());
    let mut state = Default::default();
    for piece in 0..count {
        if let Some(seen) = share.known(number, piece).and_then(|note| scan.noted(note)) {
            if work.advance(0).is_break() {
                return Err(ScanError::Cancelled);
            }
            take(seen);
        } else if share.looks_at(piece, count, C::IS_NOTED) {
            let seen = one_piece(source, scan, work, &mut state, piece)?;
            if share.is_part() {
                share.note(number, piece, &scan.note(&seen));
            } else {
                take(seen);
            }
        }
    }
    Ok(())
}

/// A scan whose pieces can be [shared](Share) among several processes.
#[derive(Clone, Debug)]
pub struct SharedScan<C>(pub C);

impl<C: Scan<Seen: Parcel>> Scan for SharedScan<C> {
    type Seen = C::Seen;
    type Scratch = C::Scratch;
    const IS_NOTED: bool = true;

    fn count(&self) -> u64 {
        self.0.count()
    }

    fn piece(&self, number: u64) -> Range<u64> {
        self.0.piece(number)
    }

    fn look(&self, number: u64, bytes: &[u8], scratch: &mut C::Scratch) -> C::Seen {
        self.0.look(number, bytes, scratch)
    }

    fn note(&self, seen: &C::Seen) -> Vec<u8> {
        let mut out = Vec::new();
        seen.put(&mut out);
        out
    }

    fn noted(&self, mut note: &[u8]) -> Option<C::Seen> {
        C::Seen::take(&mut note).filter(|_| note.is_empty())
    }
}

/// Runs the steps of a job, each of which reads bytes in its own way, such as the hash of a whole file.
/// `sizes` has the number of bytes that each step reads. If several processes [share](Share) the job, each
/// runs the steps in its part of all bytes. The result of a step is `None` if this process has not run it and
/// no other process has noted it. A failed step is not noted: the last process runs it again and returns its
/// error.
pub async fn each_step<T: Parcel, E>(
    share: Option<&Share>,
    sizes: &[u64],
    mut step: impl AsyncFnMut(usize) -> Result<T, E>,
) -> Vec<Option<Result<T, E>>> {
    let mut all = Vec::with_capacity(sizes.len());
    let number = share.map(Share::begin);
    let total = sizes.iter().map(|&size| u128::from(size)).sum::<u128>().max(1);
    let mut before = 0;
    for (at, &size) in sizes.iter().enumerate() {
        // The middle byte of a step decides which process runs it.
        let middle = (before + u128::from(size) / 2).min(total - 1);
        before += u128::from(size);
        let (Some(share), Some(number)) = (share, number) else {
            all.push(Some(step(at).await));
            continue;
        };
        let noted = |mut note: &[u8]| T::take(&mut note).filter(|_| note.is_empty());
        if let Some(known) = share.known(number, at as u64).and_then(noted) {
            all.push(Some(Ok(known)));
        } else if share.takes(middle, total) {
            let seen = step(at).await;
            if let Ok(seen) = &seen
                && share.is_part()
            {
                let mut note = Vec::new();
                seen.put(&mut note);
                share.note(number, at as u64, &note);
            }
            all.push(Some(seen));
        } else {
            all.push(None);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::author::ScanRange;

    /// Bytes with a share. Counts the bytes that are read.
    struct Shared<'a>(&'a [u8], Share, AtomicU64);

    impl Source for Shared<'_> {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.2.fetch_add(out.len() as u64, Ordering::Relaxed);
            self.0.read_into(offset, out)
        }

        fn share(&self) -> Option<&Share> {
            Some(&self.1)
        }
    }

    fn sums(source: &Shared<'_>) -> Vec<(u64, String)> {
        let look =
            |at: u64, bytes: &[u8]| (at, format!("{}", bytes.iter().map(|&b| u64::from(b)).sum::<u64>()));
        let mut all = Vec::new();
        for range in [0..900, 100..1000] {
            let pieces = SharedScan(ScanRange::new(range, 64, look));
            scan(source, &source.1, &pieces, &Execution::sequential(), |seen| all.push(seen)).unwrap();
        }
        all
    }

    #[test]
    fn parts_together_are_the_whole() {
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(1000).collect();
        let with = |share| Shared(&bytes, share, AtomicU64::new(0));
        let alone = sums(&with(Share::whole(Vec::new())));
        assert_eq!(alone.len(), 30);
        for of in 1..5 {
            let parts: Vec<_> = (0..of).map(|number| with(Share::part(number, of))).collect();
            assert!(parts.iter().all(|part| sums(part).is_empty()));
            let read: Vec<u64> = parts.iter().map(|part| part.2.load(Ordering::Relaxed)).collect();
            assert_eq!(read.iter().sum::<u64>(), 1800, "{read:?}");
            let notes: Vec<_> = parts.iter().map(|part| part.1.take_notes()).collect();
            let last = with(Share::whole(notes.concat()));
            assert_eq!(sums(&last), alone);
            assert_eq!(last.2.load(Ordering::Relaxed), 0);
            // The last process reads a piece that no other process noted.
            let last = with(Share::whole(notes[1..].concat()));
            assert_eq!(sums(&last), alone);
            assert_eq!(last.2.load(Ordering::Relaxed), read[0]);
            // Notes that are cut off, or that another program made, are ignored.
            for cut in 0..notes[0].len() {
                assert_eq!(sums(&with(Share::whole(notes[0][..cut].to_vec()))), alone);
            }
        }
    }

    #[test]
    fn what_is_not_to_be_noted_is_looked_at_by_the_last_one() {
        let count = AtomicU64::new(0);
        let pieces = ScanRange::new(0..10, 1, |_, _: &[u8]| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        for (share, expected) in [(Share::part(0, 1), 0), (Share::whole(Vec::new()), 10)] {
            let source = Shared(&[0; 10], share, AtomicU64::new(0));
            let mut taken = 0;
            scan(&source, &source.1, &pieces, &Execution::sequential(), |()| taken += 1).unwrap();
            assert_eq!((count.swap(0, Ordering::Relaxed), taken), (expected, expected));
        }
    }

    #[test]
    fn known_pieces_can_be_stopped_at() {
        let bytes = [1; 128];
        let part = Shared(&bytes, Share::part(0, 1), AtomicU64::new(0));
        let pieces = SharedScan(ScanRange::new(0..128, 64, |at, _: &[u8]| at));
        scan(&part, &part.1, &pieces, &Execution::sequential(), drop).unwrap();
        let whole = Shared(&bytes, Share::whole(part.1.take_notes()), AtomicU64::new(0));
        let stop = Execution { threads: 1, progress: Some(&|_| ControlFlow::Break(())) };
        assert!(matches!(scan(&whole, &whole.1, &pieces, &stop, drop), Err(ScanError::Cancelled)));
    }

    type Known = Vec<Option<Result<String, &'static str>>>;

    /// Runs the steps. Returns those that were run, and the result of each; the second one fails.
    fn steps(share: Option<&Share>, sizes: &[u64]) -> (Vec<usize>, Known) {
        let mut taken = Vec::new();
        let all = each_step(share, sizes, async |at| {
            taken.push(at);
            if at == 1 { Err("no") } else { Ok(format!("step {at}")) }
        });
        let all = crate::author::now_or_never(all).unwrap();
        (taken, all)
    }

    #[test]
    fn each_step_is_taken_by_one_part() {
        // The sizes come from a file and may be any numbers.
        for sizes in [&[8, 1, 1, 1, 1, 0, 8][..], &[0, 0, 0], &[], &[4, 4, 0], &[u64::MAX, u64::MAX, 7]] {
            let (taken, alone) = steps(None, sizes);
            assert_eq!(taken, (0..sizes.len()).collect::<Vec<_>>());
            for of in 1..5 {
                let parts: Vec<_> = (0..of).map(|number| Share::part(number, of)).collect();
                let mut taken: Vec<_> = parts.iter().flat_map(|part| steps(Some(part), sizes).0).collect();
                taken.sort_unstable();
                assert_eq!(taken, (0..sizes.len()).collect::<Vec<_>>(), "{sizes:?} {of}");
                let notes: Vec<_> = parts.iter().map(Share::take_notes).collect();
                let whole = Share::whole(notes.concat());
                let failed = if sizes.is_empty() { Vec::new() } else { vec![1] };
                assert_eq!(steps(Some(&whole), sizes), (failed, alone.clone()));
                // The last process runs the steps that were not noted.
                let (taken, all) = steps(Some(&Share::whole(Vec::new())), sizes);
                assert_eq!((taken.len(), all), (sizes.len(), alone.clone()));
            }
        }
        let part = Share::part(0, 2);
        assert_eq!(steps(Some(&part), &[8, 1, 1, 1, 1, 0, 8]).0, [0, 1, 2]);
    }
}
