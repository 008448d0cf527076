//! Returns some elements of a tensor, as numbers or as text.

use std::io;
use std::ops::Range;

use modelfmt_core::{AnyError, TensorInfo};

use crate::show::elements;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_model::values::{elements_as_f64, is_numeric};

/// Returns elements of the tensor at a position as numbers, in file order; blocks are decoded. Integers
/// beyond 2^53 are rounded.
///
/// ```
/// # let path = "../../testdata/reference/one-shard.aero";
/// let model = modelfmt::Model::open(path)?;
/// let position = model.find("embed.weight")?;
/// assert_eq!(modelfmt::show::numbers(&model, position, 3..5)?.len(), 2);
/// # Ok::<(), modelfmt::Error>(())
/// ```
///
/// # Errors
/// [`Error::File`](modelfmt_model::Error::File) if there are no such elements, they are not numbers, or they cannot be read or
/// decoded.
pub fn numbers(model: &Model, position: usize, range: Range<u64>) -> Result<Vec<f64>> {
    numeric(model, position, &range)?;
    elements_as_f64(model, position, range)
}

/// Returns elements of the tensor at a position as text, in the format of [`show()`](crate::show::show()):
/// booleans as words, integers in full, floats with six digits.
///
/// # Errors
/// If there is no such tensor or range, its values are not numbers, or it cannot be read.
pub fn texts(model: &Model, position: usize, range: Range<u64>) -> Result<Vec<String>> {
    numeric(model, position, &range)?;
    elements(model, position, range)
}

/// Returns the description of the tensor, if it has these elements and they are numbers.
fn numeric<'m>(model: &'m Model, position: usize, range: &Range<u64>) -> Result<TensorInfo<'m>> {
    let info = model.info(position)?;
    if !info.has_data {
        return Err(model.failed(AnyError::NoData { name: info.name.to_owned() }));
    }
    let wrong = |kind: io::ErrorKind, text: String| {
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        Err(model.failed(AnyError::Io { at, len, source: io::Error::new(kind, text) }))
    };
    if !is_numeric(info.dtype) {
        return wrong(
            io::ErrorKind::Unsupported,
            format!("values of {} cannot be read as numbers", info.dtype),
        );
    }
    // The text of an element takes some tens of bytes.
    let is_small = |count: u64| count.checked_mul(64).is_some_and(|size| usize::try_from(size).is_ok());
    if !is_small(range.end.saturating_sub(range.start)) {
        return wrong(io::ErrorKind::OutOfMemory, "they are more than memory has".to_owned());
    }
    if range.start > range.end || range.end > info.elements() {
        let text = format!("the tensor has {} elements, not {}..{}", info.elements(), range.start, range.end);
        return wrong(io::ErrorKind::InvalidInput, text);
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_of_the_whole_tensor() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/aero/quantized.aero");
        let model = Model::open(path).unwrap();
        let mut compared = 0;
        for (position, info) in model.tensors().enumerate().filter(|(_, info)| is_numeric(info.dtype)) {
            let whole = ggml_quant::to_f64(&model.tensor(position).unwrap()).unwrap();
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            let (from, to) = (info.elements() / 3, info.elements());
            let part = numbers(&model, position, from..to).unwrap();
            assert_eq!(bits(&part), bits(&whole[usize::try_from(from).unwrap()..]), "{}", info.name);
            assert_eq!(texts(&model, position, from..to).unwrap().len(), part.len());
            assert!(
                numbers(&model, position, from..to + 1).is_err()
                    && texts(&model, position, to..from).is_err()
            );
            compared += 1;
        }
        assert!(compared > 3);
    }
}
