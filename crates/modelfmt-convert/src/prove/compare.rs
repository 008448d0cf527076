//! Derives tensors again and compares them with DERIVED, in pieces and on several threads.

use std::sync::atomic::{AtomicBool, Ordering};

use modelfmt_core::{AnyError, Bytes, DType, Execution, TensorInfo, TensorView};
use tensor_program::ReadError;

use super::base::{Derivation, unit};
use super::steps::Variant;
use modelfmt_model::checked::CheckedValues;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

/// A tensor of DERIVED, by its position, and the derivation that should give it.
pub(super) struct Task<'p> {
    pub(super) position: usize,
    pub(super) derivation: &'p Derivation,
}

/// How a tensor of DERIVED differs from the result of its derivation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// The number of blocks, or of elements for types without blocks, that differ.
    pub(super) different: u64,
    /// The largest difference between two numbers; `None` if nothing differs, or if the differing values are
    /// not numbers.
    pub(super) max_abs: Option<f64>,
}

impl Difference {
    fn add(&mut self, other: Self) {
        self.different = self.different.saturating_add(other.different);
        self.max_abs = match (self.max_abs, other.max_abs) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Where the comparison of a tensor stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopAt {
    /// Every piece is compared and counted.
    End,
    /// The rest of a tensor is skipped after the first piece that differs.
    FirstDifference,
}

/// The number of bytes that are compared at once.
const PIECE: u64 = 1 << 20;

/// The pieces of all tensors, numbered consecutively.
struct Pieces {
    /// The number of the first piece of each task, and the length of a piece in bytes.
    firsts: Vec<(u64, u64)>,
    count: u64,
}

impl Pieces {
    fn of(derived: &Model, tasks: &[Task<'_>]) -> Self {
        let mut pieces = Self { firsts: Vec::new(), count: 0 };
        for task in tasks {
            let (nbytes, dtype) = derived
                .container()
                .info(task.position)
                .map_or((0, DType::U8), |info| (info.nbytes, info.dtype));
            let (_, len) = unit(dtype);
            let piece = (PIECE / len).max(1).saturating_mul(len);
            pieces.firsts.push((pieces.count, piece));
            pieces.count = pieces.count.saturating_add(nbytes.div_ceil(piece));
        }
        pieces
    }

    /// Returns the task of a piece, the offset of the piece in the tensor, and its maximum length.
    fn place(&self, number: u64) -> Option<(usize, u64, u64)> {
        let task = self.firsts.partition_point(|&(first, _)| first <= number).checked_sub(1)?;
        let &(first, piece) = self.firsts.get(task)?;
        Some((task, (number.checked_sub(first)?).checked_mul(piece)?, piece))
    }
}

/// Compares every task. Memory does not depend on the size of the tensors.
pub(super) fn compare(
    derived: &Model,
    readers: &[CheckedValues<'_>],
    tasks: &[Task<'_>],
    stop_at: StopAt,
    work: &Execution<'_>,
) -> Result<Vec<Difference>> {
    let pieces = Pieces::of(derived, tasks);
    let is_over: Vec<AtomicBool> = tasks.iter().map(|_| AtomicBool::new(false)).collect();
    let mut found = vec![Difference::default(); tasks.len()];
    let run = |buffers: &mut Buffers, number: u64| {
        let Some((at, begin, len)) = pieces.place(number) else { return Ok(None) };
        let (Some(task), Some(is_over)) = (tasks.get(at), is_over.get(at)) else { return Ok(None) };
        if is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let info = derived.info(task.position)?;
        let len = len.min(info.nbytes.saturating_sub(begin));
        let difference = buffers.compare(derived, readers, task, &info, (begin, len))?;
        if stop_at == StopAt::FirstDifference && difference.different > 0 {
            is_over.store(true, Ordering::Relaxed);
        }
        if work.advance(len).is_break() {
            return Err(derived.failed(AnyError::Cancelled));
        }
        Ok(Some((at, difference)))
    };
    let take = |piece: Option<(usize, Difference)>| {
        if let Some((at, difference)) = piece
            && let Some(sum) = found.get_mut(at)
        {
            sum.add(difference);
        }
        Ok(())
    };
    work.each(pieces.count, Buffers::default, run, take)?;
    Ok(found)
}

/// The buffers of one thread.
#[derive(Default)]
struct Buffers {
    found: Vec<u8>,
    made: Vec<u8>,
}

impl Buffers {
    fn compare(
        &mut self,
        derived: &Model,
        readers: &[CheckedValues<'_>],
        task: &Task<'_>,
        info: &TensorInfo<'_>,
        (begin, len): (u64, u64),
    ) -> Result<Difference> {
        let size = usize::try_from(len).unwrap_or(usize::MAX);
        self.found.resize(size, 0);
        self.made.resize(size, 0);
        derived.read_into(task.position, begin, &mut self.found)?;
        if !derive(task.derivation, readers, info.dtype, begin, &mut self.made)? {
            let (_, unit) = unit(info.dtype);
            return Ok(Difference { different: len.div_ceil(unit), max_abs: None });
        }
        if self.found == self.made {
            return Ok(Difference::default());
        }
        Ok(difference(info.dtype, &self.found, &self.made))
    }
}

/// Fills `out` with values that a derivation computes, in this dtype. Returns whether they can be computed:
/// for example, a NaN cannot be quantized to blocks.
pub(super) fn derive(
    derivation: &Derivation,
    readers: &[CheckedValues<'_>],
    dtype: DType,
    at: u64,
    out: &mut [u8],
) -> Result<bool> {
    let Some(reader) = readers.get(derivation.from.source) else { return Ok(false) };
    let mut inputs = |input: usize, at: u64, out: &mut [u8]| reader.read_into(input, at, out).map(drop);
    let mut read = |at: u64, out: &mut [u8]| match derivation.recipe.program.read(at, out, &mut inputs) {
        Ok(_) => Ok(true),
        Err(ReadError::Read(error)) => Err(error),
        Err(ReadError::Values(_)) => Ok(false),
    };
    match derivation.recipe.variant {
        None => read(at, out),
        Some(Variant::Contracted) => contracted(dtype, at, out, &mut read),
    }
}

/// Quantizes the `f32` numbers that `read` returns with the arithmetic of builds with fused operations. The
/// range must consist of whole blocks.
fn contracted(
    dtype: DType,
    at: u64,
    out: &mut [u8],
    read: &mut dyn FnMut(u64, &mut [u8]) -> Result<bool>,
) -> Result<bool> {
    const SIZE: u64 = size_of::<f32>() as u64;
    let (elements, nbytes) = unit(dtype);
    let floats =
        |nbytes_of_blocks: u64| (nbytes_of_blocks / nbytes).saturating_mul(elements).saturating_mul(SIZE);
    let mut bytes = vec![0; usize::try_from(floats(out.len() as u64)).unwrap_or(0)];
    if !read(floats(at), &mut bytes)? {
        return Ok(false);
    }
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Ok(ggml_quant::encode_contracted(dtype, &values, out).is_ok())
}

/// Compares two pieces of the same dtype.
fn difference(dtype: DType, found: &[u8], made: &[u8]) -> Difference {
    let (_, len) = unit(dtype);
    let len = usize::try_from(len).unwrap_or(1).max(1);
    let pairs = found.chunks(len).zip(made.chunks(len));
    let (mut different, mut only_found, mut only_made) = (0_u64, Vec::new(), Vec::new());
    for (of_found, of_made) in pairs.filter(|(of_found, of_made)| of_found != of_made) {
        different = different.saturating_add(1);
        only_found.extend_from_slice(of_found);
        only_made.extend_from_slice(of_made);
    }
    Difference { different, max_abs: max_abs(dtype, &only_found, &only_made) }
}

/// Returns the largest difference between the numbers of blocks. It is infinite between a number and a NaN or
/// an infinity.
fn max_abs(dtype: DType, a: &[u8], b: &[u8]) -> Option<f64> {
    if matches!(dtype, DType::I64 | DType::U64) {
        let integers = |bytes: &[u8]| -> Vec<i128> {
            let words = bytes.as_chunks::<8>().0.iter();
            match dtype {
                DType::I64 => words.map(|&word| i64::from_le_bytes(word).into()).collect(),
                _ => words.map(|&word| u64::from_le_bytes(word).into()).collect(),
            }
        };
        let pairs = integers(a).into_iter().zip(integers(b));
        return pairs.map(|(a, b)| a.abs_diff(b) as f64).reduce(f64::max);
    }
    let pairs = numbers(dtype, a)?.into_iter().zip(numbers(dtype, b)?);
    let apart = |(a, b): (f64, f64)| {
        if a == b || (a.is_nan() && b.is_nan()) {
            0.0
        } else if a.is_finite() && b.is_finite() {
            (a - b).abs()
        } else {
            f64::INFINITY
        }
    };
    pairs.map(apart).reduce(f64::max)
}

fn numbers(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    let (elements, nbytes) = unit(dtype);
    let shape = [(bytes.len() as u64 / nbytes).checked_mul(elements)?];
    let info = TensorInfo::new("", dtype, &shape).ok()?;
    let view = TensorView::new(info, Bytes::Borrowed(bytes)).ok()?;
    ggml_quant::to_f64(&view).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_in_blocks_and_elements() {
        let floats = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
        let (a, b) = (floats(&[1.0, 2.0, 0.0, 4.0]), floats(&[1.0, 2.5, -0.0, 4.0]));
        assert_eq!(difference(DType::F32, &a, &b), Difference { different: 2, max_abs: Some(0.5) });
        let nan = difference(DType::F32, &floats(&[f32::NAN]), &floats(&[1.0]));
        assert_eq!(nan, Difference { different: 1, max_abs: Some(f64::INFINITY) });
        let mut block = vec![0; 2 * 34];
        block[34..36].copy_from_slice(&[0, 0x3c]); // the scale 1
        let mut other = block.clone();
        other[36] = 3;
        assert_eq!(difference(DType::Q8_0, &block, &other), Difference { different: 1, max_abs: Some(3.0) });
        let wide = |n: i64| n.to_le_bytes();
        let far = difference(DType::I64, &wide(i64::MAX), &wide(i64::MAX - 1));
        assert_eq!(far, Difference { different: 1, max_abs: Some(1.0) });
        assert_eq!(difference(DType::Packed, &[1, 2], &[1, 3]), Difference { different: 1, max_abs: None });
    }
}
