//! Parses bytes into an [`Index`], without I/O.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::author::{Cursor, Parser};
use modelfmt_core::{Limits, Part};

use super::index::{Index, Sections};
use super::wire::{HEADER_LEN, Header};
use crate::error::{Error, Fault, Result};

/// The number of bytes to request first. Most metadata fits.
const FIRST_READ: u64 = 4 << 10;

/// Parses an [`Index`] from the byte ranges that it asks for; see [`Parser`].
///
/// It asks for the header and the metadata.
#[derive(Debug)]
pub struct IndexParser {
    file_len: u64,
    limits: Limits,
    state: State,
}

/// The parts that have been read so far.
#[derive(Debug)]
enum State {
    /// Nothing yet.
    Start,
    /// The header.
    Head(Header, Sections),
    /// Everything.
    Done(Box<Index>),
}

impl IndexParser {
    pub(super) const fn new(file_len: u64, limits: Limits) -> Self {
        Self { file_len, limits, state: State::Start }
    }

    /// Returns the range that the next step needs.
    fn wants(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Start if self.file_len == 0 => None,
            State::Start => Some(0..HEADER_LEN.min(self.file_len)),
            State::Head(_, sections) => Some(sections.metadata.range()),
            State::Done(_) => None,
        }
    }

    /// Takes one step. `bytes` is exactly the range that `wants` returned.
    fn step(&mut self, bytes: &[u8]) -> Result<()> {
        self.state = match &self.state {
            State::Start => {
                let header = Header::decode(&mut Cursor::new(bytes, 0))?;
                State::Head(header, Sections::new(&header, self.file_len, &self.limits)?)
            }
            State::Head(header, sections) => {
                let parts = (*header, *sections, self.file_len);
                State::Done(Box::new(Index::new(parts, bytes, self.limits.depth)?))
            }
            State::Done(_) => return Ok(()),
        };
        Ok(())
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        let least = self.wants()?;
        let is_start = matches!(self.state, State::Start);
        let end = if is_start { FIRST_READ.min(self.file_len) } else { least.end };
        Some(least.start..end)
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(Range { start, .. }) = self.need() else { return Ok(()) };
        let end = start.saturating_add(bytes.len() as u64);
        while let Some(least) = self.wants().filter(|least| least.start >= start && least.end <= end) {
            let within = |at: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX);
            self.step(bytes.get(within(least.start)..within(least.end)).unwrap_or_default())?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Index> {
        match self.state {
            State::Done(index) => Ok(*index),
            _ => Err(Error::Truncated {
                part: Part::new("header"),
                at: 0,
                need: HEADER_LEN,
                have: self.file_len.min(HEADER_LEN),
            }),
        }
    }
}
