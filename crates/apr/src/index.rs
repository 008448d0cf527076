//! The content of a file: sections, tensors and metadata, checked and owned.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    CommonFault, Encoding, Limits, Location, Part, TensorTable,
    author::{Cursor, Extent, NewTensor, align_up},
};

use crate::error::{Error, Result, malformed};
use crate::metadata::Metadata;
use crate::payload::Image;
use crate::wire::{self, ALIGNMENT, Entry, FOOTER_LEN, Flags, HEADER_LEN, Header, Magic};

/// The sections of a file, all inside it and in this order. If the content is compressed, these are ranges of
/// the decompressed content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections {
    /// The JSON metadata.
    pub metadata: Extent,
    /// The tensor index, with the zeros after its last entry.
    pub index: Extent,
    /// The tensors with their padding: everything from the start of the data section to the footer, or to the
    /// end of the file.
    pub data: Extent,
    /// The CRC of everything before it. Not every file has one (docs/formats/apr.md#footer).
    pub footer: Option<Extent>,
}

/// The content of a header, checked against the length of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) metadata: Extent,
    pub(crate) index: Extent,
    /// The length of the file or, if it is compressed, of its decompressed form.
    pub(crate) len: u64,
}

impl Head {
    pub(crate) fn new(header: &Header, len: u64, limits: &Limits) -> Result<Self> {
        let part = |field| Part::new("header").with_field(field);
        let extent = |field, at, start, size| {
            Extent::new(start, size, len).map_err(|fault| malformed(part(field), at, fault))
        };
        let follows = |field, at, found: u64, end: u64| {
            let fault = crate::Fault::SectionOrder { found, end };
            if found < end { Err(malformed(part(field), at, fault)) } else { Ok(()) }
        };
        let metadata = extent("metadata_size", 20, HEADER_LEN, header.metadata_size.into())?;
        follows("index_offset", 24, header.index_offset, metadata.end())?;
        follows("data_offset", 32, header.data_offset, header.index_offset)?;
        let index_len = header.data_offset.saturating_sub(header.index_offset);
        let index = extent("data_offset", 32, header.index_offset, index_len)?;
        Limits::check("the length of the metadata", metadata.len(), limits.metadata_len)?;
        Limits::check("the length of the index", index.len(), limits.index_len)?;
        if metadata.is_empty() {
            let fault = CommonFault::Metadata("expected a JSON object, found nothing".to_owned());
            return Err(malformed(Part::new("metadata"), HEADER_LEN, fault));
        }
        Ok(Self { metadata, index, len })
    }
}

/// The content of an APR file. It is owned and can be shared by any number of readers.
///
/// Every offset, length, name and shape in it has been checked against the format and the length of the file.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) header: Header,
    pub(crate) sections: Sections,
    pub(crate) file_len: u64,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Tensors,
    /// The decompressed form of a compressed file.
    pub(crate) image: Option<Image>,
}

impl Index {
    /// Returns the first four bytes: the current magic, or the one of aprender 0.20 to 0.24.
    #[must_use]
    pub const fn magic(&self) -> Magic {
        self.header.magic
    }

    /// Returns the major and minor version.
    #[must_use]
    pub const fn version(&self) -> (u8, u8) {
        self.header.version
    }

    /// Returns the flags. They do not describe the content reliably, because not every writer sets them
    /// (docs/formats/apr.md#what-flags-mean).
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.header.flags
    }

    /// Returns the sections of the file.
    #[must_use]
    pub const fn sections(&self) -> Sections {
        self.sections
    }

    /// Returns the length in bytes of the file that this index was made for.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the metadata.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the tensors in the order of the index, which sorts them by name.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors.table
    }

    /// Returns the location of the tensor at a position. If the file is compressed, the offset is in its
    /// decompressed form.
    #[must_use]
    pub fn location(&self, position: usize) -> Option<Location> {
        let encoding = self.image.as_ref().map_or(Encoding::Raw, Image::encoding);
        Some(Location { encoding, ..self.tensors.table.location(position)? })
    }

    /// Returns the heap memory in bytes that the tensors and the decompressed content take. Metadata is not
    /// counted.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.tensors
            .table
            .heap_size()
            .saturating_add(self.image.as_ref().map_or(0, |image| image.bytes().len()))
    }

    /// Returns the length of the file or, if it is compressed, of its decompressed form.
    pub(crate) fn len(&self) -> u64 {
        self.image.as_ref().map_or(self.file_len, |image| image.bytes().len() as u64)
    }

    pub(crate) fn new(
        (header, head, file_len): (Header, Head, u64),
        metadata: Metadata,
        tensors: Tensors,
        image: Option<Image>,
    ) -> Result<Self> {
        let footer = Extent::new(tensors.end, FOOTER_LEN, head.len).ok().filter(|f| f.end() == head.len);
        let start = head.index.end();
        let end = footer.map_or(head.len, Extent::offset);
        let data = Extent::new(start, end.saturating_sub(start), head.len)
            .map_err(|fault| malformed(Part::new("data"), start, fault))?;
        let sections = Sections { metadata: head.metadata, index: head.index, data, footer };
        Ok(Self { header, sections, file_len, metadata, tensors, image })
    }
}

