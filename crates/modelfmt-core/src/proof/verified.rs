//! Sources that check what they read.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use tensor_core::{AlignedBuf, Bytes};

use super::{HashProof, OutboardProof, Proof};
use crate::fetch::{Fetch, now_or_never};
use crate::source::{Source, Unproved, checked_len};

/// The number of bytes that are read from a source at once, so that they are hashed while they are in a
/// core's own cache.
const STEP: u64 = 256 << 10;
/// The same for an asynchronous source, where each request takes long.
const ASYNC_STEP: u64 = 16 << 20;

/// A source that checks what it reads: it returns bytes that match its proof, or an error.
///
/// It does not report that it is in memory, even if the wrapped source is, because then readers would not
/// request ranges. Bytes in memory are checked in place on each read, and borrowed without a copy. The bytes
/// of a [map](crate::Mmap) could change after the check, but the creator of the map has promised that they do
/// not.
#[derive(Debug)]
pub struct VerifiedSource<S, P> {
    source: S,
    proof: P,
    /// Held by the thread whose read makes the proof read the whole file.
    slow: Mutex<()>,
}

impl<S: Source, P: Proof> VerifiedSource<S, P> {
    /// Wraps a source with the proof of its bytes.
    pub const fn new(source: S, proof: P) -> Self {
        Self { source, proof, slow: Mutex::new(()) }
    }

    /// Returns the wrapped source.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// Returns the proof of the bytes.
    #[must_use]
    pub const fn proof(&self) -> &P {
        &self.proof
    }

    /// Runs a future that never waits. If the proof is slow, only one thread at a time runs it.
    fn now<T>(&self, range: &Range<u64>, task: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let _slow =
            self.proof.is_slow(range).then(|| self.slow.lock().unwrap_or_else(PoisonError::into_inner));
        now_or_never(task).unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
    }

    /// Checks a range of a source in memory.
    async fn check_memory(&self, range: &Range<u64>) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let part = self.proof.part(&self.source, at).await?;
            let end = range.end.min(part.range().end);
            let around = part.around(&(at..end));
            part.check(around.start, &self.source.read(around)?)?;
            at = if end > at { end } else { return Err(nothing_proves(at)) };
        }
        Ok(())
    }
}

impl<S: Source, O: Fetch> VerifiedSource<S, OutboardProof<O>> {
    /// Wraps a source that must have this BLAKE3 hash, with the outboard of its file.
    ///
    /// # Errors
    /// [`ProofError::Outboard`](super::ProofError::Outboard) inside the I/O error, if the outboard does not
    /// have the length that this file needs.
    pub fn by_outboard(source: S, hash: [u8; 32], outboard: O) -> io::Result<Self> {
        let proof = OutboardProof::new(hash, source.len(), outboard, "the outboard")?;
        Ok(Self::new(source, proof))
    }
}

impl<S: Source> VerifiedSource<S, HashProof> {
    /// Wraps a source that must have this BLAKE3 hash. The first read reads the whole file.
    pub fn by_hash(source: S, hash: [u8; 32]) -> Self {
        let proof = HashProof::new(hash, source.len());
        Self::new(source, proof)
    }
}

impl<S: Source + Sync, P: Proof + Sync> Source for VerifiedSource<S, P> {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let range = range_of(offset, out.len(), self.len())?;
        self.now(&range, read_into(&self.source, &self.proof, offset, out, STEP))
    }

    fn read(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let len = checked_len(&range, self.len())?;
        if self.source.as_slice().is_some() {
            self.now(&range, self.check_memory(&range))?;
            return self.source.read(range);
        }
        let mut buffer = AlignedBuf::zeroed(len)?;
        self.read_into(range.start, &mut buffer)?;
        Ok(Bytes::Owned(buffer))
    }

    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        self.source.name()
    }

    fn is_unchanged(&self) -> bool {
        self.source.is_unchanged()
    }

    fn unproved(&self) -> Option<Unproved<'_>> {
        self.proof.has_all_hashes().then(|| Unproved::new(&self.source))
    }

    fn drop_cached(&self) {
        self.source.drop_cached();
    }
}

