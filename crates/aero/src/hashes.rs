//! All hashes over a shard from one pass over its bytes, whatever the order in which threads see its pieces.
//!
//! The hash of the shard, of each tensor and of each page cover the same bytes but begin at different places, and a
//! BLAKE3 tree is anchored at its own first byte. So of each piece a thread computes, for every span that it touches,
//! what can be known without the rest: the hash, where the piece holds the whole span; else the chaining values of the
//! largest subtrees that lie in it, and the few bytes at its edges that belong to a chunk of 1 KiB with the next
//! piece. A [`Joiner`] puts these together in order. A piece leaves about 3 KiB behind, and that only until the pieces
//! before it are there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};
use tensor_core::PIECE;

/// BLAKE3's leaf.
const CHUNK: u64 = blake3::CHUNK_LEN as u64;

/// Bytes of a shard that are hashed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Spans that do not share bytes, in order.
#[derive(Clone, Debug)]
enum Spans {
    Whole(u64),
    /// Pages of `size` bytes, the last one what is left.
    Pages {
        len: u64,
        size: u64,
    },
    /// None of them empty.
    Listed(Vec<Span>),
}

impl Spans {
    fn count(&self) -> u64 {
        match self {
            Self::Whole(_) => 1,
            Self::Pages { len, size } => len.div_ceil((*size).max(1)),
            Self::Listed(spans) => spans.len() as u64,
        }
    }

    fn span(&self, number: u64) -> Option<Span> {
        match self {
            Self::Whole(len) => (number == 0).then_some(Span { start: 0, end: *len }),
            Self::Pages { len, size } => {
                let start = number.checked_mul(*size).filter(|start| start < len)?;
                Some(Span { start, end: start.saturating_add(*size).min(*len) })
            }
            Self::Listed(spans) => spans.get(usize::try_from(number).ok()?).copied(),
        }
    }

    /// The first span that ends behind `offset`.
    fn first_behind(&self, offset: u64) -> u64 {
        match self {
            Self::Whole(_) => 0,
            Self::Pages { size, .. } => offset / (*size).max(1),
            Self::Listed(spans) => spans.partition_point(|span| span.end <= offset) as u64,
        }
    }
}

/// What is hashed over a shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Each tensor: spans that do not share bytes, ascending, none empty.
    pub(crate) tensors: Vec<Span>,
    /// Each page of this size.
    pub(crate) page_size: Option<u64>,
}

/// The hashes of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hashes {
    pub(crate) whole: [u8; 32],
    pub(crate) tensors: Vec<[u8; 32]>,
    pub(crate) pages: Vec<[u8; 32]>,
}

/// One pass over a shard.
pub(crate) struct Pass {
    tracks: [Spans; 3],
    state: Mutex<State>,
}

struct State {
    /// The piece whose parts are joined next.
    next: u64,
    /// The parts of pieces that came early.
    early: BTreeMap<u64, Vec<Part>>,
    tracks: [Track; 3],
}

#[derive(Default)]
struct Track {
    done: Vec<[u8; 32]>,
    open: Option<Joiner>,
}

/// What a piece says of a span that it does not hold whole.
struct Part {
    track: usize,
    span: u64,
    /// The span's length.
    len: u64,
    /// Where in the span it begins.
    offset: u64,
    /// Bytes that end a chunk which an earlier piece began.
    head: Vec<u8>,
    subtrees: Vec<(u64, ChainingValue)>,
    /// Bytes that begin a chunk which a later piece ends.
    tail: Vec<u8>,
}

impl Pass {
    /// A pass over a shard of `len` bytes.
    pub(crate) fn new(len: u64, wanted: Wanted) -> Self {
        let pages = wanted.page_size.map_or(Spans::Listed(Vec::new()), |size| Spans::Pages { len, size });
        let tracks = [Spans::Whole(len), Spans::Listed(wanted.tensors), pages];
        // What no piece ever touches is empty.
        let empty = *blake3::hash(&[]).as_bytes();
        let track = |spans: &Spans| {
            let count = usize::try_from(spans.count()).unwrap_or(0);
            Track { done: vec![empty; count], open: None }
        };
        let state =
            State { next: 0, early: BTreeMap::new(), tracks: [0, 1, 2].map(|i| track(pick(&tracks, i))) };
        Self { tracks, state: Mutex::new(state) }
    }

    /// Hashes a piece: the bytes of the shard from `offset` on, a multiple of [`PIECE`], as long as that or to the end.
    pub(crate) fn look(&self, offset: u64, bytes: &[u8]) {
        let (mut done, mut parts) = (Vec::new(), Vec::new());
        let end = offset.saturating_add(bytes.len() as u64);
        for (track, spans) in self.tracks.iter().enumerate() {
            let first = spans.first_behind(offset);
            let touched = (first..).map_while(|n| Some((n, spans.span(n).filter(|span| span.start < end)?)));
            for (number, span) in touched {
                let (from, to) = (span.start.max(offset), span.end.min(end));
                let here = slice(bytes, from.saturating_sub(offset), to.saturating_sub(offset));
                if from == span.start && to == span.end {
                    done.push((track, number, *blake3::hash(here).as_bytes()));
                } else if !here.is_empty() {
                    parts.push(part(track, number, span, from - span.start, here));
                }
            }
        }
        self.join(offset / PIECE, done, parts);
    }

