//! What keeps edits of one file or set apart: a lock on the file that is changed, or beside which the journal of several stands.
//!
//! An edit that puts another file in its place locks that one before, and holds both until it is done. So whoever opens the path and gets a lock,
//! and finds that the path still leads to what is locked, is alone.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::disk::try_lock;
use super::overtaken::{busy, overtaken};
use super::remains::interrupted_by;
use modelfmt_core::source::FileVersion;

/// Other edits are kept away as long as this is kept.
#[derive(Debug)]
#[must_use = "other edits are kept away only as long as this is kept"]
pub struct EditLock {
    pub(super) file: File,
    /// Whether the file system has locks.
    pub(super) is_held: bool,
}

/// Locks a file that is to be changed.
///
/// # Errors
/// [`Overtaken`](super::Overtaken) if it is no longer the version `before`, or another edit of it was interrupted; others if another process is changing it, or it
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

/// Checks that the file is the version that an edit was made for. This happens under the lock, because another edit may have put a new file at this
/// path.
pub(super) fn expect_version(path: &Path, before: &FileVersion) -> io::Result<()> {
    if FileVersion::of(path)? == *before { Ok(()) } else { Err(overtaken(path)) }
}
