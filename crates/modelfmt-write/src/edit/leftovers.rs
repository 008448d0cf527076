//! Finds the files that a running or interrupted edit has left next to a file.

use std::io;
use std::path::{Path, PathBuf};

use super::conflict::{busy, conflict};
use super::disk::{Disk, RealDisk};
use super::journal::{HEAD_LEN, Head};
use super::mark::{MAX_MARK, Mark};
use super::names::{is_same_path, journal_path, target_of};

/// Returns whether an edit of this file was interrupted, alone or as one of several files. Then there is a
/// journal, with which [`recover`](super::recover()) undoes or completes the edit.
#[must_use]
pub fn is_interrupted(path: &Path) -> bool {
    interrupted_by(path).is_some()
}

/// Returns the path of the journal if an edit of this file [was interrupted](is_interrupted).
#[must_use]
pub fn interrupted_by(path: &Path) -> Option<PathBuf> {
    match find_leftover(&RealDisk, path) {
        (home, Leftover::Journal) => Some(journal_path(&home)),
        _ => None,
    }
}

/// The kind of file that an edit has left next to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    Nothing,
    /// A journal.
    Journal,
    /// An empty file, which has no effect.
    Empty,
    /// A mark without its journal: the edit has not begun, or is done.
    Mark,
}

/// Returns what an edit has left, and the file next to which its journal is or would be.
pub(super) fn find_leftover<D: Disk>(disk: &D, path: &Path) -> (PathBuf, Leftover) {
    match leftover_at(disk, path) {
        (_, Leftover::Nothing) if path.is_symlink() => leftover_at(disk, &target_of(path)),
        found => found,
    }
}

/// Like [`find_leftover`], but does not follow links.
pub(super) fn leftover_at<D: Disk>(disk: &D, path: &Path) -> (PathBuf, Leftover) {
    let own = |leftover| (path.to_owned(), leftover);
    let bytes = match disk.peek(&journal_path(path), MAX_MARK) {
        Ok(None) => return own(Leftover::Nothing),
        Ok(Some(bytes)) if bytes.is_empty() => return own(Leftover::Empty),
        Ok(Some(bytes)) => bytes,
        Err(_) => return own(Leftover::Journal), // a file that cannot be read is treated as a journal
    };
    let Some(mark) = Mark::decode(&bytes) else { return own(Leftover::Journal) };
    let index = mark.index(path);
    let is_live = match disk.peek(&journal_path(&index), HEAD_LEN as u64) {
        Ok(head) => head.and_then(|head| Head::decode(&head)).is_some_and(|head| head.id == mark.id),
        Err(_) => true,
    };
    (index, if is_live { Leftover::Journal } else { Leftover::Mark })
}

/// Removes a file without effect that has the name of a mark or journal.
pub(super) fn make_room<D: Disk>(disk: &D, path: &Path, home: &Path) -> io::Result<()> {
    let place = journal_path(path);
    let (index, leftover) = leftover_at(disk, path);
    let _lock = match leftover {
        Leftover::Nothing => return Ok(()),
        Leftover::Journal => return Err(conflict(path)),
        Leftover::Empty => None,
        Leftover::Mark if is_same_path(&index, home) => None,
        // The mark belongs to an edit with another index, which is running, or was interrupted before it
        // began.
        Leftover::Mark => match disk.open(&index) {
            Ok(file) => {
                disk.lock(&file).map_err(|_| busy())?;
                Some(file)
            }
            Err(_) => None,
        },
    };
    disk.remove(&place)
}
