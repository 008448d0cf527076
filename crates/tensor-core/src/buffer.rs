//! Bytes in memory: borrowed, or owned and aligned for every element type.

use std::collections::TryReserveError;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

/// The alignment of [`AlignedBuf`] in bytes: a cache line, enough for every element type and for vector
/// loads.
pub const ALIGNMENT: usize = 64;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

/// An owned buffer of bytes. Its address is a multiple of 64.
#[derive(Clone, Default)]
pub struct AlignedBuf {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedBuf {
    /// Creates a buffer of `len` zero bytes.
    ///
    /// # Errors
    /// An [`io::ErrorKind::OutOfMemory`] error if the memory cannot be allocated.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        let lines = bytemuck::allocation::try_zeroed_vec(len.div_ceil(ALIGNMENT)).map_err(|()| {
            io::Error::new(io::ErrorKind::OutOfMemory, format!("cannot allocate {len} bytes"))
        })?;
        Ok(Self { lines, len })
    }

    /// Creates a buffer that holds a copy of `bytes`.
    ///
    /// # Errors
    /// An error if the memory cannot be allocated.
    pub fn copy_from_slice(bytes: &[u8]) -> io::Result<Self> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Changes the length to `len` bytes. Bytes that stay keep their values; added bytes are zero or hold
    /// what the buffer held there before.
    ///
    /// # Errors
    /// An error if the memory cannot be allocated.
    pub fn resize(&mut self, len: usize) -> Result<(), TryReserveError> {
        let lines = len.div_ceil(ALIGNMENT);
        self.lines.try_reserve(lines.saturating_sub(self.lines.len()))?;
        self.lines.resize(lines, Line([0; ALIGNMENT]));
        self.len = len;
        Ok(())
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        bytemuck::cast_slice(&self.lines).get(..self.len).unwrap_or_default()
    }

    /// Returns the bytes for modification.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.lines).get_mut(..self.len).unwrap_or_default()
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

/// Bytes of a tensor or a file: borrowed if they are in memory already, owned if they had to be read or
/// decoded.
#[derive(Clone)]
pub enum Bytes<'a> {
    /// A slice of memory with another owner.
    Borrowed(&'a [u8]),
    /// A separate buffer.
    Owned(AlignedBuf),
}

impl Bytes<'_> {
    /// Returns the bytes as an owned buffer, copied if they were borrowed.
    ///
    /// # Errors
    /// An error if the memory cannot be allocated.
    pub fn into_owned(self) -> io::Result<AlignedBuf> {
        match self {
            Self::Borrowed(bytes) => AlignedBuf::copy_from_slice(bytes),
            Self::Owned(buffer) => Ok(buffer),
        }
    }

    /// Returns whether the bytes are borrowed, so that no copy was made.
    #[must_use]
    pub const fn is_borrowed(&self) -> bool {
        matches!(self, Self::Borrowed(_))
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(buffer) => buffer,
        }
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_borrowed() { "borrowed" } else { "owned" };
        write!(f, "Bytes({} {kind})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_keep_their_length() {
        for len in [0, 1, 63, 64, 65, 1000] {
            let buffer = AlignedBuf::zeroed(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.iter().all(|&b| b == 0));
        }
        assert_eq!(&*AlignedBuf::copy_from_slice(b"abc").unwrap(), b"abc");
    }

    #[test]
    fn resizing_keeps_what_was_there() {
        let mut buffer = AlignedBuf::copy_from_slice(b"abc").unwrap();
        buffer.resize(200).unwrap();
        assert_eq!((buffer.len(), &buffer[..3]), (200, &b"abc"[..]));
        buffer.resize(2).unwrap();
        assert_eq!(&*buffer, b"ab");
    }

    #[test]
    fn bytes_say_whether_they_were_copied_and_become_a_buffer() {
        let buffer = AlignedBuf::copy_from_slice(b"abc").unwrap();
        assert_eq!(format!("{buffer:?}"), "AlignedBuf(3 bytes)", "values are not printed");
        let address = buffer.as_ptr();
        let (borrowed, owned) = (Bytes::Borrowed(b"abcd"), Bytes::Owned(buffer));
        assert!(borrowed.is_borrowed() && !owned.is_borrowed());
        assert_eq!(format!("{borrowed:?} {owned:?}"), "Bytes(4 borrowed) Bytes(3 owned)");
        assert_eq!(&*borrowed.into_owned().unwrap(), b"abcd");
        assert_eq!(owned.into_owned().unwrap().as_ptr(), address, "an owned buffer is not copied");
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert_eq!(AlignedBuf::zeroed(usize::MAX).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }
}
