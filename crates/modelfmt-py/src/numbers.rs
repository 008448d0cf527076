//! Converts values to other types: decodes them, and casts them as conversions do.

use modelfmt::modelfmt_core::{AlignedBuf, TensorInfo};
use modelfmt::{Bytes, DType, TensorView};
use pyo3::prelude::*;
use tensor_program::{Program, ProgramError, ReadError};

use crate::errors::refuse;
use crate::files::described;
use crate::raw::{self, Block, Memory, PyBytesSource};
use crate::work::{self, Progress};

/// The number of bytes that are cast between two checks for Ctrl-C.
const PIECE: usize = 4 << 20;

/// Values of any type as f32, blocks decoded.
#[pyfunction]
pub(crate) fn decode(
    py: Python<'_>,
    dtype: &str,
    shape: Vec<u64>,
    bytes: &Bound<'_, PyAny>,
) -> PyResult<Memory> {
    let (dtype, given) = described(py, "", dtype, &shape, bytes)?;
    let decoded = work::run(py, None, &Progress::none(), move |_| {
        let mut values = AlignedBuf::zeroed(given.len()).map_err(|error| error.to_string())?;
        given.copy(0, &mut values);
        let info = TensorInfo::new("", dtype, &shape).map_err(|error| error.to_string())?;
        let view = TensorView::new(info, Bytes::Owned(values)).map_err(|error| error.to_string())?;
        let floats = modelfmt::to_f32(&view).map_err(|error| error.to_string())?;
        let mut buffer = AlignedBuf::zeroed(floats.len() * 4).map_err(|error| error.to_string())?;
        let places = buffer.chunks_exact_mut(4);
        places.zip(floats).for_each(|(out, value)| out.copy_from_slice(&value.to_le_bytes()));
        Ok::<_, String>(buffer)
    })?;
    let buffer = decoded.map_err(|why| refuse(py, "values", &format!("{dtype} cannot be decoded: {why}")))?;
    Ok(Memory::new(Block::of_buffer(buffer)))
}

/// Values as another type: blocks are decoded first, and each number is rounded once.
#[pyfunction]
pub(crate) fn cast(
    py: Python<'_>,
    name: &str,
    dtype: &str,
    shape: Vec<u64>,
    bytes: &Bound<'_, PyAny>,
    to: &str,
) -> PyResult<Memory> {
    let (dtype, given) = described(py, name, dtype, &shape, bytes)?;
    let to = known(py, to)?;
    let failed = |why: String| refuse(py, "values", &uncast(name, dtype, to, &why));
    let program = program(dtype, &shape, to).map_err(|error| failed(error.to_string()))?;
    let nbytes = program.nbytes().and_then(|nbytes| usize::try_from(nbytes).ok());
    let buffer = raw::buffer(nbytes.ok_or_else(|| failed("they are more than memory has".to_owned()))?)?;
    let done = work::run_to_end(py, Some(1), &Progress::none(), move |work| {
        let mut buffer = buffer;
        let mut at = 0;
        for piece in buffer.chunks_mut(PIECE) {
            program.read(at, piece, &mut |_, offset, out: &mut [u8]| read(&given, offset, out))?;
            at += piece.len() as u64;
            if work.advance(piece.len() as u64).is_break() {
                break;
            }
        }
        Ok::<_, ReadError<&'static str>>(buffer)
    })?;
    let done = done.map_err(|error| match error {
        ReadError::Read(why) => failed(why.to_owned()),
        ReadError::Values(error) => failed(error.to_string()),
    });
    Ok(Memory::new(Block::of_buffer(done?)))
}

fn read(given: &PyBytesSource, offset: u64, out: &mut [u8]) -> Result<(), &'static str> {
    if given.copy(offset, out) { Ok(()) } else { Err("there are fewer bytes than type and shape take") }
}

fn program(dtype: DType, shape: &[u64], to: DType) -> Result<Program, ProgramError> {
    let values = Program::input(0, dtype, shape);
    let numbers = if dtype.is_quantized() { values.dequantized()? } else { values };
    numbers.cast(to)
}

/// Returns why a tensor cannot have a type.
fn uncast(name: &str, dtype: DType, to: DType, why: &str) -> String {
    format!("tensor {name:?}: {dtype} cannot be cast to {to}: {why}")
}

/// Parses a type by any of its usual names.
fn known(py: Python<'_>, name: &str) -> PyResult<DType> {
    name.parse()
        .map_err(|error: modelfmt::modelfmt_core::UnknownDType| refuse(py, "usage", &error.to_string()))
}

/// The name of the type that values are cast to, and how many bytes they take then.
#[pyfunction]
pub(crate) fn cast_of(
    py: Python<'_>,
    name: &str,
    dtype: &str,
    shape: Vec<u64>,
    to: &str,
) -> PyResult<(&'static str, u64)> {
    let (dtype, to) = (known(py, dtype)?, known(py, to)?);
    let failed = |why: String| refuse(py, "unsupported", &uncast(name, dtype, to, &why));
    let program = program(dtype, &shape, to).map_err(|error| failed(error.to_string()))?;
    let nbytes = program.nbytes().ok_or_else(|| failed("that is more bytes than a u64 counts".to_owned()))?;
    Ok((to.name(), nbytes))
}

/// The elements and the bytes of a block of a type; `None` for a type whose tensors are no whole blocks.
#[pyfunction]
pub(crate) fn block(py: Python<'_>, dtype: &str) -> PyResult<Option<(u32, u32)>> {
    Ok(known(py, dtype)?.block().map(|block| (block.elements, block.nbytes)))
}
