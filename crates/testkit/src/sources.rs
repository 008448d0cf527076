//! Sources that count, and sources that fail.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt_core::Source;

/// Reads only the requested bytes, as over a network, and counts them.
#[derive(Debug)]
pub struct CountingSource<S> {
    inner: S,
    reads: AtomicU64,
    nbytes: AtomicU64,
}

impl<S: Source> CountingSource<S> {
    /// Counts the reads of `inner` from now on.
    pub const fn new(inner: S) -> Self {
        Self { inner, reads: AtomicU64::new(0), nbytes: AtomicU64::new(0) }
    }

    /// Returns the number of reads.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes read. Bytes that were read twice count twice.
    pub fn nbytes(&self) -> u64 {
        self.nbytes.load(Ordering::Relaxed)
    }

    /// Resets the counts to zero.
    pub fn reset(&self) {
        self.reads.store(0, Ordering::Relaxed);
        self.nbytes.store(0, Ordering::Relaxed);
    }
}

impl<S: Source + Sync> Source for CountingSource<S> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.nbytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.inner.read_into(offset, out)
    }

    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}

/// Fails every read that touches a given range.
#[derive(Debug)]
pub struct FaultySource<S> {
    inner: S,
    broken: Range<u64>,
}

impl<S: Source> FaultySource<S> {
    /// Wraps `inner` so that the range `broken` cannot be read.
    pub const fn new(inner: S, broken: Range<u64>) -> Self {
        Self { inner, broken }
    }
}

impl<S: Source + Sync> Source for FaultySource<S> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(out.len() as u64);
        if offset < self.broken.end && self.broken.start < end {
            return Err(io::Error::other("this sector is broken"));
        }
        self.inner.read_into(offset, out)
    }

    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelfmt_core::source::contract_test;

    #[test]
    fn they_are_sources() {
        let bytes = b"the quick brown fox".to_vec();
        let counting = CountingSource::new(bytes.clone());
        contract_test(&counting, &bytes).unwrap();
        counting.reset();
        counting.read(3..8).unwrap();
        assert_eq!((counting.reads(), counting.nbytes()), (1, 5));
        contract_test(&FaultySource::new(bytes.clone(), 0..0), &bytes).unwrap();
        let faulty = FaultySource::new(bytes, 4..6);
        assert!(faulty.read(0..4).is_ok() && faulty.read(0..5).is_err() && faulty.read(6..9).is_ok());
    }
}
