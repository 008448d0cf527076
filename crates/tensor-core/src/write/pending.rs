//! The temporary files of this process, for a program that a signal ends while it writes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static PENDING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn pending() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a temporary file, which is known from then on.
pub(super) fn begin<T>(path: &Path, create: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut files = pending();
    let created = create()?;
    files.insert(path.to_owned());
    Ok(created)
}

/// Removes a temporary file or gives it its name; if that fails, it is still known.
pub(super) fn end(path: &Path, done: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut files = pending();
    done()?;
    files.remove(path);
    Ok(())
}

/// No writer of this process creates or completes a file while this is kept.
#[derive(Debug)]
#[must_use = "writers go on as soon as this is dropped"]
pub struct Halted(
    #[expect(dead_code, reason = "it is kept for its lock")] MutexGuard<'static, BTreeSet<PathBuf>>,
);

/// Removes the temporary files of every [`AtomicFile`](super::AtomicFile) of this process, for a program that is about to
/// end without unwinding, as on a signal. Writers that would create or complete a file wait as long as the result is kept;
/// one that goes on afterwards finds its file gone, which is an error. Paths are taken as they were given: a program that has
/// changed its working directory since then must have given absolute ones.
pub fn remove_unfinished() -> Halted {
    let mut files = pending();
    for path in std::mem::take(&mut *files) {
        // Nothing more can be done about one that stays: the process ends.
        let _ = fs::remove_file(path);
    }
    Halted(files)
}
