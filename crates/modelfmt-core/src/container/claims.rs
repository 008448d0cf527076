//! Checks the claims of any container, and reads the bytes that are still missing.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::io;
use std::ops::Range;

use tensor_core::AlignedBuf;

use super::Container;
use crate::claims::{ClaimError, Claims};
use crate::error::AnyError;
use crate::execution::Execution;
use crate::source::Source;

impl Claims {
    /// Reads the missing bytes of the claimed ranges, and checks that all claims hold. Call this when every
    /// value has been read.
    ///
    /// # Errors
    /// The first claim that does not hold; [`AnyError::Io`] if bytes cannot be read; [`AnyError::Cancelled`].
    pub fn finish(&self, container: &(dyn Container + Sync), work: &Execution<'_>) -> Result<(), ClaimError> {
        // A round skips bytes that another thread is hashing; the next round finds them hashed or missing.
        loop {
            if let Some(failure) = self.failure() {
                return Err(ClaimError::Damaged(failure));
            }
            let missing = self.missing();
            if missing.is_empty() {
                return Ok(());
            }
            self.read(&missing, container, work)?;
        }
    }

    fn read(
        &self,
        missing: &[(usize, Range<u64>)],
        container: &(dyn Container + Sync),
        work: &Execution<'_>,
    ) -> Result<(), ClaimError> {
        let one = |buffer: &mut AlignedBuf, number: u64| -> Result<(), ClaimError> {
            let found = usize::try_from(number).ok().and_then(|number| missing.get(number));
            let Some((file, range)) = found else { return Ok(()) };
            let (at, len) = (range.start, range.end.saturating_sub(range.start));
            let out_of_memory = || AnyError::Io { at, len, source: io::ErrorKind::OutOfMemory.into() };
            let size = usize::try_from(len).map_err(|_| out_of_memory())?;
            buffer.resize(size).map_err(|_| out_of_memory())?;
            self.read_file(container, *file, at, buffer)?;
            self.observe_all(*file, at, buffer);
            match self.failure() {
                Some(failure) => Err(ClaimError::Damaged(failure)),
                // These bytes are not reported as progress, because they are not wanted values.
                None if work.advance(0).is_break() => Err(AnyError::Cancelled.into()),
                None => Ok(()),
            }
        };
        let is_in_order = missing.iter().any(|(file, _)| self.is_in_order(*file));
        let work = if is_in_order { &Execution { threads: 1, ..*work } } else { work };
        work.each(missing.len() as u64, AlignedBuf::default, one, Ok)
    }

    /// Reads bytes that are hashed and then dropped.
    fn read_file(
        &self,
        container: &(dyn Container + Sync),
        file: usize,
        at: u64,
        out: &mut [u8],
    ) -> Result<(), AnyError> {
        let source = if self.is_deferred() { container.source_of(file).ok() } else { None };
        match source.and_then(Source::unproved) {
            Some(source) => {
                let len = out.len() as u64;
                source.read_into(at, out).map_err(|source| AnyError::Io { at, len, source })
            }
            None => container.read_file(file, at, out),
        }
    }
}
