//! Collects bytes that are written at any position, in any order, into parts of equal length.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

/// A part that is complete, or that gets no more bytes.
pub(super) type Ready = (u64, Vec<u8>);

/// The bytes that were written and have not been sent.
///
/// A part is sent as soon as all of its bytes have been written. The other parts wait: the first part, if the
/// file's head is written last, and the parts into which several threads are writing. At most
/// [`HELD`](Self::HELD) of them wait in memory, the others in an unnamed temporary file.
#[derive(Debug)]
pub(super) struct Parts {
    size: u64,
    /// The end of the bytes that were written.
    len: u64,
    open: BTreeMap<u64, Open>,
    /// The numbers of the parts that were sent.
    sent: Ranges,
    spool: Option<File>,
}

#[derive(Debug)]
struct Open {
    /// The bytes so far; `None` if they are in the temporary file.
    bytes: Option<Vec<u8>>,
    written: Ranges,
}

impl Parts {
    /// The maximum number of incomplete parts that wait in memory.
    pub(super) const HELD: usize = 8;

    pub(super) fn new(size: u64) -> Self {
        Self { size: size.max(1), len: 0, open: BTreeMap::new(), sent: Ranges::default(), spool: None }
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Returns the number of parts that the written bytes make.
    pub(super) const fn count(&self) -> u64 {
        self.len.div_ceil(self.size)
    }

    pub(super) fn nothing_left(&self) -> bool {
        self.sent.0.is_empty()
    }

    /// Takes bytes, and adds the parts that they complete to `ready`.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], ready: &mut Vec<Ready>) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (number, within) = (at / self.size, at % self.size);
            let here = usize::try_from(self.size - within).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at(here);
            self.write_part(number, within, now, ready)?;
            at += here as u64;
            rest = later;
        }
        self.len = self.len.max(end);
        Ok(())
    }

    fn write_part(
        &mut self,
        number: u64,
        within: u64,
        bytes: &[u8],
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        if self.sent.has(number) {
            let text = "bytes that were sent already are written again, which a bucket cannot do";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        if !self.open.contains_key(&number) {
            self.open(number)?;
        }
        let (size, spool) = (self.size, self.spool.as_mut());
        let Some(part) = self.open.get_mut(&number) else { return Ok(()) };
        match (&mut part.bytes, spool) {
            (Some(held), _) => put(held, within, bytes)?,
            (None, Some(spool)) => {
                spool.seek(SeekFrom::Start(number.saturating_mul(size).saturating_add(within)))?;
                spool.write_all(bytes)?;
            }
            (None, None) => return Err(io::Error::other("a part is nowhere")), // it is in one of the two
        }
        part.written.add(within, within + bytes.len() as u64);
        if part.written.is(0, size) {
            ready.extend(self.take(number, size)?.map(|bytes| (number, bytes)));
        }
        Ok(())
    }

    /// Starts a part. If too many parts wait in memory already, the first of them moves to the temporary
    /// file.
    fn open(&mut self, number: u64) -> io::Result<()> {
        let size = self.size;
        let held = self.open.values().filter(|part| part.bytes.is_some()).count();
        if held >= Self::HELD
            && let Some((&first, part)) = self.open.iter_mut().find(|(_, part)| part.bytes.is_some())
        {
            let spool = match &mut self.spool {
                Some(spool) => spool,
                none => none.insert(super::spool::create()?),
            };
            spool.seek(SeekFrom::Start(first.saturating_mul(size)))?;
            spool.write_all(part.bytes.as_deref().unwrap_or_default())?;
            part.bytes = None;
        }
        self.open.insert(number, Open { bytes: Some(Vec::new()), written: Ranges::default() });
        Ok(())
    }

    /// Takes a part as it is: `len` bytes, with zeros where none were written. `None` if the part was sent
    /// before.
    pub(super) fn take(&mut self, number: u64, len: u64) -> io::Result<Option<Vec<u8>>> {
        if self.sent.has(number) {
            return Ok(None);
        }
        self.sent.add(number, number + 1);
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut bytes = match (self.open.remove(&number), &mut self.spool) {
            (Some(Open { bytes: Some(held), .. }), _) => held,
            (Some(Open { bytes: None, .. }), Some(spool)) => {
                let mut bytes = Vec::new();
                spool.seek(SeekFrom::Start(number.saturating_mul(self.size)))?;
                spool.take(len as u64).read_to_end(&mut bytes)?;
                bytes
            }
            _ => Vec::new(),
        };
        extend(&mut bytes, len)?;
        bytes.truncate(len);
        Ok(Some(bytes))
    }

    /// Takes the next part that was not sent: its number and its bytes. Call this after the last write.
    pub(super) fn next(&mut self) -> io::Result<Option<Ready>> {
        let number = self.sent.first_missing();
        let begin = number.saturating_mul(self.size);
        if begin >= self.len {
            return Ok(None);
        }
        let len = self.size.min(self.len - begin);
        Ok(self.take(number, len)?.map(|bytes| (number, bytes)))
    }
}

