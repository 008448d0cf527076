//! What a running or interrupted edit has left next to a file.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::{Disk, RealDisk};
use super::journal::{HEAD_LEN, Head};
use super::mark::{MAX_MARK, Mark};
use super::names::{is_same_path, journal_path, target_of};
use super::overtaken::{busy, overtaken};

/// Whether an edit of this file was interrupted, alone or as one of several files: there is a journal, with which
/// [`recover`](super::recover()) undoes or completes it.
#[must_use]
pub fn is_interrupted(path: &Path) -> bool {
    interrupted_by(path).is_some()
}

/// The path of the journal, if an edit of this file [was interrupted](is_interrupted).
#[must_use]
pub fn interrupted_by(path: &Path) -> Option<PathBuf> {
    match left(&RealDisk, path) {
        (home, Left::Journal) => Some(journal_path(&home)),
        _ => None,
    }
}

/// What an edit has left next to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// A journal.
    Journal,
    /// An empty file, which has no effect.
    Empty,
    /// A mark that leads to no journal: its edit has not begun, or is done.
    Mark,
}

/// What is left of an edit, and the file next to which its journal is or would be.
pub(super) fn left<D: Disk>(disk: &D, path: &Path) -> (PathBuf, Left) {
    match left_beside(disk, path) {
        (_, Left::Nothing) if path.is_symlink() => left_beside(disk, &target_of(path)),
        left => left,
    }
}

/// The same, for a path that is not a link.
pub(super) fn left_beside<D: Disk>(disk: &D, path: &Path) -> (PathBuf, Left) {
    let own = |left| (path.to_owned(), left);
    let bytes = match disk.look(&journal_path(path), MAX_MARK) {
        Ok(None) => return own(Left::Nothing),
        Ok(Some(bytes)) if bytes.is_empty() => return own(Left::Empty),
        Ok(Some(bytes)) => bytes,
        Err(_) => return own(Left::Journal), // one that cannot be read is taken for a journal
    };
    let Some(mark) = Mark::decode(&bytes) else { return own(Left::Journal) };
    let index = mark.index(path);
    let is_live = match disk.look(&journal_path(&index), HEAD_LEN as u64) {
        Ok(head) => head.and_then(|head| Head::decode(&head)).is_some_and(|head| head.id == mark.id),
        Err(_) => true,
    };
    (index, if is_live { Left::Journal } else { Left::Mark })
}

/// Removes a file without effect from the place of a mark or journal.
pub(super) fn make_room<D: Disk>(disk: &D, path: &Path, home: &Path) -> io::Result<()> {
    let place = journal_path(path);
    let (index, left) = left_beside(disk, path);
    let _lock = match left {
        Left::Nothing => return Ok(()),
        Left::Journal => return Err(overtaken(path)),
        Left::Empty => None,
        Left::Mark if is_same_path(&index, home) => None,
        // The mark of an edit by another index, which is running, or was interrupted before it had begun.
        Left::Mark => match disk.open(&index) {
            Ok(file) => {
                disk.lock(&file).map_err(|_| busy())?;
                Some(file)
            }
            Err(_) => None,
        },
    };
    disk.remove(&place)
}
