//! Memory maps. This is the only module of the library that contains `unsafe`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;

use super::Source;
use tensor_core::Bytes;

/// A file mapped into memory. Reading it copies nothing.
#[derive(Debug)]
pub struct Mmap(Option<memmap2::Mmap>);

impl Mmap {
    /// Maps a regular file.
    ///
    /// # Safety
    /// A map shows the changes that other processes make to the file. While the map exists, no process may
    /// write to the file or shorten it: a write changes bytes behind a `&[u8]`, and a read past the new end
    /// terminates the process with SIGBUS. Rust cannot check this; the caller must guarantee it.
    ///
    /// # Errors
    /// If the file cannot be opened or mapped, or is not a regular file.
    pub unsafe fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        // SAFETY: this function has the same contract, which its caller guarantees.
        unsafe { Self::new(&file) }
    }

    /// Maps an open file. An empty file gives an empty map.
    ///
    /// # Safety
    /// No process may change or shorten the file while the map exists: see [`Mmap::open`].
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub unsafe fn new(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Self(None)); // mmap(2) refuses a length of zero
        }
        // SAFETY: this function has the same contract, which its caller guarantees.
        Ok(Self(Some(unsafe { memmap2::Mmap::map(file)? })))
    }
}

impl Deref for Mmap {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Source for Mmap {
    fn len(&self) -> u64 {
        Source::len(&**self)
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        (**self).read_into(offset, out)
    }
    fn read(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        (**self).read(range)
    }
    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }
    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}
