//! Runs the jobs of a load, on several threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tensor_core::AlignedBuf;

use super::jobs::{Item, Job, TOGETHER, jobs, pieces};
use super::{LoadOptions, Loaded};
use crate::claims::{ClaimError, Claims};
use crate::container::Container;
use crate::error::AnyError;
use crate::execution::{Execution, PIECE};
use crate::fetch::now;
use crate::plan::gather;

/// The length below which tensors are read together with their neighbours and copied into place.
const SMALL: usize = 64 << 10;

/// A load from some files.
pub(super) struct LoadRun<'a> {
    container: &'a (dyn Container + Sync),
    options: LoadOptions,
    files: &'a [usize],
    /// The files that are read without the page cache.
    uncached: Vec<usize>,
    /// The number of bytes that a thread reads at once without the page cache.
    step: usize,
    past_cache: AtomicU64,
}

/// The total number of bytes that all threads buffer for reads without the page cache.
const UNCACHED: usize = 16 << 20;

/// The buffers that a thread keeps from job to job.
#[derive(Default)]
struct Scratch {
    /// Small tensors with their neighbours.
    bytes: AlignedBuf,
    /// The buffer for reads without the page cache.
    uncached: AlignedBuf,
}

impl<'a> LoadRun<'a> {
    /// Creates a load from these files, after a check that none of them has changed since it was opened.
    pub(super) fn new(
        container: &'a (dyn Container + Sync),
        options: &LoadOptions,
        files: &'a [usize],
    ) -> Result<Self, AnyError> {
        let mut load_run = Self {
            container,
            options: *options,
            files,
            uncached: Vec::new(),
            step: UNCACHED,
            past_cache: AtomicU64::new(0),
        };
        load_run.check_unchanged()?;
        if options.uncached {
            for &file in files {
                if container.source_of(file)?.is_cold() {
                    load_run.uncached.push(file);
                }
            }
        }
        Ok(load_run)
    }

    /// Checks that no file has changed; otherwise the bytes might belong to two versions.
    fn check_unchanged(&self) -> Result<(), AnyError> {
        for &file in self.files {
            let source = self.container.source_of(file)?;
            if !source.is_unchanged() {
                return Err(AnyError::Changed.in_source(source.name()));
            }
        }
        Ok(())
    }

