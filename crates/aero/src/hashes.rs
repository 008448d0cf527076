//! All hashes over a shard from one pass over its bytes, whatever the order in which threads see its pieces.
//!
//! The hash of the shard, of each tensor and of each page cover the same bytes but begin at different places, and a
//! BLAKE3 tree is anchored at its own first byte. So of each piece a thread computes, for every span that it touches,
//! what can be known without the rest: the hash, where the piece holds the whole span; else a [`Run`]: the chaining values
//! of the largest subtrees that lie in it, and the few bytes at its edges that belong to a chunk of 1 KiB with the next
//! piece. Runs are joined in order. A piece leaves about 3 KiB behind, and that only until the pieces
//! before it are there.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use modelfmt_core::author::{PIECE, Parcel};

use blake3_tree::{BLOCK, CHUNK, Run, subtree_len};

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

    /// The first span that ends after `offset`.
    fn first_behind(&self, offset: u64) -> u64 {
        match self {
            Self::Whole(_) => 0,
            Self::Pages { size, .. } => offset.checked_div(*size).unwrap_or_default(),
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
    open: Option<Run>,
}

/// What a piece says about a span that it does not hold whole.
struct Part {
    track: usize,
    span: u64,
    /// The span's length.
    len: u64,
    /// Where in the span it begins.
    offset: u64,
    run: Run,
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

    /// Hashes a piece, and keeps that.
    pub(crate) fn look(&self, offset: u64, bytes: &[u8]) {
        self.take(self.hash(offset, bytes));
    }

    /// Hashes a piece: the bytes of the shard from `offset` on, a multiple of [`PIECE`], as long as that or to the end.
    pub(crate) fn hash(&self, offset: u64, bytes: &[u8]) -> Seen {
        let end = offset.saturating_add(bytes.len() as u64);
        let mut gathered = Gathered::default();
        let mut cuts = [0, 1, 2].map(|track| Cuts::new(pick(&self.tracks, track), offset, end).peekable());
        // Every hash goes over the same bytes while they are near.
        while let Some((track, cuts)) = cuts
            .iter_mut()
            .enumerate()
            .filter_map(|(track, cuts)| Some((cuts.peek()?.at, track, cuts)))
            .min_by_key(|&(at, track, _)| (at, track))
            .map(|(_, track, cuts)| (track, cuts))
        {
            let Some(cut) = cuts.next() else { break };
            let here = cut.at.saturating_sub(offset);
            gathered.add(track, &cut, slice(bytes, here, here.saturating_add(cut.len)));
        }
        let (done, parts) = gathered.finish();
        Seen { piece: offset / PIECE, done, parts }
    }

    /// Keeps what was seen of a piece.
    pub(crate) fn take(&self, Seen { piece, done, parts }: Seen) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        for (track, number, hash) in done {
            set(&mut state.tracks, track, number, hash);
        }
        state.early.insert(piece, parts);
        while let Some(parts) = state.early.remove(&state.next) {
            state.next = state.next.saturating_add(1);
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
        let Part { len, offset, run, .. } = part;
        let run = if offset == 0 { run } else { self.open.take()?.join(len, run) };
        if run.end() >= len {
            return Some(run.finish(len));
        }
        self.open = Some(run);
        None
    }
}

/// Bytes of a piece that are hashed at once for one span.
struct Cut {
    number: u64,
    span: Span,
    /// Where in the shard they begin.
    at: u64,
    len: u64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All of the span.
    Whole,
    /// A subtree of it.
    Subtree,
    /// A part of a chunk, whose other part another piece has, or the end of the span.
    Loose,
}

/// Cuts a piece along the subtrees of spans.
struct Cuts<'a> {
    spans: &'a Spans,
    number: u64,
    at: u64,
    end: u64,
}

impl<'a> Cuts<'a> {
    fn new(spans: &'a Spans, at: u64, end: u64) -> Self {
        Self { spans, number: spans.first_behind(at), at, end }
    }
}

impl Iterator for Cuts<'_> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        loop {
            let (number, span) = (self.number, self.spans.span(self.number)?);
            let (at, stop) = (self.at.max(span.start), span.end.min(self.end));
            if at >= stop {
                if span.end > self.end || span.start >= self.end {
                    return None;
                }
                self.number = self.number.saturating_add(1);
                continue;
            }
            let (offset, left) = (at.saturating_sub(span.start), stop.saturating_sub(at));
            let in_chunk = offset % CHUNK;
            let (len, kind) = if offset == 0 && stop == span.end && left <= BLOCK {
                (left, Kind::Whole)
            } else if in_chunk != 0 || left < CHUNK {
                (CHUNK.saturating_sub(in_chunk).min(left), Kind::Loose)
            } else {
                (subtree_len(offset, left).min(BLOCK), Kind::Subtree)
            };
            self.at = at.saturating_add(len);
            return Some(Cut { number, span, at, len, kind });
        }
    }
}

