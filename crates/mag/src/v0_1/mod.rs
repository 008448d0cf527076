//! Versions 0.1.0 and 0.2.0, called snapshots: parses the header, the string pool and the descriptors into an
//! [`Index`].
//!
//! ```text
//! ┌──────────────────────────────┐ 0
//! │ header (32 bytes)            │ magic, version, time, CRC-32C, number of tensors
//! │ "SRP!" strings               │ count, offsets, the names end to end
//! │ "MDT!" metadata              │ always empty
//! │ "DSC!" descriptor × n        │ rank, dtype, name's number, elements, offset, dims
//! │ "BUF!"                       │
//! ├──────────────────────────────┤ 0.1.0: here; 0.2.0: the next multiple of 16
//! │ values                       │ 0.1.0: without gaps; 0.2.0: each at a multiple of 16
//! └──────────────────────────────┘
//! ```
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod wire;

pub(crate) use wire::CHECKSUM_AT;

use std::ops::Range;

use modelfmt_core::{
    Limits, Part, TensorTable,
    author::{Cursor, Extent, NameTable, NewTensor, align_up},
};

use crate::checksum::Checksum;
use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::metadata::Numbers;
use crate::v1::WINDOW;
use crate::v1::wire::common;
use crate::version::Version;
use wire::{COVERED_FROM, Descriptor, Field, Header, MIN_DESCRIPTOR_LEN};

/// The alignment of tensors in version 0.2.0.
pub(crate) const ALIGNMENT: u64 = 16;

/// Parses an [`Index`] from the byte ranges that it asks for.
///
/// The length of each part is in the part before it. So the parser parses the bytes that it has, and asks for
/// more when they end. Each request is proportional to the bytes so far, so that all attempts together take
/// only a few times as long as a single one.
#[derive(Debug)]
pub(crate) struct Parser {
    limits: Limits,
    require_checksum: bool,
    file_len: u64,
    /// The bytes that have been fed so far, if they were not enough.
    bytes: Vec<u8>,
    /// The end of the bytes that are needed.
    wanted: u64,
    index: Option<Index>,
}

impl Parser {
    pub(crate) const fn new(file_len: u64, limits: Limits, require_checksum: bool) -> Self {
        Self { limits, require_checksum, file_len, bytes: Vec::new(), wanted: 0, index: None }
    }

