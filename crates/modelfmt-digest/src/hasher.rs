//! Hashes consecutive bytes for all lanes of a ledger at once.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use super::cuts::{Cut, Cuts};
use super::lane::slice;
use super::{DigestKind, Ledger, Part, PieceDigests};

/// Hashes consecutive pieces of a [`Ledger`]. The state takes no more memory than for a single piece, apart from the digests of
/// the ranges that the pieces contain completely.
///
/// ```
/// use modelfmt_digest::{Blake3, Ledger, Spans};
///
/// let bytes = [7; 1000];
/// let ledger = Ledger::<Blake3, 1>::new([Spans::Listed(vec![100..900])]);
/// let mut hasher = ledger.hasher(0);
/// bytes.chunks(300).for_each(|piece| hasher.update(piece));
/// ledger.take(hasher.finish());
/// assert_eq!(ledger.digest(0, &(100..900)), Some(blake3_tree::hash(&bytes[100..900])));
/// ```
pub struct Hasher<'a, K: DigestKind, const N: usize> {
    ledger: &'a Ledger<K, N>,
    /// The offset of the next bytes.
    at: u64,
    seen: PieceDigests<K>,
    /// For each lane, the unfinished part of a range, and the length of that range.
    open: [Option<(u64, Part<K::Run>)>; N],
}

impl<K: DigestKind, const N: usize> fmt::Debug for Hasher<'_, K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hasher({}, at {})", K::NAME, self.at)
    }
}

impl<'a, K: DigestKind, const N: usize> Hasher<'a, K, N> {
    pub(super) fn new(ledger: &'a Ledger<K, N>, at: u64) -> Self {
        Self { ledger, at, seen: PieceDigests::default(), open: std::array::from_fn(|_| None) }
    }

    /// Hashes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.update_after(bytes, |_| ());
    }

    /// Hashes the next bytes in small steps. Before each step, `before` is called with the end of the bytes of that step, so
    /// that another checksum over the same bytes can catch up while they are in a near cache.
    pub fn update_after(&mut self, bytes: &[u8], mut before: impl FnMut(u64)) {
        let start = self.at;
        self.at = start.saturating_add(bytes.len() as u64);
        let (ledger, end) = (self.ledger, self.at);
        let mut cuts =
            ledger.lanes.each_ref().map(|lane| Cuts::<K, _>::new(lane.list(), start, end).peekable());
        // All lanes hash the same bytes while they are in a near cache.
        while let Some((lane, cuts)) = cuts
            .iter_mut()
            .enumerate()
            .filter_map(|(lane, cuts)| Some((cuts.peek()?.at, lane, cuts)))
            .min_by_key(|&(at, lane, _)| (at, lane))
            .map(|(_, lane, cuts)| (lane, cuts))
        {
            let Some(cut) = cuts.next() else { break };
            before(cut.at.saturating_add(cut.len));
            let here = cut.at.saturating_sub(start);
            self.add(lane, &cut, slice(bytes, here, here.saturating_add(cut.len)));
        }
    }

    fn add(&mut self, lane: usize, cut: &Cut, bytes: &[u8]) {
        let &Cut { number, total, offset: start, len, .. } = cut;
        if len == total {
            return self.seen.done.push((lane, number, K::whole(bytes)));
        }
        let Some(open) = self.open.get_mut(lane) else { return };
        if let Some(before) = open.take_if(|(_, part)| part.number != number) {
            close(&mut self.seen, before);
        }
        let begin = || (total, Part { lane, number, start, end: start, run: K::begin(start) });
        let (_, part) = open.get_or_insert_with(begin);
        part.end = part.end.saturating_add(len);
        K::extend(total, &mut part.run, bytes);
    }

    /// Returns the results for all bytes.
    #[must_use]
    pub fn finish(self) -> PieceDigests<K> {
        let Self { mut seen, open, .. } = self;
        open.into_iter().flatten().for_each(|part| close(&mut seen, part));
        seen
    }
}

/// Finishes a range that the pieces contain completely; other ranges wait for their neighbours.
fn close<K: DigestKind>(seen: &mut PieceDigests<K>, (total, part): (u64, Part<K::Run>)) {
    if (part.start, part.end) == (0, total) {
        seen.done.push((part.lane, part.number, K::finish(total, part.run)));
    } else {
        seen.parts.push(part);
    }
}
