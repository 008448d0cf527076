//! Quantized values and those of small types element by element, however their blocks lie in a tensor.

use ggml_quant::QuantError;
use modelfmt_core::{Block, DType, SmallType, TensorInfo};

/// Why elements could not be decoded: reading them failed, or decoding did.
#[derive(Debug)]
pub(crate) enum Failed<E> {
    Read(E),
    Decode(QuantError),
}

impl<E> From<QuantError> for Failed<E> {
    fn from(error: QuantError) -> Self {
        Self::Decode(error)
    }
}

/// Whether bytes and elements of a tensor are in proportion: whole blocks, one after the other, and nothing else. Not so are
/// `apr_q8`, whose values are after one scale, a last block that is not full, and rows that are filled up to whole blocks.
pub(crate) fn is_even(info: &TensorInfo<'_>) -> bool {
    let elements = info.dtype.block().map_or(0, |block| u64::from(block.elements));
    elements > 0
        && info.elements().is_multiple_of(elements)
        && info.dtype.nbytes(info.shape) == Some(info.nbytes)
}

/// Decodes the elements of a tensor, of blocks or of a small type, from `first` on; `read` gives bytes of it from an offset on.
pub(crate) fn decode<E>(
    info: &TensorInfo<'_>,
    first: u64,
    out: &mut [f32],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<(), Failed<E>> {
    let dtype = info.dtype;
    if out.is_empty() {
        return Ok(());
    }
    if dtype == DType::AprQ8 {
        const SCALE: u64 = 4;
        let mut bytes = vec![0; out.len().saturating_add(4)];
        let (scale, values) = bytes.split_at_mut(4);
        read(0, scale).map_err(Failed::Read)?;
        read(SCALE.saturating_add(first), values).map_err(Failed::Read)?;
        return Ok(ggml_quant::decode(dtype, &bytes, out)?);
    }
    let Some(Block { elements, nbytes }) = dtype.block() else {
        return Err(QuantError::NoDecoder { dtype }.into());
    };
    let (elements, nbytes) = (u64::from(elements), u64::from(nbytes));
    let row = match info.shape {
        // Only quantized rows are filled up to whole blocks.
        &[_, columns]
            if columns > 0 && dtype.is_quantized() && dtype.nbytes(info.shape) != Some(info.nbytes) =>
        {
            columns
        }
        _ => info.elements(),
    };
    let row_len = row.div_ceil(elements).saturating_mul(nbytes);
    let (mut first, mut rest) = (first, out);
    let (mut blocks, mut values) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (number, within) = (first / row.max(1), first % row.max(1));
        let count = (row - within).min(rest.len() as u64);
        let (begin, end) = (within / elements, (within + count).div_ceil(elements));
        let size = |n: u64| usize::try_from(n).map_err(|_| QuantError::NoDecoder { dtype });
        blocks.resize(size((end - begin) * nbytes)?, 0);
        read(number.saturating_mul(row_len).saturating_add(begin * nbytes), &mut blocks)
            .map_err(Failed::Read)?;
        values.resize(size((end - begin) * elements)?, 0.0);
        match SmallType::from_dtype(dtype) {
            Some(small) => small.decode(&blocks, &mut values),
            None => ggml_quant::decode(dtype, &blocks, &mut values)?,
        }
        let (head, tail) = rest.split_at_mut(size(count)?);
        let skip = size(within - begin * elements)?;
        head.iter_mut().zip(values.iter().skip(skip)).for_each(|(out, value)| *out = *value);
        (first, rest) = (first + count, tail);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any run of elements is that part of the whole.
    #[test]
    fn parts_are_parts_of_the_whole() {
        let bytes: Vec<u8> = (0..2000u32).map(|n| (n * 7 % 120) as u8).collect();
        for (dtype, shape, nbytes) in [
            (DType::AprQ8, &[9, 11][..], 103),
            (DType::AprQ4, &[7, 15], 72),
            (DType::AprQ4, &[64], 36),
            (DType::Q4K, &[3, 300], 864),
            (DType::Q4K, &[2, 256], 288),
            (DType::Q8_0, &[96], 102),
            (DType::F8E4M3, &[5, 70], 350),
            (DType::I4, &[3, 201], 302),
        ] {
            let info = TensorInfo::with_nbytes("w", dtype, shape, nbytes, true);
            let bytes = &bytes[..usize::try_from(nbytes).unwrap()];
            let view = modelfmt_core::TensorView::new(info, modelfmt_core::Bytes::Borrowed(bytes)).unwrap();
            let whole = ggml_quant::to_f32(&view).unwrap();
            let uneven =
                dtype == DType::AprQ8 || [[7, 15], [3, 300], [3, 201]].iter().any(|uneven| shape == uneven);
            assert_eq!(is_even(&info), !uneven, "{dtype} {shape:?}");
            for first in (0..whole.len()).step_by(5) {
                for len in [0, 1, 2, 31, 33, 257, 310, whole.len()] {
                    let len = len.min(whole.len() - first);
                    let mut out = vec![f32::NAN; len];
                    let read = |at: u64, out: &mut [u8]| -> Result<(), ()> {
                        let at = usize::try_from(at).unwrap();
                        out.copy_from_slice(bytes.get(at..at + out.len()).ok_or(())?);
                        Ok(())
                    };
                    decode(&info, first as u64, &mut out, read).unwrap();
                    assert_eq!(out, whole[first..first + len], "{dtype} {shape:?}, {len} from {first}");
                }
            }
        }
    }
}
