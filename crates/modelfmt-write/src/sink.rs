//! Outputs that bytes are written to.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Accepts bytes at any offset, from several threads. Bytes that are never written are zero.
pub trait Sink: Sync {
    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// If the bytes cannot be written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns the name of the sink for error messages.
    fn name(&self) -> String {
        "the output".to_owned()
    }
}

impl<S: Sink + ?Sized> Sink for &S {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (**self).write_at(offset, bytes)
    }
    fn name(&self) -> String {
        (**self).name()
    }
}

/// A sink for a file that appears under its name only when it is complete. No method has a default: a wrapper
/// that forgot to forward one would silently lose the file, or keep an old one.
pub trait Output: Sink + Sized {
    /// Fills `out` with bytes that have been written, from `offset` on, for hashes that need all bytes in
    /// order. The file must have been created by [`NewFiles::create_to_read_back`].
    ///
    /// # Errors
    /// If the bytes cannot be read, or there are too few.
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Flushes the bytes to the disk, so that errors occur before the file appears. Releases what is only
    /// needed for writing, such as a descriptor. Nothing may be written or read afterwards.
    ///
    /// # Errors
    /// If the bytes cannot be flushed.
    fn finish(&mut self) -> io::Result<()>;

    /// Removes the file that this one will replace, if there is one.
    ///
    /// # Errors
    /// If the old file cannot be removed.
    fn remove_old(&self) -> io::Result<()>;

    /// Lets the file appear. Calls [`finish`](Self::finish) first if it was not called yet. A file that is
    /// dropped without `commit` leaves nothing behind.
    ///
    /// # Errors
    /// If the file cannot appear. Nothing is left behind then either.
    fn commit(self) -> io::Result<()>;
}

/// Whether an existing file may be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Keep the existing file and fail.
    #[default]
    Refuse,
    /// Replace it once the new file is complete.
    Replace,
}

/// Creates the files of a set, by paths relative to the set's folder.
pub trait NewFiles {
    /// The type of a new file.
    type Output: Output;

    /// Checks whether a file could be created now, so that an existing file is reported before hours of work.
    ///
    /// # Errors
    /// If the path is not allowed, or a file exists there and may not be replaced.
    fn check(&self, path: &str) -> io::Result<()>;

    /// Begins a new file.
    ///
    /// # Errors
    /// If the file cannot be created, or exists and may not be replaced.
    fn create(&self, path: &str) -> io::Result<Self::Output>;

    /// Begins a new file that is [read back](Output::read_back) before it is complete. By default this calls
    /// [`create`](Self::create). Implementations that cannot read what they have sent keep a copy until the
    /// file is complete.
    ///
    /// # Errors
    /// If the file cannot be created, or exists and may not be replaced.
    fn create_to_read_back(&self, path: &str) -> io::Result<Self::Output> {
        self.create(path)
    }
}

impl<N: NewFiles> NewFiles for &N {
    type Output = N::Output;
    fn check(&self, path: &str) -> io::Result<()> {
        (**self).check(path)
    }
    fn create(&self, path: &str) -> io::Result<Self::Output> {
        (**self).create(path)
    }
    fn create_to_read_back(&self, path: &str) -> io::Result<Self::Output> {
        (**self).create_to_read_back(path)
    }
}

/// A file in memory.
#[derive(Debug, Default)]
pub struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    home: Option<(String, MemoryFolder)>,
}

impl MemoryFile {
    /// Creates an empty file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes that have been written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let start = usize::try_from(offset).map_err(|_| out_of_memory())?;
        let end = start.checked_add(bytes.len()).ok_or_else(out_of_memory)?;
        let mut file = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if file.len() < end {
            let more = end - file.len();
            file.try_reserve(more).map_err(|_| out_of_memory())?;
            file.resize(end, 0);
        }
        file.get_mut(start..end).ok_or_else(out_of_memory)?.copy_from_slice(bytes);
        Ok(())
    }
}

impl Output for MemoryFile {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let file = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        modelfmt_core::Source::read_into(&*file, offset, out)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn remove_old(&self) -> io::Result<()> {
        if let Some((path, folder)) = &self.home {
            folder.0.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
        }
        Ok(())
    }

    fn commit(mut self) -> io::Result<()> {
        if let Some((path, folder)) = self.home.take() {
            let bytes = self.into_bytes();
            folder.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path, bytes.into());
        }
        Ok(())
    }
}

/// The files of a set in memory. Clones share the files.
#[derive(Clone, Debug, Default)]
pub struct MemoryFolder(Arc<Mutex<BTreeMap<String, Arc<[u8]>>>>);

impl MemoryFolder {
    /// Returns the complete files by path.
    #[must_use]
    pub fn files(&self) -> modelfmt_core::source::MemoryFiles {
        modelfmt_core::source::MemoryFiles(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl NewFiles for MemoryFolder {
    type Output = MemoryFile;

    fn check(&self, path: &str) -> io::Result<()> {
        modelfmt_core::source::check_relative(path)
            .map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))
    }

    fn create(&self, path: &str) -> io::Result<MemoryFile> {
        self.check(path)?;
        Ok(MemoryFile { home: Some((path.to_owned(), self.clone())), ..MemoryFile::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_takes_bytes_in_any_order() {
        let file = MemoryFile::new();
        file.write_at(4, b"ef").unwrap();
        file.write_at(0, b"ab").unwrap();
        let mut back = [0; 3];
        file.read_back(3, &mut back).unwrap();
        assert_eq!(&back, b"\0ef");
        assert!(file.read_back(4, &mut back).is_err());
        assert_eq!(file.into_bytes(), b"ab\0\0ef");
    }

    #[test]
    fn files_of_a_folder_appear_when_complete() {
        let folder = MemoryFolder::default();
        let (a, b) = (folder.create("a").unwrap(), folder.create("b").unwrap());
        a.write_at(0, b"x").unwrap();
        a.commit().unwrap();
        drop(b);
        assert_eq!(folder.files().0.keys().collect::<Vec<_>>(), ["a"]);
        assert!(folder.create("../c").is_err());
    }
}
