//! Parses bytes into an [`Index`], without I/O.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Limits, Part,
    author::{Cursor, Extent, Parser},
};

use crate::error::{Error, Fault, Result};
use crate::header;
use crate::index::Index;
use crate::wire::LEN_SIZE;

/// Parses an [`Index`] from the byte ranges that it asks for.
///
/// It asks for the length of the header, and then for the header.
#[derive(Debug)]
pub struct IndexParser {
    file_len: u64,
    limits: Limits,
    state: State,
}

#[derive(Debug)]
enum State {
    Length,
    Header(Extent),
    Done(Box<Index>),
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes.
    #[must_use]
    pub const fn new(file_len: u64, limits: Limits) -> Self {
        Self { file_len, limits, state: State::Length }
    }

    /// Returns the range of the length field, or less if the file ends earlier.
    fn length_range(&self) -> Range<u64> {
        0..LEN_SIZE.min(self.file_len)
    }

    fn length(&self, bytes: &[u8]) -> Result<Extent> {
        let mut cursor = Cursor::new(bytes, 0);
        cursor.record("header", None);
        let len = cursor.u64("length")?;
        let have = self.file_len.saturating_sub(LEN_SIZE);
        if len > have {
            // This check comes before the limit: if the file is cut short or is not a safetensors file, an
            // error about a limit would mislead.
            return Err(Error::Truncated { part: Part::new("header"), at: LEN_SIZE, need: len, have });
        }
        Limits::check("the length of the header", len, self.limits.index_len)?;
        if len == 0 {
            return Err(Error::Malformed {
                part: Part::new("header"),
                at: LEN_SIZE,
                fault: Fault::NotAnObject,
            });
        }
        Extent::new(LEN_SIZE, len, self.file_len).map_err(|fault| Error::Malformed {
            part: Part::new("header"),
            at: 0,
            fault: fault.into(),
        })
    }

    fn header(&self, extent: Extent, bytes: &[u8]) -> Result<Index> {
        let mut cursor = Cursor::new(bytes, extent.offset());
        cursor.record("header", None);
        let json = cursor.bytes(extent.len(), "JSON")?;
        let read = header::parse(json, extent.offset(), self.file_len, &self.limits)?;
        Ok(Index {
            tensors: read.tensors,
            metadata: read.metadata,
            header_len: extent.len(),
            file_len: self.file_len,
        })
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        match &self.state {
            // There is nothing to read in an empty file; `finish` reports the error.
            State::Length => Some(self.length_range()).filter(|range| !range.is_empty()),
            State::Header(extent) => Some(extent.range()),
            State::Done(_) => None,
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.state = match self.state {
            State::Length => State::Header(self.length(bytes)?),
            State::Header(extent) => State::Done(Box::new(self.header(extent, bytes)?)),
            State::Done(_) => return Ok(()),
        };
        Ok(())
    }

    fn finish(self) -> Result<Index> {
        match self.state {
            State::Done(index) => Ok(*index),
            State::Length => self.length(&[]).and_then(|extent| self.header(extent, &[])),
            State::Header(extent) => self.header(extent, &[]),
        }
    }
}
