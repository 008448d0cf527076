//! Plans a file from the descriptions of its tensors: every offset and length. Checks everything and writes
//! nothing.

use modelfmt_core::value::json;
use modelfmt_core::{
    CommonFault, DType, Part, TensorTable,
    author::{Extent, NewTensor, align_up},
};
use modelfmt_write::{Segment, TensorSpec};

use crate::error::{Fault, WriteError, unfit};
use crate::metadata::Metadata;
use crate::wire::{self, ALIGNMENT, Entry, FOOTER_LEN, Flags, HEADER_LEN, Header, Magic};

/// Options for writing a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    flags: Flags,
    reserve: u64,
}

impl WriteOptions {
    /// Creates the default options: no flag except `LAYOUT_ROW_MAJOR`, which every file has.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reserves this many bytes, as spaces after the metadata, for later edits in place
    /// ([`Index::edit`](crate::Index::edit)).
    #[must_use]
    pub const fn reserve(mut self, nbytes: u64) -> Self {
        self.reserve = nbytes;
        self
    }

    /// Sets those of the given flags that describe the content: `SHARDED`, `QUANTIZED`, `HAS_FILTERBANK`,
    /// `HAS_MODEL_CARD`, `STREAMING`, `HAS_VOCAB`. Other flags are ignored, because nothing is compressed,
    /// encrypted or signed.
    #[must_use]
    pub const fn flags(mut self, flags: Flags) -> Self {
        self.flags = flags.of(Flags::OF_CONTENT);
        self
    }
}

/// A file to write: checked and laid out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tensors in the order of their descriptions, which is also the order of their values in the file.
    pub(crate) tensors: TensorTable,
    /// The header, the metadata and the index, with their padding.
    pub(crate) head: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
    /// The end of the last tensor's padding, where the footer begins.
    pub(crate) data_end: u64,
}

/// The largest end of the data section; the footer still fits after it.
const MAX_LEN: u64 = (1 << 63) - 128;

impl Plan {
    /// Checks the descriptions and the metadata, and lays out the file. The index is sorted by name, as
    /// aprender's tools require. The values are in the order of the descriptions
    /// (docs/formats/apr.md#order-of-the-index).
    ///
    /// `metadata` must have `model_type`, and no key that aprender's tools could not read ([`Metadata::unreadable_keys`]).
    ///
    /// # Errors
    /// [`WriteError::Unsupported`](crate::WriteError::Unsupported) for the first dtype, name, rank or
    /// metadata value that APR cannot hold, and for the first tensor without values.
    pub fn new<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Metadata,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let mut tensors = TensorTable::default();
        let mut index_len = 0u64;
        for (number, spec) in specs.into_iter().enumerate() {
            index_len = index_len.saturating_add(list(&mut tensors, number, &spec)?);
        }
        metadata.check()?;
        let refuse = |text: String| unfit(Part::new("metadata"), CommonFault::Metadata(text));
        let mut text = json::to_string(metadata.object()).map_err(|error| refuse(error.to_string()))?;
        // Readers skip white space after JSON.
        let len = (text.len() as u64).saturating_add(options.reserve);
        let len = usize::try_from(len).ok().filter(|&len| u32::try_from(len).is_ok());
        let len = len.ok_or_else(|| unfit(Part::new("metadata"), Fault::TooLong))?;
        text.extend(std::iter::repeat_n(' ', len - text.len()));
        let index_offset = (HEADER_LEN + text.len() as u64).next_multiple_of(ALIGNMENT); // it is in memory
        let data_offset = index_offset.checked_add(index_len).and_then(|end| align_up(end, ALIGNMENT));
        let data_offset = data_offset
            .filter(|&offset| offset < MAX_LEN)
            .ok_or_else(|| unfit(Part::new("tensor index"), Fault::TooLong))?;
        let (segments, data_end) = lay_out(&mut tensors, data_offset)?;
        let header = Header {
            magic: Magic::Apr,
            version: (2, 0),
            flags: Flags::LAYOUT_ROW_MAJOR.with(options.flags),
            tensor_count: count("the number of tensors", tensors.len())?,
            metadata_size: count("the length of the metadata", text.len())?,
            index_offset,
            data_offset,
            crc: 0,
            reserved: [0; 20],
        };
        let head = encode(&header, &text, &tensors)?;
        Ok(Self { tensors, head, segments, data_end })
    }

    /// Returns the tensors to be written, in the order of their descriptions.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.data_end + FOOTER_LEN // `lay_out` has seen that it is below 2^63
    }
}

