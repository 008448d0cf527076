//! The first and last values of a tensor, as text.

use std::ops::Range;

use modelfmt_core::value::Value;
use modelfmt_core::{Bytes, DType, Kind, TensorError, TensorInfo, TensorView};

use super::values::Values;
use modelfmt_model::error::Result;
use modelfmt_model::values::read_as;
use modelfmt_rules::wording::format_g::G6;

/// The maximum number of elements of a tensor that is printed in full.
const ALL: u64 = 10;
/// The number of elements that are printed from each end of a larger tensor.
const END: u64 = 5;
/// The maximum number of rows of a tensor of rank 2 and more.
const ROWS: u64 = 5;

/// Returns the preview of a tensor: one row, or several rows in braces.
pub(super) fn preview(values: &Values<'_>) -> Result<String> {
    let info = &values.info;
    let total = info.elements();
    let first = match info.shape {
        [] | [_] => return row(values, 0..total),
        [first, ..] => *first,
    };
    let rows = first.min(info.shape.len() as u64).min(ROWS);
    let width = total / first.max(1);
    let mut text = String::from("{\n");
    for number in 0..rows {
        text.push_str(&row(values, number * width..(number + 1) * width)?);
        text.push_str(" ,\n");
    }
    text.push_str(if first > rows { "...\n}" } else { "}" });
    Ok(text)
}

fn row(values: &Values<'_>, range: Range<u64>) -> Result<String> {
    let texts = if range.end - range.start <= ALL {
        elements(values, range)?
    } else {
        let mut ends = elements(values, range.start..range.start + END)?;
        ends.push("...".to_owned());
        ends.extend(elements(values, range.end - END..range.end)?);
        ends
    };
    Ok(format!("{{ {} }}", texts.join(", ")))
}

/// Returns some elements as text: booleans as words, integers in full, floats with six digits.
pub(super) fn elements(values: &Values<'_>, range: Range<u64>) -> Result<Vec<String>> {
    let dtype = read_as(values.info.dtype);
    let count = [range.end - range.start];
    let size = u64::from(dtype.size().unwrap_or(1));
    // There are at most ten elements, or as many as JSON lists.
    let mut bytes = vec![0; usize::try_from(count[0] * size).unwrap_or_default()];
    values.read_elements(range.start, &mut bytes)?;
    text(dtype, &count, &bytes).map_err(|error| values.invalid(range.start * size, count[0] * size, error))
}

/// Returns the first and the last elements as exact values. If there are few elements, the first list has all
/// of them and the second is empty.
pub(super) fn exact_ends(values: &Values<'_>) -> Result<(Vec<Value>, Vec<Value>)> {
    let total = values.info.elements();
    match total {
        0..=ALL => Ok((exact(values, 0..total)?, Vec::new())),
        _ => Ok((exact(values, 0..END)?, exact(values, total - END..total)?)),
    }
}

/// Returns all elements as exact values, if there are at most `most`.
pub(super) fn all_of_few(values: &Values<'_>, most: u64) -> Result<Option<Vec<Value>>> {
    match values.info.elements() {
        total if total > most => Ok(None),
        total => exact(values, 0..total).map(Some),
    }
}

fn exact(values: &Values<'_>, range: Range<u64>) -> Result<Vec<Value>> {
    let dtype = read_as(values.info.dtype);
    let is_integer = matches!(dtype.kind(), Kind::Int | Kind::UInt);
    if is_integer || dtype == DType::Bool {
        let number = |text: String| match (text.parse::<u64>(), text.parse::<i64>()) {
            (Ok(number), _) => Value::from(number),
            (_, Ok(number)) => Value::from(number),
            _ => Value::from(text == "true"),
        };
        return Ok(elements(values, range)?.into_iter().map(number).collect());
    }
    let (count, size) = (range.end - range.start, u64::from(dtype.size().unwrap_or(1)));
    let mut bytes = vec![0; usize::try_from(count * size).unwrap_or_default()];
    values.read_elements(range.start, &mut bytes)?;
    let shape = [count];
    let info = TensorInfo::with_nbytes("", dtype, &shape, count * size, true);
    let floats = TensorView::new(info, Bytes::Borrowed(&bytes)).and_then(|view| view.to_f64());
    let floats = floats.map_err(|error| values.invalid(range.start * size, count * size, error))?;
    Ok(floats.into_iter().map(Value::from).collect())
}

fn text(dtype: DType, count: &[u64; 1], bytes: &[u8]) -> Result<Vec<String>, TensorError> {
    let info = TensorInfo::new("", dtype, count).map_err(|_| TensorError::NotNumeric(dtype))?;
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
