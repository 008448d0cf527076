//! Plans a file from the descriptions of its tensors: every offset and length that does not depend on values.
//! Checks everything and writes nothing.

use std::collections::BTreeSet;

use modelfmt_core::value::json;
use modelfmt_core::{
    Part, TensorTable,
    author::{NewTensor, align_up},
};
use modelfmt_write::TensorSpec;

use crate::error::{Fault, WriteError, unfit};
use crate::metadata::{APR_VERSION, Metadata};
use crate::wire::{self, DATA_ALIGNMENT, Entry, FOOTER_LEN, Flags, HEADER_LEN, INDEX_HEADER_LEN};

/// The alignment of tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Alignment {
    /// A multiple of 64 bytes: a cache line.
    #[default]
    Bytes64,
    /// A multiple of 32 bytes, as in GGUF.
    Bytes32,
}

impl Alignment {
    /// Returns the alignment in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bytes64 => 64,
            Self::Bytes32 => 32,
        }
    }
}

/// How tensors are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Raw values.
    #[default]
    None,
    /// LZ4 blocks, except for tensors that would not get smaller. Needs the feature `lz4`
    /// (docs/formats/apr2.md#compression).
    Lz4,
}

/// Options for writing a file.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    pub(crate) alignment: Alignment,
    pub(crate) compression: Compression,
    pub(crate) streaming: bool,
    pub(crate) sharded: bool,
    pub(crate) shard_size: u64,
    pub(crate) reserve: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            alignment: Alignment::default(),
            compression: Compression::default(),
            streaming: false,
            sharded: false,
            shard_size: DEFAULT_SHARD_SIZE,
            reserve: 0,
        }
    }
}

/// The default shard size.
const DEFAULT_SHARD_SIZE: u64 = 2 << 30;

impl WriteOptions {
    /// Creates the default options: tensors aligned to 64 bytes, no compression.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the alignment of tensors.
    #[must_use]
    pub const fn alignment(mut self, alignment: Alignment) -> Self {
        self.alignment = alignment;
        self
    }

    /// Sets how tensors are stored.
    #[must_use]
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets whether the file promises that tensors are in the order of the index (STREAMING). They always are
    /// (docs/formats/apr2.md#streaming).
    #[must_use]
    pub const fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// Sets the maximum size in bytes of a shard of a [`SetPlan`](crate::SetPlan). Only a shard with a single
    /// tensor may exceed it. The default is 2 GiB.
    #[must_use]
    pub const fn shard_size(mut self, nbytes: u64) -> Self {
        self.shard_size = nbytes;
        self
    }

    /// Reserves this many bytes, as spaces after the metadata of each file, for later edits in place
    /// ([`Index::edit`](crate::Index::edit)).
    #[must_use]
    pub const fn reserve(mut self, nbytes: u64) -> Self {
        self.reserve = nbytes;
        self
    }

    pub(crate) const fn sharded(mut self, sharded: bool) -> Self {
        self.sharded = sharded;
        self
    }
}

/// A file to write: checked and laid out.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) options: WriteOptions,
    /// The tensors, with their offsets from the start of the file if nothing is compressed.
    pub(crate) table: TensorTable,
    pub(crate) metadata: Vec<u8>,
    pub(crate) index_len: u32,
    pub(crate) data_offset: u32,
    /// The offset of the footer without compression.
    pub(crate) data_end: u64,
    pub(crate) keep_raw: BTreeSet<usize>,
}

