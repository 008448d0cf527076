//! Plans a file from the descriptions of its tensors: every offset and length. Checks everything and writes
//! nothing.

use modelfmt_core::value::Object;
use modelfmt_core::{
    CommonFault, DType, Part, TensorTable,
    author::{Extent, NewTensor, align_up},
};
use modelfmt_write::{Segment, TensorSpec};

use crate::error::{Fault, WriteError};
use crate::metadata::Numbers;
#[cfg(feature = "v0_3")]
use crate::options::ManifestOptions;
use crate::options::WriteOptions;
#[cfg(feature = "v0_3")]
use crate::v0_3;
use crate::v1::wire::{MAX_DIM, MAX_KEY_LEN, MAX_RANK};
use crate::version::{MAX_RANK_0_3, Version};
use crate::{dtypes, v1};

/// A file to write: checked and laid out, with encoded header and records (or manifest).
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) tensors: TensorTable,
    /// Everything before the values.
    pub(crate) head: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
    /// The fill byte between the values.
    pub(crate) fill: u8,
    pub(crate) file_len: u64,
}

impl Plan {
    /// Lays out a file of version 1, with tensors and metadata (integers and floats) in the given order. A
    /// scalar (shape `[]`) gets the shape `[1]`, because version 1 has no rank 0.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] for a tensor or key that version 1 cannot hold: a dtype without a code, a
    /// rank above 255, a tensor without data, metadata other than 64-bit numbers, a key that is empty or
    /// longer than 65,535 bytes, a name that occurs twice.
    pub fn new<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Object,
        options: &WriteOptions,
    ) -> Result<Self, WriteError> {
        let mut tensors = list(specs, Version::V1)?;
        for key in metadata.keys() {
            check_key(key)
                .map_err(|fault| WriteError::Unsupported { part: Part::named("metadata key", key), fault })?;
        }
        let numbers = Numbers::of(metadata)?;
        let begin = v1::records::len(&tensors, &numbers).saturating_add(options.reserve);
        let (segments, file_len) = place(&mut tensors, begin, v1::wire::ALIGNMENT, Empty::Aligned)?;
        let head = v1::records::encode(&tensors, &numbers, options.checksum)?;
        Ok(Self { tensors, head, segments, fill: v1::wire::FILL, file_len })
    }

    #[cfg(feature = "v0_3")]
    /// Lays out a file of version 0.3, which magnetron 0.2 reads, with tensors in the given order and
    /// metadata of any kind.
    ///
    /// # Errors
    /// [`WriteError::Unsupported`] for a tensor that version 0.3 cannot hold: a dtype without a code, a rank
    /// above 16, a tensor without data, a name longer than 65,535 bytes or that occurs twice. Also if no
    /// tensor has bytes, and for metadata that nest too deep.
    pub fn v0_3<'a>(
        specs: impl IntoIterator<Item = TensorSpec<'a>>,
        metadata: &Object,
        options: &ManifestOptions,
    ) -> Result<Self, WriteError> {
        let mut tensors = list(specs, Version::V0_3)?;
        let page = crate::version::PAGE;
        let (mut segments, values_len) = place(&mut tensors, 0, page, Empty::AtEnd)?;
        if values_len == 0 {
            return Err(WriteError::Unsupported { part: Part::new("the model"), fault: Fault::NoValues });
        }
        let (head, begin) = v0_3::encode(&tensors, metadata, options, (0, values_len))?;
        let out_of_bounds = |fault: CommonFault| WriteError::Unsupported {
            part: Part::new("the model"),
            fault: fault.into(),
        };
        for position in 0..tensors.len() {
            // `encode` has checked that the values end below 2^63.
            let offset = tensors.offset(position).unwrap_or_default();
            tensors.set_offset(position, begin.saturating_add(offset));
        }
        let file_len = begin.saturating_add(values_len);
        for segment in &mut segments {
            let offset = segment.extent.offset().saturating_add(begin);
            segment.extent = Extent::new(offset, segment.extent.len(), file_len).map_err(out_of_bounds)?;
        }
        Ok(Self { tensors, head, segments, fill: 0, file_len })
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

/// Returns whether version 1 has a code for a dtype. [`Version::can_hold`] returns this for any version.
#[must_use]
pub const fn can_hold(dtype: DType) -> bool {
    v1::wire::code_of(dtype).is_some()
}

impl Version {
    /// Returns whether this version has a code for a dtype.
    #[must_use]
    pub fn can_hold(self, dtype: DType) -> bool {
        match self {
            Self::V1 => can_hold(dtype),
            Self::V0_1 => dtype != DType::F8E4M3 && dtypes::code_of(dtype).is_some(),
            Self::V0_2 | Self::V0_3 => dtypes::code_of(dtype).is_some(),
        }
    }
}

/// Lists the tensors, after checking that the version can hold each of them.
fn list<'a>(
    specs: impl IntoIterator<Item = TensorSpec<'a>>,
    version: Version,
) -> Result<TensorTable, WriteError> {
    let mut tensors = TensorTable::default();
    for spec in specs {
        push(&mut tensors, &spec, version)
            .map_err(|fault| WriteError::Unsupported { part: Part::named("tensor", &spec.name), fault })?;
    }
    Ok(tensors)
}

