//! What keeps edits of one file or set apart: a lock on the file that is changed, or beside which the journal of several stands.
//!
//! An edit that puts another file in its place locks that one before, and holds both until it is done. So whoever opens the path and gets a lock,
//! and finds that the path still leads to what is locked, is alone.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::recover::interrupted_by;
use crate::source::FileVersion;

/// Other edits are kept away as long as this is kept.
#[derive(Debug)]
#[must_use = "other edits are kept away only as long as this is kept"]
pub struct EditLock {
    pub(super) file: File,
    /// Whether the file system has locks.
    pub(super) is_held: bool,
}

/// Another edit, or another program, was in between: what an edit was prepared for is no longer there, and it has changed nothing.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} has been changed since the edit was prepared, by another edit or another program. This edit has changed nothing, and the \
     file is as the other one left it; edit it again",
    path.display()
)]
pub struct Overtaken {
    /// The file that was changed.
    pub path: PathBuf,
}

impl Overtaken {
    /// Whether this is why something could not be written.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

pub(super) fn overtaken(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, Overtaken { path: path.to_owned() })
}

/// The name of a journal or mark was free, and is not any more: where the file system has no locks.
pub(super) fn or_overtaken(error: io::Error, path: &Path) -> io::Error {
    if error.kind() == io::ErrorKind::AlreadyExists { overtaken(path) } else { error }
}

pub(super) fn busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process is changing it; wait until it is done")
}

/// Locks a file that is to be changed.
///
/// # Errors
/// [`Overtaken`] if it is no longer the version `before`, or another edit of it was interrupted; others if another process is changing it, or it
/// cannot be opened to be written.
pub fn hold(path: &Path, before: &FileVersion) -> io::Result<EditLock> {
    let lock = lock(path)?;
    // What is locked has to be that version. The path leads to it, which `lock` has looked at.
    if FileVersion::from_metadata(&lock.file.metadata()?) != *before || interrupted_by(path).is_some() {
        return Err(overtaken(path));
    }
    Ok(lock)
}

/// Locks the file at a path.
pub(super) fn lock(path: &Path) -> io::Result<EditLock> {
    const ATTEMPTS: usize = 16;
    for _ in 0..ATTEMPTS {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let is_held = try_lock(&file)?;
        // Between open and lock another edit may have put a new file there.
        if FileVersion::of(path)? == FileVersion::from_metadata(&file.metadata()?) {
            return Ok(EditLock { file, is_held });
        }
    }
    Err(busy())
}

/// Locks an open file; whether the file system has locks.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Err(busy()),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Checks that the file is the version that an edit was made for. This happens under the lock, because another edit may have put a new file at this
/// path.
pub(super) fn expect_version(path: &Path, before: &FileVersion) -> io::Result<()> {
    if FileVersion::of(path)? == *before { Ok(()) } else { Err(overtaken(path)) }
}
