//! Bytes → [`Index`]: what a TOY file holds and where, checked, owned, without I/O.

use std::ops::Range;

use modelfmt_core::author::{Cursor, Extent, NewTensor, Parser};
use modelfmt_core::{CommonError, Limits, Part, TensorTable};

use crate::error::{Error, Fault, Result};
use crate::wire::{HEADER_LEN, MIN_RECORD_LEN, Record, decode_header};

/// What a TOY file holds.
#[derive(Clone, Debug)]
pub struct Index {
    tensors: TensorTable,
    records_end: u64,
    file_len: u64,
}

impl Index {
    /// The tensors in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Where the last record ends.
    pub(crate) const fn records_end(&self) -> u64 {
        self.records_end
    }

    /// The length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }
}

/// What is asked for at once: more than the longest record has.
const WINDOW: u64 = 128 << 10;

/// Makes an [`Index`] of the bytes that it asks for; see [`Parser`].
#[derive(Debug)]
pub struct IndexParser {
    limits: Limits,
    file_len: u64,
    /// Where the next record begins.
    at: u64,
    /// Records that are still to come; `None` before the header.
    left: Option<u64>,
    tensors: TensorTable,
}

impl IndexParser {
    /// A parser for a file of `file_len` bytes.
    #[must_use]
    pub fn new(file_len: u64, limits: Limits) -> Self {
        Self { limits, file_len, at: 0, left: None, tensors: TensorTable::default() }
    }

    fn header(&mut self, c: &mut Cursor<'_>) -> Result<u64> {
        let count = decode_header(c)?;
        Limits::check("the number of tensors", count, self.limits.tensors)?;
        let have = self.file_len.saturating_sub(HEADER_LEN);
        Limits::fits(Part::new("header").with_field("count"), 4, count, MIN_RECORD_LEN, have)?;
        Ok(count)
    }

    fn record(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let at = c.offset();
        let entry = self.tensors.len() as u64;
        let Record { name, dtype, offset, shape } = Record::decode(c, entry)?;
        Limits::check("the length of a name", name.len() as u64, self.limits.name_len)?;
        Limits::check("the rank of a tensor", shape.len() as u64, self.limits.rank)?;
        Limits::check("the length of the records", c.offset(), self.limits.index_len)?;
        let malformed = |fault| {
            let part = Part::entry("record", entry).with_name(name);
            Error::from(CommonError::Malformed { part, at, fault })
        };
        let tensor = NewTensor { name, dtype, offset: Some(offset), packed_nbytes: 0 };
        let nbytes = self.tensors.push(tensor, shape).map_err(malformed)?;
        Extent::new(offset, nbytes, self.file_len).map_err(malformed)?;
        Ok(())
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        let is_done = self.left == Some(0) || self.at >= self.file_len;
        (!is_done).then(|| self.at..self.file_len.min(self.at.saturating_add(WINDOW)))
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let mut c = Cursor::new(bytes, self.at);
        let mut left = match self.left {
            Some(left) => left,
            None => self.header(&mut c)?,
        };
        let end = self.at.saturating_add(bytes.len() as u64);
        self.at = c.offset();
        while left > 0 {
            match self.record(&mut c) {
                Ok(()) => (self.at, left) = (c.offset(), left - 1),
                // The record goes on behind the bytes that we were given.
                Err(Error::Truncated { .. }) if end < self.file_len => break,
                Err(error) => return Err(error),
            }
        }
        self.left = Some(left);
        Ok(())
    }

    fn finish(self) -> Result<Index> {
        match self.left {
            Some(0) => Ok(Index { tensors: self.tensors, records_end: self.at, file_len: self.file_len }),
            left => {
                let need = left.map_or(HEADER_LEN, |left| left.saturating_mul(MIN_RECORD_LEN));
                let have = self.file_len.saturating_sub(self.at);
                Err(CommonError::Truncated { part: Part::new("records"), at: self.at, need, have }.into())
            }
        }
    }
}