impl Plan {
    /// Checks the descriptions and the metadata, and lays out the file. A scalar is written with the shape
    /// `[1]` (docs/formats/apr2.md#names-and-shapes).
    ///
    /// `metadata` must have `model_type` (a string) and `architecture` (an object or a string); `apr_version` is filled in.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] for the first dtype, name or rank that APR2 cannot hold and the first
    /// tensor without values, for metadata that lacks a key, for sections beyond 4 GiB, and for LZ4 if it is
    /// not compiled in.
    pub fn new<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Metadata,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        if options.compression == Compression::Lz4 && cfg!(not(feature = "lz4")) {
            return Err(unfit(Part::new("file"), Fault::NoLz4));
        }
        let mut table = TensorTable::default();
        let mut index_len = INDEX_HEADER_LEN;
        for (number, spec) in specs.into_iter().enumerate() {
            index_len = index_len.saturating_add(list(&mut table, number, &spec)?);
        }
        let mut metadata = encode(metadata)?;
        // Readers skip white space after JSON.
        let len = (metadata.len() as u64).saturating_add(options.reserve);
        let len = section_len("metadata", len)?;
        metadata.resize(usize::try_from(len).unwrap_or(metadata.len()), b' ');
        let mut plan = Self {
            options: *options,
            table,
            index_len: section_len("tensor index", index_len)?,
            data_offset: 0,
            data_end: 0,
            keep_raw: BTreeSet::new(),
            metadata,
        };
        plan.lay_out()?;
        Ok(plan)
    }

    /// Stores this tensor raw, even if the options request compression.
    pub fn keep_raw(&mut self, tensor: usize) {
        self.keep_raw.insert(tensor);
    }

    /// Returns the tensors to be written, in order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.table
    }

    /// Returns the length of the file, or `None` if it depends on how well the tensors compress.
    #[must_use]
    pub fn file_len(&self) -> Option<u64> {
        match self.options.compression {
            Compression::None => Some(self.longest()),
            Compression::Lz4 => None,
        }
    }

    /// Returns the length of the file without compression, which is the greatest possible length.
    #[must_use]
    pub const fn longest(&self) -> u64 {
        self.data_end + FOOTER_LEN // `lay_out` has seen that it is below 2^63
    }

    /// Fixes the offsets of the sections, and the offsets of the tensors without compression.
    fn lay_out(&mut self) -> Result<(), WriteError> {
        let metadata_len = section_len("metadata", self.metadata.len() as u64)?;
        let index_end = HEADER_LEN + u64::from(metadata_len) + u64::from(self.index_len);
        let data_offset = index_end.next_multiple_of(DATA_ALIGNMENT); // three numbers below 2^32
        self.data_offset = section_len("everything before the data section", data_offset)?;
        let alignment = self.options.alignment.bytes();
        let mut at = data_offset;
        for position in 0..self.table.len() {
            let Some(info) = self.table.info(position) else { break };
            let begin = align_up(at, alignment);
            let end = begin.and_then(|begin| begin.checked_add(info.nbytes)).filter(|&end| end < MAX_LEN);
            let Some((begin, end)) = begin.zip(end) else {
                return Err(unfit(
                    Part::entry("tensor", position as u64).with_name(info.name),
                    Fault::TooLong,
                ));
            };
            self.table.set_offset(position, begin);
            at = end;
        }
        self.data_end = at;
        Ok(())
    }

    /// Returns the flags of the header. `compressed` says whether any tensor has been compressed.
    pub(crate) fn flags(&self, compressed: bool) -> Flags {
        let alignment = match self.options.alignment {
            Alignment::Bytes64 => Flags::ALIGNED_64,
            Alignment::Bytes32 => Flags::ALIGNED_32,
        };
        let quantized = self.table.iter().any(|tensor| tensor.dtype.is_quantized());
        alignment
            .with(Flags::COMPRESSED, compressed)
            .with(Flags::QUANTIZED, quantized)
            .with(Flags::SHARDED, self.options.sharded)
            .with(Flags::STREAMING, self.options.streaming)
    }
}

/// The decisions of a plan, for files that are laid out differently from [`Plan::write`].
#[derive(Clone, Copy, Debug)]
pub struct Planned<'a> {
    plan: &'a Plan,
    /// The alignment of the tensors in bytes.
    pub alignment: u64,
    /// How the tensors are stored.
    pub compression: Compression,
    /// Whether the file is a shard.
    pub is_sharded: bool,
    /// The text of the metadata.
    pub metadata: &'a [u8],
    /// The length of the index section.
    pub index_len: u32,
}

