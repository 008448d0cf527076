//! The first and last values of a tensor, as text.

use std::ops::Range;

use modelfmt_core::{AnyError, Bytes, DType, TensorInfo, TensorView, ViewError};

use crate::error::Result;
use crate::format_g::G6;
use crate::model::Model;
use crate::values::{read_as, read_elements};

/// Up to this many elements are all printed.
const ALL: u64 = 10;
/// Of more, so many from each end.
const END: u64 = 5;
/// At most so many rows of a tensor of rank 2 and more.
const ROWS: u64 = 5;

/// The preview of a tensor: one row, or several in braces.
pub(super) fn preview(model: &Model, position: usize, info: &TensorInfo<'_>) -> Result<String> {
    let total = info.elements();
    let first = match info.shape {
        [] | [_] => return row(model, position, info, 0..total),
        [first, ..] => *first,
    };
    let rows = first.min(info.shape.len() as u64).min(ROWS);
    let width = total / first.max(1);
    let mut text = String::from("{\n");
    for number in 0..rows {
        text.push_str(&row(model, position, info, number * width..(number + 1) * width)?);
        text.push_str(" ,\n");
    }
    text.push_str(if first > rows { "...\n}" } else { "}" });
    Ok(text)
}

fn row(model: &Model, position: usize, info: &TensorInfo<'_>, range: Range<u64>) -> Result<String> {
    let values = if range.end - range.start <= ALL {
        elements(model, position, info, range)?
    } else {
        let mut ends = elements(model, position, info, range.start..range.start + END)?;
        ends.push("...".to_owned());
        ends.extend(elements(model, position, info, range.end - END..range.end)?);
        ends
    };
    Ok(format!("{{ {} }}", values.join(", ")))
}

/// Some elements as text: booleans as words, integers in full, floats in six digits.
pub(crate) fn elements(
    model: &Model,
    position: usize,
    info: &TensorInfo<'_>,
    range: Range<u64>,
) -> Result<Vec<String>> {
    let dtype = read_as(info.dtype);
    let count = [range.end - range.start];
    let size = u64::from(dtype.size().unwrap_or(1));
    // At most ten elements.
    let mut bytes = vec![0; usize::try_from(count[0] * size).unwrap_or_default()];
    read_elements(model, position, range.start, &mut bytes)?;
    text(dtype, &count, &bytes).map_err(|error| {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
        model.failed(AnyError::Io { at: range.start * size, len: count[0] * size, source })
    })
}

fn text(dtype: DType, count: &[u64; 1], bytes: &[u8]) -> Result<Vec<String>, ViewError> {
    let info = TensorInfo::new("", dtype, count).map_err(|_| ViewError::NotNumeric(dtype))?;
    let view = TensorView::new(info, Bytes::Borrowed(bytes))?;
    fn words<T: ToString>(values: &[T]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }
    Ok(match dtype {
        DType::Bool => bytes.iter().map(|&byte| (byte != 0).to_string()).collect(),
        DType::I8 => words(&view.to_vec::<i8>()?),
        DType::U8 => words(&view.to_vec::<u8>()?),
        DType::I16 => words(&view.to_vec::<i16>()?),
        DType::U16 => words(&view.to_vec::<u16>()?),
        DType::I32 => words(&view.to_vec::<i32>()?),
        DType::U32 => words(&view.to_vec::<u32>()?),
        DType::I64 => words(&view.to_vec::<i64>()?),
        DType::U64 => words(&view.to_vec::<u64>()?),
        _ => view.to_f64()?.into_iter().map(|value| G6(value).to_string()).collect(),
    })
}