fn put(held: &mut Vec<u8>, at: u64, bytes: &[u8]) -> io::Result<()> {
    let at = usize::try_from(at).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let end = at.checked_add(bytes.len()).ok_or(io::ErrorKind::OutOfMemory)?;
    extend(held, end)?;
    held.get_mut(at..end).ok_or(io::ErrorKind::OutOfMemory)?.copy_from_slice(bytes);
    Ok(())
}

/// Appends zeros up to the length `len`.
fn extend(held: &mut Vec<u8>, len: usize) -> io::Result<()> {
    let more = len.saturating_sub(held.len());
    held.try_reserve(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
    if more > 0 {
        held.resize(len, 0);
    }
    Ok(())
}

/// A set of numbers as sorted ranges, as few as possible.
#[derive(Debug, Default)]
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn add(&mut self, mut begin: u64, mut end: u64) {
        let first = self.0.partition_point(|range| range.1 < begin);
        let last = self.0.partition_point(|range| range.0 <= end);
        for range in self.0.drain(first..last.max(first)) {
            begin = begin.min(range.0);
            end = end.max(range.1);
        }
        self.0.insert(first, (begin, end));
    }

    fn is(&self, begin: u64, end: u64) -> bool {
        self.0 == [(begin, end)]
    }

    fn has(&self, number: u64) -> bool {
        let after = self.0.partition_point(|range| range.1 <= number);
        self.0.get(after).is_some_and(|range| range.0 <= number)
    }

    fn first_missing(&self) -> u64 {
        self.0.first().filter(|range| range.0 == 0).map_or(0, |range| range.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes pieces, and returns the parts in the order in which they are sent.
    fn parts(size: u64, pieces: &[(u64, &[u8])]) -> Vec<Ready> {
        let (mut parts, mut ready) = (Parts::new(size), Vec::new());
        for (offset, bytes) in pieces {
            parts.write(*offset, bytes, &mut ready).unwrap();
        }
        while let Some(next) = parts.next().unwrap() {
            ready.push(next);
        }
        ready
    }

    fn part(number: u64, bytes: &[u8]) -> Ready {
        (number, bytes.to_vec())
    }

    #[test]
    fn parts_leave_when_they_are_complete() {
        // The head comes last, and a part whose bytes come in any order is sent in between.
        let left = parts(4, &[(2, b"cdefgh"), (10, b"k"), (8, b"ij"), (11, b"lmn"), (0, b"a"), (1, b"b")]);
        assert_eq!(left, [part(1, b"efgh"), part(2, b"ijkl"), part(0, b"abcd"), part(3, b"mn")]);
    }

    #[test]
    fn what_is_never_written_is_zero() {
        assert_eq!(parts(4, &[(9, b"x")]), [part(0, &[0; 4]), part(1, &[0; 4]), part(2, b"\0x")]);
        assert_eq!(parts(4, &[]), []);
        assert_eq!(parts(4, &[(3, b"")]), [part(0, &[0; 3])]);
    }

    #[test]
    fn more_than_a_few_wait_on_the_disk() {
        let mut parts = Parts::new(4);
        let mut ready = Vec::new();
        for number in 0..40u8 {
            parts.write(u64::from(number) * 4 + 1, &[number; 2], &mut ready).unwrap();
            let held = parts.open.values().filter(|part| part.bytes.is_some()).count();
            assert!(held <= Parts::HELD);
        }
        assert!(ready.is_empty() && parts.spool.is_some());
        parts.write(4 * 3, b"<", &mut ready).unwrap();
        parts.write(4 * 3 + 3, b">", &mut ready).unwrap();
        assert_eq!(ready, [part(3, b"<\x03\x03>")]);
        while let Some(next) = parts.next().unwrap() {
            ready.push(next);
        }
        ready.sort();
        for (number, (found, bytes)) in ready.iter().enumerate().filter(|(number, _)| *number != 3) {
            let value = u8::try_from(number).unwrap();
            let whole = [0, value, value, 0];
            let expected: &[u8] = if number == 39 { &whole[..3] } else { &whole };
            assert_eq!((*found, bytes.as_slice()), (number as u64, expected));
        }
    }

    #[test]
    fn what_was_sent_is_not_written_again() {
        let (mut parts, mut ready) = (Parts::new(2), Vec::new());
        parts.write(0, b"abc", &mut ready).unwrap();
        assert_eq!(parts.write(1, b"x", &mut ready).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert!(parts.write(u64::MAX, b"xy", &mut ready).is_err());
    }
}