/// Returns whether APR has a code for a dtype.
#[must_use]
pub fn can_hold(dtype: DType) -> bool {
    wire::code_of(dtype).is_some()
}

/// Returns the number of bytes that a tensor takes in a file. It follows from the dtype and the shape, except
/// that each row of a q4_k matrix is padded to whole blocks.
///
/// # Errors
/// If the number exceeds 2^63 − 1, or the elements do not fill whole blocks.
pub fn nbytes(dtype: DType, shape: &[u64]) -> Result<u64, CommonFault> {
    wire::nbytes(dtype, shape)
}

/// Checks one tensor, adds it to the table, and returns the length of its index entry.
fn list(tensors: &mut TensorTable, number: usize, spec: &TensorSpec<'_>) -> Result<u64, WriteError> {
    let refuse = |fault: Fault| unfit(Part::entry("tensor", number as u64).with_name(&spec.name), fault);
    check(spec).map_err(refuse)?;
    let tensor = NewTensor { name: &spec.name, dtype: spec.dtype, offset: Some(0), packed_nbytes: 0 };
    let pushed = tensors.push_with(tensor, spec.shape.iter().copied(), |dims| wire::nbytes(spec.dtype, dims));
    let size = pushed.map_err(|fault| refuse(fault.into()))?;
    let entry = Entry { name: &spec.name, dtype: spec.dtype, dims: &*spec.shape, offset: 0, size };
    Ok(entry.encoded_len())
}

/// Checks the rules for a single tensor.
fn check(spec: &TensorSpec<'_>) -> Result<(), Fault> {
    if !(1..=wire::MAX_NAME_LEN).contains(&spec.name.len()) {
        return Err(Fault::NameLen(spec.name.len() as u64));
    }
    if !can_hold(spec.dtype) {
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

/// Places each tensor at a multiple of 64. Returns the segments and the end of the last tensor's padding.
fn lay_out(tensors: &mut TensorTable, data_offset: u64) -> Result<(Vec<Segment>, u64), WriteError> {
    let mut segments = Vec::with_capacity(tensors.len());
    let mut end = data_offset;
    for position in 0..tensors.len() {
        let Some(info) = tensors.info(position) else { continue };
        let next = end.checked_add(info.nbytes).and_then(|end| align_up(end, ALIGNMENT));
        let extent = Extent::new(end, info.nbytes, MAX_LEN).ok();
        let Some((extent, next)) = extent.zip(next.filter(|&next| next < MAX_LEN)) else {
            let part = Part::entry("tensor", position as u64).with_name(info.name);
            return Err(unfit(part, Fault::TooLong));
        };
        if !extent.is_empty() {
            segments.push(Segment { tensor: position, extent });
        }
        tensors.set_offset(position, end);
        end = next;
    }
    Ok((segments, end))
}

/// Encodes everything before the first tensor.
fn encode(header: &Header, metadata: &str, tensors: &TensorTable) -> Result<Vec<u8>, WriteError> {
    let fill = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(64), 0);
    let mut out = header.encode();
    out.extend(metadata.as_bytes());
    fill(&mut out);
    let mut order: Vec<u32> = (0..count("the number of tensors", tensors.len())?).collect();
    let info = |number: u32| tensors.info(number as usize);
    order.sort_unstable_by(|&a, &b| info(a).map(|info| info.name).cmp(&info(b).map(|info| info.name)));
    for number in order {
        let Some(info) = info(number) else { continue };
        let start = tensors.offset(number as usize).unwrap_or(header.data_offset); // every tensor has one
        let entry = Entry {
            name: info.name,
            dtype: info.dtype,
            dims: info.shape,
            offset: start - header.data_offset,
            size: info.nbytes,
        };
        entry.encode(&mut out);
    }
    fill(&mut out);
    Ok(out)
}

fn count(what: &'static str, count: usize) -> Result<u32, WriteError> {
    u32::try_from(count).map_err(|_| unfit(Part::new(what), Fault::TooMany(count as u64)))
}
