//! Version 1: parses the header, the metadata records and the tensor records into an [`Index`].
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub(crate) mod records;
pub(crate) mod wire;

use std::ops::Range;

use modelfmt_core::{
    CommonError, CommonFault, Limits, Part, TensorTable,
    author::{Cursor, Extent, NewTensor},
};

use crate::checksum::{Checksum, Running};
use crate::error::Fault;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::metadata::Numbers;
use crate::version::Version;
use wire::{FileHeader, MIN_TENSOR_LEN, MetadataRecord, TensorField, TensorRecord, common};

/// The minimum number of bytes per request. Never more bytes than this are read beyond the records.
pub(crate) const WINDOW: u64 = 64 << 10;
/// The maximum number of bytes per request.
const MAX_WINDOW: u64 = 4 << 20;
/// MAG 1, "File Header".
const HEADER_LEN: u64 = FileHeader::LEN as u64;
/// The maximum number of entries to reserve memory for when the header has been read. Memory for more is
/// allocated as they are read.
const ROOM: usize = 1 << 20;

/// Parses an [`Index`] from the byte ranges that it asks for.
#[derive(Debug)]
pub(crate) struct Parser {
    limits: Limits,
    require_checksum: bool,
    file_len: u64,
    /// The offset of the next record.
    at: u64,
    /// The bytes of that record that have already been fed, so that no byte is requested twice.
    carry: Vec<u8>,
    state: Option<Records>,
}

/// The header and the parts that have been read after it.
#[derive(Debug)]
struct Records {
    header: FileHeader,
    tensors: TensorTable,
    numbers: Numbers,
    running: Running,
}

impl Records {
    fn metadata_left(&self) -> u64 {
        u64::from(self.header.num_meta_kv).saturating_sub(self.numbers.len() as u64)
    }

    fn tensors_left(&self) -> u64 {
        u64::from(self.header.num_tensors).saturating_sub(self.tensors.len() as u64)
    }

    /// Returns the minimum length of the records that have not been read yet.
    fn min_left(&self) -> u64 {
        self.metadata_left()
            .saturating_mul(MetadataRecord::MIN_LEN)
            .saturating_add(self.tensors_left().saturating_mul(MIN_TENSOR_LEN))
    }
}

impl Parser {
    /// Creates a parser for a file of `file_len` bytes. Without `require_checksum`, a file that matches
    /// neither checksum is accepted.
    pub(crate) const fn new(file_len: u64, limits: Limits, require_checksum: bool) -> Self {
        Self { limits, require_checksum, file_len, at: 0, carry: Vec::new(), state: None }
    }

    fn check_len(&self, len: u64) -> Result<()> {
        Limits::check("the length of the records", len, self.limits.index_len)?;
        Ok(())
    }

    fn begin(&self, c: &mut Cursor<'_>, bytes: &[u8]) -> Result<Records> {
        let header = FileHeader::decode(c)?;
        let (tensors, entries) = (u64::from(header.num_tensors), u64::from(header.num_meta_kv));
        Limits::check("the number of tensors", tensors, self.limits.tensors)?;
        Limits::check("the number of metadata entries", entries, self.limits.entries)?;
        let metadata_len = entries.saturating_mul(MetadataRecord::MIN_LEN);
        let have = self.file_len.saturating_sub(HEADER_LEN);
        let part = Part::new("header").with_field("num_meta_kv");
        let entries = Limits::fits(part, HEADER_LEN, entries, MetadataRecord::MIN_LEN, have)?;
        let part = Part::new("header").with_field("num_tensors");
        let have = have.saturating_sub(metadata_len);
        let tensors = Limits::fits(part, HEADER_LEN, tensors, MIN_TENSOR_LEN, have)?;
        self.check_len(
            HEADER_LEN
                .saturating_add(metadata_len)
                .saturating_add((tensors as u64).saturating_mul(MIN_TENSOR_LEN)),
        )?;
        let (entries, tensors) = (entries.min(ROOM), tensors.min(ROOM));
        Ok(Records {
            header,
            tensors: TensorTable::comparing_later(tensors),
            numbers: Numbers::with_capacity(entries),
            running: Running::new(FileHeader::around_checksum(bytes.get(..c.consumed()).unwrap_or_default())),
        })
    }

