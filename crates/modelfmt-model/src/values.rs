//! Reads the values of a tensor in pieces, so that memory does not depend on its size.

use std::io;
use std::ops::Range;

use modelfmt_core::{
    AlignedBuf, AnyError, Bytes, DType, Execution, SmallType, TensorInfo, TensorView, author::PIECE,
};

use tensor_program::ReadError;
use tensor_program::blocks::{self, is_even};
pub use tensor_program::is_number;

use crate::error::{Error, Result};
use crate::model::Model;

/// Reads a tensor's values in pieces of whole elements or blocks, in order.
pub struct Pieces<'a> {
    model: &'a Model,
    position: usize,
    info: TensorInfo<'a>,
    piece: u64,
    at: u64,
    /// The number of elements before the last piece.
    before: u64,
    /// For a tensor whose elements are not in proportion to its bytes: the number of elements to decode at once, and the first
    /// element of the next piece.
    uneven: Option<(u64, u64)>,
    buffer: AlignedBuf,
}

impl<'a> Pieces<'a> {
    /// Reads the tensor at a position in pieces of at most [`PIECE`] bytes.
    pub fn new(model: &'a Model, position: usize) -> Result<Self> {
        let info = model.info(position)?;
        // A piece of this many bytes holds whole elements or blocks.
        let unit = info.dtype.block().map_or(1, |block| u64::from(block.nbytes));
        let (piece, buffer) = (PIECE - PIECE % unit, AlignedBuf::default());
        Ok(Self { model, position, info, piece, at: 0, before: 0, uneven: None, buffer })
    }

    /// Reads the tensor at a position in pieces of at most `elements` elements, so that tensors of two dtypes
    /// can be read in step.
    pub fn of_elements(model: &'a Model, position: usize, elements: u64) -> Result<Self> {
        let mut pieces = Self::new(model, position)?;
        if pieces.info.dtype.is_quantized() && !is_even(&pieces.info) {
            pieces.uneven = Some((elements, 0));
        } else if let Some(block) = pieces.info.dtype.block() {
            pieces.piece = elements / u64::from(block.elements) * u64::from(block.nbytes);
        }
        Ok(pieces)
    }

    /// Returns the next piece; `None` at the end.
    pub fn next(&mut self, work: &Execution<'_>) -> Result<Option<&[u8]>> {
        let len = self.piece.min(self.info.nbytes - self.at);
        if len == 0 {
            return Ok(None);
        }
        let out_of_memory = || {
            let source = io::ErrorKind::OutOfMemory.into();
            self.model.failed(AnyError::Io { at: self.at, len, source })
        };
        let size = usize::try_from(len).map_err(|_| out_of_memory())?;
        if self.buffer.resize(size).is_err() {
            return Err(out_of_memory());
        }
        self.model.read_into(self.position, self.at, &mut self.buffer)?;
        self.before = self.elements_read();
        self.at += len;
        if work.advance(len).is_break() {
            return Err(self.model.failed(AnyError::Cancelled));
        }
        Ok(Some(&self.buffer))
    }

    /// Returns the number of elements in the pieces so far.
    fn elements_read(&self) -> u64 {
        elements_in(self.info.dtype, self.at).min(self.info.elements())
    }

    /// Returns the next piece as numbers; `None` at the end.
    pub fn next_numbers(&mut self, work: &Execution<'_>) -> Result<Option<Numbers>> {
        if let Some((elements, first)) = self.uneven {
            return self.next_decoded(elements, first, work);
        }
        if self.next(work)?.is_none() {
            return Ok(None);
        }
        self.numbers().map(Some)
    }

    /// Checks whether elements are not in proportion to the bytes, so that only
    /// [`next_numbers`](Self::next_numbers) returns the values.
    pub const fn is_uneven(&self) -> bool {
        self.uneven.is_some()
    }

    /// Returns the bytes of the last piece.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the last piece as numbers.
    pub fn numbers(&self) -> Result<Numbers> {
        let (dtype, bytes) = (self.info.dtype, self.bytes());
        let integers = integers(dtype, bytes);
        let left = self.info.elements() - self.before;
        let numbers = numbers_of(dtype, bytes, left).map(|floats| Numbers { floats, integers });
        numbers.map_err(|error| {
            let source = io::Error::new(io::ErrorKind::InvalidData, error);
            Error::File {
                path: self.model.path().to_owned(),
                error: AnyError::Io { at: 0, len: bytes.len() as u64, source },
            }
        })
    }

    /// Decodes the next elements of a tensor whose elements are not in proportion to its bytes.
    fn next_decoded(&mut self, elements: u64, first: u64, work: &Execution<'_>) -> Result<Option<Numbers>> {
        let count = elements.min(self.info.elements() - first);
        let size = usize::try_from(count).unwrap_or(0); // a piece is short
        if size == 0 {
            return Ok(None);
        }
        let mut floats = vec![0.0; size];
        let read = |at: u64, bytes: &mut [u8]| self.model.read_into(self.position, at, bytes);
        decode_floats(self.model, &self.info, first, &mut floats, &read)?;
        self.uneven = Some((elements, first + count));
        let read = self.info.nbytes.saturating_sub(self.at).min(count.saturating_mul(4));
        self.at += read;
        if work.advance(read).is_break() {
            return Err(self.model.failed(AnyError::Cancelled));
        }
        let floats = floats.into_iter().map(f64::from).collect();
        Ok(Some(Numbers { floats, integers: Vec::new() }))
    }
}

