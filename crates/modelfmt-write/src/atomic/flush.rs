//! Flushes files and folders: waits until written data is on the disk.

use std::fs::File;
use std::io;
use std::path::Path;

/// When a file is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// Each file by itself: its bytes when it is complete, and then its name.
    Each,
    /// All files of the folder together, not each by itself.
    Together,
}

impl Flush {
    /// The choice for many files: together, where the system supports it.
    pub(super) const OF_MANY: Self =
        if cfg!(all(target_os = "linux", feature = "syncfs")) { Self::Together } else { Self::Each };
}

/// Flushes the bytes of a file.
pub(super) fn bytes(file: &File) -> io::Result<()> {
    #[cfg(test)]
    count();
    file.sync_all()
}

/// Flushes the names in a folder.
#[cfg(unix)]
pub(super) fn names(folder: &Path) -> io::Result<()> {
    #[cfg(test)]
    count();
    // The names are written already. A file system that cannot flush a folder reports an error, but the files are fine.
    File::open(folder).and_then(|folder| folder.sync_all()).or(Ok(()))
}

#[cfg(not(unix))]
pub(super) fn names(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Flushes everything that was written to the file system of a folder.
#[cfg(all(target_os = "linux", feature = "syncfs"))]
pub(super) fn all(folder: &Path) -> io::Result<()> {
    use rustix::io::Errno;
    #[cfg(test)]
    count();
    match rustix::fs::syncfs(File::open(folder)?) {
        // A sandbox may forbid `syncfs`; `sync` flushes all file systems.
        Err(Errno::NOSYS | Errno::PERM) => {
            rustix::fs::sync();
            Ok(())
        }
        done => Ok(done?),
    }
}

#[cfg(not(all(target_os = "linux", feature = "syncfs")))]
pub(super) fn all(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
thread_local! {
    /// The number of flushes by this thread.
    pub(super) static COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn count() {
    COUNT.set(COUNT.get() + 1);
}
