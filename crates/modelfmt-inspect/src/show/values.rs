//! Reads the values of a tensor, or of a part of it, only when they are needed, so that memory does not
//! depend on their number.

use std::io;

use modelfmt_core::plan::{Runs, Slice, SliceError};
use modelfmt_core::{AnyError, DType, Execution, TensorInfo};
use tensor_stats::Stats;

use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::values::{elements_of, is_numeric, read_as};

use super::decoded;

/// The values of a tensor or of a part of it.
pub(super) struct Values<'a> {
    model: &'a Model,
    position: usize,
    /// The description of the values. For a part, it has the shape and the size of the part.
    pub(super) info: TensorInfo<'a>,
    part: Option<&'a Part>,
}

/// The maximum number of bytes of a part that is read once and kept, because its values are needed several
/// times.
const KEPT: u64 = 4 << 20;

/// A part of a tensor.
pub(super) struct Part {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
    nbytes: u64,
    taken: Taken,
}

/// What a part takes from a tensor.
enum Taken {
    /// These byte ranges. The bytes of a short part are kept.
    Stored { runs: Runs, kept: Option<Vec<u8>> },
    /// These elements as f32, because they are parts of blocks. The elements of a short part are kept.
    Decoded { runs: Runs, kept: Option<Vec<u8>> },
}

impl Part {
    /// Finds the part of the tensor that a slice selects. A short part is read at once, with few other bytes.
    pub(super) fn new(model: &Model, position: usize, slice: &Slice) -> Result<Self> {
        Self::with_kept(model, position, slice, KEPT)
    }

    fn with_kept(model: &Model, position: usize, slice: &Slice, most: u64) -> Result<Self> {
        let info = model.info(position)?;
        let failed = |fault| model.failed(AnyError::slice(&info, fault));
        let (sliced, is_decoded) = match slice.of(&info) {
            Err(SliceError::PartialBlock { .. } | SliceError::Layout { .. }) if is_decoded(info.dtype) => {
                (slice.of(&in_f32(&info)).map_err(failed)?, true)
            }
            sliced => (sliced.map_err(failed)?, false),
        };
        let mut part = Self {
            name: info.name.to_owned(),
            dtype: info.dtype,
            nbytes: sliced.runs.nbytes(),
            shape: sliced.shape,
            taken: Taken::Stored { runs: sliced.runs.clone(), kept: None },
        };
        let is_short = part.nbytes <= most;
        if is_decoded {
            let mut kept = is_short.then(|| vec![0; usize::try_from(part.nbytes).unwrap_or(0)]);
            if let Some(kept) = &mut kept {
                decoded::read(model, position, &sliced.runs, kept)?;
            }
            part.nbytes = stored_nbytes(info.dtype, part.nbytes / F32);
            part.taken = Taken::Decoded { runs: sliced.runs, kept };
        } else if is_short {
            let bytes = model.slice(position, slice)?;
            part.taken = Taken::Stored { runs: sliced.runs, kept: Some(bytes.bytes().to_vec()) };
        }
        Ok(part)
    }

    /// Fills `out` with the bytes of the part at the offset `at`: as they are stored, or of the elements as
    /// f32.
    fn read(&self, model: &Model, position: usize, at: u64, out: &mut [u8]) -> Result<()> {
        let (Taken::Stored { runs, kept } | Taken::Decoded { runs, kept }) = &self.taken;
        let len = out.len() as u64;
        let end = at.checked_add(len).filter(|end| *end <= runs.nbytes());
        let missing = || invalid(model, at, len, "the slice has fewer values");
        let end = end.ok_or_else(missing)?;
        if let Some(kept) = kept {
            let begin = usize::try_from(at).ok();
            let bytes = begin.and_then(|begin| kept.get(begin..begin.checked_add(out.len())?));
            out.copy_from_slice(bytes.ok_or_else(missing)?);
            return Ok(());
        }
        let mut rest = out;
        for runs in runs.part(at..end) {
            let nbytes = usize::try_from(runs.nbytes()).unwrap_or(usize::MAX);
            let (out, left) = rest.split_at_mut_checked(nbytes).ok_or_else(missing)?;
            match self.taken {
                Taken::Stored { .. } => {
                    let read = model.container().runs_into(position, &runs, out);
                    read.map_err(|error| model.failed(error))?;
                }
                Taken::Decoded { .. } => decoded::read(model, position, &runs, out)?,
            }
            rest = left;
        }
        Ok(())
    }
}

/// The length of an f32 in bytes.
const F32: u64 = 4;

/// Checks whether elements of this dtype are shown as f32.
fn is_decoded(dtype: DType) -> bool {
    is_numeric(dtype) && read_as(dtype) == DType::F32 && dtype != DType::F32
}

/// Returns the description of a tensor after its elements are decoded.
fn in_f32<'a>(info: &TensorInfo<'a>) -> TensorInfo<'a> {
    let nbytes = info.elements().saturating_mul(F32);
    TensorInfo::with_nbytes(info.name, DType::F32, info.shape, nbytes, info.has_data)
}