fn push(tensors: &mut TensorTable, spec: &TensorSpec<'_>, version: Version) -> Result<(), Fault> {
    let is_v1 = version == Version::V1;
    match check_key(&spec.name) {
        Err(Fault::EmptyKey) if !is_v1 => {}
        checked => checked?,
    }
    if !spec.has_data {
        return Err(Fault::Declared);
    }
    if !version.can_hold(spec.dtype) {
        return Err(if is_v1 { Fault::NoCode(spec.dtype) } else { Fault::NoCodeIn0_3(spec.dtype) });
    }
    // Version 1 has no rank 0.
    let shape: &[u64] = if is_v1 && spec.shape.is_empty() { &[1] } else { &spec.shape };
    let max = if is_v1 { MAX_RANK } else { MAX_RANK_0_3 };
    if shape.len() > max {
        return Err(Fault::Rank { found: shape.len(), max });
    }
    if let Some(&dim) = shape.iter().find(|&&dim| dim > MAX_DIM) {
        return Err(Fault::Dimension(dim));
    }
    let tensor = NewTensor { name: &spec.name, dtype: spec.dtype, offset: Some(0), packed_nbytes: 0 };
    tensors.push(tensor, shape.iter().copied())?;
    Ok(())
}

pub(crate) fn check_key(key: &str) -> Result<(), Fault> {
    match key.len() as u64 {
        0 => Err(Fault::EmptyKey),
        1..=MAX_KEY_LEN => Ok(()),
        len => Err(Fault::KeyLength(len)),
    }
}

/// The place of a tensor without bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Empty {
    /// At the next aligned offset, which may be the end of the file.
    Aligned,
    /// At the end of the previous tensor.
    #[cfg_attr(not(feature = "v0_3"), allow(dead_code, reason = "only version 0.3 has them there"))]
    AtEnd,
}

/// Places each buffer at the next multiple of `alignment`. Returns the segments and the end of the last one.
fn place(
    tensors: &mut TensorTable,
    begin: u64,
    alignment: u64,
    empty: Empty,
) -> Result<(Vec<Segment>, u64), WriteError> {
    let mut segments = Vec::with_capacity(tensors.len());
    let mut end = begin;
    for position in 0..tensors.len() {
        let Some(info) = tensors.info(position) else { continue };
        let alignment = if info.nbytes == 0 && empty == Empty::AtEnd { 1 } else { alignment };
        let placed =
            align_up(end, alignment).and_then(|offset| Extent::new(offset, info.nbytes, MAX_DIM).ok());
        let Some(extent) = placed else {
            let fault = CommonFault::OutOfBounds { offset: end, len: info.nbytes, end: MAX_DIM }.into();
            return Err(WriteError::Unsupported { part: Part::named("tensor", info.name), fault });
        };
        if !extent.is_empty() {
            segments.push(Segment { tensor: position, extent });
        }
        tensors.set_offset(position, extent.offset());
        end = extent.end();
    }
    Ok((segments, end))
}
