//! The content of a file: tensors and metadata, checked and owned.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    Part, TensorTable,
    author::{Extent, align_up},
};

use crate::error::{Error, Fault, Result};
use crate::metadata::{MetaValue, Metadata};
use crate::wire;

/// The content of a GGUF file. It is owned and can be shared by any number of readers. Opening the file again
/// with it reads nothing.
#[derive(Clone, Debug)]
pub struct Index {
    tensors: TensorTable,
    metadata: Metadata,
    version: u32,
    is_big_endian: bool,
    alignment: u32,
    split_at: [u64; 3],
    /// The end of the tensor records.
    listing_end: u64,
    data_start: u64,
    file_len: u64,
}

/// The part of a file before the data.
pub(crate) struct Listing {
    pub(crate) file_len: u64,
    pub(crate) version: u32,
    pub(crate) is_big_endian: bool,
    pub(crate) metadata: Metadata,
    /// The offset of `general.alignment`, if the file has this key.
    pub(crate) alignment_at: u64,
    /// The offsets of the keys of a split, if the file has them.
    pub(crate) split_at: [u64; 3],
    /// The tensors. Their offsets count from the start of the data.
    pub(crate) tensors: TensorTable,
    /// The end of the records.
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
                // An offset of 2^64 − 1 marks a tensor without data in the table. No file has a byte there.
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

    /// Returns the tensors, in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Returns the metadata.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the version of the format: 2 or 3.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Returns whether the numbers of the file are big-endian. Metadata and values are returned little-endian
    /// even then.
    #[must_use]
    pub const fn is_big_endian(&self) -> bool {
        self.is_big_endian
    }

    /// Returns the alignment of the tensors, counted from the start of the data: `general.alignment`, or 32
    /// without this key.
    #[must_use]
    pub const fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Returns the end of the tensor records. Padding follows up to [`data_start`](Self::data_start).
    #[must_use]
    pub const fn listing_end(&self) -> u64 {
        self.listing_end
    }

    /// Returns the offset at which the data begin. In a file without tensors it may be beyond the end of the
    /// file.
    #[must_use]
    pub const fn data_start(&self) -> u64 {
        self.data_start
    }

    /// Returns whether the file is only a part of a model that is split into several files: `split.count` is
    /// above 1.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.metadata.get("split.count").is_some_and(|count| !matches!(count.as_u64(), Some(0 | 1)))
    }

    /// Returns one of the keys of a split as a `Part` for errors, with its offset and its number.
    pub(crate) fn split_key(&self, which: usize) -> (Part, u64, Option<u64>) {
        let key = wire::SPLIT.get(which).copied().unwrap_or_default();
        let entry = self.metadata.keys().position(|other| other == key).map(|number| number as u64);
        let at = self.split_at.get(which).copied().unwrap_or_default();
        let number = self.metadata.get(key).and_then(|value| value.as_u64());
        (Part { entry, ..Part::named("metadata", key) }, at, number)
    }

    /// Returns the length in bytes of the file that this index was made for.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the heap memory in bytes that the index takes.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.tensors.heap_size().saturating_add(self.metadata.heap_size())
    }
}

fn alignment(metadata: &Metadata, at: u64) -> Result<u32> {
    let fault = match metadata.get(wire::ALIGNMENT) {
        None => return Ok(wire::DEFAULT_ALIGNMENT),
        // The document requires a multiple of 8. ggml accepts any power of two, and such files exist
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