/// Returns the length in bytes of this many elements in blocks. The last block may be incomplete.
fn stored_nbytes(dtype: DType, elements: u64) -> u64 {
    let (per_block, nbytes) = dtype.block().map_or((1, 0), |block| (block.elements, block.nbytes));
    u64::try_from((u128::from(elements) * u128::from(nbytes)).div_ceil(u128::from(per_block)))
        .unwrap_or(u64::MAX)
}

impl<'a> Values<'a> {
    pub(super) fn new(model: &'a Model, position: usize, part: Option<&'a Part>) -> Result<Self> {
        let info = match part {
            Some(Part { name, dtype, shape, nbytes, .. }) => {
                TensorInfo::with_nbytes(name, *dtype, shape, *nbytes, true)
            }
            None => model.info(position)?,
        };
        Ok(Self { model, position, info, part })
    }

    /// Checks whether the values are only a part of the tensor.
    pub(super) const fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// Checks whether the values are parts of blocks, which are available only as f32.
    fn is_decoded(&self) -> bool {
        self.part.is_some_and(|part| matches!(part.taken, Taken::Decoded { .. }))
    }

    /// Fills `out` with elements, beginning at `first`, in the dtype of
    /// [`read_as`](modelfmt_model::values::read_as).
    pub(super) fn read_elements(&self, first: u64, out: &mut [u8]) -> Result<()> {
        if self.is_decoded() {
            return self.read(first.saturating_mul(F32), out);
        }
        let whole = self.model.info(self.position)?;
        // If rows are padded, only the whole tensor can be selected, and its own shape shows the padding.
        let info = if whole.nbytes == self.info.nbytes { &whole } else { &self.info };
        elements_of(self.model, info, first, out, &|at, bytes| self.read(at, bytes))
    }

    /// Fills `out` with stored or decoded bytes at the offset `at`.
    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        match self.part {
            Some(part) => part.read(self.model, self.position, at, out),
            None => self.model.read_into(self.position, at, out),
        }
    }

    /// Computes the statistics of the values; blocks are decoded first.
    pub(super) fn stats(&self, work: &Execution<'_>) -> Result<Stats> {
        let stored = self.info.dtype;
        let in_f32 = stored.is_quantized() || self.is_decoded();
        let dtype = if in_f32 { DType::F32 } else { stored };
        let read = |first: u64, buffer: &mut [u8]| {
            if in_f32 {
                self.read_elements(first, buffer)?;
            } else {
                let block = stored.block().map_or((1, 1), |block| (block.elements, block.nbytes));
                self.read(first / u64::from(block.0) * u64::from(block.1), buffer)?;
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
    ) -> modelfmt_model::error::Error {
        invalid(self.model, at, len, error)
    }
}

fn invalid(
    model: &Model,
    at: u64,
    len: u64,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> modelfmt_model::error::Error {
    model.failed(AnyError::Io { at, len, source: io::Error::new(io::ErrorKind::InvalidData, error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every dtype, including packed dtypes and blocks, the text of a part does not depend on whether the
    /// part is kept.
    #[test]
    fn a_part_is_the_same_read_at_once_or_piece_by_piece() {
        let mut compared = 0;
        for file in ["gguf/types.gguf", "oinf/v2-dtypes.oinf", "apr/dtypes.apr", "reference/one-shard.aero"] {
            let path = format!("{}/../../testdata/{file}", env!("CARGO_MANIFEST_DIR"));
            let model = Model::open(path).unwrap();
            for position in 0..model.tensor_count() {
                for slice in [":", "0", "::2", "1:", ":,0:32", ":,::2", "::2,::2", "-1:,:64"] {
                    let slice: Slice = slice.parse().unwrap();
                    let parts = [0, u64::MAX].map(|most| Part::with_kept(&model, position, &slice, most));
                    let [Ok(apart), Ok(kept)] = parts else { continue };
                    let (Taken::Stored { kept: none, .. } | Taken::Decoded { kept: none, .. }) = &apart.taken;
                    assert!(none.is_none() || apart.nbytes == 0);
                    let [apart, kept] = [&apart, &kept].map(|part| {
                        let values = Values::new(&model, position, Some(part)).unwrap();
                        let stats =
                            values.stats(&Execution::sequential()).map(|stats| format!("{stats:?}")).ok();
                        let count = usize::try_from(values.info.elements()).unwrap();
                        let size = read_as(part.dtype).size().unwrap_or(1) as usize;
                        let mut odd = vec![0; count.saturating_sub(1) * size];
                        let is_read =
                            is_numeric(part.dtype) && count > 1 && values.read_elements(1, &mut odd).is_ok();
                        (stats, is_read, odd)
                    });
                    compared += usize::from(kept.1);
                    assert_eq!(apart, kept, "{file} {position} {slice}");
                }
            }
        }
        assert!(compared > 150, "{compared}");
    }
}
