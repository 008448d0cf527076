//! What a file holds, checked, without I/O.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    Part, TensorTable,
    author::{Extent, align_up},
};

use crate::error::{Error, Fault, Result};
use crate::metadata::{MetaValue, Metadata};
use crate::wire;

/// What a file holds. Owned, without a lifetime: it can be kept and shared, and opening again with it costs nothing.
#[derive(Clone, Debug)]
pub struct Index {
    tensors: TensorTable,
    metadata: Metadata,
    version: u32,
    is_big_endian: bool,
    alignment: u32,
    split_at: [u64; 3],
    /// Where the tensors' records end.
    listing_end: u64,
    data_start: u64,
    file_len: u64,
}

/// What has been read of a file: all that is before the data.
pub(crate) struct Listing {
    pub(crate) file_len: u64,
    pub(crate) version: u32,
    pub(crate) is_big_endian: bool,
    pub(crate) metadata: Metadata,
    /// Where `general.alignment` is, if it is there.
    pub(crate) alignment_at: u64,
    /// Where the keys of a split are, if they are there.
    pub(crate) split_at: [u64; 3],
    /// Offsets count from the start of the data.
    pub(crate) tensors: TensorTable,
    /// Where the records end.
    pub(crate) end: u64,
}

impl Index {
    pub(crate) fn new(listing: Listing) -> Result<Self> {
        let Listing { file_len, version, is_big_endian, metadata, alignment_at, split_at, mut tensors, end } =
            listing;
        let alignment = alignment(&metadata, alignment_at)?;
        // GGUF, `gguf_file_t`: the data begin at the next multiple of the alignment.
        let data_start = align_up(end, u64::from(alignment)).unwrap_or(u64::MAX);
        for number in 0..tensors.len() {
            let Some((info, relative)) = tensors.info(number).zip(tensors.offset(number)) else {
                // No file has a byte at 2^64 - 1, which marks tensors without data in the table.
                return Err(out_of_file(&tensors, number, u64::MAX, file_len));
            };
            let offset = data_start.checked_add(relative);
            let extent = offset.and_then(|offset| Extent::new(offset, info.nbytes, file_len).ok());
            let Some(extent) = extent else {
                return Err(out_of_file(&tensors, number, data_start.saturating_add(relative), file_len));
            };
            tensors.set_offset(number, extent.offset());
        }
        Ok(Self {
            tensors,
            metadata,
            version,
            is_big_endian,
            alignment,
            split_at,
            listing_end: end,
            data_start,
            file_len,
        })
    }

    /// The tensors, in the file's order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// The metadata.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The version of the format: 2 or 3.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Whether the numbers of the file are with their most significant byte first. Metadata and values are given
    /// little-endian anyway.
    #[must_use]
    pub const fn is_big_endian(&self) -> bool {
        self.is_big_endian
    }

    /// What tensors are aligned to, from the start of the data: `general.alignment`, or 32 without it.
    #[must_use]
    pub const fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Where the tensors' records end; padding follows to [`data_start`](Self::data_start).
    #[must_use]
    pub const fn listing_end(&self) -> u64 {
        self.listing_end
    }

    /// Where the data begin. In a file without tensors that may be beyond its end.
    #[must_use]
    pub const fn data_start(&self) -> u64 {
        self.data_start
    }

    /// Whether the file is one of several that a model is split into, and no model by itself: `split.count` is above 1.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.metadata.get("split.count").is_some_and(|count| !matches!(count.as_u64(), Some(0 | 1)))
    }

    /// A key that files of a split have, where it is, and its number.
    pub(crate) fn split_key(&self, which: usize) -> (Part, u64, Option<u64>) {
        let key = wire::SPLIT.get(which).copied().unwrap_or_default();
        let entry = self.metadata.keys().position(|other| other == key).map(|number| number as u64);
        let at = self.split_at.get(which).copied().unwrap_or_default();
        let number = self.metadata.get(key).and_then(|value| value.as_u64());
        (Part { entry, ..Part::named("metadata", key) }, at, number)
    }

    /// The length of the file that this is the index of.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Bytes of heap that the index takes.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.tensors.heap_size().saturating_add(self.metadata.heap_size())
    }
}

fn alignment(metadata: &Metadata, at: u64) -> Result<u32> {
    let fault = match metadata.get(wire::ALIGNMENT) {
        None => return Ok(wire::DEFAULT_ALIGNMENT),
        // The document says a multiple of 8. ggml takes any power of two, and there are such files
        // (docs/formats/gguf.md#alignment).
        Some(MetaValue::U32(n)) if n.is_power_of_two() => return Ok(n),
        Some(MetaValue::U32(n)) => Fault::Alignment(n),
        Some(_) => Fault::AlignmentType,
    };
    let entry = metadata.keys().position(|key| key == wire::ALIGNMENT).map(|number| number as u64);
    let part = Part { entry, ..Part::named("metadata", wire::ALIGNMENT) };
    Err(Error::Malformed { part, at, fault })
}

#[cold]
fn out_of_file(tensors: &TensorTable, number: usize, offset: u64, end: u64) -> Error {
    let (name, len) = tensors.info(number).map_or(("", 0), |t| (t.name, t.nbytes));
    Error::Malformed {
        part: Part::entry("tensor", number as u64).with_name(name).with_field("offset"),
        at: offset,
        fault: modelfmt_core::CommonFault::OutOfBounds { offset, len, end }.into(),
    }
}
