//! Linux: reads past the page cache (`O_DIRECT`), and what the cache holds.
//!
//! A read past the cache needs offsets, lengths and memory at multiples of the block of the device, so it goes through an aligned
//! buffer and is copied from there, which takes little beside a disk. Several threads with a few MiB each keep a disk as busy as a
//! queue of one thread would, so no ring of requests (io_uring) is needed for it: that takes `unsafe`, or a large dependency, and
//! many systems forbid it to containers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tensor_core::AlignedBuf;

/// No device has larger blocks, and no page is smaller.
const BLOCK: u64 = 4096;

/// Places of a file at which the cache is asked.
const PROBES: u64 = 16;

/// Whether most of a file has to come from the disk, as far as a few places of it tell.
pub(super) fn is_cold(file: &File, len: u64) -> bool {
    let is_missing = |probe: &u64| {
        let at = (len / PROBES) * probe + len / PROBES / 2;
        let mut byte = [0];
        let read = preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT);
        read == Err(Errno::AGAIN)
    };
    len >= PROBES * BLOCK && (0..PROBES).filter(is_missing).count() as u64 > PROBES / 2
}

/// Asks the page cache to forget a file.
pub(super) fn drop_cached(file: &File) {
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

/// Fills `out` past the page cache.
///
/// # Errors
/// If the file cannot be opened or read so, or ends before.
pub(super) fn read_exact_at(
    file: &File,
    offset: u64,
    out: &mut [u8],
    scratch: &mut AlignedBuf,
) -> io::Result<()> {
    let flags = i32::try_from(OFlags::DIRECT.bits()).map_err(|_| io::ErrorKind::Unsupported)?;
    // The same file, whatever its path leads to now.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let begin = offset - offset % BLOCK;
    let skip = usize::try_from(offset - begin).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let block = usize::try_from(BLOCK).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let needed = skip.checked_add(out.len()).ok_or(io::ErrorKind::OutOfMemory)?;
    let room = needed.div_ceil(block) * block;
    if scratch.len() < room + block {
        scratch.resize(room + block).map_err(|_| io::ErrorKind::OutOfMemory)?;
    }
    let address = scratch.as_ptr().addr();
    let aligned = address.next_multiple_of(block) - address;
    let buffer = scratch.get_mut(aligned..).and_then(|rest| rest.get_mut(..room));
    let buffer = buffer.ok_or(io::ErrorKind::OutOfMemory)?;
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
    let found = buffer.get(skip..).and_then(|rest| rest.get(..out.len()));
    out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{FileSource, Source as _};
    use super::*;

    #[test]
    fn reads_past_the_cache_give_the_same_bytes() {
        // Not in the temporary folder, which may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("bytes");
        let bytes: Vec<u8> = (0..200_123_u32).map(|n| (n.wrapping_mul(n) >> 5).to_le_bytes()[0]).collect();
        std::fs::write(&path, &bytes).unwrap();
        let source = FileSource::open(&path).unwrap();
        let mut scratch = AlignedBuf::default();
        let mut out = vec![0; 200_123];
        if source.read_uncached(0, &mut out[..1], &mut scratch).is_err() {
            return; // this file system has no such reads; a load then makes the usual ones
        }
        for (at, end) in
            [(0, 200_123), (1, 200_123), (4095, 4097), (8192, 12_288), (200_122, 200_123), (7, 7)]
        {
            let out = &mut out[..end - at];
            out.fill(0);
            source.read_uncached(at as u64, out, &mut scratch).unwrap();
            assert_eq!(*out, bytes[at..end], "{at}..{end}");
        }
        assert_eq!(
            source.read_uncached(200_000, &mut [0; 200], &mut scratch).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