/// An asynchronous source that checks every range it reads: the counterpart of [`VerifiedSource`].
#[derive(Debug)]
pub struct AsyncVerifiedSource<S, P> {
    source: S,
    proof: P,
}

impl<S: Fetch, P: Proof> AsyncVerifiedSource<S, P> {
    /// Wraps a source with the proof of its bytes.
    pub const fn new(source: S, proof: P) -> Self {
        Self { source, proof }
    }

    /// Returns the wrapped source.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }
}

impl<S, P> AsyncVerifiedSource<S, P> {
    /// Returns the proof of the bytes.
    #[must_use]
    pub const fn proof(&self) -> &P {
        &self.proof
    }
}

impl<S: Fetch, O: Fetch> AsyncVerifiedSource<S, OutboardProof<O>> {
    /// Wraps a source that must have this BLAKE3 hash, with the outboard that proves its ranges.
    ///
    /// # Errors
    /// If the outboard does not have the length that this file needs.
    pub fn by_outboard(source: S, hash: [u8; 32], outboard: O) -> io::Result<Self> {
        let proof = OutboardProof::new(hash, source.size(), outboard, "the outboard")?;
        Ok(Self::new(source, proof))
    }
}

impl<S: Fetch, P: Proof> Fetch for AsyncVerifiedSource<S, P> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let mut buffer = AlignedBuf::zeroed(checked_len(&range, self.size())?)?;
        read_into(&self.source, &self.proof, range.start, &mut buffer, ASYNC_STEP).await?;
        Ok(Bytes::Owned(buffer))
    }

    async fn fetch_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        range_of(offset, out.len(), self.size())?;
        read_into(&self.source, &self.proof, offset, out, ASYNC_STEP).await
    }
}

/// Returns the range of the file for a buffer, if it is within `size`.
fn range_of(offset: u64, len: usize, size: u64) -> io::Result<Range<u64>> {
    let end = offset.checked_add(len as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
    checked_len(&(offset..end), size)?;
    Ok(offset..end)
}

/// Fills a buffer with bytes of the source, and checks each step before it reads the next. If a byte does not
/// match, no unchecked bytes are left in the buffer.
async fn read_into<S: Fetch>(
    source: &S,
    proof: &impl Proof,
    offset: u64,
    out: &mut [u8],
    step: u64,
) -> io::Result<()> {
    let (mut at, mut rest, mut scratch) = (offset, out, AlignedBuf::default());
    while !rest.is_empty() {
        let part = proof.part(source, at).await?;
        let end = at.saturating_add(rest.len() as u64).min(part.range().end);
        let end =
            if end.saturating_sub(at.min(end)) <= step { end } else { whole_groups(&part, at, end, step) };
        let len = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        let split = rest.split_at_mut_checked(len).filter(|_| len > 0);
        let (here, after) = split.ok_or_else(|| nothing_proves(at))?;
        let around = part.around(&(at..end));
        if around == (at..end) {
            let read = source.fetch_into(at, here).await;
            if let Err(error) = read.and_then(|()| Ok(part.check(at, here)?)) {
                here.fill(0);
                return Err(error);
            }
        } else {
            let out_of_memory = |_| io::Error::from(io::ErrorKind::OutOfMemory);
            let len = usize::try_from(around.end.saturating_sub(around.start)).map_err(out_of_memory)?;
            scratch.resize(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
            source.fetch_into(around.start, &mut scratch).await?;
            part.check(around.start, &scratch)?;
            let skipped = usize::try_from(at.saturating_sub(around.start)).unwrap_or(usize::MAX);
            let own = scratch.get(skipped..).and_then(|bytes| bytes.get(..here.len()));
            here.copy_from_slice(own.ok_or_else(|| nothing_proves(at))?);
        }
        (at, rest) = (end, after);
    }
    Ok(())
}

/// Returns the end of the next step: a group boundary about `step` bytes after `at`.
fn whole_groups(part: &super::Part, at: u64, end: u64, step: u64) -> u64 {
    let behind = at.saturating_add(step);
    let before = part.around(&(behind..behind.saturating_add(1))).start;
    if before > at { before } else { part.around(&(at..at.saturating_add(1))).end.min(end) }
}

/// Returns the error for a proof that breaks its contract.
fn nothing_proves(at: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("nothing proves byte {at}"))
}