/// The hash of a span: its track, its number, the hash.
type Done = (usize, u64, [u8; 32]);

/// What a piece says.
pub(crate) struct Seen {
    piece: u64,
    done: Vec<Done>,
    parts: Vec<Part>,
}

impl Parcel for Seen {
    fn put(&self, out: &mut Vec<u8>) {
        self.piece.put(out);
        self.done.put(out);
        self.parts.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self { piece: Parcel::take(from)?, done: Parcel::take(from)?, parts: Parcel::take(from)? })
    }
}

impl Parcel for Part {
    fn put(&self, out: &mut Vec<u8>) {
        (self.track, self.span, self.len).put(out);
        (self.offset, self.run.to_bytes()).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (track, span, len) = Parcel::take(from)?;
        let (offset, run): (u64, Vec<u8>) = Parcel::take(from)?;
        Some(Self { track, span, len, offset, run: Run::from_bytes(&run)? })
    }
}

/// What is known of a piece.
#[derive(Default)]
struct Gathered {
    done: Vec<Done>,
    parts: Vec<Part>,
    /// The part of each track that is being gathered.
    open: [Option<Part>; 3],
}

impl Gathered {
    fn add(&mut self, track: usize, cut: &Cut, bytes: &[u8]) {
        if cut.kind == Kind::Whole {
            self.done.push((track, cut.number, *blake3::hash(bytes).as_bytes()));
            return;
        }
        let Some(open) = self.open.get_mut(track) else { return };
        if let Some(before) = open.take_if(|part| part.span != cut.number) {
            Self::close(&mut self.done, &mut self.parts, before);
        }
        let offset = cut.at.saturating_sub(cut.span.start);
        let part = open.get_or_insert_with(|| Part {
            track,
            span: cut.number,
            len: cut.span.end.saturating_sub(cut.span.start),
            offset,
            run: Run::empty(offset),
        });
        part.run.extend(part.len, bytes);
    }

    /// A span that the piece holds whole is joined here; the others wait for their neighbours.
    fn close(done: &mut Vec<Done>, parts: &mut Vec<Part>, part: Part) {
        if !part.is_whole() {
            parts.push(part);
            return;
        }
        let (track, span) = (part.track, part.span);
        done.extend(Track::default().add(part).map(|hash| (track, span, hash)));
    }

    fn finish(self) -> (Vec<Done>, Vec<Part>) {
        let Self { mut done, mut parts, open } = self;
        for part in open.into_iter().flatten() {
            Self::close(&mut done, &mut parts, part);
        }
        (done, parts)
    }
}

impl Part {
    /// Whether it has all bytes of its span.
    const fn is_whole(&self) -> bool {
        self.offset == 0 && self.run.end() == self.len
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
                (64, 65 + PIECE / 4 * 3),
                (100 + PIECE / 4 * 3, PIECE + 1),
                (PIECE + 1, 2 * PIECE + 1024),
                (2 * PIECE + 1088, end),
            ];
            let tensors = spans
                .into_iter()
                .map(|(start, stop)| Span { start, end: stop.min(end) })
                .filter(|span| span.start < span.end)
                .collect();
            let mut wanted = Wanted { tensors, page_size: None };
            for page_size in [PIECE, PIECE / 4, 1000, 2 * PIECE + 777] {
                wanted.page_size = Some(page_size);
                let expected = expected(&all, &wanted);
                assert_eq!(run(&all, &wanted, |_| ()), expected, "{len} {page_size}");
                assert_eq!(run(&all, &wanted, |pieces| pieces.reverse()), expected, "{len} {page_size}");
            }
        }
    }

    #[test]
    fn parts_join_however_an_input_is_cut() {
        let all = bytes(700_000);
        for len in
            [2, 1023, 1024, 1025, 2048, 2049, 3072, 4096, 5000, 8192, 9000, 65_536, 131_073, 262_144, 700_000]
        {
            for cut in [1usize, 64, 1000, 1024, 1500, 2048, 6000, 100_000, 131_072, 200_000, 262_144, 700_000]
            {
                if len / cut > 5000 {
                    continue;
                }
                let spans = Spans::Whole(len as u64);
                let (mut track, mut hash) = (Track::default(), None);
                for (n, piece) in all[..len].chunks(cut).enumerate() {
                    let (at, mut gathered) = ((n * cut) as u64, Gathered::default());
                    for cut in Cuts::new(&spans, at, at + piece.len() as u64) {
                        let here = (cut.at - at) as usize;
                        gathered.add(0, &cut, &piece[here..here + cut.len as usize]);
                    }
                    let (done, parts) = gathered.finish();
                    hash = done.into_iter().map(|(_, _, hash)| hash).next();
                    for part in parts {
                        hash = track.add(part);
                    }
                }
                assert_eq!(hash, Some(*blake3::hash(&all[..len]).as_bytes()), "{len} {cut}");
            }
        }
    }
}
