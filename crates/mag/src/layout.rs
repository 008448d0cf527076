//! Descriptions → [`Plan`]: every offset and length of a file that is to be written, and nothing written yet.

use modelfmt_core::write::{Segment, TensorSpec};
use modelfmt_core::{CommonFault, DType, Extent, NewTensor, Part, TensorTable, align_up};

use crate::checksum::{Checksum, Running};
use crate::error::{Error, Fault, Result};
use crate::metadata::Metadata;
use crate::wire::{
    ALIGNMENT, FileHeader, MAX_DIM, MAX_KEY_LEN, MAX_RANK, MetadataRecord, TensorRecord, code_of,
};

/// How a file is written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    checksum: Checksum,
}

impl WriteOptions {
    /// The defaults: CRC-32, as the document has it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Which checksum to write; [`Checksum::Crc32c`] for magnetron.
    #[must_use]
    pub const fn checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
        self
    }
}

/// A file that is to be written: header and records are ready, every offset is fixed.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) tensors: TensorTable,
    /// Header and records, with their checksum.
    pub(crate) head: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) file_len: u64,
}

impl Plan {
    /// Lays a file out: tensors and metadata in the order given. A scalar (shape `[]`) becomes shape `[1]`, because
    /// MAG has no rank 0.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a tensor or key that MAG cannot hold: a dtype without a code, a rank above 255, a tensor
    /// without data, a key that is empty, longer than 65,535 bytes or used twice.
    pub fn new<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Metadata,
        options: &WriteOptions,
    ) -> Result<Self> {
        let mut tensors = TensorTable::default();
        for spec in specs {
            push(&mut tensors, &spec)?;
        }
        for (key, _) in metadata.iter() {
            check_key(key)
                .map_err(|fault| Error::Unsupported { part: Part::named("metadata key", key), fault })?;
        }
        let records_len = records_len(&tensors, metadata);
        let (segments, file_len) = lay_out(&mut tensors, FileHeader::LEN as u64 + records_len)?;
        let head = encode(&tensors, metadata, options.checksum)?;
        Ok(Self { tensors, head, segments, file_len })
    }

    /// The tensors in the order they will be written.
    #[must_use]
    pub const fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    /// The length of the file in bytes.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }
}

/// Whether MAG has a code for a dtype.
#[must_use]
pub const fn can_hold(dtype: DType) -> bool {
    code_of(dtype).is_some()
}

fn push(tensors: &mut TensorTable, spec: &TensorSpec<'_>) -> Result<()> {
    let unfit = |fault| Error::Unsupported { part: Part::named("tensor", &spec.name), fault };
    check_key(&spec.name).map_err(unfit)?;
    if !spec.has_data {
        return Err(unfit(Fault::Declared));
    }
    if !can_hold(spec.dtype) {
        return Err(unfit(Fault::NoCode(spec.dtype)));
    }
    // DECISIONS, MAG 1, "rank": a scalar is written as shape [1].
    let shape: &[u64] = if spec.shape.is_empty() { &[1] } else { &spec.shape };
    if shape.len() > MAX_RANK {
        return Err(unfit(Fault::Rank(shape.len())));
    }
    if let Some(&dim) = shape.iter().find(|&&dim| dim > MAX_DIM) {
        return Err(unfit(Fault::Dimension(dim)));
    }
    let tensor = NewTensor { name: &spec.name, dtype: spec.dtype, offset: Some(0), packed_nbytes: 0 };
    tensors.push(tensor, shape.iter().copied()).map_err(|fault| unfit(fault.into()))?;
    Ok(())
}

fn check_key(key: &str) -> Result<(), Fault> {
    match key.len() as u64 {
        0 => Err(Fault::EmptyKey),
        1..=MAX_KEY_LEN => Ok(()),
        len => Err(Fault::KeyLength(len)),
    }
}

fn records_len(tensors: &TensorTable, metadata: &Metadata) -> u64 {
    let entries: u64 = metadata.iter().map(|(key, _)| 16 + key.len() as u64).sum();
    entries + tensors.iter().map(|t| 24 + 8 * t.shape.len() as u64 + t.name.len() as u64).sum::<u64>()
}

/// Places each buffer at the next multiple of 64; returns them with the length of the file.
fn lay_out(tensors: &mut TensorTable, records_end: u64) -> Result<(Vec<Segment>, u64)> {
    let mut segments = Vec::with_capacity(tensors.len());
    let mut end = records_end;
    for position in 0..tensors.len() {
        let Some(info) = tensors.info(position) else { continue };
        let placed =
            align_up(end, ALIGNMENT).and_then(|offset| Extent::new(offset, info.nbytes, MAX_DIM).ok());
        let Some(extent) = placed else {
            let fault = CommonFault::OutOfBounds { offset: end, len: info.nbytes, end: MAX_DIM }.into();
            return Err(Error::Unsupported { part: Part::named("tensor", info.name), fault });
        };
        if !extent.is_empty() {
            segments.push(Segment { tensor: position, extent });
        }
        // DECISIONS: an empty tensor stands at the next aligned position, which may be the file's end.
        tensors.set_offset(position, extent.offset());
        end = extent.end();
    }
    Ok((segments, end))
}

fn encode(tensors: &TensorTable, metadata: &Metadata, checksum: Checksum) -> Result<Vec<u8>> {
    let count = |n: usize, what| {
        u32::try_from(n).map_err(|_| Error::Unsupported { part: Part::new(what), fault: Fault::TooMany })
    };
    let mut header = FileHeader {
        checksum: 0,
        num_tensors: count(tensors.len(), "tensors")?,
        num_meta_kv: count(metadata.len(), "metadata entries")?,
    };
    let mut head = Vec::new();
    header.encode(&mut head);
    for (key, value) in metadata.iter() {
        MetadataRecord { key, value }.encode(&mut head);
    }
    for (position, info) in tensors.iter().enumerate() {
        let record = TensorRecord {
            key: info.name,
            dtype: info.dtype,
            numel: info.elements(),
            offset: tensors.offset(position).unwrap_or_default(),
            shape: info.shape.iter().copied(),
        };
        record.encode(code_of(info.dtype).unwrap_or_default(), &mut head);
    }
    let (front, records) = head.split_at(head.len().min(FileHeader::LEN));
    let mut running = Running::new(front);
    running.update(records);
    header.checksum = running.value(checksum);
    let mut front = Vec::new();
    header.encode(&mut front);
    head.splice(..front.len(), front);
    Ok(head)
}
