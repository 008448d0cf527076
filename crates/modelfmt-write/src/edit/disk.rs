//! The disk operations of an edit, as single steps, so that a test can stop between any two.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::conflict::busy;
use crate::{copy_range, create_draft, keep_draft, keep_permissions, link_new, write_all_at};
use modelfmt_core::source::folder_of;

/// A disk. Only flushed data survives a loss of power: the bytes and the length of a file after `flush`,
/// names after `flush_folder`.
pub(super) trait Disk {
    /// An open file.
    type File;

    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Returns the first bytes of a file, at most `len`; `None` if there is no regular file with that name.
    fn peek(&self, path: &Path, len: u64) -> io::Result<Option<Vec<u8>>>;

    /// Returns the names in the folder of a path.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Returns the length of a file.
    fn len(&self, file: &Self::File) -> io::Result<u64>;

    /// Reads bytes from offset `at` until `out` is full.
    fn read(&self, file: &Self::File, at: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of these bytes at offset `at`.
    fn write(&self, file: &Self::File, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Sets the length of a file.
    fn set_len(&self, file: &Self::File, len: u64) -> io::Result<()>;

    /// Flushes the bytes and the length of a file.
    fn flush(&self, file: &Self::File) -> io::Result<()>;

    /// Flushes the names in the folder of a path.
    fn flush_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Renames a file. Replaces a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file another name, at which no file may exist. The old name remains if the file system has
    /// hard links.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Returns the file that a path leads to, following links.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;

    /// Creates a new file, which only its owner may access, and locks it. A signal that ends the program
    /// removes it.
    fn create_draft(&self, path: &Path) -> io::Result<Self::File>;

    /// Keeps a draft even if a signal ends the program.
    fn keep_draft(&self, path: &Path);

    /// Locks a file, or fails if another process has locked it.
    fn lock(&self, file: &Self::File) -> io::Result<()>;

    /// Sets the modification time to a new value, so that every reader notices the change.
    fn touch(&self, file: &Self::File);

    /// Copies bytes from an offset of one file to an offset of another.
    fn copy(&self, from: (&Self::File, u64), to: (&Self::File, u64), len: u64) -> io::Result<()>;

    /// Gives a new file the permissions of an old one.
    fn keep_permissions(&self, old: &Self::File, new: &Self::File);
}

/// The real disk.
pub(super) struct RealDisk;

impl Disk for RealDisk {
    type File = File;

    fn open(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(path)
    }

    fn peek(&self, path: &Path, len: u64) -> io::Result<Option<Vec<u8>>> {
        if !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(len).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(folder_of(path))?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn len(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn read(&self, file: &File, at: u64, out: &mut [u8]) -> io::Result<()> {
        modelfmt_core::source::read_exact_at(file, at, out)
    }

    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        write_all_at(file, at, bytes)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn flush(&self, file: &File) -> io::Result<()> {
        // `sync_data` is enough: times need not be flushed.
        file.sync_data()
    }

    #[cfg(unix)]
    fn flush_folder(&self, path: &Path) -> io::Result<()> {
        match File::open(folder_of(path)).and_then(|folder| folder.sync_all()) {
            // A file system that cannot flush a folder says so, and nothing more can be done.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput) =>
            {
                Ok(())
            }
            flushed => flushed,
        }
    }

    #[cfg(not(unix))]
    fn flush_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        link_new(from, to).map(drop)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn create_draft(&self, path: &Path) -> io::Result<File> {
        create_draft(path)
    }

    fn keep_draft(&self, path: &Path) {
        keep_draft(path);
    }

    fn lock(&self, file: &File) -> io::Result<()> {
        try_lock(file).map(drop)
    }

    fn touch(&self, file: &File) {
        // The system's own file times may advance only every few milliseconds. A process that may write a
        // file may still not be allowed to set its times, so errors are ignored.
        let _ = file.set_modified(SystemTime::now());
    }

    fn copy(&self, (from, at): (&File, u64), (to, place): (&File, u64), len: u64) -> io::Result<()> {
        copy_range((from, at), (to, place), len)
    }

    fn keep_permissions(&self, old: &File, new: &File) {
        if let Ok(old) = old.metadata() {
            keep_permissions(new, &old);
            let _ = new.sync_all(); // `flush` does not cover permissions
        }
    }
}

/// Locks an open file. Returns false if the file system has no locks.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Err(busy()),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Only a system that cannot flush a folder is forgiven: a journal counts on its name.
    #[test]
    fn a_folder_that_is_not_flushed_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        RealDisk.flush_folder(&folder.path().join("m")).unwrap();
        let error = RealDisk.flush_folder(&folder.path().join("missing/m")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        #[cfg(target_os = "linux")]
        RealDisk.flush_folder(Path::new("/proc/m")).unwrap(); // it has nothing that could be flushed
    }
}