    /// Returns the range of bytes that is needed next; see [`modelfmt_core::author::Parser`].
    pub(crate) fn need(&self) -> Option<Range<u64>> {
        let have = self.bytes.len() as u64;
        (self.index.is_none() && have < self.wanted).then_some(have..self.wanted)
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let mut fed = std::mem::take(&mut self.bytes);
        let bytes = if fed.is_empty() {
            bytes
        } else {
            fed.extend_from_slice(bytes);
            &fed
        };
        let have = bytes.len() as u64;
        match self.parse(bytes) {
            Ok(index) => self.index = Some(index),
            // The part continues after the bytes that were fed.
            Err(Error::Truncated { at, need, .. })
                if have < self.file_len && at.saturating_add(need) <= self.file_len =>
            {
                let wanted = at.saturating_add(need).max(have.saturating_add(WINDOW.max(have / 2)));
                self.wanted = wanted.min(self.file_len);
                self.bytes = if fed.is_empty() { bytes.to_vec() } else { fed };
            }
            // Reports how many bytes the file has, not how many of them have been read.
            Err(Error::Truncated { part, at, need, .. }) => {
                let have = self.file_len.saturating_sub(at);
                return Err(Error::Truncated { part, at, need, have });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Index> {
        let part = || Part::new("header");
        let nothing = || Error::Truncated { part: part(), at: 0, need: 32, have: self.file_len };
        self.index.ok_or_else(nothing)
    }

    fn parse(&self, bytes: &[u8]) -> Result<Index> {
        let mut c = Cursor::new(bytes, 0);
        let header = Header::decode(&mut c)?;
        let tensors = u64::from(header.tensors);
        Limits::check("the number of tensors", tensors, self.limits.tensors)?;
        let names = wire::strings(&mut c, &self.limits)?;
        wire::mark(&mut c, "metadata", "MDT!")?;
        wire::mark(&mut c, "descriptors", "DSC!")?;
        let have = self.file_len.saturating_sub(c.offset());
        let part = Part::new("header").with_field("number of tensors");
        let room = Limits::fits(part, c.offset(), tensors, MIN_DESCRIPTOR_LEN, have)?;
        self.check_len(c.offset().saturating_add(tensors.saturating_mul(MIN_DESCRIPTOR_LEN)))?;
        let mut end = c.clone();
        (0..tensors).try_for_each(|entry| wire::skip_descriptor(&mut end, entry))?;
        let covered = bytes.get(COVERED_FROM..end.consumed()).unwrap_or_default();
        wire::mark(&mut end, "values", "BUF!")?;
        self.check_len(end.offset())?;
        let begin = match header.version {
            Version::V0_1 => end.offset(),
            _ => align_up(end.offset(), ALIGNMENT).unwrap_or(u64::MAX).min(self.file_len),
        };
        let data = Extent::new(begin, self.file_len.saturating_sub(begin), self.file_len)
            .map_err(|fault| common(Part::new("values"), begin, fault))?;
        let mut table = TensorTable::comparing_later(room);
        let descriptors_at = c.offset();
        for entry in 0..tensors {
            self.tensor(&mut c, entry, &header, &names, data, &mut table)?;
        }
        table.compare_names().map_err(|(position, name, fault)| {
            let part = Part::entry("descriptor", position as u64).with_name(&name);
            wire::unlisted(part, descriptors_at, fault)
        })?;
        let fault = checksum_fault(header.checksum, covered);
        if let Some(fault) = fault.clone().filter(|_| self.require_checksum) {
            let part = Part::new("header").with_field("checksum");
            return Err(Error::Malformed { part, at: CHECKSUM_AT, fault });
        }
        table.shrink_to_fit();
        Ok(Index {
            version: header.version,
            tensors: table,
            numbers: Numbers::default(),
            #[cfg(feature = "v0_3")]
            manifest: None,
            checksum: fault.is_none().then_some(Checksum::Crc32c),
            checksum_fault: fault,
            index_end: end.offset(),
            data,
            is_big_endian: false,
            file_len: self.file_len,
        })
    }

    fn check_len(&self, len: u64) -> Result<()> {
        Limits::check("the length of the descriptors", len, self.limits.index_len)?;
        Ok(())
    }

    fn tensor(
        &self,
        c: &mut Cursor<'_>,
        entry: u64,
        header: &Header,
        names: &NameTable,
        data: Extent,
        table: &mut TensorTable,
    ) -> Result<()> {
        let at = c.offset();
        let Descriptor { dtype, name: number, elements, offset, dims } =
            wire::descriptor(c, entry, header.version)?;
        let part = Part::entry("descriptor", entry);
        let Some(name) = usize::try_from(number).ok().and_then(|number| names.name(number)) else {
            let fault = Fault::NameNumber { found: number, count: names.len() };
            return Err(Error::Malformed {
                part: part.with_field("name"),
                at: at.saturating_add(Field::NAME),
                fault,
            });
        };
        let part = part.with_name(name);
        Limits::check("the rank of a tensor", dims.len() as u64, self.limits.rank)?;
        let begin = data.offset().checked_add(offset);
        let tensor = NewTensor { name, dtype, offset: begin, packed_nbytes: 0 };
        let nbytes = table.push(tensor, dims).map_err(|fault| wire::unlisted(part.clone(), at, fault))?;
        // An element of every MAG dtype takes whole bytes.
        let expected = nbytes.checked_div(dtype.size().unwrap_or(1).into()).unwrap_or_default();
        if elements != expected {
            let fault = Fault::Numel { found: elements, expected };
            return Err(Error::Malformed {
                part: part.with_field("elements"),
                at: at.saturating_add(Field::ELEMENTS),
                fault,
            });
        }
        data.part(offset, nbytes)
            .map_err(|fault| common(part.with_field("offset"), at.saturating_add(Field::OFFSET), fault))?;
        Ok(())
    }
}

fn checksum_fault(stored: u32, covered: &[u8]) -> Option<Fault> {
    let computed = crc32c::crc32c(covered);
    (stored != computed).then_some(Fault::Crc32c { stored, computed })
}
