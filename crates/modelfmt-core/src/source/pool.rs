//! A pool of files, only some of which are open at a time: a set may have more files than a process may open.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::FileId;

/// The maximum number of files that a pool keeps open: so few that a process that may open 64 files can
/// compare two sets.
const MAX_OPEN: usize = 16;

/// The open files, the most recently read last.
#[derive(Debug, Default)]
pub(super) struct Pool {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The number that the next file gets.
    next: u64,
    files: VecDeque<(u64, Arc<File>)>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn get(&mut self, number: u64) -> Option<Arc<File>> {
        let at = self.files.iter().position(|&(other, _)| other == number)?;
        let found = self.files.remove(at)?;
        let file = Arc::clone(&found.1);
        self.files.push_back(found);
        Some(file)
    }

    fn put(&mut self, number: u64, file: Arc<File>) {
        if self.files.iter().any(|&(other, _)| other == number) {
            return; // another thread has opened it too
        }
        self.files.push_back((number, file));
        while self.files.len() > MAX_OPEN {
            self.files.pop_front();
        }
    }
}

/// A file of a [`Pool`].
#[derive(Debug)]
pub(super) struct Pooled {
    pool: Arc<Pool>,
    number: u64,
    path: PathBuf,
    version: FileVersion,
}

/// The properties that show whether a file has changed: its identity, its length, and its modification time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    id: Option<FileId>,
    len: u64,
    modified: Option<SystemTime>,
}

impl FileVersion {
    /// Returns the current version of the file at `path`.
    ///
    /// # Errors
    /// If the system cannot read the file's metadata.
    pub fn of(path: impl AsRef<Path>) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::from_metadata(&metadata))
    }

    /// Returns the version of the file with this metadata.
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> Self {
        Self { id: FileId::from_metadata(metadata), len: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl Pooled {
    pub(super) fn new(pool: &Arc<Pool>, path: PathBuf, file: File, metadata: &Metadata) -> Self {
        let mut open = pool.lock();
        let number = open.next;
        open.next += 1;
        open.put(number, Arc::new(file));
        Self { pool: Arc::clone(pool), number, path, version: FileVersion::from_metadata(metadata) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn version(&self) -> &FileVersion {
        &self.version
    }

    /// Returns whether the file has not changed since it was opened.
    pub(super) fn is_unchanged(&self) -> bool {
        self.with(|file| Ok(FileVersion::from_metadata(&file.metadata()?) == self.version)).unwrap_or(false)
    }

    /// Calls `act` with the open file.
    pub(super) fn with<T>(&self, act: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        // A file in use stays open, even if others are read at the same time.
        let known = self.pool.lock().get(self.number);
        let file = match known {
            Some(file) => file,
            None => self.again()?,
        };
        act(&file)
    }

    fn again(&self) -> io::Result<Arc<File>> {
        let file = File::open(&self.path)?;
        if FileVersion::from_metadata(&file.metadata()?) != self.version {
            return Err(io::Error::other("the file was changed or replaced while it was in use"));
        }
        let file = Arc::new(file);
        self.pool.lock().put(self.number, Arc::clone(&file));
        Ok(file)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.pool.lock().files.retain(|&(number, _)| number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Files as _, Folder, Source as _, contract_test};
    use super::*;

    #[test]
    fn many_files_are_read_and_few_are_open() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::new(folder.path());
        let name = |n: u8| format!("{n}");
        for n in 0..100 {
            std::fs::write(folder.path().join(name(n)), [n; 10]).unwrap();
        }
        let sources: Vec<_> = (0..100).map(|n| files.open(&name(n)).unwrap()).collect();
        let open = || files.pool().lock().files.len();
        for _ in 0..2 {
            for (n, source) in (0..100).zip(&sources) {
                assert_eq!(*source.read(0..10).unwrap(), [n; 10]);
                assert!(open() <= MAX_OPEN);
            }
        }
        contract_test(&sources[3], &[3; 10]).unwrap();
        // A closed file must be unchanged when it is opened again; an open file is still read.
        for n in [0, 99] {
            std::fs::remove_file(folder.path().join(name(n))).unwrap();
            std::fs::write(folder.path().join(name(n)), [7; 10]).unwrap();
        }
        assert!(sources[0].read(0..1).unwrap_err().to_string().contains("replaced"));
        assert_eq!(*sources[99].read(0..1).unwrap(), [99]);
        drop(sources);
        assert_eq!(open(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn two_paths_to_a_file_have_its_identity() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), b"x").unwrap();
        std::fs::write(folder.path().join("c"), b"x").unwrap();
        std::fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        let id = |name: &str| Folder::new(folder.path()).open(name).unwrap().id();
        assert!(id("a").is_some() && id("a") == id("b") && id("a") != id("c"));
    }
}
