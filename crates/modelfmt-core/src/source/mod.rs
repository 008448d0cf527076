//! Sources of bytes: memory, files, maps, or anything that answers "give me this range".

#[cfg(all(feature = "direct", target_os = "linux"))]
mod direct;
#[cfg(not(target_arch = "wasm32"))]
mod file;
mod files;
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
mod map;
#[cfg(not(target_arch = "wasm32"))]
mod pool;
mod share;

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use tensor_core::{AlignedBuf, Bytes};

#[cfg(not(target_arch = "wasm32"))]
pub use file::{FileSource, Folder, read_exact_at};
pub use files::{Files, MemoryFiles, SetPaths, SharedFiles, check_relative, folder_of, shared_files};
#[cfg(all(feature = "mmap", not(target_arch = "wasm32")))]
pub use map::Mmap;
#[cfg(not(target_arch = "wasm32"))]
pub use pool::FileVersion;
pub use share::Share;

/// Random access to a fixed number of bytes.
///
/// A reader requests only the ranges that it needs. Implement this for a browser's file handle, an HTTP
/// client or an object store; only [`len`](Source::len) and [`read_into`](Source::read_into) are required.
///
/// [`contract_test`] checks the contract: a range must be within `0..len`, otherwise the result is an error
/// of kind [`UnexpectedEof`](io::ErrorKind::UnexpectedEof); an empty range is valid anywhere up to and
/// including the end; nothing panics.
pub trait Source {
    /// Returns the number of bytes, which never changes.
    fn len(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// If the range is not within the source, or cannot be read.
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Returns the bytes of `range`: borrowed if they are in memory, otherwise read into an aligned buffer.
    ///
    /// # Errors
    /// If the range is not within the source, is longer than memory can hold, or cannot be read.
    fn read(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let len = checked_len(&range, self.len())?;
        let mut buffer = AlignedBuf::zeroed(len)?;
        self.read_into(range.start, &mut buffer)?;
        Ok(Bytes::Owned(buffer))
    }

    /// Returns all bytes, if they are already in memory.
    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    /// Returns this source, if threads may share it. Only then is work done on several threads.
    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        None
    }

    /// Returns whether a short read costs little more than copying its bytes, such as from memory or a local
    /// file. Code that works on bytes in several steps then reads pieces that stay in a core's own cache;
    /// otherwise it reads as much as possible at once.
    fn is_near(&self) -> bool {
        self.as_slice().is_some()
    }

    /// Returns the identity of the file, if the system can distinguish it from other files. Two sources with
    /// the same identity hold the same bytes.
    fn id(&self) -> Option<FileId> {
        None
    }

    /// Returns the name of the source for errors, if it has one: for a file, its path.
    fn name(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// Returns whether the content is still what it was when the source was created, as far as that is known.
    /// For a file, this compares its length and modification time. Loads call this before and after reading.
    fn is_unchanged(&self) -> bool {
        true
    }

    /// Returns whether reads that bypass the system's cache would be faster, as far as that is known: whether
    /// little of the content is in the cache.
    fn is_cold(&self) -> bool {
        false
    }

    /// Fills `out` with the bytes from `offset` on, bypassing the system's cache if there is one. `scratch`
    /// is a buffer that the caller keeps between calls.
    ///
    /// # Errors
    /// If the range is not within the source, or cannot be read, or not without the cache.
    fn read_uncached(&self, offset: u64, out: &mut [u8], scratch: &mut AlignedBuf) -> io::Result<()> {
        let _ = scratch;
        self.read_into(offset, out)
    }

    /// Returns the share of this process, if several processes divide a job over the bytes.
    fn share(&self) -> Option<&Share> {
        None
    }

    /// For a source that verifies what it reads, returns the wrapped source, if the verified bytes include
    /// hashes of all other bytes. This is for code that checks each byte by these hashes before it is used.
    /// That takes one pass over the bytes, where this source may need two.
    fn unproved(&self) -> Option<Unproved<'_>> {
        None
    }

    /// Asks the system's cache to drop the bytes. This is only a hint and never fails.
    fn drop_cached(&self) {}

    /// Returns whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The identity of a file on this machine, whatever path leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    volume: u64,
    number: u64,
}

impl FileId {
    /// Creates the identity of the file with this number on this volume.
    #[must_use]
    pub const fn new(volume: u64, number: u64) -> Self {
        Self { volume, number }
    }

