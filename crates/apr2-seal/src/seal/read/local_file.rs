//! Encrypted tensors in local files. Each thread reads and decrypts parts that fit into its core's own cache.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::io;
use std::sync::{Mutex, PoisonError};

use modelfmt_core::{AlignedBuf, Execution, Fetch, Source};

use super::{Plain, threads};
use crate::seal::segments::Cipher;
use crate::seal::sizes::TAG;

/// The number of bytes that are read and decrypted at once, unless a segment is longer.
const PART: u64 = 64 << 10;
/// The number of bytes that a thread decrypts per job: a multiple of every possible segment length.
const JOB: u64 = 1 << 20;

/// The segments of a tensor in a source.
struct LocalSegments<'a> {
    source: &'a (dyn Source + Sync),
    cipher: &'a Cipher,
    /// The offset of the tensor in the source.
    start: u64,
    segment: u64,
}

impl<S: Fetch> Plain<'_, S> {
    /// Fills `out` with the plaintext from `at` on. Returns `None` unless the source is local, these are
    /// whole segments, and no digest has to be checked.
    pub(super) fn fill_from_local_file(&self, at: u64, out: &mut [u8]) -> Option<io::Result<()>> {
        let segment = self.section.segment()?;
        let end = at.saturating_add(out.len() as u64);
        let is_whole = at.is_multiple_of(segment) && (end.is_multiple_of(segment) || end == self.plain);
        if self.section.binds_content || !is_whole {
            return None;
        }
        let local = LocalSegments {
            source: self.source.near()?,
            cipher: self.cipher.as_ref()?,
            start: self.start,
            segment,
        };
        let work = Execution { threads: threads(out.len() as u64), progress: None };
        Some(local.fill(at.checked_div(segment)?, out, &work))
    }
}

impl LocalSegments<'_> {
    /// Fills `out` with the plaintext of the segments from `first` on.
    fn fill(&self, first: u64, out: &mut [u8], work: &Execution<'_>) -> io::Result<()> {
        let per_job = JOB.checked_div(self.segment).unwrap_or_default();
        let job = usize::try_from(JOB).unwrap_or(usize::MAX);
        let jobs: Vec<_> = out.chunks_mut(job).map(Mutex::new).collect();
        let one = |buffer: &mut AlignedBuf, number: u64| {
            let Some(job) = usize::try_from(number).ok().and_then(|n| jobs.get(n)) else { return Ok(()) };
            let mut out = job.lock().unwrap_or_else(PoisonError::into_inner);
            self.job(first.saturating_add(number.saturating_mul(per_job)), &mut out, buffer)
        };
        work.map(jobs.len() as u64, AlignedBuf::default, one).map(|_| ())
    }

    fn job(&self, mut first: u64, out: &mut [u8], buffer: &mut AlignedBuf) -> io::Result<()> {
        let to_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (segment, count) =
            (to_usize(self.segment), PART.checked_div(self.segment).unwrap_or_default().max(1));
        for out in out.chunks_mut(segment.saturating_mul(to_usize(count))) {
            buffer.resize(self.cipher.sealed_len(out.len()))?;
            self.source.read_into(
                self.start.saturating_add(first.saturating_mul(self.segment.saturating_add(TAG))),
                buffer,
            )?;
            // Decrypts in place and then copies, because the cipher is slow when it writes to memory that is
            // in no cache.
            let sealed = buffer.chunks_mut(segment.saturating_add(to_usize(TAG)));
            for ((number, sealed), out) in (first..).zip(sealed).zip(out.chunks_mut(segment)) {
                out.copy_from_slice(self.cipher.open_in_place(number, sealed).map_err(io::Error::other)?);
            }
            first = first.saturating_add(count);
        }
        Ok(())
    }
}