    fn join(&self, piece: u64, done: Vec<(usize, u64, [u8; 32])>, parts: Vec<Part>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        for (track, number, hash) in done {
            set(&mut state.tracks, track, number, hash);
        }
        state.early.insert(piece, parts);
        while let Some(parts) = state.early.remove(&state.next) {
            state.next += 1;
            for part in parts {
                let (track, span) = (part.track, part.span);
                if let Some(hash) = state.tracks.get_mut(track).and_then(|track| track.add(part)) {
                    set(&mut state.tracks, track, span, hash);
                }
            }
        }
    }

    /// The hashes, once every piece has been looked at.
    pub(crate) fn finish(self) -> Hashes {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let [whole, tensors, pages] = state.tracks;
        Hashes {
            whole: whole.done.first().copied().unwrap_or_default(),
            tensors: tensors.done,
            pages: pages.done,
        }
    }
}

fn pick(tracks: &[Spans; 3], number: usize) -> &Spans {
    let [whole, tensors, pages] = tracks;
    match number {
        0 => whole,
        1 => tensors,
        _ => pages,
    }
}

fn set(tracks: &mut [Track; 3], track: usize, number: u64, hash: [u8; 32]) {
    let place = usize::try_from(number).ok().and_then(|number| tracks.get_mut(track)?.done.get_mut(number));
    if let Some(place) = place {
        *place = hash;
    }
}

fn slice(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    range.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default()
}

impl Track {
    /// Adds a part; the hash of its span, if that is complete.
    fn add(&mut self, part: Part) -> Option<[u8; 32]> {
        if part.offset == 0 {
            self.open = Some(Joiner::new(part.len));
        }
        let joiner = self.open.as_mut()?;
        joiner.bytes(&part.head);
        for (len, value) in part.subtrees {
            joiner.subtree(len, value);
        }
        joiner.bytes(&part.tail);
        if joiner.is_complete() { self.open.take().map(Joiner::finish) } else { None }
    }
}

/// What can be known of `bytes`, which stand `offset` bytes into a span.
fn part(track: usize, number: u64, span: Span, offset: u64, bytes: &[u8]) -> Part {
    let to_chunk = (CHUNK - offset % CHUNK) % CHUNK;
    let head = slice(bytes, 0, to_chunk.min(bytes.len() as u64));
    let mut rest = slice(bytes, head.len() as u64, bytes.len() as u64);
    let mut at = offset + head.len() as u64;
    let mut subtrees = Vec::new();
    while rest.len() as u64 >= CHUNK {
        let len = subtree_len(at, rest.len() as u64);
        let (now, later) = rest.split_at(usize::try_from(len).unwrap_or(0).min(rest.len()));
        subtrees.push((len, chaining_value(at, now)));
        rest = later;
        at += len;
    }
    let len = span.end - span.start;
    Part { track, span: number, len, offset, head: head.to_vec(), subtrees, tail: rest.to_vec() }
}

/// The largest subtree that begins at byte `at` of an input and takes at most `most` bytes, at least a chunk.
fn subtree_len(at: u64, most: u64) -> u64 {
    let fits = 1u64 << most.max(1).ilog2();
    if at == 0 { fits } else { fits.min(1 << at.trailing_zeros()) }
}

/// The chaining value of a subtree: of chunks, complete but for the last of the input.
///
/// `at` is a multiple of the subtree's length rounded up to a power of two chunks, as [`subtree_len`] gives it and
/// [`Joiner`] keeps it, so the assertions of `set_input_offset` and `update` hold.
fn chaining_value(at: u64, bytes: &[u8]) -> ChainingValue {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(at).update(bytes);
    hasher.finalize_non_root()
}

/// Puts the hash of one input together from its subtrees and from bytes, in order.
struct Joiner {
    len: u64,
    /// Bytes that have been taken.
    at: u64,
    /// The chunk that is not complete yet.
    chunk: Vec<u8>,
    /// Subtrees that wait for their right neighbour, largest first, with their lengths in whole chunks.
    waiting: Vec<(u64, ChainingValue)>,
}

impl Joiner {
    const fn new(len: u64) -> Self {
        Self { len, at: 0, chunk: Vec::new(), waiting: Vec::new() }
    }

    const fn is_complete(&self) -> bool {
        self.at >= self.len
    }