    /// Returns the identity of the file with this metadata; `None` if the system does not provide it.
    #[must_use]
    #[cfg(not(target_arch = "wasm32"))]
    pub fn from_metadata(metadata: &std::fs::Metadata) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Some(Self::new(metadata.dev(), metadata.ino()))
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            None
        }
    }
}

/// A boxed source of any type, which can be stored, sent and shared.
pub type BoxSource = Box<dyn Source + Send + Sync>;

/// Returns the length of `range` if it is within `0..end`, as the contract of [`Source`] requires.
///
/// # Errors
/// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the range is not within `0..end`;
/// [`OutOfMemory`](io::ErrorKind::OutOfMemory) if the length does not fit `usize`.
pub fn checked_len(range: &Range<u64>, end: u64) -> io::Result<usize> {
    match range.end.checked_sub(range.start) {
        Some(len) if range.end <= end => usize::try_from(len).map_err(|_| {
            io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("{len} bytes are more than this machine can address"),
            )
        }),
        _ => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("bytes {}..{} are not within the {end} bytes of the source", range.start, range.end),
        )),
    }
}

fn slice_of(bytes: &[u8], range: Range<u64>) -> io::Result<&[u8]> {
    let len = checked_len(&range, bytes.len() as u64)?;
    // `range.start` is at most `bytes.len()`, so it fits.
    let start = usize::try_from(range.start).unwrap_or(usize::MAX);
    bytes.get(start..).and_then(|rest| rest.get(..len)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

impl Source for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(slice_of(self, offset..end)?);
        Ok(())
    }
    fn read(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        Ok(Bytes::Borrowed(slice_of(self, range)?))
    }
    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }
}

macro_rules! in_memory {
    ($($type:ty)*) => { $(
        impl Source for $type {
            fn len(&self) -> u64 { Source::len(&self[..]) }
            fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> { self[..].read_into(offset, out) }
            fn read(&self, range: Range<u64>) -> io::Result<Bytes<'_>> { self[..].read(range) }
            fn as_slice(&self) -> Option<&[u8]> { Some(self) }
            fn shared(&self) -> Option<&(dyn Source + Sync)> { Some(self) }
        }
    )* };
}
in_memory!(Vec<u8> AlignedBuf Arc<[u8]>);

macro_rules! forward {
    ($([$($generics:tt)*] $type:ty;)*) => { $(
        impl<$($generics)*> Source for $type {
            fn len(&self) -> u64 { (**self).len() }
            fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> { (**self).read_into(offset, out) }
            fn read(&self, range: Range<u64>) -> io::Result<Bytes<'_>> { (**self).read(range) }
            fn as_slice(&self) -> Option<&[u8]> { (**self).as_slice() }
            fn shared(&self) -> Option<&(dyn Source + Sync)> { (**self).shared() }
            fn is_near(&self) -> bool { (**self).is_near() }
            fn id(&self) -> Option<FileId> { (**self).id() }
            fn name(&self) -> Option<Cow<'_, str>> { (**self).name() }
            fn is_unchanged(&self) -> bool { (**self).is_unchanged() }
            fn is_cold(&self) -> bool { (**self).is_cold() }
            fn read_uncached(&self, offset: u64, out: &mut [u8], scratch: &mut AlignedBuf) -> io::Result<()> {
                (**self).read_uncached(offset, out, scratch)
            }
            fn share(&self) -> Option<&Share> { (**self).share() }
            fn unproved(&self) -> Option<Unproved<'_>> { (**self).unproved() }
            fn drop_cached(&self) { (**self).drop_cached() }
        }
    )* };
}
forward! {
    ['a] Unproved<'a>;
    [S: Source] &S;
    [S: Source + ?Sized] Box<S>;
    [S: Source] Arc<S>;
}

/// Bytes that are not verified yet. The reader must check them. See [`Source::unproved`].
#[derive(Clone, Copy)]
pub struct Unproved<'a>(&'a (dyn Source + Sync));

impl<'a> Unproved<'a> {
    /// Wraps a source whose bytes another source would verify.
    #[must_use]
    pub const fn new(source: &'a (dyn Source + Sync)) -> Self {
        Self(source)
    }
}

