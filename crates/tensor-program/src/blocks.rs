//! Decodes quantized values and values of small types, from any element on, for every layout of blocks in a
//! tensor.

use ggml_quant::QuantError;
use tensor_core::{Block, DType, SmallType, TensorInfo};

use crate::ReadError;

/// Checks whether a tensor consists of consecutive whole blocks and nothing else, so that positions in bytes
/// and in elements are proportional. This is not so for `apr_q8`, which has one scale before its values, for
/// a tensor whose last block is not full, and for rows that are padded to whole blocks.
#[must_use]
pub fn is_even(info: &TensorInfo<'_>) -> bool {
    let elements = info.dtype.block().map_or(0, |block| u64::from(block.elements));
    elements > 0
        && info.elements().is_multiple_of(elements)
        && info.dtype.nbytes(info.shape) == Some(info.nbytes)
}

/// The number of elements that are decoded at once, so that the memory for their blocks is bounded.
const AT_ONCE: usize = 1 << 20;

/// Decodes elements of a tensor of blocks or of a small type, from `first` on. `read` fills a buffer with the
/// tensor's bytes from an offset on.
///
/// # Errors
/// [`ReadError::Read`] with the first error of `read`; [`ReadError::Values`] for a dtype without a decoder.
pub fn decode<E>(
    info: &TensorInfo<'_>,
    first: u64,
    out: &mut [f32],
    read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<(), ReadError<E>> {
    match (info.dtype, info.dtype.block()) {
        _ if out.is_empty() => Ok(()),
        (DType::AprQ8, _) => decode_apr_q8(first, out, read),
        (_, Some(block)) => decode_blocks(info, block, first, out, read),
        (dtype, None) => Err(QuantError::NoDecoder { dtype }.into()),
    }
}

/// Decodes `apr_q8`: one scale, then a byte for each element.
fn decode_apr_q8<E>(
    first: u64,
    out: &mut [f32],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<(), ReadError<E>> {
    const SCALE: usize = 4;
    let mut scale = [0; SCALE];
    read(0, &mut scale).map_err(ReadError::Read)?;
    let (mut at, mut bytes) = (first.saturating_add(SCALE as u64), Vec::new());
    for out in out.chunks_mut(AT_ONCE) {
        bytes.clear();
        bytes.extend_from_slice(&scale);
        bytes.resize(scale.len() + out.len(), 0);
        let (_, values) = bytes.split_at_mut(scale.len());
        read(at, values).map_err(ReadError::Read)?;
        ggml_quant::decode(DType::AprQ8, &bytes, out)?;
        at = at.saturating_add(out.len() as u64);
    }
    Ok(())
}

fn decode_blocks<E>(
    info: &TensorInfo<'_>,
    block: Block,
    first: u64,
    out: &mut [f32],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<(), ReadError<E>> {
    let dtype = info.dtype;
    let row = match info.shape {
        // Only quantized rows are padded to whole blocks.
        &[_, columns]
            if columns > 0 && dtype.is_quantized() && dtype.nbytes(info.shape) != Some(info.nbytes) =>
        {
            columns
        }
        _ => info.elements(),
    };
    let size = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let (per_block, block_len) = (u64::from(block.elements), u64::from(block.nbytes));
    let row_len = row.div_ceil(per_block).saturating_mul(block_len);
    let (mut first, mut rest) = (first, out);
    let (mut blocks, mut values) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (number, within) = (first / row.max(1), first % row.max(1));
        let in_row = usize::try_from(row - within).unwrap_or(usize::MAX);
        let count = in_row.min(rest.len()).min(AT_ONCE);
        let skip = usize::try_from(within % per_block).unwrap_or(0); // it is within a block
        let block_count = (skip + count).div_ceil(size(block.elements));
        blocks.resize(block_count * size(block.nbytes), 0);
        let at = number.saturating_mul(row_len).saturating_add(within / per_block * block_len);
        read(at, &mut blocks).map_err(ReadError::Read)?;
        let decode = |values: &mut [f32]| match SmallType::from_dtype(dtype) {
            Some(small) => {
                small.decode(&blocks, values);
                Ok(())
            }
            None => ggml_quant::decode(dtype, &blocks, values),
        };
        let (head, tail) = rest.split_at_mut(count);
        if skip == 0 && count.is_multiple_of(size(block.elements)) {
            decode(head)?;
        } else {
            values.resize(block_count * size(block.elements), 0.0);
            decode(&mut values)?;
            head.iter_mut().zip(values.iter().skip(skip)).for_each(|(out, value)| *out = *value);
        }
        (first, rest) = (first + count as u64, tail);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decoding a run of elements gives the same values as that part of the whole.
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
            let view = tensor_core::TensorView::new(info, tensor_core::Bytes::Borrowed(bytes)).unwrap();
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

    /// Decoding a range of any length needs little memory besides its output.
    #[test]
    fn what_is_read_at_once_is_short() {
        let count = 2 * AT_ONCE + 100;
        for (dtype, shape, nbytes) in [
            (DType::AprQ8, [count as u64], count as u64 + 4),
            (DType::Q8_0, [count as u64], (count as u64).div_ceil(32) * 34),
            (DType::I4, [count as u64], count as u64 / 2),
        ] {
            let info = TensorInfo::with_nbytes("w", dtype, &shape, nbytes, true);
            let mut end = None;
            let read = |at: u64, out: &mut [u8]| -> Result<(), ()> {
                assert!(out.len() <= AT_ONCE / 32 * 34 + 34, "{dtype}: {} bytes at once", out.len());
                end = Some(at + out.len() as u64);
                out.fill(1);
                Ok(())
            };
            let mut out = vec![f32::NAN; count];
            decode(&info, 0, &mut out, read).unwrap();
            assert_eq!(end, Some(nbytes), "{dtype}");
            assert!(out.iter().all(|value| !value.is_nan()), "{dtype}");
        }
    }
}
