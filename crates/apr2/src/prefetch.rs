//! Several tensors ahead of their use, in few reads.

use std::io;
use std::ops::Range;

use modelfmt_core::{AlignedBuf, Bytes, Source};

use crate::error::{Error, Result};
use crate::index::Tensors;
use crate::reader::Reader;

/// Ranges that are nearer to each other than this are read together.
const NEAR: u64 = 64 << 10;
/// No read of several tensors is longer than this.
const LONGEST: u64 = 64 << 20;

/// Reads these tensors now, neighbouring ones together, and returns a reader of the same file that has them in memory: raw ones
/// are views without a copy, compressed ones decode without another read. Any other tensor is read from the source as before.
///
/// # Errors
/// [`Error::NotFound`] for a name that the file does not have; [`Error::Io`] if it cannot be read.
pub fn prefetch<'r, S: Source>(reader: &'r Reader<S>, names: &[&str]) -> Result<Reader<Prefetched<&'r S>>> {
    let tensors = &reader.index().tensors;
    let positions = names.iter().map(|name| tensors.position(name)).collect::<Result<Vec<_>>>()?;
    let mut prefetched = Prefetched::new(reader.source());
    prefetched.fetch(tensors, &positions)?;
    Reader::with_index(reader.index().clone(), prefetched)
}

/// A source with some of its ranges in memory.
#[derive(Debug)]
pub struct Prefetched<S> {
    source: S,
    /// Starts ascend, and so do ends: none contains another.
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    start: u64,
    bytes: AlignedBuf,
}

impl Held {
    fn end(&self) -> u64 {
        self.start + self.bytes.as_slice().len() as u64
    }
}

impl<S: Source> Prefetched<S> {
    /// A source with nothing in memory yet.
    #[must_use]
    pub const fn new(source: S) -> Self {
        Self { source, held: Vec::new() }
    }

    /// The source behind.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// Bytes that are in memory.
    #[must_use]
    pub fn held_nbytes(&self) -> u64 {
        self.held.iter().map(|held| held.bytes.as_slice().len() as u64).sum()
    }

    /// Frees the memory.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Reads the tensors at these positions; what is in memory already is not read again.
    ///
    /// # Errors
    /// [`Error::Io`] if one cannot be read.
    pub(crate) fn fetch(&mut self, tensors: &Tensors, positions: &[usize]) -> Result<()> {
        if self.source.as_slice().is_some() {
            return Ok(()); // everything is in memory
        }
        let stored = positions.iter().filter_map(|&position| tensors.stored(position));
        let wanted = stored.filter(|stored| stored.len > 0).map(|stored| stored.offset..stored.end());
        let mut fetched = Vec::new();
        for range in merged(wanted.filter(|range| self.lookup(range).is_none()).collect()) {
            let (at, len) = (range.start, range.end - range.start);
            let bytes = self.source.read(range).and_then(Bytes::into_owned);
            let bytes = bytes.map_err(|source| Error::Io { at, len, source })?;
            fetched.push(Held { start: at, bytes });
        }
        self.hold(fetched);
        Ok(())
    }

    /// Keeps these ranges, in place of those that they contain.
    fn hold(&mut self, new: Vec<Held>) {
        self.held.extend(new);
        self.held.sort_by_key(|held| (held.start, std::cmp::Reverse(held.end())));
        let mut reach = 0;
        self.held.retain(|held| {
            let is_new = held.end() > reach;
            reach = reach.max(held.end());
            is_new
        });
    }

    fn lookup(&self, range: &Range<u64>) -> Option<&[u8]> {
        // Starts and ends both ascend, so the last that begins early enough is the one that reaches furthest.
        let after = self.held.partition_point(|held| held.start <= range.start);
        let held = self.held.get(after.checked_sub(1)?).filter(|held| held.end() >= range.end)?;
        let skip = usize::try_from(range.start - held.start).ok()?;
        let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        held.bytes.get(skip..)?.get(..len)
    }
}

impl<S: Source> Source for Prefetched<S> {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        match self.lookup(&(offset..end)) {
            Some(bytes) if !out.is_empty() => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            _ => self.source.read_into(offset, out),
        }
    }

    fn read(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        match self.lookup(&range) {
            Some(bytes) if range.start < range.end => Ok(Bytes::Borrowed(bytes)),
            _ => self.source.read(range),
        }
    }

    fn as_slice(&self) -> Option<&[u8]> {
        self.source.as_slice()
    }
}

/// The same ranges in ascending order, neighbours as one.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.end <= last.end => {}
            Some(last) if joins(last, &range) => last.end = range.end,
            _ => merged.push(range),
        }
    }
    merged
}

fn joins(last: &Range<u64>, next: &Range<u64>) -> bool {
    // What overlaps is joined at any length: a byte is not read twice.
    next.start < last.end || (next.start - last.end <= NEAR && next.end.saturating_sub(last.start) <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_together() {
        let far = 200 << 10;
        assert_eq!(merged(vec![far..far + 5, 64..70, 0..64, 64..70, 80..90]), [0..90, far..far + 5]);
        let long = LONGEST;
        assert_eq!(merged(vec![0..long, long..long + 1]), [0..long, long..long + 1]);
    }

    #[test]
    fn what_is_held_is_borrowed_and_the_rest_is_read() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut source = Prefetched::new(bytes.clone());
        let held = |range: Range<usize>| Held {
            start: range.start as u64,
            bytes: AlignedBuf::copy_from_slice(&bytes[range]).unwrap(),
        };
        source.hold(vec![held(10..20), held(30..40)]);
        source.hold(vec![held(5..20)]);
        assert_eq!((source.held.len(), source.held_nbytes()), (2, 25));
        assert!(source.lookup(&(6..20)).is_some() && source.lookup(&(6..21)).is_none());
        modelfmt_core::source::contract_test(&source, &bytes).unwrap();
    }
}
