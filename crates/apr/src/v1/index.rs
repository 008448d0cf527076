//! The content of a file: sections and metadata, checked and owned.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::author::Extent;
use modelfmt_core::value::Object;
use modelfmt_core::{Limits, Part, TensorTable};

use super::metadata;
use super::wire::{Compression, FOOTER_LEN, Flags, HEADER_LEN, Header, ModelType, SIGNATURE_LEN};
use crate::error::{Result, malformed};

/// The sections of a file, all inside it and in this order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sections {
    pub(super) metadata: Extent,
    pub(super) payload: Extent,
    /// The signature and its public key, if the header says that there is one.
    pub(super) signature: Option<Extent>,
    /// The CRC of everything before it: the last four bytes of the file.
    pub(super) footer: Extent,
}

impl Sections {
    pub(super) fn new(header: &Header, file_len: u64, limits: &Limits) -> Result<Self> {
        // The sections must end before the footer. A file shorter than the footer has no room for any section.
        let room = file_len.saturating_sub(FOOTER_LEN);
        let extent = |field, at, start, len| {
            let part = Part::new("header").with_field(field);
            Extent::new(start, len, room).map_err(|fault| malformed(part, at, fault))
        };
        let metadata = extent("metadata size", 8, HEADER_LEN, header.metadata_size.into())?;
        let payload = extent("payload size", 12, metadata.end(), header.payload_size.into())?;
        let is_signed = header.flags.contains(Flags::SIGNED);
        let signature = is_signed.then(|| extent("flags", 21, payload.end(), SIGNATURE_LEN)).transpose()?;
        Limits::check("the length of the metadata", metadata.len(), limits.metadata_len)?;
        let footer = Extent::new(room, FOOTER_LEN, file_len);
        let footer = footer.map_err(|fault| malformed(Part::new("footer"), room, fault))?;
        Ok(Self { metadata, payload, signature, footer })
    }

    /// Returns the offset at which the footer should begin.
    pub(super) fn end(&self) -> u64 {
        self.signature.unwrap_or(self.payload).end()
    }
}

/// The header and metadata of an APRN file, checked. The index is owned and can be shared by any number of
/// readers. APRN has no tensors.
#[derive(Clone, Debug)]
pub struct Index {
    pub(super) header: Header,
    pub(super) sections: Sections,
    pub(super) file_len: u64,
    /// The metadata as checked MessagePack.
    metadata: Box<[u8]>,
    depth: u64,
    no_tensors: TensorTable,
}

impl Index {
    pub(super) fn new(parts: (Header, Sections, u64), text: &[u8], depth: u64) -> Result<Self> {
        let (header, sections, file_len) = parts;
        metadata::check(text, depth)?;
        let no_tensors = TensorTable::default();
        Ok(Self { header, sections, file_len, metadata: text.into(), depth, no_tensors })
    }

    /// Returns the major and minor version.
    #[must_use]
    pub const fn version(&self) -> (u8, u8) {
        self.header.version
    }

    /// Returns the kind of model that the payload holds.
    #[must_use]
    pub const fn model_type(&self) -> ModelType {
        self.header.model_type
    }

    /// Returns how the payload is compressed.
    #[must_use]
    pub const fn compression(&self) -> Compression {
        self.header.compression
    }

    /// Returns the flags.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.header.flags
    }

    /// Returns the score of aprender's own checks of the model, 0 to 100. 0 also means that there were none.
    #[must_use]
    pub const fn quality(&self) -> u8 {
        self.header.quality
    }

    /// Returns the extent of the payload: a Rust structure in bincode, compressed and encrypted as the header
    /// says.
    #[must_use]
    pub const fn payload(&self) -> Extent {
        self.sections.payload
    }

    /// Returns the length in bytes of the file that this index was made for.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the tensors: an empty table.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.no_tensors
    }

    /// Decodes all keys of the metadata, in file order.
    ///
    /// # Errors
    /// Only if memory runs out, because the bytes were checked when the file was opened.
    pub fn metadata(&self) -> Result<Object> {
        metadata::object(&self.metadata, self.depth)
    }
}
