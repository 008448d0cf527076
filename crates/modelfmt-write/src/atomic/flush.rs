//! Waiting until what was written is where it stays.

use std::fs::File;
use std::io;
use std::path::Path;

/// What is waited for when a file is complete, and when it appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// Its bytes, and then its name.
    Each,
    /// Nothing: those of all files of the folder are waited for at once.
    Together,
}

impl Flush {
    /// For many files, where the system can flush them together.
    pub(super) const OF_MANY: Self =
        if cfg!(all(target_os = "linux", feature = "syncfs")) { Self::Together } else { Self::Each };
}

/// Waits for the bytes of a file.
pub(super) fn bytes(file: &File) -> io::Result<()> {
    #[cfg(test)]
    count();
    file.sync_all()
}

/// Waits for the names in a folder.
#[cfg(unix)]
pub(super) fn names(folder: &Path) -> io::Result<()> {
    #[cfg(test)]
    count();
    // They have been given; file systems that cannot flush a folder say so, and nothing is wrong with the files.
    File::open(folder).and_then(|folder| folder.sync_all()).or(Ok(()))
}

#[cfg(not(unix))]
pub(super) fn names(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Waits for all that was written to the file system of a folder.
#[cfg(all(target_os = "linux", feature = "syncfs"))]
pub(super) fn all(folder: &Path) -> io::Result<()> {
    use rustix::io::Errno;
    #[cfg(test)]
    count();
    match rustix::fs::syncfs(File::open(folder)?) {
        // Where a sandbox does not let it.
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
    /// How often this thread has waited for the disk.
    pub(super) static COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn count() {
    COUNT.set(COUNT.get() + 1);
}
