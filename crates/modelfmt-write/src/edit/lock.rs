//! Locks that keep edits of one file or set apart. An edit locks the file that it changes. If it changes
//! several files, it locks the file next to their journal.
//!
//! An edit that replaces that file locks the new file before the rename, and holds both locks until it is
//! done. So if you open the path, get a lock, and then find that the path still leads to the locked file, no
//! other edit is running.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::conflict::{busy, conflict};
use super::disk::try_lock;
use super::leftovers::interrupted_by;
use modelfmt_core::source::FileVersion;

/// Keeps other edits away until it is dropped.
#[derive(Debug)]
#[must_use = "other edits are kept away only as long as this is kept"]
pub struct EditLock {
    pub(super) file: File,
    /// Whether the lock is held. It is not if the file system has no locks.
    pub(super) is_held: bool,
}

/// Locks a file for an edit.
///
/// # Errors
/// [`EditConflict`](super::EditConflict) if the file is no longer the version `before`, or another edit of it
/// was interrupted; other errors if another process is changing it, or it cannot be opened for writing.
pub fn hold(path: &Path, before: &FileVersion) -> io::Result<EditLock> {
    let lock = lock(path)?;
    // The locked file must be that version. `lock` has checked that the path still leads to it.
    if FileVersion::from_metadata(&lock.file.metadata()?) != *before || interrupted_by(path).is_some() {
        return Err(conflict(path));
    }
    Ok(lock)
}

/// Locks the file at a path.
pub(super) fn lock(path: &Path) -> io::Result<EditLock> {
    const ATTEMPTS: usize = 16;
    for _ in 0..ATTEMPTS {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let is_held = try_lock(&file)?;
        // Between `open` and the lock, another edit may have put a new file there.
        if FileVersion::of(path)? == FileVersion::from_metadata(&file.metadata()?) {
            return Ok(EditLock { file, is_held });
        }
    }
    Err(busy())
}

/// Checks that the file is the version that an edit was made for. Call this under the lock, because another
/// edit may have put a new file at this path.
pub(super) fn expect_version(path: &Path, before: &FileVersion) -> io::Result<()> {
    if FileVersion::of(path)? == *before { Ok(()) } else { Err(conflict(path)) }
}
