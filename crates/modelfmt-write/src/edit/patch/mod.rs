//! Edits of a single file in place.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;

use super::disk::{Disk, RealDisk};
use super::guarded::{self, Change, Old};
use super::lock::hold;
use super::names::{expect_one_name, target_of};
use super::new_file::{NewFile, Patch};
use super::recover::clear_leftovers;
use modelfmt_core::source::FileVersion;

/// The size in bytes of an aligned block within which a write reaches the disk as a whole or not at all: one
/// page of the system, and one sector of today's disks.
const ATOMIC: u64 = 4096;

/// Changes a file in place into `new`, which must [keep every byte at its place](NewFile::is_in_place).
/// Returns the number of bytes written, not counting the journal.
///
/// A change that takes more than one write of a page is guarded by a journal next to the file, `NAME.modelfmt-undo`. If the
/// change is interrupted, the journal undoes it.
///
/// # Errors
/// If the file cannot be read or written, or another process is changing it; if it needs a journal and has
/// other names (hard links), at which no reader would notice the journal;
/// [`EditConflict`](super::EditConflict) if it is no longer the version `before` that `new` was made for, or
/// has a journal: then call [`recover`](super::recover()) first. After an error the file is unchanged, unless
/// there is a journal.
pub fn patch(path: &Path, new: &NewFile, before: &FileVersion) -> io::Result<u64> {
    let lock = hold(path, before)?;
    let old = Old { disk: &RealDisk, file: &lock.file, len: lock.file.metadata()?.len() };
    let patches = patches_of(&old, new)?;
    let nbytes = patches.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    apply(&old, &target_of(path), new, patches, lock.is_held)?;
    Ok(nbytes)
}

/// Checks whether [`patch`] would refuse a file because of its names or its content.
///
/// # Errors
/// If the file cannot be opened, or the change cannot be made in place.
pub fn check_patch(path: &Path, new: &NewFile) -> io::Result<()> {
    let file = File::open(path)?;
    let old = Old { disk: &RealDisk, len: file.metadata()?.len(), file: &file };
    patches_of(&old, new).map(drop)
}

/// Returns the patches that turn a file into `new`.
fn patches_of<'a>(old: &Old<'_, RealDisk>, new: &'a NewFile) -> io::Result<Vec<Patch<'a>>> {
    let moves = || io::Error::new(io::ErrorKind::InvalidInput, "bytes that are kept would move");
    let patches = new.patches(old)?.ok_or_else(moves)?;
    if needs_journal(&patches, (old.len, new.len())) {
        expect_one_name(&old.file.metadata()?)?;
    }
    Ok(patches)
}

/// Returns whether a change takes more than one write of a page.
fn needs_journal(patches: &[Patch<'_>], (old_len, new_len): (u64, u64)) -> bool {
    old_len != new_len || patches.first().is_some_and(|(at, _)| !is_atomic(*at..end_of(patches)))
}

/// Returns the end of the last patch.
fn end_of(patches: &[Patch<'_>]) -> u64 {
    patches.last().map_or(0, |(at, bytes)| at.saturating_add(bytes.len() as u64))
}

/// Writes the patches, guarded by a journal if necessary.
fn apply<D: Disk>(
    old: &Old<'_, D>,
    path: &Path,
    new: &NewFile,
    patches: Vec<Patch<'_>>,
    is_held: bool,
) -> io::Result<()> {
    if (patches.is_empty() && new.len() == old.len) || write_page(old, &patches, new.len())? {
        return Ok(());
    }
    if is_held {
        clear_leftovers(old.disk, path);
    }
    let change = Change { name: "", new, patches: Some(patches) };
    guarded::apply(old.disk, path, &[change], &|_| true, &|| Ok(()))
}

/// Writes the patches with a single write if they are within one page. Returns whether it wrote them.
pub(super) fn write_page<D: Disk>(old: &Old<'_, D>, patches: &[Patch<'_>], new_len: u64) -> io::Result<bool> {
    let Old { disk, file, len } = *old;
    if new_len != len {
        return Ok(false);
    }
    let Some((at, bytes)) = within_a_page(disk, file, patches)? else { return Ok(false) };
    disk.write(file, at, &bytes)?;
    disk.touch(file);
    disk.flush(file)?;
    Ok(true)
}

/// Merges all patches, in ascending order, into one write that includes the bytes between them. `None` if
/// they are not within one page.
fn within_a_page<'a, D: Disk>(
    disk: &D,
    file: &D::File,
    patches: &[Patch<'a>],
) -> io::Result<Option<(u64, Cow<'a, [u8]>)>> {
    let (Some(&(at, _)), Some(&(last, bytes))) = (patches.first(), patches.last()) else { return Ok(None) };
    let end = end_of(patches);
    if !is_atomic(at..end) {
        return Ok(None);
    }
    if patches.len() == 1 {
        return Ok(Some((last, Cow::Borrowed(bytes)))); // there are no bytes between patches
    }
    let within = |place: u64| usize::try_from(place.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut page = vec![0; within(end)]; // at most a page
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

#[cfg(test)]
mod tests;
