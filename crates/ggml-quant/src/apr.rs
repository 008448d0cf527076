//! aprender's two types. Neither their bytes nor their numbers are those of a ggml type.
//!
//! `apr_q4` has blocks of 32 elements, each a scale in `f16` and 16 bytes. The blocks run over the whole
//! tensor without regard to rows, and the last block may have fewer elements. `apr_q8` is one scale in `f32`
//! and a byte for each element.

use half::f16;
use tensor_core::DType;

use crate::QuantError;

const ELEMENTS: usize = 32;
const BLOCK: usize = 18;
const SCALE: usize = 4;

/// Checks whether the type is one of these.
pub(crate) const fn is_apr(dtype: DType) -> bool {
    matches!(dtype, DType::AprQ4 | DType::AprQ8)
}

fn check(dtype: DType, elements: usize, nbytes: usize) -> Result<(), QuantError> {
    let fits = match dtype {
        DType::AprQ4 => elements.div_ceil(ELEMENTS).checked_mul(BLOCK) == Some(nbytes),
        _ if elements == 0 => nbytes == 0,
        _ => elements.checked_add(SCALE) == Some(nbytes),
    };
    if fits { Ok(()) } else { Err(QuantError::Length { dtype, elements, nbytes }) }
}

pub(crate) fn decode(dtype: DType, bytes: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    check(dtype, out.len(), bytes.len())?;
    if dtype == DType::AprQ4 {
        for (block, out) in bytes.as_chunks::<BLOCK>().0.iter().zip(out.chunks_mut(ELEMENTS)) {
            decode_block(block, out);
        }
    } else if let Some((scale, values)) = bytes.split_first_chunk() {
        let scale = f32::from_le_bytes(*scale);
        for (out, &value) in out.iter_mut().zip(values) {
            *out = f32::from(value.cast_signed()) * scale;
        }
    }
    Ok(())
}

fn decode_block([low, high, nibbles @ ..]: &[u8; BLOCK], out: &mut [f32]) {
    let scale = f16::from_le_bytes([*low, *high]);
    // aprender treats a scale that is not a normal number as 0.
    let scale = if scale.is_normal() { f32::from(scale) } else { 0.0 };
    for (pair, byte) in out.chunks_mut(2).zip(nibbles) {
        for (out, nibble) in pair.iter_mut().zip([byte & 15, byte >> 4]) {
            *out = (f32::from(nibble) - 8.0) * scale;
        }
    }
}

pub(crate) fn encode(dtype: DType, values: &[f32], out: &mut [u8]) -> Result<(), QuantError> {
    check(dtype, values.len(), out.len())?;
    if let Some(element) = values.iter().position(|value| !value.is_finite()) {
        return Err(QuantError::NotFinite { element });
    }
    if dtype == DType::AprQ4 {
        for (number, (values, block)) in
            values.chunks(ELEMENTS).zip(out.as_chunks_mut::<BLOCK>().0).enumerate()
        {
            if !encode_block(values, block) {
                return Err(QuantError::ScaleOverflow { element: number * ELEMENTS });
            }
        }
    } else if let Some((head, out)) = out.split_first_chunk_mut() {
        let scale = scale(values, 127.0);
        *head = scale.to_le_bytes();
        for (out, value) in out.iter_mut().zip(values) {
            *out = rounded(value / scale, -127.0, 127.0).cast_unsigned();
        }
    }
    Ok(())
}

/// Encodes a block. Returns whether `f16` can hold its scale.
fn encode_block(values: &[f32], [low, high, nibbles @ ..]: &mut [u8; BLOCK]) -> bool {
    let scale = scale(values, 7.0);
    let stored = f16::from_f32(scale);
    [*low, *high] = stored.to_le_bytes();
    *nibbles = [0; BLOCK - 2];
    for (byte, pair) in nibbles.iter_mut().zip(values.chunks(2)) {
        for (value, shift) in pair.iter().zip([0, 4]) {
            *byte |= (rounded(value / scale, -8.0, 7.0) + 8).cast_unsigned() << shift;
        }
    }
    stored.is_finite()
}