    fn bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = blake3::CHUNK_LEN.saturating_sub(self.chunk.len()).min(bytes.len());
            let (now, later) = bytes.split_at(room);
            self.chunk.extend(now);
            self.at += now.len() as u64;
            bytes = later;
            // An input of one chunk has no chaining values, only a root.
            if self.chunk.len() == blake3::CHUNK_LEN && self.len > CHUNK {
                self.end_chunk();
            } else if room == 0 {
                return; // more bytes than the input has, which no caller sends
            }
        }
    }

    fn end_chunk(&mut self) {
        let value = chaining_value(self.at - self.chunk.len() as u64, &self.chunk);
        self.chunk.clear();
        self.push(CHUNK, value);
    }

    fn subtree(&mut self, len: u64, value: ChainingValue) {
        self.at += len;
        self.push(len, value);
    }

    fn push(&mut self, mut len: u64, mut value: ChainingValue) {
        // Two equal neighbours become one, but for the two that make the root.
        while let Some(&(left_len, left)) = self.waiting.last()
            && left_len == len
            && left_len + len < self.len
        {
            self.waiting.pop();
            value = merge_subtrees_non_root(&left, &value, Mode::Hash);
            len += left_len;
        }
        self.waiting.push((len, value));
    }

    fn finish(mut self) -> [u8; 32] {
        if self.len <= CHUNK {
            return *blake3::hash(&self.chunk).as_bytes();
        }
        if !self.chunk.is_empty() {
            self.end_chunk();
        }
        let mut waiting = self.waiting.into_iter().rev();
        let Some((_, mut value)) = waiting.next() else { return [0; 32] }; // longer than a chunk, so there is one
        let mut waiting = waiting.peekable();
        while let Some((_, left)) = waiting.next() {
            if waiting.peek().is_none() {
                return *merge_subtrees_root(&left, &value, Mode::Hash).as_bytes();
            }
            value = merge_subtrees_non_root(&left, &value, Mode::Hash);
        }
        value
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "lengths of test inputs")]
mod tests {
    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
    }

    fn expected(all: &[u8], wanted: &Wanted) -> Hashes {
        let of = |bytes: &[u8]| *blake3::hash(bytes).as_bytes();
        let tensors = wanted.tensors.iter().map(|s| of(&all[s.start as usize..s.end as usize])).collect();
        let pages = wanted.page_size.map_or(Vec::new(), |size| all.chunks(size as usize).map(of).collect());
        Hashes { whole: of(all), tensors, pages }
    }

    fn run(all: &[u8], wanted: &Wanted, order: impl Fn(&mut Vec<(u64, &[u8])>)) -> Hashes {
        let pass = Pass::new(all.len() as u64, wanted.clone());
        let mut pieces: Vec<_> = (0u64..).map(|n| n * PIECE).zip(all.chunks(PIECE as usize)).collect();
        order(&mut pieces);
        for (offset, piece) in pieces {
            pass.look(offset, piece);
        }
        pass.finish()
    }

    #[test]
    fn hashes_are_those_of_blake3_in_whatever_order() {
        let piece = PIECE as usize;
        for len in [0, 1, 1024, 1025, piece - 1, piece, piece + 1, 2 * piece, 3 * piece + 777, 4 * piece] {
            let all = bytes(len);
            let end = len as u64;
            let spans = [
                (0, 5),
                (64, 64 + 3_000_001),
                (3_000_100, PIECE + 1),
                (PIECE + 1, 2 * PIECE + 1024),
                (2 * PIECE + 1088, end),
            ];
            let tensors = spans
                .into_iter()
                .map(|(start, stop)| Span { start, end: stop.min(end) })
                .filter(|span| span.start < span.end)
                .collect();
            let mut wanted = Wanted { tensors, page_size: None };
            for page_size in [PIECE, 1 << 20, 1000, 5_000_000] {
                wanted.page_size = Some(page_size);
                let expected = expected(&all, &wanted);
                assert_eq!(run(&all, &wanted, |_| ()), expected, "{len} {page_size}");
                assert_eq!(run(&all, &wanted, |pieces| pieces.reverse()), expected, "{len} {page_size}");
            }
        }
    }

    #[test]
    fn joiners_join_every_way_to_cut_an_input() {
        let all = bytes(70_000);
        for len in [2, 1023, 1024, 1025, 2048, 2049, 3072, 4096, 5000, 8192, 9000, 65_536, 70_000] {
            // A piece that holds all of a span is hashed at once.
            for cut in [1, 64, 1000, 1024, 1500, 2048, 4096, 6000, 30_000]
                .into_iter()
                .filter(|&cut| cut < len as usize)
            {
                let span = Span { start: 0, end: len };
                let mut track = Track::default();
                let mut hash = None;
                for (n, piece) in all[..len as usize].chunks(cut).enumerate() {
                    hash = track.add(part(0, 0, span, (n * cut) as u64, piece));
                }
                assert_eq!(hash, Some(*blake3::hash(&all[..len as usize]).as_bytes()), "{len} {cut}");
            }
        }
    }
}
