//! Parses bytes into an [`Index`], without I/O.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Limits, Part, TensorTable,
    author::{Cursor, Extent, NewTensor, Parser},
};

use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::metadata::{Entries, Entry};
use crate::quant::Quants;
use crate::sizevars::SizeVars;
use crate::wire::{
    self, ALIGNMENT, BlobRecord, HEADER_FIELDS, HEADER_LEN, Header, MetadataRecord, SizeVarRecord, Version,
    malformed,
};

/// The number of bytes of the tables to request at once. In most files one such window holds all tables.
const WINDOW: u64 = 8 << 20;

/// The names in errors of the tables' records, in the order of the tables.
const RECORDS: [&str; 3] = ["size variable", "metadata entry", "tensor entry"];

/// The part of the file that the parser reads next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Header,
    /// The records of the table with this number.
    Table(usize),
    Payloads,
}

/// Parses an [`Index`] from the byte ranges that it asks for.
///
/// It asks for the header, the three tables and the payloads of the metadata.
#[derive(Debug)]
pub struct IndexParser {
    file_len: u64,
    stage: Stage,
    /// The offset of the next record in the file.
    at: u64,
    /// The number of records of the current table that have been read.
    done: u32,
    /// The number of bytes of the tables to request at once: `WINDOW`, or less in tests …
    window: u64,
    /// … and more while a record does not fit.
    wanted: u64,
    /// The extents of the metadata payloads, known once the tables have been read.
    spans: Vec<Extent>,
    index: Index,
    /// The nonzero padding that has been found, if the caller asked for it.
    notes: Option<Vec<Error>>,
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes.
    #[must_use]
    pub fn new(file_len: u64, limits: &Limits) -> Self {
        let header = Header { version: Version::V1, counts: [0; 3], tables: [0; 3], data: 0, file_size: 0 };
        let index = Index {
            header,
            ends: [0; 3],
            sizevars: SizeVars::default(),
            entries: Entries::default(),
            tensors: TensorTable::default(),
            quants: Quants::default(),
            limits: limits.clone(),
        };
        Self {
            file_len,
            stage: Stage::Header,
            at: 0,
            done: 0,
            window: WINDOW,
            wanted: WINDOW,
            spans: Vec::new(),
            index,
            notes: None,
        }
    }

    /// Creates a parser that also records nonzero padding in the header and the tables, for
    /// [`finish_with_notes`](Self::finish_with_notes).
    pub(crate) fn noting(file_len: u64, limits: &Limits) -> Self {
        Self { notes: Some(Vec::new()), ..Self::new(file_len, limits) }
    }

    /// Returns the index and the recorded errors about padding.
    pub(crate) fn finish_with_notes(mut self) -> Result<(Index, Vec<Error>)> {
        let notes = self.notes.take().unwrap_or_default();
        Ok((self.finish()?, notes))
    }

    fn feed_header(&mut self, bytes: &[u8]) -> Result<()> {
        let mut c = Cursor::new(bytes, 0);
        let header = Header::decode(&mut c)?;
        let padding = c.bytes(HEADER_LEN - HEADER_FIELDS, "padding")?;
        self.note(Part::new("header"), HEADER_FIELDS, padding);
        check_offsets(&header, self.file_len)?;
        let tensor_len = wire::tensor_min_len(header.version);
        let min_lens = [SizeVarRecord::MIN_LEN, MetadataRecord::MIN_LEN, tensor_len];
        let maxima = [self.index.limits.entries, self.index.limits.entries, self.index.limits.tensors];
        let counted =
            ["the number of size variables", "the number of metadata entries", "the number of tensors"];
        Limits::check(
            "the length of the tables",
            header.data.saturating_sub(HEADER_LEN),
            self.index.limits.index_len,
        )?;
        let mut room = [0; 3];
        for (number, room) in room.iter_mut().enumerate() {
            let of = |list: &[u64; 3]| list.get(number).copied().unwrap_or_default();
            let count = u64::from(header.counts.get(number).copied().unwrap_or_default());
            if let Some(what) = counted.get(number) {
                Limits::check(what, count, of(&maxima))?;
            }
            let (start, end) = (of(&header.tables), table_end(&header, number));
            let part = Part::new(RECORDS.get(number).copied().unwrap_or_default());
            *room = Limits::fits(part, start, count, of(&min_lens), end.saturating_sub(start))?;
        }
        let [sizevars, entries, tensors] = room;
        self.index.header = header;
        self.index.sizevars = SizeVars::with_capacity(sizevars);
        self.index.entries = Entries::with_capacity(entries);
        self.index.tensors = TensorTable::comparing_later(tensors);
        self.begin_table(0)
    }