    /// Reads records until there are no more records or bytes. Returns the end of the last complete record in
    /// the bytes.
    fn records(&self, records: &mut Records, c: &mut Cursor<'_>) -> Result<usize> {
        let mut complete = c.consumed();
        while records.min_left() > 0 {
            match self.record(records, c) {
                Ok(()) => complete = c.consumed(),
                // The record continues after the bytes that were fed.
                Err(Error::Truncated { .. })
                    if c.offset().saturating_add(c.remaining() as u64) < self.file_len =>
                {
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(complete)
    }

    #[inline]
    fn record(&self, records: &mut Records, c: &mut Cursor<'_>) -> Result<()> {
        if records.metadata_left() > 0 {
            self.metadata_record(&mut records.numbers, c)?;
        } else {
            self.tensor_record(&mut records.tensors, c)?;
        }
        self.check_len(c.offset())
    }

    fn metadata_record(&self, numbers: &mut Numbers, c: &mut Cursor<'_>) -> Result<()> {
        let entry = numbers.len() as u64;
        let MetadataRecord { key, value } = MetadataRecord::decode(c, entry)?;
        let key_len = key.len() as u64;
        Limits::check("the length of a metadata key", key_len, self.limits.name_len)?;
        numbers.push(key, value).map_err(|fault| Error::Malformed {
            part: Part::entry("metadata record", entry).with_name(key).with_field("key"),
            at: c.offset().saturating_sub(key_len),
            fault,
        })
    }

    #[inline]
    fn tensor_record(&self, tensors: &mut TensorTable, c: &mut Cursor<'_>) -> Result<()> {
        let at = c.offset();
        let entry = tensors.len() as u64;
        let TensorRecord { key: name, dtype, numel, offset, shape } = TensorRecord::decode(c, entry)?;
        let name_len = name.len() as u64;
        Limits::check("the length of a tensor name", name_len, self.limits.name_len)?;
        Limits::check("the rank of a tensor", shape.len() as u64, self.limits.rank)?;
        let part = |field| Part::entry("tensor record", entry).with_name(name).with_field(field);
        let tensor = NewTensor { name, dtype, offset: Some(offset), packed_nbytes: 0 };
        let nbytes = tensors.push(tensor, shape).map_err(|fault| match fault {
            CommonFault::Duplicate(_) => common(part("key"), c.offset().saturating_sub(name_len), fault),
            _ => common(part("shape"), at.saturating_add(TensorField::SHAPE), fault),
        })?;
        // An element of every MAG dtype takes whole bytes.
        let expected = nbytes.checked_div(dtype.size().unwrap_or(1).into()).unwrap_or_default();
        if numel != expected {
            let fault = Fault::Numel { found: numel, expected };
            return Err(Error::Malformed {
                part: part("numel"),
                at: at.saturating_add(TensorField::NUMEL),
                fault,
            });
        }
        Extent::new(offset, nbytes, self.file_len)
            .map_err(|fault| common(part("offset"), at.saturating_add(TensorField::OFFSET), fault))?;
        Ok(())
    }
}

impl Parser {
    /// Returns the range of bytes that is needed next; see [`modelfmt_core::author::Parser`].
    pub(crate) fn need(&self) -> Option<Range<u64>> {
        let left = self.state.as_ref().map_or(HEADER_LEN, Records::min_left);
        let carried = self.carry.len() as u64;
        let begin = self.at.saturating_add(carried);
        if left == 0 || begin >= self.file_len {
            return None; // at the end of the file `finish` says what is missing
        }
        let len = left.saturating_sub(carried).clamp(WINDOW, MAX_WINDOW);
        Some(begin..self.file_len.min(begin.saturating_add(len)))
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let mut carry = std::mem::take(&mut self.carry);
        let bytes = if carry.is_empty() {
            bytes
        } else {
            carry.extend_from_slice(bytes);
            &carry
        };
        let mut c = Cursor::new(bytes, self.at);
        let mut records = match self.state.take() {
            Some(records) => records,
            None => self.begin(&mut c, bytes)?,
        };
        let begun = c.consumed();
        let complete = self.records(&mut records, &mut c)?;
        records.running.update(bytes.get(begun..complete).unwrap_or_default());
        self.at = self.at.saturating_add(complete as u64);
        if records.min_left() > 0 {
            self.carry = bytes.get(complete..).unwrap_or_default().to_vec();
        }
        self.state = Some(records);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Index> {
        let Some(mut records) = self.state else {
            let part = Part::new("header");
            return Err(CommonError::Truncated { part, at: 0, need: HEADER_LEN, have: self.file_len }.into());
        };
        if records.min_left() > 0 {
            let part =
                Part::new(if records.metadata_left() > 0 { "metadata records" } else { "tensor records" });
            let have = self.file_len.saturating_sub(self.at);
            return Err(CommonError::Truncated { part, at: self.at, need: records.min_left(), have }.into());
        }
        records.tensors.compare_names().map_err(|(position, name, fault)| {
            common(Part::entry("tensor record", position as u64).with_name(&name), HEADER_LEN, fault)
        })?;
        let stored = records.header.checksum;
        let checksum = records.running.kind_of(stored);
        let checksum_fault = checksum.is_none().then(|| Fault::Checksum {
            stored,
            crc32: records.running.value(Checksum::Crc32),
            crc32c: records.running.value(Checksum::Crc32c),
        });
        if let Some(fault) = &checksum_fault
            && self.require_checksum
        {
            let part = Part::new("header").with_field("checksum");
            return Err(Error::Malformed { part, at: FileHeader::CHECKSUM_AT as u64, fault: fault.clone() });
        }
        records.tensors.shrink_to_fit();
        records.numbers.shrink_to_fit();
        let data = Extent::new(self.at, self.file_len.saturating_sub(self.at), self.file_len)
            .map_err(|fault| common(Part::new("data"), self.at, fault))?;
        Ok(Index {
            version: Version::V1,
            tensors: records.tensors,
            numbers: records.numbers,
            #[cfg(feature = "v0_3")]
            manifest: None,
            checksum,
            checksum_fault,
            index_end: self.at,
            data,
            is_big_endian: false,
            file_len: self.file_len,
        })
    }
}