impl<'a> Planned<'a> {
    /// Returns the decisions of this plan.
    #[must_use]
    pub fn of(plan: &'a Plan) -> Self {
        Self {
            plan,
            alignment: plan.options.alignment.bytes(),
            compression: plan.options.compression,
            is_sharded: plan.options.sharded,
            metadata: &plan.metadata,
            index_len: plan.index_len,
        }
    }

    /// Returns the tensors.
    #[must_use]
    pub const fn tensors(&self) -> &'a TensorTable {
        &self.plan.table
    }

    /// Returns the flags of the header. `compressed` says whether any tensor has been compressed.
    #[must_use]
    pub fn flags(&self, compressed: bool) -> Flags {
        self.plan.flags(compressed)
    }

    /// Returns whether a tensor is stored raw even if the options request compression.
    #[must_use]
    pub fn keeps_raw(&self, tensor: usize) -> bool {
        self.plan.keep_raw.contains(&tensor)
    }
}

/// The largest end of the data section; the footer still fits after it.
const MAX_LEN: u64 = (1 << 63) - FOOTER_LEN;

/// Checks one tensor, adds it to the table, and returns the length of its entry.
fn list(table: &mut TensorTable, number: usize, spec: &TensorSpec<'_>) -> Result<u64, WriteError> {
    let refuse = |fault: Fault| unfit(Part::entry("tensor", number as u64).with_name(&spec.name), fault);
    check(spec).map_err(refuse)?;
    let scalar = [1];
    let dims: &[u64] = if spec.shape.is_empty() { &scalar } else { &spec.shape };
    let tensor = NewTensor { name: &spec.name, dtype: spec.dtype, offset: Some(0), packed_nbytes: 0 };
    let size = table.push(tensor, dims.iter().copied()).map_err(|fault| refuse(fault.into()))?;
    let entry = Entry { name: &spec.name, dtype: spec.dtype, dims, offset: 0, size, raw_size: 0, flags: 0 };
    Ok(entry.encoded_len())
}

/// Checks the rules for a single tensor.
fn check(spec: &TensorSpec<'_>) -> Result<(), Fault> {
    if spec.name.is_empty() {
        return Err(Fault::EmptyName);
    }
    if spec.name.len() > usize::from(u16::MAX) {
        return Err(Fault::NameLen(spec.name.len() as u64));
    }
    if wire::code_of(spec.dtype).is_none() {
        return Err(Fault::NoDTypeCode(spec.dtype));
    }
    if !spec.has_data {
        return Err(Fault::NoValues);
    }
    if spec.shape.len() as u64 > wire::MAX_RANK {
        return Err(Fault::Rank(spec.shape.len() as u64));
    }
    Ok(())
}

/// Encodes the metadata section: compact JSON with sorted keys and `apr_version` (docs/formats/apr2.md#metadata).
pub(crate) fn encode(metadata: &Metadata) -> Result<Vec<u8>, WriteError> {
    let refuse = |text: String| unfit(Part::new("metadata"), modelfmt_core::CommonFault::Metadata(text));
    let mut object = metadata.object().clone();
    if !object.contains_key("apr_version") {
        object.insert("apr_version", APR_VERSION);
    }
    let complete = Metadata::from(object);
    if let Some(error) = complete.missing().next() {
        return Err(refuse(format!("{error}, which APR2 requires")));
    }
    let text = json::to_string_sorted(complete.object()).map_err(|error| refuse(error.to_string()))?;
    Ok(text.into_bytes())
}

pub(crate) fn section_len(what: &'static str, len: u64) -> Result<u32, WriteError> {
    u32::try_from(len).map_err(|_| unfit(Part::new(what), Fault::SectionLen(len)))
}
