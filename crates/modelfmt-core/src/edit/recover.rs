//! Undoes or completes an edit that was interrupted.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::disk::{Disk, RealDisk};
use super::group::{self, MAX_MARK, marked};
use super::journal::{journal_path, target_of};
use super::patch::{Recovered, lock, not_begun, read_all, undo};
use super::several::redo;

/// Whether an edit of this file was interrupted, by itself or as one of several: there is a journal, with which [`recover`] undoes or completes it.
#[must_use]
pub fn is_interrupted(path: &Path) -> bool {
    interrupted_by(path).is_some()
}

/// The journal of an edit of this file that [was interrupted](is_interrupted).
#[must_use]
pub fn interrupted_by(path: &Path) -> Option<PathBuf> {
    match left(path) {
        Left::Journal(path) => Some(journal_path(&path)),
        Left::Nothing | Left::Mark => None,
    }
}

/// The remains of an edit beside a file.
enum Left {
    Nothing,
    /// A journal, beside this file.
    Journal(PathBuf),
    /// A mark that leads to no journal: nothing had begun, or all is done.
    Mark,
}

fn left(path: &Path) -> Left {
    match left_beside(path) {
        Left::Nothing if path.is_symlink() => left_beside(&target_of(path)),
        left => left,
    }
}

fn left_beside(path: &Path) -> Left {
    let is_file = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let place = journal_path(path);
    if !is_file(&place) {
        return Left::Nothing;
    }
    let mut mark = Vec::new();
    // A file that cannot be read is taken for a journal.
    let _ = File::open(&place).and_then(|file| file.take(MAX_MARK).read_to_end(&mut mark));
    match marked(path, &mark) {
        Some(index) if is_file(&journal_path(&index)) => Left::Journal(index),
        Some(_) => Left::Mark,
        None => Left::Journal(path.to_owned()),
    }
}

/// Undoes an interrupted edit of a file, if there was one; an interrupted edit of several files is completed. Call this before you open a file to
/// change it.
///
/// # Errors
/// If a file or the journal cannot be read or written, another process is changing it, or the file is not the one that the
/// journal is about.
pub fn recover(path: &Path) -> io::Result<Recovered> {
    match left(path) {
        Left::Nothing => Ok(Recovered::Nothing),
        Left::Mark => std::fs::remove_file(journal_path(path)).map(|()| Recovered::Nothing),
        Left::Journal(path) => {
            let _lock = lock(&path)?;
            set_right(&RealDisk, &path)
        }
    }
}

/// Undoes the edit in the journal of a file, or completes the edit in the journal of several files.
pub(super) fn set_right<D: Disk>(disk: &D, path: &Path) -> io::Result<Recovered> {
    let is_group = read_all(disk, &journal_path(path))?.starts_with(group::MAGIC);
    match is_group {
        true => redo(disk, path),
        false if path.is_symlink() => not_begun(disk, path), // its journal would be beside the file that the link leads to
        false => undo(disk, path),
    }
}
