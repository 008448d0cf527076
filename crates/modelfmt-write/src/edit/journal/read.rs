//! Reads a journal: first its head, then its structure, and finally all of its bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::io;

use super::super::disk::Disk;
use super::check::Check;
use super::{
    CHECK_LEN, HEAD_LEN, Head, Journal, Kind, MAX_LEN, MAX_RECORDS, MEMBER_LEN, Member, PIECE, RECORD_LEN,
    Record,
};
use modelfmt_core::source::check_relative;

/// The result of reading a file that may be a journal.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Read {
    Journal(Journal),
    /// The file is not a journal, or it is incomplete.
    Broken,
}

/// Reads a journal. Before all of its bytes are read, `is_about` checks whether the files can be those that
/// it describes.
///
/// # Errors
/// If the journal cannot be read; the errors of `is_about`.
pub(in super::super) fn read<D: Disk>(
    disk: &D,
    file: &D::File,
    is_about: impl FnOnce(&Journal) -> io::Result<()>,
) -> io::Result<Read> {
    let len = disk.len(file)?;
    let Some(journal) = structure(disk, file, len)? else { return Ok(Read::Broken) };
    is_about(&journal)?;
    Ok(if is_intact(disk, file, len)? { Read::Journal(journal) } else { Read::Broken })
}

/// Decodes a journal of this length; `None` if it violates a rule.
fn structure<D: Disk>(disk: &D, file: &D::File, len: u64) -> io::Result<Option<Journal>> {
    let end = len.saturating_sub(CHECK_LEN);
    let mut rest = Rest { disk, file, at: 0, end };
    let Some(head) = rest.take::<HEAD_LEN>()? else { return Ok(None) };
    let head = Head::decode(&head).filter(|head| head.kind == Kind::Journal && head.len == len);
    let Some(head) = head.filter(|_| len <= MAX_LEN) else { return Ok(None) };
    let Some(count) = rest.number()? else { return Ok(None) };
    let mut members = Vec::new(); // each takes bytes of the journal
    let mut records = MAX_RECORDS;
    for _ in 0..count {
        let Some(member) = rest.member(&mut records)? else { return Ok(None) };
        if !member.is_possible() || members.len() >= MAX_RECORDS {
            return Ok(None);
        }
        members.push(member);
    }
    let is_whole = rest.at == end && !members.is_empty();
    Ok(is_whole.then_some(Journal { id: head.id, members, len }))
}

/// Returns whether the checksum at the end matches the bytes before it.
fn is_intact<D: Disk>(disk: &D, file: &D::File, len: u64) -> io::Result<bool> {
    let (mut check, mut at, end) = (Check::new(), 0, len.saturating_sub(CHECK_LEN));
    let mut piece = vec![0; usize::try_from(end).unwrap_or(PIECE).min(PIECE)];
    while at < end {
        let len = usize::try_from(end.saturating_sub(at)).unwrap_or(PIECE).min(PIECE);
        let piece = piece.get_mut(..len).unwrap_or_default();
        disk.read(file, at, piece)?;
        check.update(piece);
        at = at.saturating_add(len as u64);
    }
    let mut stated = [0; 8];
    disk.read(file, end, &mut stated)?;
    Ok(check.finish() == u64::from_le_bytes(stated))
}

/// The bytes of a journal that have not been decoded yet.
struct Rest<'a, D: Disk> {
    disk: &'a D,
    file: &'a D::File,
    at: u64,
    end: u64,
}

impl<D: Disk> Rest<'_, D> {
    /// Skips `len` bytes and returns their offset; `None` if there are fewer.
    fn pass(&mut self, len: u64) -> Option<u64> {
        let begin = self.at;
        self.at = begin.checked_add(len).filter(|at| *at <= self.end)?;
        Some(begin)
    }

    fn take<const LEN: usize>(&mut self) -> io::Result<Option<[u8; LEN]>> {
        let Some(at) = self.pass(LEN as u64) else { return Ok(None) };
        let mut bytes = [0; LEN];
        self.disk.read(self.file, at, &mut bytes)?;
        Ok(Some(bytes))
    }

    fn number(&mut self) -> io::Result<Option<u32>> {
        Ok(self.take()?.map(u32::from_le_bytes))
    }

    /// Decodes the change of one file, with at most `left` records.
    fn member(&mut self, left: &mut usize) -> io::Result<Option<Member>> {
        let (Some(kind), Some(len)) = (self.number()?, self.number()?) else { return Ok(None) };
        let Some(name) = self.name(len)? else { return Ok(None) };
        let Some(lens) = self.take::<{ MEMBER_LEN - 8 }>()? else { return Ok(None) };
        let (numbers, count) = lens.as_chunks();
        let (&[old_len, new_len], &[a, b, c, d]) = (numbers, count) else { return Ok(None) };
        let count = u32::from_le_bytes([a, b, c, d]) as usize;
        if kind > 1 || count > *left {
            return Ok(None);
        }
        *left = left.saturating_sub(count);
        let mut records = Vec::new(); // each takes bytes of the journal
        for _ in 0..count {
            let Some(record) = self.record()? else { return Ok(None) };
            records.push(record);
        }
        let [old_len, new_len] = [old_len, new_len].map(u64::from_le_bytes);
        Ok(Some(Member { name, is_replaced: kind == 1, old_len, new_len, records }))
    }

    fn name(&mut self, len: u32) -> io::Result<Option<String>> {
        const LONGEST: u32 = 4096;
        let Some(at) = self.pass(u64::from(len)).filter(|_| len <= LONGEST) else { return Ok(None) };
        let mut name = vec![0; len as usize];
        self.disk.read(self.file, at, &mut name)?;
        Ok(String::from_utf8(name).ok().filter(|name| name.is_empty() || check_relative(name).is_ok()))
    }

    fn record(&mut self) -> io::Result<Option<Record>> {
        let Some(numbers) = self.take::<RECORD_LEN>()? else { return Ok(None) };
        let (&[at, before, after], _) = numbers.as_chunks() else { return Ok(None) };
        let [at, before, after] = [at, before, after].map(u64::from_le_bytes);
        let place = before.checked_add(after).and_then(|len| self.pass(len));
        Ok(place.map(|place| Record { at, before, after, place }))
    }
}
