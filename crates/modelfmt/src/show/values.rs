//! The values of a tensor that are shown: all of them, which are read when they are wanted, or a part, which is in memory.

use std::io;

use modelfmt_core::plan::Slice;
use modelfmt_core::{AnyError, DType, Execution, TensorInfo};
use tensor_stats::Stats;

use crate::error::Result;
use crate::model::Model;
use crate::values::{is_numeric, read_as, read_elements, read_stored};

/// Values of a tensor.
pub(super) struct Values<'a> {
    model: &'a Model,
    position: usize,
    /// What they are: of a part, its shape and size.
    pub(super) info: TensorInfo<'a>,
    part: Option<&'a Part>,
}

/// A part of a tensor, in memory.
pub(super) struct Part {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
    /// As they are stored.
    stored: Vec<u8>,
    /// Those that are no numbers of Rust's as `f32`.
    decoded: Option<Vec<u8>>,
}

impl Part {
    /// Reads it, and no more than it takes.
    pub(super) fn read(model: &Model, position: usize, slice: &Slice) -> Result<Self> {
        let info = model.info(position)?;
        let part = model.container().slice_at(position, slice).map_err(|error| model.failed(error))?;
        let view = part.view().map_err(|error| invalid(model, 0, 0, error))?;
        let is_decoded = is_numeric(info.dtype) && read_as(info.dtype) != info.dtype;
        let decoded = match is_decoded {
            true => {
                let floats = ggml_quant::to_f32(&view).map_err(|error| invalid(model, 0, 0, error))?;
                Some(floats.iter().flat_map(|value| value.to_le_bytes()).collect())
            }
            false => None,
        };
        let (name, shape) = (info.name.to_owned(), part.shape().to_vec());
        Ok(Self { name, dtype: info.dtype, shape, stored: part.bytes().to_vec(), decoded })
    }
}

impl<'a> Values<'a> {
    pub(super) fn new(model: &'a Model, position: usize, part: Option<&'a Part>) -> Result<Self> {
        let info = match part {
            Some(Part { name, dtype, shape, stored, .. }) => {
                TensorInfo::with_nbytes(name, *dtype, shape, stored.len() as u64, true)
            }
            None => model.info(position)?,
        };
        Ok(Self { model, position, info, part })
    }

    /// Fills `out` with elements from `first` on, as [`read_as`] says.
    pub(super) fn read_elements(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let Some(part) = self.part else { return read_elements(self.model, self.position, first, out) };
        let size = u64::from(read_as(part.dtype).size().unwrap_or(1));
        self.copy(part.decoded.as_deref().unwrap_or(&part.stored), first.saturating_mul(size), out)
    }

    fn copy(&self, from: &[u8], at: u64, out: &mut [u8]) -> Result<()> {
        let begin = usize::try_from(at).ok();
        let bytes = begin.and_then(|begin| from.get(begin..begin.checked_add(out.len())?));
        let missing = || self.invalid(at, out.len() as u64, "the slice has fewer values");
        let bytes = bytes.ok_or_else(missing)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    /// Their statistics; blocks are decoded first.
    pub(super) fn stats(&self, work: &Execution<'_>) -> Result<Stats> {
        let stored = self.info.dtype;
        let dtype = if stored.is_quantized() { DType::F32 } else { stored };
        let read = |first: u64, buffer: &mut [u8]| {
            match self.part {
                _ if stored.is_quantized() => self.read_elements(first, buffer)?,
                Some(part) => {
                    let block = stored.block().map_or((1, 1), |block| (block.elements, block.nbytes));
                    self.copy(&part.stored, first / u64::from(block.0) * u64::from(block.1), buffer)?;
                }
                None => read_stored(self.model, self.position, first, buffer)?,
            }
            if work.advance(buffer.len() as u64).is_break() {
                return Err(self.model.failed(AnyError::Cancelled));
            }
            Ok(())
        };
        #[cfg(feature = "parallel")]
        let found = tensor_stats::stats_parallel(dtype, self.info.elements(), work.threads, read);
        #[cfg(not(feature = "parallel"))]
        let found = tensor_stats::stats(dtype, self.info.elements(), &mut { read });
        found.map_err(|error| match error {
            tensor_stats::Error::Read(error) => error,
            other => self.invalid(0, self.info.nbytes, other.to_string()),
        })
    }

    pub(super) fn invalid(
        &self,
        at: u64,
        len: u64,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> crate::error::Error {
        invalid(self.model, at, len, error)
    }
}

fn invalid(
    model: &Model,
    at: u64,
    len: u64,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> crate::error::Error {
    model.failed(AnyError::Io { at, len, source: io::Error::new(io::ErrorKind::InvalidData, error) })
}
