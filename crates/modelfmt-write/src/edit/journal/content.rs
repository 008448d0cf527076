//! Compares files with the bytes in a journal, and restores them.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::io;

use super::super::disk::Disk;
use super::{Member, PIECE, Record, State};

/// Brings a file into its state before or after the edit, and flushes it.
///
/// # Errors
/// If the file or the journal cannot be read or written.
pub(in super::super) fn make<D: Disk>(
    disk: &D,
    journal: &D::File,
    (member, file): (&Member, &D::File),
    state: State,
) -> io::Result<()> {
    for record in &member.records {
        let (place, len) = record.bytes(state);
        for (from, len) in pieces(len) {
            let piece = bytes_at(disk, journal, place.saturating_add(from), len)?;
            disk.write(file, record.at.saturating_add(from), &piece)?;
        }
    }
    if disk.len(file)? != member.len(state) {
        disk.set_len(file, member.len(state))?;
    }
    disk.touch(file);
    disk.flush(file)
}

/// Returns whether a file has the length and the bytes of a state in the journal.
///
/// # Errors
/// If the file or the journal cannot be read.
pub(in super::super) fn is_made<D: Disk>(
    disk: &D,
    journal: &D::File,
    (member, file): (&Member, &D::File),
    state: State,
) -> io::Result<bool> {
    if disk.len(file)? != member.len(state) {
        return Ok(false);
    }
    for record in &member.records {
        let (place, len) = record.bytes(state);
        for (from, len) in pieces(len) {
            let found = bytes_at(disk, file, record.at.saturating_add(from), len)?;
            if found != bytes_at(disk, journal, place.saturating_add(from), len)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Reads `len` bytes of a file, at most one piece.
fn bytes_at<D: Disk>(disk: &D, file: &D::File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    if len > 0 {
        disk.read(file, at, &mut bytes)?;
    }
    Ok(bytes)
}

/// Returns the offset and length of each piece of `len` bytes.
fn pieces(len: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..len)
        .step_by(PIECE)
        .map(move |at| (at, usize::try_from(len.saturating_sub(at)).unwrap_or(PIECE).min(PIECE)))
}

/// Returns whether a file is in its state before the edit, after it, or in between.
///
/// # Errors
/// If the file or the journal cannot be read.
pub(in super::super) fn is_between<D: Disk>(
    disk: &D,
    journal: &D::File,
    (member, file): (&Member, &D::File),
) -> io::Result<bool> {
    let len = disk.len(file)?;
    if !member.can_have(len) {
        return Ok(false);
    }
    for record in &member.records {
        if !is_known(disk, journal, (member, file, len), record)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether each byte that a record covers, in a file of `len` bytes, has its value before or after
/// the edit.
fn is_known<D: Disk>(
    disk: &D,
    journal: &D::File,
    (member, file, len): (&Member, &D::File, u64),
    record: &Record,
) -> io::Result<bool> {
    let here = record.before.max(record.after).min(len.saturating_sub(record.at));
    let shorter = member.old_len.min(member.new_len);
    for (from, len) in pieces(here) {
        let at = record.at.saturating_add(from);
        let found = bytes_at(disk, file, at, len)?;
        let known = [State::Before, State::After].map(|state| {
            let (place, has) = record.bytes(state);
            let len = usize::try_from(has.saturating_sub(from)).unwrap_or(len).min(len);
            bytes_at(disk, journal, place.saturating_add(from), len)
        });
        let [before, after] = known;
        let (before, after) = (before?, after?);
        if found == before || found == after {
            continue;
        }
        // A file that grows has zeros here until the bytes are written.
        let grows = usize::try_from(shorter.saturating_sub(at)).unwrap_or(usize::MAX);
        let is_known = |(n, byte): (usize, &u8)| {
            before.get(n) == Some(byte) || after.get(n) == Some(byte) || (*byte == 0 && n >= grows)
        };
        if !found.iter().enumerate().all(is_known) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Member {
    /// Returns whether a file that is being changed in place can have this length.
    pub(in super::super) fn can_have(&self, len: u64) -> bool {
        (self.old_len.min(self.new_len)..=self.old_len.max(self.new_len)).contains(&len)
    }
}