/// The tensor index.
#[derive(Clone, Debug)]
pub(crate) struct Tensors {
    /// The tensors. If the file is compressed, their offsets are in its decompressed form.
    pub(crate) table: TensorTable,
    /// The end of the last entry.
    pub(crate) index_end: u64,
    /// The end of the last tensor's padding, even if the file ends before it.
    pub(crate) end: u64,
    /// The first tensor whose name does not sort after the previous one.
    pub(crate) unsorted: Option<usize>,
}

impl Tensors {
    /// Parses the index.
    pub(crate) fn parse(bytes: &[u8], header: &Header, head: &Head, limits: &Limits) -> Result<Self> {
        let mut c = Cursor::new(bytes, head.index.offset());
        let count = u64::from(header.tensor_count);
        Limits::check("the number of tensors", count, limits.tensors)?;
        let part = Part::new("header").with_field("tensor_count");
        let count = Limits::fits(part, c.offset(), count, wire::MIN_ENTRY_LEN, bytes.len() as u64)?;
        let table = TensorTable::comparing_later(count);
        let mut tensors = Self { table, index_end: 0, end: head.index.end(), unsorted: None };
        let mut before = "";
        for number in 0..count {
            c.record("tensor entry", Some(number as u64));
            let at = c.offset();
            let entry = Entry::decode(&mut c)?;
            if number > 0 && entry.name <= before {
                tensors.unsorted = tensors.unsorted.or(Some(number));
            }
            before = entry.name;
            tensors.push(entry, at, head, limits)?;
        }
        tensors
            .table
            .compare_names()
            .map_err(|(number, name, fault)| fault_of(number, &name, None, head.index.offset(), fault))?;
        tensors.index_end = c.offset();
        tensors.table.shrink_to_fit();
        Ok(tensors)
    }

    /// Adds a tensor after checking its entry, which is at byte `at`.
    #[inline]
    fn push(
        &mut self,
        entry: Entry<'_, impl ExactSizeIterator<Item = u64>>,
        at: u64,
        head: &Head,
        limits: &Limits,
    ) -> Result<()> {
        let Entry { name, dtype, dims, offset, size } = entry;
        Limits::check("the length of a name", name.len() as u64, limits.name_len)?;
        Limits::check("the number of dimensions", dims.len() as u64, limits.rank)?;
        let number = self.table.len();
        let fault = |field, fault| fault_of(number, name, field, at, fault);
        // An offset beyond u64 is replaced by one that is out of bounds, so that `Extent` reports it.
        let start = head.index.end().saturating_add(offset).min(u64::MAX - 1);
        let tensor = NewTensor { name, dtype, offset: Some(start), packed_nbytes: 0 };
        let pushed = self.table.push_with(tensor, dims, |dims| wire::nbytes(dtype, dims));
        let expected = pushed.map_err(|error| fault(None, error))?;
        if size != expected {
            return Err(fault(Some("size"), CommonFault::Nbytes { found: size, expected }));
        }
        let extent = Extent::new(start, size, head.len).map_err(|error| fault(Some("offset"), error))?;
        let padded = align_up(size, ALIGNMENT).and_then(|len| extent.offset().checked_add(len));
        self.end = self.end.max(padded.unwrap_or(extent.end()));
        Ok(())
    }
}

#[cold]
fn fault_of(number: usize, name: &str, field: Option<&'static str>, at: u64, fault: CommonFault) -> Error {
    malformed(Part { field, ..wire::entry_part(number, name) }, at, fault)
}