/// The numbers of a piece.
pub struct Numbers {
    /// The numbers, unless they are in `integers`.
    pub floats: Vec<f64>,
    /// Integers of 64 bits, because f64 cannot hold each of them; empty for other dtypes.
    pub integers: Vec<i128>,
}

fn integers(dtype: DType, bytes: &[u8]) -> Vec<i128> {
    let words = bytes.as_chunks::<8>().0.iter();
    match dtype {
        DType::I64 => words.map(|&word| i64::from_le_bytes(word).into()).collect(),
        DType::U64 => words.map(|&word| u64::from_le_bytes(word).into()).collect(),
        _ => Vec::new(),
    }
}

/// Decodes whole elements or blocks to at most `left` numbers: the last byte of packed integers may be only partly used.
pub fn numbers_of(dtype: DType, bytes: &[u8], left: u64) -> Result<Vec<f64>, ggml_quant::QuantError> {
    let shape = [elements_in(dtype, bytes.len() as u64).min(left)];
    match TensorInfo::new("", dtype, &shape) {
        Ok(info) => ggml_quant::to_f64(&TensorView::new(info, Bytes::Borrowed(bytes))?),
        Err(_) => Err(modelfmt_core::TensorError::NotNumeric(dtype).into()),
    }
}

/// Returns the number of elements in this many bytes of whole blocks.
fn elements_in(dtype: DType, nbytes: u64) -> u64 {
    dtype.block().map_or(0, |block| nbytes / u64::from(block.nbytes) * u64::from(block.elements))
}

/// Checks whether values of this dtype can be read as numbers.
pub const fn is_numeric(dtype: DType) -> bool {
    use modelfmt_core::Kind;
    match dtype.kind() {
        Kind::Quantized => ggml_quant::can_decode(dtype),
        Kind::Opaque => false,
        _ => true,
    }
}

/// Returns the dtype of the elements that [`read_elements`] returns: `f32` for decoded ones.
pub const fn read_as(dtype: DType) -> DType {
    if dtype.is_quantized() || SmallType::from_dtype(dtype).is_some() { DType::F32 } else { dtype }
}

/// A function that fills a buffer with a tensor's bytes from an offset on.
pub(crate) type ReadBytes<'a> = &'a dyn Fn(u64, &mut [u8]) -> Result<()>;

/// Fills `out` with a tensor's elements from `first` on, little-endian; blocks and small types are decoded to `f32`.
pub fn read_elements(model: &Model, position: usize, first: u64, out: &mut [u8]) -> Result<()> {
    let info = model.info(position)?;
    elements_of(model, &info, first, out, &|at, bytes| model.read_into(position, at, bytes))
}

/// Fills `out` like `read_elements`, with the bytes that `read` supplies: for a tensor of the model, or for a
/// part of one.
pub fn elements_of(
    model: &Model,
    info: &TensorInfo<'_>,
    first: u64,
    out: &mut [u8],
    read: ReadBytes<'_>,
) -> Result<()> {
    if read_as(info.dtype) == info.dtype {
        return read(first * u64::from(info.dtype.size().unwrap_or(1)), out);
    }
    let mut values = vec![0f32; out.len() / 4];
    decode_floats(model, info, first, &mut values, read)?;
    let pairs = out.chunks_exact_mut(4).zip(&values);
    pairs.for_each(|(out, value)| out.copy_from_slice(&value.to_le_bytes()));
    Ok(())
}

/// Reads a tensor's elements as numbers. The range must be within the tensor.
pub fn elements_as_f64(model: &Model, position: usize, range: Range<u64>) -> Result<Vec<f64>> {
    let dtype = model.container().info(position).map_or(DType::U8, |info| read_as(info.dtype));
    let count = range.end - range.start;
    let size = count.saturating_mul(u64::from(dtype.size().unwrap_or(1)));
    let failed = |kind: io::ErrorKind, why: String| {
        let source = io::Error::new(kind, why);
        model.failed(AnyError::Io { at: range.start, len: size, source })
    };
    let none = || failed(io::ErrorKind::OutOfMemory, format!("{size} bytes are more than memory has"));
    let mut bytes = AlignedBuf::zeroed(usize::try_from(size).map_err(|_| none())?).map_err(|_| none())?;
    read_elements(model, position, range.start, &mut bytes)?;
    numbers_of(dtype, &bytes, count).map_err(|error| failed(io::ErrorKind::InvalidData, error.to_string()))
}

/// Fills `out` with a tensor's elements as they are stored, from the element `first` on, which begins a block.
pub fn read_stored(model: &Model, position: usize, first: u64, out: &mut [u8]) -> Result<()> {
    let block = model.container().info(position).and_then(|info| info.dtype.block());
    let offset = block.map_or(first, |block| first / u64::from(block.elements) * u64::from(block.nbytes));
    model.read_into(position, offset, out)
}

/// Decodes the elements of a tensor of blocks or of a small type, from `first` on.
fn decode_floats(
    model: &Model,
    info: &TensorInfo<'_>,
    first: u64,
    out: &mut [f32],
    read: ReadBytes<'_>,
) -> Result<()> {
    let len = out.len() as u64;
    blocks::decode(info, first, out, read).map_err(|failed| match failed {
        ReadError::Read(error) => error,
        ReadError::Values(error) => {
            let source = io::Error::new(io::ErrorKind::InvalidData, error);
            model.failed(AnyError::Io { at: first, len, source })
        }
    })
}
