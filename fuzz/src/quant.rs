//! Decodes any bytes as blocks of every type, and encodes any numbers as blocks of the types that have
//! encoders.

use ggml_quant::{QuantError, can_encode};
use modelfmt_core::DType;

use super::drill::Depth;

/// The most values that an input makes.
const MAX_VALUES: usize = 1 << 14;

/// Returns the block types whose blocks all have the same size, one after the other.
fn types() -> impl Iterator<Item = (DType, usize, usize)> {
    let size = |n: u32| usize::try_from(n).expect("32 bits fit");
    let quantized = DType::ALL.iter().filter(|dtype| dtype.is_quantized() && dtype.ggml_type().is_some());
    quantized.filter_map(move |&dtype| {
        let block = dtype.block()?;
        Some((dtype, size(block.elements), size(block.nbytes)))
    })
}

/// Any bytes are valid blocks. Each block is decoded separately, and other numbers of bytes or values are
/// refused.
pub fn decode(bytes: &[u8], _: Depth) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let count = types().count();
    let (dtype, elements, nbytes) = types().nth(usize::from(choice) % count).expect("less than the count");
    let blocks = (bytes.len() / nbytes).min(MAX_VALUES / elements);
    let whole = &bytes[..blocks * nbytes];
    let mut values = vec![0.0; blocks * elements];
    ggml_quant::decode(dtype, whole, &mut values).expect("any bytes are blocks");
    for (block, values) in whole.chunks_exact(nbytes).zip(values.chunks_exact(elements)) {
        let mut alone = vec![0.0; elements];
        ggml_quant::decode(dtype, block, &mut alone).expect("a block is a block");
        let is_same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(alone.iter().zip(values).all(is_same), "{dtype}: a block is decoded for itself");
    }
    let refused = |bytes, values: &mut [f32]| {
        matches!(ggml_quant::decode(dtype, bytes, values), Err(QuantError::Length { .. }))
    };
    assert!(refused(whole, &mut vec![0.0; values.len() + 1]));
    if bytes.len() > whole.len() && bytes.len() % nbytes != 0 {
        assert!(refused(bytes, &mut values));
    }
    if can_encode(dtype) && values.iter().all(|value| value.is_finite()) {
        let mut again = vec![0; whole.len()];
        match ggml_quant::encode(dtype, &values, &mut again) {
            Ok(()) => check(dtype, elements, &values, &again),
            Err(error) => assert!(matches!(error, QuantError::ScaleOverflow { .. }), "{dtype}: {error}"),
        }
    }
}

/// Finite numbers become blocks that decode to about the same, or are refused. Numbers that are not finite
/// are refused.
pub fn encode(bytes: &[u8], _: Depth) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let encoded: Vec<_> = types().filter(|(dtype, ..)| can_encode(*dtype)).collect();
    let (dtype, elements, nbytes) = encoded[usize::from(choice) % encoded.len()];
    let numbers = bytes.as_chunks::<4>().0;
    let mut values: Vec<f32> =
        numbers.iter().take(MAX_VALUES).map(|&bytes| f32::from_le_bytes(bytes)).collect();
    values.resize(values.len().next_multiple_of(elements), 0.0);
    let mut blocks = vec![0; values.len() / elements * nbytes];
    let is_finite = values.iter().all(|value| value.is_finite());
    match ggml_quant::encode(dtype, &values, &mut blocks) {
        Ok(()) => {
            assert!(is_finite, "{dtype}: what is not finite is refused");
            check(dtype, elements, &values, &blocks);
        }
        Err(QuantError::ScaleOverflow { .. }) => {
            assert!(values.iter().any(|value| value.abs() > 65504.0 || !value.is_finite()), "{dtype}");
        }
        Err(error) => assert!(!is_finite, "{dtype}: {error}"),
    }
}

/// Checks that no encoded and decoded value is off by more than the type's bound.
fn check(dtype: DType, elements: usize, values: &[f32], blocks: &[u8]) {
    let mut decoded = vec![0.0; values.len()];
    ggml_quant::decode(dtype, blocks, &mut decoded).expect("what was encoded is decoded");
    for (values, decoded) in values.chunks_exact(elements).zip(decoded.chunks_exact(elements)) {
        let bound = bound(dtype, values);
        for (value, back) in values.iter().zip(decoded) {
            let error = (f64::from(*value) - f64::from(*back)).abs();
            assert!(error <= bound, "{dtype}: {value:e} became {back:e}, off by more than {bound:e}");
        }
    }
}

/// Returns the largest error of a value: a part of the block's largest magnitude, and the error of a
/// subnormal scale in f16.
fn bound(dtype: DType, values: &[f32]) -> f64 {
    let largest = values.iter().fold(0.0, |largest, value| f64::from(value.abs()).max(largest));
    let scale = 1.0 / 1024.0;
    let (part, codes) = match dtype {
        DType::Q8_0 => (1.0 / 254.0 + scale, 127.0),
        DType::Q5_1 => (1.0 / 31.0 + 3.0 * scale, 32.0),
        DType::Q5_0 => (1.0 / 16.0 + scale, 16.0),
        DType::Q4_1 => (1.0 / 15.0 + 3.0 * scale, 16.0),
        DType::Q4_0 => (1.0 / 8.0 + scale, 8.0),
        // With so few levels, the best scale may leave a large error for the largest element.
        DType::Q2K | DType::Q3K => (1.5, 63.0 * 16.0),
        DType::Iq4Nl | DType::Iq4Xs => (1.0, 32.0 * 127.0),
        DType::Q4K => (4.0 / 15.0, 63.0 * 16.0),
        DType::Q5K => (4.0 / 31.0, 63.0 * 32.0),
        DType::Q6K => (4.0 / 63.0, 128.0 * 32.0),
        _ => unreachable!("{dtype} has no encoder"),
    };
    let smallest = 2.0_f64.powi(-24);
    part * largest + codes * smallest
}