impl<'a> std::ops::Deref for Unproved<'a> {
    type Target = dyn Source + Sync + 'a;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl Source for &[u8] {
    fn len(&self) -> u64 {
        Source::len(*self)
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

/// Checks that a source keeps the contract of [`Source`] and holds `expected`. Use it to test your own
/// implementation.
///
/// # Errors
/// The rule of the contract that the source breaks, as a sentence.
pub fn contract_test(source: &dyn Source, expected: &[u8]) -> Result<(), String> {
    let len = source.len();
    let clause = |good: bool, text: &str| if good { Ok(()) } else { Err(text.to_owned()) };
    clause(len == expected.len() as u64, "len() is the number of bytes")?;
    clause(source.read(0..len).is_ok_and(|b| *b == *expected), "read(0..len) gives every byte")?;
    for start in 0..=len {
        let tail = usize::try_from(start).ok().and_then(|s| expected.get(s..));
        clause(source.read(start..len).is_ok_and(|b| Some(&*b) == tail), "read(start..len) gives the tail")?;
        clause(
            source.read(start..start).is_ok_and(|b| b.is_empty()),
            "an empty range is good up to the end",
        )?;
    }
    let past = |range: Range<u64>| {
        let read = source.read(range.clone());
        let into = source.read_into(range.start, &mut [0; 1]);
        [read.map(|_| ()), into]
            .into_iter()
            .all(|r| r.is_err_and(|e| e.kind() == io::ErrorKind::UnexpectedEof))
    };
    clause(past(len..len.saturating_add(1)), "a range past the end is UnexpectedEof")?;
    clause(past(len.saturating_add(1)..len.saturating_add(2)), "a range beyond the end is UnexpectedEof")?;
    clause(past(u64::MAX - 1..u64::MAX), "a range near 2^64 is UnexpectedEof")?;
    #[expect(clippy::reversed_empty_ranges, reason = "a caller's mistake must be an error, not a panic")]
    let reversed = source.read(1..0);
    clause(reversed.is_err(), "a range that ends before it begins is an error")?;
    if let Ok(Bytes::Owned(buffer)) = source.read(0..len) {
        clause(buffer.as_ptr().addr().is_multiple_of(tensor_core::ALIGNMENT), "owned bytes are aligned")?;
    }
    let Some(shared) = source.shared() else { return Ok(()) };
    std::thread::scope(|scope| {
        let same = || shared.read(0..len).is_ok_and(|b| *b == *expected);
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(same)).collect();
        clause(threads.into_iter().all(|t| t.join().unwrap_or(false)), "threads read the same bytes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"the quick brown fox";

    #[test]
    fn memory_keeps_the_contract() {
        contract_test(&TEXT, TEXT).unwrap();
        contract_test(&TEXT.to_vec(), TEXT).unwrap();
        contract_test(&AlignedBuf::copy_from_slice(TEXT).unwrap(), TEXT).unwrap();
        contract_test(&Arc::<[u8]>::from(TEXT), TEXT).unwrap();
        let boxed: BoxSource = Box::new(TEXT.to_vec());
        contract_test(&boxed, TEXT).unwrap();
        contract_test(&Vec::new(), b"").unwrap();
    }

    #[test]
    fn a_source_of_ones_own_needs_two_methods() {
        struct Ranges;
        impl Source for Ranges {
            fn len(&self) -> u64 {
                TEXT.len() as u64
            }
            fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
                TEXT.read_into(offset, out)
            }
        }
        contract_test(&Ranges, TEXT).unwrap();
        assert!(!Ranges.read(0..3).unwrap().is_borrowed());
    }

    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn files_and_maps_keep_the_contract() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, TEXT).unwrap();
        contract_test(&FileSource::open(&path).unwrap(), TEXT).unwrap();
        assert!(FileSource::open(folder.path()).is_err(), "a folder is no source");
        #[cfg(feature = "mmap")]
        #[allow(unsafe_code)]
        // SAFETY: nothing else uses this temporary file.
        let map = unsafe { Mmap::open(&path) }.unwrap();
        #[cfg(feature = "mmap")]
        contract_test(&map, TEXT).unwrap();
    }

    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, TEXT).unwrap();
        let source = FileSource::open(&path).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4).unwrap();
        assert_eq!(source.read(0..10).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(&*source.read(0..4).unwrap(), b"the ");
    }
}
