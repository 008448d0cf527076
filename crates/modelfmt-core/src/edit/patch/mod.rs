//! An edit in place, and what undoes one that was interrupted.

use std::borrow::Cow;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use super::disk::{Disk, RealDisk};
use super::journal::{Journal, MAX_LEN, Record, journal_path, target_of};
use super::new_file::{NewFile, Patch};
use crate::source::FileVersion;

/// A write within one block of so many bytes, at a multiple of it, reaches the disk whole or not at all: it is one page of the system
/// and one sector of today's disks.
const ATOMIC: u64 = 4096;

/// What [`recover`](super::recover()) found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Nothing: there was no journal.
    Nothing,
    /// The file is again what it was before the edit.
    Undone,
    /// The journal was incomplete, so the edit had not begun. The journal was removed.
    NotBegun,
    /// Several files were being edited as one, and all of them are now what they were to become.
    Completed,
}

/// Changes a file in place into what `new` says, which [keeps every byte at its place](NewFile::is_in_place), and returns how
/// many bytes were written; a journal beside the file is not counted.
///
/// A change that takes more than one write of a page is guarded by a journal beside the file, `NAME.modelfmt-undo`, which undoes it if it is
/// interrupted.
///
/// # Errors
/// If the file cannot be read or written, is no longer the version `before` that `new` was made for, if another process is changing it, or
/// a journal is there: [`recover`](super::recover()) first.
pub fn patch(path: &Path, new: &NewFile, before: &FileVersion) -> io::Result<u64> {
    let file = lock(path)?;
    expect_version(path, before)?;
    // What is locked has to be that file too: another may have had this path when it was opened.
    let metadata = file.metadata()?;
    if FileVersion::from_metadata(&metadata) != *before {
        return Err(changed_since(path));
    }
    let old = Old { disk: &RealDisk, file: &file, len: metadata.len() };
    let moves = || io::Error::new(io::ErrorKind::InvalidInput, "bytes that are kept would move");
    let patches = new.patches(&old)?.ok_or_else(moves)?;
    apply(&old, &target_of(path), &patches, new.len())?;
    Ok(patches.iter().map(|(_, bytes)| bytes.len() as u64).sum())
}

/// The file that is changed, as it is before that. It is opened and asked for its length only once: beside a write of one page and its flush,
/// every call of the system counts.
struct Old<'a, D: Disk> {
    disk: &'a D,
    file: &'a D::File,
    len: u64,
}

impl<D: Disk> crate::Source for Old<'_, D> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(self.file, offset, out)
    }
}

/// Keeps other processes that edit the file away as long as the result is there.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let text = "another process is changing it; wait until it is done";
            Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
        }
        // File systems without locks.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Checks that the file is the version that an edit was made for. This happens under the lock, because another edit may have put a new file at this
/// path.
pub(super) fn expect_version(path: &Path, before: &FileVersion) -> io::Result<()> {
    if FileVersion::of(path)? == *before { Ok(()) } else { Err(changed_since(path)) }
}

fn changed_since(path: &Path) -> io::Error {
    let text = format!("{} has been changed since the edit was prepared; edit it again", path.display());
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

/// Writes the patches, after a journal where that is needed.
fn apply<D: Disk>(old: &Old<'_, D>, path: &Path, patches: &[Patch<'_>], new_len: u64) -> io::Result<()> {
    let Old { disk, file, len: old_len } = *old;
    if patches.is_empty() && new_len == old_len {
        return Ok(());
    }
    if new_len == old_len
        && let Some((at, bytes)) = within_a_page(disk, file, patches)?
    {
        disk.write(file, at, &bytes)?;
        return disk.flush(file);
    }
    let journal = journal_for(disk, file, patches, (old_len, new_len))?;
    let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "the edit is too large for a journal");
    let (bytes, place) = (journal.encode().ok_or_else(too_long)?, journal_path(path));
    let written = disk.create(&place)?;
    disk.write(&written, 0, &bytes)?;
    disk.flush(&written)?;
    disk.flush_folder(&place)?;
    for (at, bytes) in patches {
        disk.write(file, *at, bytes)?;
    }
    if new_len < old_len {
        disk.set_len(file, new_len)?;
    }
    disk.flush(file)?;
    disk.remove(&place)?;
    disk.flush_folder(&place)
}

