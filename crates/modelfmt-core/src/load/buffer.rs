//! Memory for a tensor.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

use tensor_core::AlignedBuf;

/// A buffer whose start is a multiple of 64. A large one is memory of its own from the system, in huge pages where the system gives
/// them, with the feature `mmap` on Linux.
pub struct LoadBuffer(Memory);

enum Memory {
    Heap(AlignedBuf),
    #[cfg(all(feature = "mmap", target_os = "linux"))]
    Map(memmap2::MmapMut),
}

/// From here on, huge pages are worth asking for.
#[cfg(all(feature = "mmap", target_os = "linux"))]
const HUGE: usize = 4 << 20;

impl LoadBuffer {
    /// A buffer of zeros.
    ///
    /// # Errors
    /// If the memory cannot be had.
    pub fn zeroed(len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        #[cfg(all(feature = "mmap", target_os = "linux"))]
        if len >= HUGE {
            let map = memmap2::MmapMut::map_anon(len)?;
            // A wish: without it the pages are small.
            let _ = map.advise(memmap2::Advice::HugePage);
            return Ok(Self(Memory::Map(map)));
        }
        AlignedBuf::zeroed(len).map(|buffer| Self(Memory::Heap(buffer)))
    }
}

impl Deref for LoadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Heap(buffer) => buffer,
            #[cfg(all(feature = "mmap", target_os = "linux"))]
            Memory::Map(map) => map,
        }
    }
}

impl DerefMut for LoadBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Heap(buffer) => buffer,
            #[cfg(all(feature = "mmap", target_os = "linux"))]
            Memory::Map(map) => map,
        }
    }
}

impl fmt::Debug for LoadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadBuffer({} bytes)", self.len())
    }
}
