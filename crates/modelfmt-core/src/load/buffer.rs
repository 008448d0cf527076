//! Buffers for loaded tensors.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

#[cfg(all(feature = "mmap", target_os = "linux"))]
use tensor_core::ALIGNMENT;
use tensor_core::AlignedBuf;

/// A buffer whose address is a multiple of 64. On Linux, with the feature `mmap`, a large buffer is its own
/// memory map, in huge pages if the system has them.
pub struct LoadBuffer {
    memory: Memory,
    /// The number of bytes of the map before the buffer.
    skip: usize,
}

enum Memory {
    Heap(AlignedBuf),
    #[cfg(all(feature = "mmap", target_os = "linux"))]
    Map(memmap2::MmapMut),
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(buffer) => buffer,
            #[cfg(all(feature = "mmap", target_os = "linux"))]
            Self::Map(map) => map,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(buffer) => buffer,
            #[cfg(all(feature = "mmap", target_os = "linux"))]
            Self::Map(map) => map,
        }
    }
}

/// The length from which a buffer uses huge pages.
#[cfg(all(feature = "mmap", target_os = "linux"))]
const HUGE: usize = 4 << 20;

/// The page size: no system has smaller pages, and no disk has larger blocks.
#[cfg(all(feature = "mmap", target_os = "linux"))]
const PAGE: u64 = 4096;

impl LoadBuffer {
    /// Creates a buffer of zeros.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub fn zeroed(len: u64) -> io::Result<Self> {
        Self::zeroed_for(len, 0)
    }

    /// Creates a buffer of zeros for the bytes at offset `at` of a file. A large buffer starts at the same
    /// position within a page as the bytes do in the file, if that position is a multiple of 64. Then a read
    /// that bypasses the page cache needs no copy.
    pub(super) fn zeroed_for(len: u64, at: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        #[cfg(all(feature = "mmap", target_os = "linux"))]
        if len >= HUGE {
            let skip = usize::try_from(at % PAGE).ok().filter(|skip| skip % ALIGNMENT == 0).unwrap_or(0);
            let map = memmap2::MmapMut::map_anon(len + skip)?;
            // This is only a hint. Without huge pages, the pages are small.
            let _ = map.advise(memmap2::Advice::HugePage);
            return Ok(Self { memory: Memory::Map(map), skip });
        }
        let _ = at; // memory from the heap does not start at a page
        AlignedBuf::zeroed(len).map(|buffer| Self { memory: Memory::Heap(buffer), skip: 0 })
    }
}

impl Deref for LoadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.bytes().get(self.skip..).unwrap_or_default()
    }
}

impl DerefMut for LoadBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut().get_mut(self.skip..).unwrap_or_default()
    }
}

impl fmt::Debug for LoadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadBuffer({} bytes)", self.len())
    }
}