/// All patches as one write, with what stays between them, if that lies within one page. They ascend.
fn within_a_page<'a, D: Disk>(
    disk: &D,
    file: &D::File,
    patches: &[Patch<'a>],
) -> io::Result<Option<(u64, Cow<'a, [u8]>)>> {
    let (Some(&(at, _)), Some(&(last, bytes))) = (patches.first(), patches.last()) else { return Ok(None) };
    let end = last.saturating_add(bytes.len() as u64);
    if !is_atomic(at..end) {
        return Ok(None);
    }
    if patches.len() == 1 {
        return Ok(Some((last, Cow::Borrowed(bytes)))); // nothing stays between
    }
    let within = |place: u64| usize::try_from(place.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut page = vec![0; within(end)]; // not more than a page
    disk.read(file, at, &mut page)?;
    for (place, bytes) in patches {
        let out = page.get_mut(within(*place)..).and_then(|page| page.get_mut(..bytes.len()));
        out.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
    }
    Ok(Some((at, Cow::Owned(page))))
}

const fn is_atomic(range: std::ops::Range<u64>) -> bool {
    range.start / ATOMIC == range.end.saturating_sub(1) / ATOMIC
}

pub(super) fn journal_for<D: Disk>(
    disk: &D,
    file: &D::File,
    patches: &[Patch<'_>],
    (old_len, new_len): (u64, u64),
) -> io::Result<Journal> {
    let mut records = Vec::with_capacity(patches.len() + 1);
    let mut note = |at: u64, before_len: u64, after: &[u8]| {
        let len = usize::try_from(before_len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut before = vec![0; len];
        disk.read(file, at, &mut before)?;
        records.push(Record { at, before, after: after.to_vec() });
        io::Result::Ok(())
    };
    for &(at, bytes) in patches {
        note(at, old_len.saturating_sub(at).min(bytes.len() as u64), bytes)?;
    }
    if new_len < old_len {
        note(new_len, old_len - new_len, &[])?;
    }
    Ok(Journal { old_len, new_len, records })
}

/// The bytes of a journal.
pub(super) fn read_all<D: Disk>(disk: &D, place: &Path) -> io::Result<Vec<u8>> {
    let journal = disk.open(place)?;
    let len = disk.len(&journal)?;
    let len = usize::try_from(len.min(MAX_LEN.saturating_add(1))).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len)?;
    bytes.resize(len, 0);
    disk.read(&journal, 0, &mut bytes)?;
    Ok(bytes)
}

/// Removes a journal that says nothing.
pub(super) fn not_begun<D: Disk>(disk: &D, path: &Path) -> io::Result<Recovered> {
    let place = journal_path(path);
    disk.remove(&place)?;
    disk.flush_folder(&place)?;
    Ok(Recovered::NotBegun)
}

/// Restores the bytes in the journal of a file, and removes the journal.
pub(super) fn undo<D: Disk>(disk: &D, path: &Path) -> io::Result<Recovered> {
    let place = journal_path(path);
    let bytes = read_all(disk, &place)?;
    // It is flushed before the file is touched.
    let Some(journal) = Journal::decode(&bytes).filter(Journal::is_whole) else {
        return not_begun(disk, path);
    };
    let file = disk.open(path)?;
    if !is_changed_by(disk, &file, &journal)? {
        let text = format!(
            "{} says how to undo an edit that was interrupted, but the file is not the one that was being edited; \
             if the file is good as it is, remove the journal",
            place.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    for Record { at, before, .. } in &journal.records {
        disk.write(&file, *at, before)?;
    }
    disk.set_len(&file, journal.old_len)?;
    disk.flush(&file)?;
    disk.remove(&place)?;
    disk.flush_folder(&place)?;
    Ok(Recovered::Undone)
}

/// Whether a file is as it was before the edit in a journal, as it was to be after it, or in between.
pub(super) fn is_changed_by<D: Disk>(disk: &D, file: &D::File, journal: &Journal) -> io::Result<bool> {
    let len = disk.len(file)?;
    let mut is_known = journal.can_have(len);
    for record in &journal.records {
        is_known = is_known && is_of(disk, file, (len, journal.old_len.min(journal.new_len)), record)?;
    }
    Ok(is_known)
}

/// Whether every byte of a file of `len` bytes that a record is about is as it was before the edit, or as it was to be after.
fn is_of<D: Disk>(disk: &D, file: &D::File, (len, shorter): (u64, u64), record: &Record) -> io::Result<bool> {
    let longest = record.before.len().max(record.after.len());
    let here = len.saturating_sub(record.at).min(longest as u64);
    let mut found = vec![0; usize::try_from(here).unwrap_or(0)]; // not more than the record
    disk.read(file, record.at, &mut found)?;
    // A file that grows has zeros there, until the bytes are written.
    let grows = usize::try_from(shorter.saturating_sub(record.at)).unwrap_or(usize::MAX);
    let is_known = |(n, byte): (usize, &u8)| {
        let known = [record.before.get(n), record.after.get(n)];
        known.contains(&Some(byte)) || (*byte == 0 && n >= grows)
    };
    Ok(found.iter().enumerate().all(is_known))
}

#[cfg(test)]
mod tests;