fn scale(values: &[f32], most: f32) -> f32 {
    let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    if largest == 0.0 { 1.0 } else { largest / most }
}

/// Rounds to the nearest integer, halves away from zero. A NaN becomes 0.
#[expect(clippy::cast_possible_truncation, reason = "the bounds are those of i8, or closer")]
fn rounded(value: f32, least: f32, most: f32) -> i8 {
    value.round().clamp(least, most) as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nibbles_are_low_first_and_the_last_block_is_short() {
        let mut bytes = [0u8; 36];
        bytes[..2].copy_from_slice(&f16::from_f32(0.5).to_le_bytes());
        bytes[2] = 0xf0;
        bytes[18..20].copy_from_slice(&f16::from_f32(2.0).to_le_bytes());
        bytes[20] = 9;
        let mut out = [1.0; 33];
        decode(DType::AprQ4, &bytes, &mut out).unwrap();
        assert_eq!((out[0], out[1], out[2], out[32]), (-4.0, 3.5, -4.0, 2.0));
        // A scale that is not a normal number is 0.
        for scale in [f16::NAN, f16::INFINITY, f16::from_bits(0x3ff), f16::NEG_INFINITY, f16::ZERO] {
            bytes[..2].copy_from_slice(&scale.to_le_bytes());
            decode(DType::AprQ4, &bytes, &mut out).unwrap();
            assert!(out[..32].iter().all(|&value| value == 0.0), "{scale}");
        }
        assert!(decode(DType::AprQ4, &bytes, &mut [0.0; 65]).is_err());
    }

    #[test]
    fn bytes_have_one_scale() {
        let bytes = [&0.25f32.to_le_bytes()[..], &[4, 0x80]].concat();
        let mut out = [0.0; 2];
        decode(DType::AprQ8, &bytes, &mut out).unwrap();
        assert_eq!(out, [1.0, -32.0]);
        assert!(decode(DType::AprQ8, &[], &mut []).is_ok());
        assert!(decode(DType::AprQ8, &bytes, &mut [0.0]).is_err());
        assert!(decode(DType::AprQ8, &[], &mut [0.0]).is_err());
    }

    #[test]
    fn values_come_back_as_near_as_the_steps_are() {
        let values: Vec<f32> = (0..77u8).map(|n| (f32::from(n) - 30.0) * 0.37).collect();
        for (dtype, nbytes, step) in [(DType::AprQ4, 54, 2.6), (DType::AprQ8, 81, 0.14)] {
            let mut bytes = vec![0xff; nbytes];
            encode(dtype, &values, &mut bytes).unwrap();
            let mut back = vec![0.0; values.len()];
            decode(dtype, &bytes, &mut back).unwrap();
            let far = values.iter().zip(&back).find(|(a, b)| (*a - *b).abs() > step / 2.0 + 0.01);
            assert!(far.is_none(), "{dtype}: {far:?}");
        }
        // Nibbles past the end are 0.
        let mut bytes = [0xff; 18];
        encode(DType::AprQ4, &[7.0, -7.0, 0.0], &mut bytes).unwrap();
        assert_eq!(bytes[2..], [0x1f, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let zeros = |dtype, out: &mut [u8]| encode(dtype, &[0.0], out);
        assert!(zeros(DType::AprQ4, &mut bytes).is_ok() && zeros(DType::AprQ8, &mut [0; 5]).is_ok());
    }

    #[test]
    fn what_has_no_faithful_form_is_refused() {
        let refused = |values: &[f32]| encode(DType::AprQ4, values, &mut [0; 18]);
        assert_eq!(refused(&[0.0, f32::NAN]), Err(QuantError::NotFinite { element: 1 }));
        assert_eq!(refused(&[1e6]), Err(QuantError::ScaleOverflow { element: 0 }));
        assert_eq!(
            encode(DType::AprQ8, &[f32::INFINITY], &mut [0; 5]),
            Err(QuantError::NotFinite { element: 0 })
        );
    }
}
