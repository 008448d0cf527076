//! Linux: reads that bypass the page cache (`O_DIRECT`), and queries of the cache.
//!
//! Such a read needs an offset, a length and an address that are multiples of the device's block size. If the
//! caller's memory and the bytes in the file begin at the same position within a block, the disk writes
//! directly into that memory. Otherwise the bytes go through an aligned buffer and are copied, which takes
//! about an eighth of the time that a fast disk needs to read them. Several threads with a few MiB each keep
//! a disk as busy as one queue of requests (io_uring) would. Such a queue is not used: it needs `unsafe` or a
//! large dependency, and many systems forbid it in containers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tensor_core::AlignedBuf;

/// The block size: no device has larger blocks, and no page is smaller.
const BLOCK: u64 = 4096;
/// The same as a `usize`.
const BLOCK_LEN: usize = 4096;

/// The number of places in a file at which the cache is queried.
const PROBES: u64 = 16;

/// Returns whether most of a file must come from the disk, estimated from a few places in it.
pub(super) fn is_cold(file: &File, len: u64) -> bool {
    let is_missing = |probe: &u64| {
        let at = (len / PROBES) * probe + len / PROBES / 2;
        let mut byte = [0];
        let read = preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT);
        read == Err(Errno::AGAIN)
    };
    len >= PROBES * BLOCK && (0..PROBES).filter(is_missing).count() as u64 > PROBES / 2
}

/// Makes the page cache drop a file, if it can.
pub(super) fn drop_cached(file: &File) {
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

/// The minimum length of a buffer that the disk writes to directly, if the buffer begins at the same position
/// within a block as the bytes do in the file.
const DIRECT: usize = 1 << 20;

/// Fills `out` without the page cache.
///
/// # Errors
/// If the file cannot be opened or read this way, or is too short.
pub(super) fn read_exact_at(
    file: &File,
    offset: u64,
    out: &mut [u8],
    scratch: &mut AlignedBuf,
) -> io::Result<()> {
    let flags = i32::try_from(OFlags::DIRECT.bits()).map_err(|_| io::ErrorKind::Unsupported)?;
    // This opens the same file again, whatever its path now leads to.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let lead = usize::try_from(offset.next_multiple_of(BLOCK) - offset).unwrap_or(usize::MAX);
    let address = out.as_ptr().addr();
    if out.len() < DIRECT || address.wrapping_add(lead) % BLOCK_LEN != 0 {
        return copied(&file, offset, out, scratch);
    }
    let (head, rest) = out.split_at_mut(lead);
    let (middle, tail) = rest.split_at_mut(rest.len() / BLOCK_LEN * BLOCK_LEN);
    let (begin, end) = (offset + lead as u64, offset + (lead + middle.len()) as u64);
    fill(&file, begin, middle, middle.len())?;
    copied(&file, offset, head, scratch)?;
    copied(&file, end, tail, scratch)
}

/// Reads whole blocks into `scratch` and copies the wanted bytes from there.
fn copied(file: &File, offset: u64, out: &mut [u8], scratch: &mut AlignedBuf) -> io::Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let begin = offset - offset % BLOCK;
    let skip = usize::try_from(offset - begin).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let needed = skip.checked_add(out.len()).ok_or(io::ErrorKind::OutOfMemory)?;
    let room = needed.div_ceil(BLOCK_LEN) * BLOCK_LEN;
    if scratch.len() < room + BLOCK_LEN {
        scratch.resize(room + BLOCK_LEN).map_err(|_| io::ErrorKind::OutOfMemory)?;
    }
    let address = scratch.as_ptr().addr();
    let aligned = address.next_multiple_of(BLOCK_LEN) - address;
    let buffer = scratch.get_mut(aligned..).and_then(|rest| rest.get_mut(..room));
    let buffer = buffer.ok_or(io::ErrorKind::OutOfMemory)?;
    fill(file, begin, buffer, needed)?;
    let found = buffer.get(skip..).and_then(|rest| rest.get(..out.len()));
    out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

/// Reads until at least the first `needed` bytes of the buffer are filled.
fn fill(file: &File, begin: u64, buffer: &mut [u8], needed: usize) -> io::Result<()> {
    let mut have = 0;
    while have < needed {
        let rest = buffer.get_mut(have..).unwrap_or_default();
        match file.read_at(rest, begin + have as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => have += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{FileSource, Source as _};
    use super::*;

    #[test]
    fn reads_past_the_cache_give_the_same_bytes() {
        // Not in the folder for temporary files, which may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("bytes");
        let bytes: Vec<u8> = (0..2_400_492_u32).map(|n| (n.wrapping_mul(n) >> 5).to_le_bytes()[0]).collect();
        std::fs::write(&path, &bytes).unwrap();
        let source = FileSource::open(&path).unwrap();
        let mut scratch = AlignedBuf::default();
        let mut out = vec![0; 200_123];
        if source.read_uncached(0, &mut out[..1], &mut scratch).is_err() {
            return; // this file system does not support such reads; a load then makes normal reads
        }
        for (at, end) in
            [(0, 200_123), (1, 200_123), (4095, 4097), (8192, 12_288), (200_122, 200_123), (7, 7)]
        {
            let out = &mut out[..end - at];
            out.fill(0);
            source.read_uncached(at as u64, out, &mut scratch).unwrap();
            assert_eq!(*out, bytes[at..end], "{at}..{end}");
        }
        // Buffers that the disk can fill directly, and others.
        let mut memory = AlignedBuf::zeroed(bytes.len() + 2 * BLOCK_LEN).unwrap();
        for (at, end, shift) in
            [(64, 2_400_000, 0), (4096, 1_100_000, 0), (64, 2_400_000, 64), (1, 2_400_492, 0)]
        {
            let begin = usize::wrapping_sub(at + shift, memory.as_ptr().addr()) % BLOCK_LEN;
            let out = &mut memory[begin..][..end - at];
            out.fill(0);
            source.read_uncached(at as u64, out, &mut scratch).unwrap();
            assert!(*out == bytes[at..end], "{at}..{end} + {shift}");
        }
        assert_eq!(
            source.read_uncached(2_400_400, &mut [0; 200], &mut scratch).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