    /// Moves to the first table from `number` on that has records, or to the payloads if there is none.
    fn begin_table(&mut self, mut number: usize) -> Result<()> {
        let header = self.index.header;
        self.done = 0;
        while let Some((&count, &start)) = header.counts.get(number).zip(header.tables.get(number)) {
            if count > 0 {
                (self.stage, self.at) = (Stage::Table(number), start);
                return Ok(());
            }
            if let Some(end) = self.index.ends.get_mut(number) {
                *end = start;
            }
            number = number.saturating_add(1);
        }
        self.stage = Stage::Payloads;
        self.spans = self.index.entries.spans(&self.index.limits, self.file_len)?;
        Ok(())
    }

    fn feed_tables(&mut self, bytes: &[u8]) -> Result<()> {
        let (base, before) = (self.at, (self.stage, self.done));
        while let Stage::Table(number) = self.stage {
            let end = table_end(&self.index.header, number);
            let skip = usize::try_from(self.at.saturating_sub(base)).unwrap_or(usize::MAX);
            let Some(rest) = bytes.get(skip..) else { break };
            let complete = rest.len() as u64 >= end.saturating_sub(self.at);
            let len = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(rest.len());
            self.feed_table(number, rest.get(..len).unwrap_or_default(), complete)?;
            if self.index.header.counts.get(number) != Some(&self.done) {
                break;
            }
            if let Some(end) = self.index.ends.get_mut(number) {
                *end = self.at;
            }
            self.begin_table(number.saturating_add(1))?;
        }
        // If no record fits the window, the next window is twice as large.
        let stuck = before == (self.stage, self.done);
        self.wanted = if stuck { self.wanted.saturating_mul(2) } else { self.window };
        Ok(())
    }

    /// Reads the records of a table that `bytes` contains. `complete` says whether `bytes` reaches the end of
    /// the table.
    fn feed_table(&mut self, number: usize, bytes: &[u8], complete: bool) -> Result<()> {
        let count = self.index.header.counts.get(number).copied().unwrap_or_default();
        let mut c = Cursor::new(bytes, self.at);
        while self.done < count {
            c.record(RECORDS.get(number).copied().unwrap_or_default(), Some(self.done.into()));
            let taken = match number {
                0 => self.take_sizevar(&mut c),
                1 => self.take_entry(&mut c),
                _ => self.take_tensor(&mut c),
            };
            match taken {
                Ok(()) => {}
                Err(Error::Truncated { .. }) if !complete => return Ok(()),
                Err(error) => return Err(error),
            }
            self.done = self.done.saturating_add(1);
            self.at = c.offset();
        }
        Ok(())
    }

    fn take_sizevar(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let start = c.offset();
        let SizeVarRecord { name, value } = SizeVarRecord::decode(c, &self.index.limits)?;
        let pushed = self.index.sizevars.push(name.text, value);
        pushed.map_err(|fault| malformed(c.part("name"), start, fault))?;
        self.note(c.part("name"), name.padding_at, name.padding);
        Ok(())
    }

    fn take_entry(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let start = c.offset();
        let MetadataRecord { key, value_type, nbytes, offset } =
            MetadataRecord::decode(c, &self.index.limits)?;
        let extent = self.blob(offset, nbytes).map_err(|fault| {
            malformed(c.part("value_offset").with_name(key.text), c.offset().saturating_sub(8), fault)
        })?;
        let pushed = self.index.entries.push(key.text, Entry { value_type, extent });
        pushed.map_err(|fault| malformed(c.part("key"), start, fault))?;
        self.note(c.part("key"), key.padding_at, key.padding);
        Ok(())
    }

    fn take_tensor(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let start = c.offset();
        let record = wire::decode_tensor(c, &self.index.limits, self.index.header.version)?;
        let (name, data, quant) = (record.name, record.data, record.quant);
        let part = |field| c.part(field).with_name(name.text);
        let of_data = ["data_nbytes", "data_offset"];
        let of_quant = ["quant_nbytes", "quant_offset"];
        let values = self.place(data, of_data, Fault::DeclaredData, &part)?;
        let payload = self.place(quant, of_quant, Fault::UndeclaredQuant, &part)?;
        let offset = values.map(Extent::offset);
        let tensor = NewTensor { name: name.text, dtype: record.dtype, offset, packed_nbytes: 0 };
        let pushed = self.index.tensors.push(tensor, record.dims);
        let expected = pushed.map_err(|f| malformed(c.part("name"), start, f))?;
        if data.is_there && data.nbytes != expected {
            let wrong = modelfmt_core::CommonFault::Nbytes { found: data.nbytes, expected };
            return Err(malformed(part("data_nbytes"), data.at, wrong));
        }
        if let Some(extent) = payload {
            self.index.quants.push(self.index.tensors.len().saturating_sub(1), extent);
        }
        self.note(c.part("name"), name.padding_at, name.padding);
        Ok(())
    }