    pub(super) fn run(
        &mut self,
        items: Vec<Item<'_>>,
        claims: &Claims,
        work: &Execution<'_>,
    ) -> Result<Loaded, ClaimError> {
        self.step = (UNCACHED / self.readers(work).threads.max(1)).max(256 << 10);
        let this = &*self;
        let jobs: Vec<_> =
            jobs(items, self.options.plan, TOGETHER).into_iter().map(|job| Mutex::new(Some(job))).collect();
        let one = |scratch: &mut Scratch, number: u64| -> Result<(), ClaimError> {
            let slot = usize::try_from(number).ok().and_then(|number| jobs.get(number));
            let job = slot.and_then(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).take());
            let Some(job) = job else { return Ok(()) };
            let done = this.job(job, claims, scratch);
            // Bytes that cannot be decoded may be damaged; the failed digest explains more than the decoder's
            // error.
            if let Some(failure) = claims.failure() {
                return Err(ClaimError::Damaged(failure));
            }
            if work.advance(done?).is_break() { Err(AnyError::Cancelled.into()) } else { Ok(()) }
        };
        let done = this.readers(work).each(jobs.len() as u64, Scratch::default, one, Ok);
        let done = done.and_then(|()| claims.finish(self.container, work));
        if self.options.drop_cache {
            for &file in self.files {
                self.container.source_of(file)?.drop_cached();
            }
        }
        // A changed file explains any other error.
        if !matches!(done, Err(ClaimError::Other(AnyError::Cancelled))) {
            self.check_unchanged()?;
        }
        done?;
        let uncached = self.past_cache.load(Ordering::Relaxed);
        Ok(Loaded { notes: claims.notes().to_vec(), uncached, ..Loaded::default() })
    }

    /// Doubles the threads if reads without the page cache must be copied: one copies while another waits for
    /// the disk.
    fn readers<'w>(&self, work: &Execution<'w>) -> Execution<'w> {
        let times = if self.uncached.is_empty() || work.threads < 2 { 1 } else { 2 };
        Execution { threads: work.threads.saturating_mul(times), ..*work }
    }

    /// Runs one job, and returns the number of bytes that it has filled.
    fn job(&self, job: Job<'_>, claims: &Claims, scratch: &mut Scratch) -> Result<u64, AnyError> {
        match job {
            Job::Bytes { file, parts } => self.parts(file, parts, claims, scratch),
            Job::Values { position, offset, out } => {
                self.values(position, offset, out, claims)?;
                Ok(out.len() as u64)
            }
            Job::Slice { position, runs, out } => {
                let read = async |at: u64, out: &mut [u8]| self.values(position, at, out, claims);
                let (at, len) = (runs.offset(), runs.nbytes());
                let failed = |source| AnyError::Io { at, len, source };
                now(gather(&runs, self.options.plan, out, read, failed))?;
                Ok(len)
            }
        }
    }

    fn values(&self, position: usize, at: u64, out: &mut [u8], claims: &Claims) -> Result<(), AnyError> {
        self.container.values_into(position, at, out, (!claims.is_empty()).then_some(claims))
    }

    /// Reads raw bytes: large tensors directly into place, small ones together.
    fn parts(
        &self,
        file: usize,
        mut parts: Vec<(u64, &mut [u8])>,
        claims: &Claims,
        scratch: &mut Scratch,
    ) -> Result<u64, AnyError> {
        let mut filled = 0;
        for group in parts.chunk_by_mut(|a, b| a.1.len() < SMALL && b.1.len() < SMALL) {
            filled += group.iter().map(|(_, out)| out.len() as u64).sum::<u64>();
            match group {
                [(at, out)] => self.one(file, *at, out, claims, &mut scratch.uncached)?,
                several => self.together(file, several, claims, scratch)?,
            }
        }
        Ok(filled)
    }

    fn one(
        &self,
        file: usize,
        mut at: u64,
        out: &mut [u8],
        claims: &Claims,
        uncached: &mut AlignedBuf,
    ) -> Result<(), AnyError> {
        if claims.is_empty() {
            return self.read(file, at, out, uncached);
        }
        let piece = usize::try_from(PIECE).unwrap_or(usize::MAX);
        for out in out.chunks_mut(piece) {
            self.read(file, at, out, uncached)?;
            claims.observe(file, at, out);
            at += out.len() as u64;
        }
        Ok(())
    }

    fn together(
        &self,
        file: usize,
        parts: &mut [(u64, &mut [u8])],
        claims: &Claims,
        scratch: &mut Scratch,
    ) -> Result<(), AnyError> {
        let start = parts.first().map_or(0, |(at, _)| *at);
        let end = parts.iter().map(|(at, out)| at + out.len() as u64).max().unwrap_or(start);
        let Scratch { bytes, uncached } = scratch;
        let len = end - start;
        let out_of_memory =
            || AnyError::Io { at: start, len, source: std::io::ErrorKind::OutOfMemory.into() };
        bytes.resize(usize::try_from(len).map_err(|_| out_of_memory())?).map_err(|_| out_of_memory())?;
        self.one(file, start, bytes, claims, uncached)?;
        for (at, out) in parts {
            let begin = usize::try_from(*at - start).unwrap_or(usize::MAX);
            if let Some(found) = bytes.get(begin..).and_then(|rest| rest.get(..out.len())) {
                out.copy_from_slice(found);
            }
        }
        Ok(())
    }

    fn read(&self, file: usize, at: u64, out: &mut [u8], uncached: &mut AlignedBuf) -> Result<(), AnyError> {
        if self.uncached.binary_search(&file).is_ok() {
            let source = self.container.source_of(file)?;
            // If a read without the page cache fails, a normal read follows.
            let mut read = |(at, piece): (u64, &mut [u8])| source.read_uncached(at, piece, uncached);
            if pieces(at, out, self.step as u64).try_for_each(&mut read).is_ok() {
                self.past_cache.fetch_add(out.len() as u64, Ordering::Relaxed);
                return Ok(());
            }
        }
        self.container.read_file(file, at, out)
    }
}
