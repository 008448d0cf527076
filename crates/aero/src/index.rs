//! The index of an AERO file, checked and owned: its chunks, its tensors, and where their values are.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Encoding, Limits, Location, Part, TensorInfo, TensorTable, author::Extent};

use crate::chunks::{Chunk, ChunkTable, malformed};
use crate::error::{Error, Fault, Result};
use crate::pages::PageCache;
use crate::tidx::{Entry, Tensors, metadata_error};
use crate::wire::{FourCC, Header};

/// The content of an AERO file: its chunks, its tensors, and where their values are.
///
/// Every offset, length and name in it has been checked against the specification and the file's length.
#[derive(Clone, Debug)]
pub struct Index {
    pub(crate) header: Header,
    /// Whether the reserved fields of the TOC's header are zero.
    pub(crate) toc_reserved_zero: bool,
    pub(crate) chunks: ChunkTable,
    pub(crate) tensors: Tensors,
    pub(crate) file_len: u64,
    pub(crate) limits: Limits,
    pub(crate) pages: PageCache,
}

impl Index {
    /// Returns the file's identity.
    #[must_use]
    pub const fn uuid(&self) -> [u8; 16] {
        self.header.uuid
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the offset from which payloads can begin: after the string table, at a multiple of 16. The
    /// bytes before it contain all hashes of the file, so their BLAKE3 pins the whole file. Returns `None` if
    /// the header or the TOC is not before this offset.
    #[must_use]
    pub fn payloads_start(&self) -> Option<u64> {
        self.header.payloads_start(self.file_len)
    }

    /// Returns the chunks in TOC order.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = Chunk<'_>> + DoubleEndedIterator + Clone {
        self.chunks.iter()
    }

    /// Returns the chunk at a position in TOC order.
    #[must_use]
    pub fn chunk(&self, position: usize) -> Option<Chunk<'_>> {
        self.chunks.chunk(position)
    }

    /// Returns the position of the first chunk with this type and name.
    #[must_use]
    pub fn find_chunk(&self, fourcc: FourCC, name: &str) -> Option<usize> {
        self.chunks.find(fourcc, name)
    }

    /// Returns the position of the chunk that holds a shard.
    #[must_use]
    pub fn shard_chunk(&self, shard_id: u64) -> Option<usize> {
        self.chunks.shard(shard_id)
    }

    /// Returns the tensors in the order of the tensor index.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors.table
    }

    /// Returns the rest of the index entry of the tensor at a position: everything except name, dtype and
    /// shape.
    #[must_use]
    pub fn entry(&self, position: usize) -> Option<Entry> {
        self.tensors.entry(position)
    }

    /// Returns the codec parameters of the tensor at a position.
    #[must_use]
    pub fn quant_params(&self, position: usize) -> Option<Value> {
        self.tensors.quant_params(position)
    }

    /// Returns the values in the tensor's index entry under keys that the specification does not define.
    ///
    /// # Errors
    /// If they do not decode.
    pub fn unknown_keys(&self, position: usize) -> Result<Object> {
        self.tensors.unknown(position).map_err(|text| self.index_fault(text))
    }

    /// Returns the values at the top of the tensor index under keys that the specification does not define.
    ///
    /// # Errors
    /// If they do not decode.
    pub fn unknown_top_keys(&self) -> Result<Object> {
        self.tensors.top().map_err(|text| self.index_fault(text))
    }

    fn index_fault(&self, text: String) -> Error {
        match self.chunks.tidx().and_then(|at| self.chunk(at)) {
            Some(chunk) => metadata_error(&chunk, text),
            None => malformed(Part::new("TIDX chunk"), 0, modelfmt_core::CommonFault::Metadata(text)),
        }
    }

    /// Returns where the values of the tensor at a position are. Returns `None` if there is no such tensor,
    /// or if its shard is not in this file (as in the index of a set) or cannot be read.
    #[must_use]
    pub fn location(&self, position: usize) -> Option<Location> {
        // A shard whose chunk_length differs from its chunk_ulen opens but cannot be read, so a range may be
        // within its claimed length but outside the file.
        let place = self.place(position).ok()?;
        let (offset, stored_nbytes) =
            (place.chunk.offset.checked_add(place.within.offset())?, place.stored.len());
        Some(Location { file: None, offset: Some(offset), stored_nbytes, encoding: Encoding::Raw })
    }

    /// Returns the number of heap bytes that the index holds.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.chunks.heap_size().saturating_add(self.tensors.heap_size())
    }

    /// Returns a tensor's shard and the range of the tensor's values in it. Fails if the file does not have
    /// the shard or it cannot be read.
    pub(crate) fn place(&self, position: usize) -> Result<Place<'_>> {
        let found = self.tensors.table.info(position).zip(self.entry(position));
        let (info, entry) = found.ok_or_else(|| Error::NotFound { name: format!("number {position}") })?;
        let part = || Part::entry("tensor", position as u64).with_name(info.name);
        let shard = self.chunks.shard(entry.shard_id);
        let Some((shard, chunk)) = shard.and_then(|shard| Some((shard, self.chunk(shard)?))) else {
            let tidx = self.chunks.tidx().and_then(|at| self.chunk(at)).map_or(0, |chunk| chunk.offset);
            return Err(malformed(part(), tidx, Fault::MissingShard { shard: entry.shard_id }));
        };
        chunk.check_lengths()?;
        let outside = |fault| malformed(part(), chunk.offset, fault);
        let whole = Extent::new(chunk.offset, chunk.length, self.file_len).map_err(outside)?;
        let stored = Extent::new(entry.data_off, entry.data_len, whole.len()).map_err(outside)?;
        let within = stored.part(0, info.nbytes).map_err(outside)?;
        Ok(Place { info, shard, chunk, within, stored, hash: self.tensors.hash(position) })
    }
}

/// The place of a tensor's values.
pub(crate) struct Place<'a> {
    pub(crate) info: TensorInfo<'a>,
    /// The position of its shard's chunk.
    pub(crate) shard: usize,
    /// The shard's chunk.
    pub(crate) chunk: Chunk<'a>,
    /// The range of its values in the shard.
    pub(crate) within: Extent,
    /// The same range, with the padding after the values. The tensor's hash covers the padding too.
    pub(crate) stored: Extent,
    pub(crate) hash: Result<Option<[u8; 32]>, Fault>,
}

impl Place<'_> {
    /// Returns the offset of the values in the file.
    pub(crate) const fn offset(&self) -> u64 {
        self.chunk.offset.saturating_add(self.within.offset())
    }

    /// Converts a range of the tensor to a range of the shard.
    pub(crate) fn part(&self, offset: u64, len: u64) -> Result<Extent> {
        self.within.part(offset, len).map_err(|_| Error::out_of_range(&self.info, offset, len))
    }
}