    /// Returns the extent of a tensor's values or quant payload. If there are none, the offset and the length
    /// must both be 0 (docs/formats/oinf.md#declared-tensors).
    fn place(
        &self,
        record: BlobRecord,
        [nbytes, offset]: [&'static str; 2],
        absent: fn(u64) -> Fault,
        part: &impl Fn(&'static str) -> Part,
    ) -> Result<Option<Extent>> {
        if record.is_there {
            let extent = self.blob(record.offset, record.nbytes);
            return Ok(Some(
                extent.map_err(|fault| malformed(part(offset), record.at.saturating_add(8), fault))?,
            ));
        }
        if record.offset != 0 {
            return Err(malformed(part(offset), record.at.saturating_add(8), absent(record.offset)));
        }
        if record.nbytes != 0 {
            return Err(malformed(part(nbytes), record.at, absent(record.nbytes)));
        }
        Ok(None)
    }

    /// Returns the extent of a payload, after checking that it is aligned and inside the data section (OINF
    /// 1, "Validation Checklist").
    fn blob(&self, offset: u64, nbytes: u64) -> Result<Extent, Fault> {
        if !offset.is_multiple_of(ALIGNMENT) {
            return Err(Fault::Unaligned(offset));
        }
        if offset < self.index.header.data {
            return Err(Fault::BeforeData { offset, data: self.index.header.data });
        }
        Ok(Extent::new(offset, nbytes, self.file_len)?)
    }

    fn note(&mut self, part: Part, at: u64, padding: &[u8]) {
        if let Some(notes) = &mut self.notes
            && let Some((position, &byte)) = padding.iter().enumerate().find(|&(_, &byte)| byte != 0)
        {
            notes.push(malformed(part, at.saturating_add(position as u64), Fault::Padding(byte)));
        }
    }

    fn feed_payloads(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(span) = self.spans.get(self.index.entries.span_count()) else { return Ok(()) };
        let mut c = Cursor::new(bytes, span.offset());
        c.record("metadata values", None);
        let bytes = c.bytes(span.len(), "value")?;
        self.index.entries.push_payloads(span.offset(), bytes);
        Ok(())
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        match self.stage {
            Stage::Header => Some(0..HEADER_LEN.min(self.file_len)).filter(|range| !range.is_empty()),
            Stage::Table(_) => Some(self.at..self.at.saturating_add(self.wanted).min(self.index.header.data)),
            Stage::Payloads => self.spans.get(self.index.entries.span_count()).map(|span| span.range()),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        match self.stage {
            Stage::Header => self.feed_header(bytes),
            Stage::Table(_) => self.feed_tables(bytes),
            Stage::Payloads => self.feed_payloads(bytes),
        }
    }

    fn finish(mut self) -> Result<Index> {
        if self.stage == Stage::Header {
            self.feed_header(&[])?; // an empty file: says what is missing
        }
        for position in 0..self.index.entries.values.len() {
            self.index.entries.payload(position, &self.index.limits)?;
        }
        let tables = self.index.header.tables;
        self.index.tensors.compare_names().map_err(|(position, name, fault)| {
            malformed(Part::entry("tensor entry", position as u64).with_name(&name), tables[2], fault)
        })?;
        self.index.note_quants()?;
        self.index.tensors.shrink_to_fit();
        Ok(self.index)
    }
}

/// Returns the latest offset at which a table can end: the start of the next section.
fn table_end(header: &Header, number: usize) -> u64 {
    header.tables.get(number.saturating_add(1)).copied().unwrap_or(header.data)
}

/// Refuses offsets that are not ascending or not multiples of 8 (docs/formats/oinf.md#offsets).
fn check_offsets(header: &Header, file_len: u64) -> Result<()> {
    const FIELDS: [(&str, u64); 4] =
        [("offset_sizevars", 29), ("offset_metadata", 37), ("offset_tensors", 45), ("offset_data", 53)];
    let refuse = |field, at, fault| Err(malformed(Part::new("header").with_field(field), at, fault));
    let (stated, actual) = (header.file_size, file_len);
    if stated != actual {
        return refuse("file_size", 61, Fault::FileSize { stated, actual });
    }
    let mut before = HEADER_LEN;
    for (offset, (field, at)) in header.tables.into_iter().chain([header.data]).zip(FIELDS) {
        if !offset.is_multiple_of(ALIGNMENT) {
            return refuse(field, at, Fault::Unaligned(offset));
        }
        if offset < before {
            return refuse(field, at, Fault::NotAscending { offset, before });
        }
        before = offset;
    }
    if header.data > file_len {
        let fault = modelfmt_core::CommonFault::OutOfBounds { offset: header.data, len: 0, end: file_len };
        return refuse("offset_data", 53, fault.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
