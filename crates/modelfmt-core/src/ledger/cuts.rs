//! A piece, cut along the ranges of a lane and along what is best hashed at once.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::marker::PhantomData;

use super::{BLOCK, DigestKind, Part, Ranges, Seen};

/// Bytes of a piece that are hashed at once for one range.
pub(super) struct Cut {
    /// The number of the range, and its length.
    number: usize,
    total: u64,
    /// Where in the range they begin.
    offset: u64,
    /// Where they begin.
    pub(super) at: u64,
    pub(super) len: u64,
}

/// Cuts the bytes from `at` to `end`.
pub(super) struct Cuts<'a, K, L> {
    list: &'a L,
    number: usize,
    at: u64,
    end: u64,
    kind: PhantomData<K>,
}

impl<'a, K, L: Ranges> Cuts<'a, K, L> {
    pub(super) fn new(list: &'a L, at: u64, end: u64) -> Self {
        Self { list, number: list.first_behind(at), at, end, kind: PhantomData }
    }
}

impl<K: DigestKind, L: Ranges> Iterator for Cuts<'_, K, L> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        loop {
            let (number, range) = (self.number, self.list.range(self.number)?);
            let (at, stop) = (self.at.max(range.start), range.end.min(self.end));
            if at >= stop {
                if range.end > self.end || range.start >= self.end {
                    return None;
                }
                self.number = self.number.saturating_add(1);
                continue;
            }
            let (offset, left) = (at.saturating_sub(range.start), stop.saturating_sub(at));
            let is_whole = offset == 0 && stop == range.end && left <= BLOCK;
            let len = if is_whole { left } else { K::step(offset, left).max(1).min(left) };
            self.at = at.saturating_add(len);
            return Some(Cut { number, total: range.end.saturating_sub(range.start), offset, at, len });
        }
    }
}

/// What is known of a piece so far.
pub(super) struct Gathered<K: DigestKind> {
    seen: Seen<K>,
    /// The part of each lane that is being gathered, and the length of its range.
    open: Vec<Option<(u64, Part<K::Run>)>>,
}

impl<K: DigestKind> Gathered<K> {
    pub(super) fn new(lanes: usize) -> Self {
        let open = std::iter::repeat_with(|| None).take(lanes).collect();
        Self { seen: Seen { done: Vec::new(), parts: Vec::new() }, open }
    }

    pub(super) fn add(&mut self, lane: usize, cut: &Cut, bytes: &[u8]) {
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

    pub(super) fn finish(self) -> Seen<K> {
        let Self { mut seen, open } = self;
        open.into_iter().flatten().for_each(|part| close(&mut seen, part));
        seen
    }
}

/// A range that the piece holds whole is complete here; the others wait for their neighbours.
fn close<K: DigestKind>(seen: &mut Seen<K>, (total, part): (u64, Part<K::Run>)) {
    if (part.start, part.end) == (0, total) {
        seen.done.push((part.lane, part.number, K::finish(total, part.run)));
    } else {
        seen.parts.push(part);
    }
}
