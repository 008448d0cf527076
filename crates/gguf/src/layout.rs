//! Plans a file from the descriptions of its tensors: every offset and length. Checks everything and writes
//! nothing.

use modelfmt_core::{
    CommonFault, DType, Part, TensorTable,
    author::{Extent, NewTensor, align_up},
};
use modelfmt_write::{Segment, TensorSpec};

use crate::error::{Fault, WriteError, unfit_key};
use crate::metadata::{MetaValue, Metadata};
use crate::options::WriteOptions;
use crate::wire;

/// A file to write: checked and laid out, with encoded header, metadata and records.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) tensors: TensorTable,
    /// Everything before the first padding and the values.
    pub(crate) head: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) file_len: u64,
}

impl Plan {
    /// Lays out a file of version 3, with tensors and metadata in the given order. The alignment comes from
    /// the options, else from `general.alignment` in the metadata, else it is 32
    /// (docs/formats/gguf.md#what-we-write).
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] for a tensor or key that ggml does not read: a dtype or block that ggml
    /// does not have, a rank above 4, rows that are not whole blocks, a name of 64 bytes or more, a tensor
    /// without data, a key that is not ASCII (but see [`WriteOptions::utf8_keys`]) or has more than 65,535
    /// bytes, a name or key that occurs twice, an alignment that is not a power of two, the keys of a split.
    pub fn new<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Metadata,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let (alignment, replaced) = options.alignment_for(metadata)?;
        let metadata = replaced.as_ref().unwrap_or(metadata);
        options.check_keys(metadata)?;
        if metadata.get(wire::SPLIT_COUNT).is_some_and(|count| !matches!(count.as_u64(), Some(0 | 1))) {
            return Err(unfit_key(wire::SPLIT_COUNT, Fault::SplitReserved));
        }
        Self::lay_out(specs, metadata, alignment)
    }

    pub(crate) fn lay_out<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Metadata,
        alignment: u32,
    ) -> Result<Self, WriteError> {
        let mut tensors = TensorTable::default();
        for spec in specs {
            push(&mut tensors, &spec).map_err(|fault| WriteError::Unsupported {
                part: Part::named("tensor", &spec.name),
                fault,
            })?;
        }
        // Offsets in records count from the start of the data.
        let data_len = place(&mut tensors, alignment)?;
        let head = encode(&tensors, metadata);
        let too_long = |fault: CommonFault| WriteError::unsupported(Part::new("the model"), fault);
        let end = head.len() as u64;
        let start = align_up(end, u64::from(alignment)).unwrap_or(u64::MAX);
        let file_len = Extent::new(start, data_len, wire::MAX_FILE_LEN).map_err(too_long)?.end();
        let mut segments = Vec::with_capacity(tensors.len());
        for position in 0..tensors.len() {
            let Some((info, offset)) = tensors.info(position).zip(tensors.offset(position)) else { continue };
            let extent =
                Extent::new(start.saturating_add(offset), info.nbytes, file_len).map_err(too_long)?;
            if !extent.is_empty() {
                segments.push(Segment { tensor: position, extent });
            }
            tensors.set_offset(position, extent.offset());
        }
        Ok(Self { tensors, head, segments, file_len })
    }

    /// Returns the tensors, in file order.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }
}

/// Returns whether ggml has a type for a dtype.
#[must_use]
pub fn can_hold(dtype: DType) -> bool {
    dtype.ggml_type().is_some()
}

fn push(tensors: &mut TensorTable, spec: &TensorSpec<'_>) -> Result<(), Fault> {
    if spec.name.len() > wire::MAX_NAME_LEN {
        return Err(Fault::NameLength(spec.name.len() as u64));
    }
    if !spec.has_data {
        return Err(Fault::Declared);
    }
    if !can_hold(spec.dtype) {
        return Err(Fault::NoType(spec.dtype));
    }
    if spec.shape.len() as u64 > wire::MAX_RANK {
        return Err(Fault::Rank(spec.shape.len()));
    }
    let elements = spec.dtype.block().map_or(1, |block| u64::from(block.elements));
    if let Some(&row) = spec.shape.last().filter(|&&row| row % elements != 0) {
        return Err(Fault::PartialRow { dtype: spec.dtype, row });
    }
    let tensor = NewTensor { name: &spec.name, dtype: spec.dtype, offset: Some(0), packed_nbytes: 0 };
    tensors.push(tensor, spec.shape.iter().copied())?;
    Ok(())
}

/// Places each tensor after the padding of the previous one. Returns the end of the last padding.
fn place(tensors: &mut TensorTable, alignment: u32) -> Result<u64, WriteError> {
    let mut end = 0;
    for position in 0..tensors.len() {
        let Some(info) = tensors.info(position) else { continue };
        let padded = padded_end(end, info.nbytes, alignment);
        let Some(padded) = padded else {
            let fault = CommonFault::OutOfBounds { offset: end, len: info.nbytes, end: wire::MAX_FILE_LEN };
            return Err(WriteError::unsupported(Part::named("tensor", info.name), fault));
        };
        tensors.set_offset(position, end);
        end = padded;
    }
    Ok(end)
}

/// Returns the end of the padding after `nbytes` bytes at `begin`.
pub(crate) fn padded_end(begin: u64, nbytes: u64, alignment: u32) -> Option<u64> {
    let end = begin.checked_add(nbytes).filter(|&end| end <= wire::MAX_FILE_LEN)?;
    align_up(end, u64::from(alignment)).filter(|&end| end <= wire::MAX_FILE_LEN)
}

/// Returns the number of bytes that a tensor's record takes.
pub(crate) fn record_len(name: &str, rank: usize) -> u64 {
    wire::MIN_TENSOR_LEN + name.len() as u64 + 8 * rank as u64
}

pub(crate) fn encode(tensors: &TensorTable, metadata: &Metadata) -> Vec<u8> {
    let mut head = wire::MAGIC.to_vec();
    head.extend(wire::VERSION.to_le_bytes());
    head.extend((tensors.len() as u64).to_le_bytes());
    head.extend((metadata.len() as u64).to_le_bytes());
    metadata.encode(&mut head);
    for (position, info) in tensors.iter().enumerate() {
        MetaValue::String(info.name).encode(&mut head);
        // The rank is at most 4.
        head.extend(u32::try_from(info.shape.len()).unwrap_or_default().to_le_bytes());
        info.shape.iter().rev().for_each(|dim| head.extend(dim.to_le_bytes()));
        head.extend(info.dtype.ggml_type().unwrap_or_default().to_le_bytes());
        head.extend(tensors.offset(position).unwrap_or_default().to_le_bytes());
    }
    head
}
