//! Golden vectors of the reference, properties, and refusals. Edge cases of the arithmetic are tested in
//! `legacy::tests`.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const ENCODED: [DType; 5] = [DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0];
const K_QUANTS: [DType; 6] = [DType::Q2K, DType::Q3K, DType::Q4K, DType::Q5K, DType::Q6K, DType::Q8K];
/// Encoders that have no vectors here; a test compares them with ggml's library.
const BY_ORACLE: [DType; 4] = [DType::Q2K, DType::Q3K, DType::Iq4Nl, DType::Iq4Xs];
const K_ENCODED: [DType; 3] = [DType::Q4K, DType::Q5K, DType::Q6K];
/// Types whose vectors include the edge cases of scales.
const EDGED: [DType; 16] = [
    DType::Q8_1,
    DType::Q1_0,
    DType::Q2_0,
    DType::Tq1_0,
    DType::Tq2_0,
    DType::Mxfp4,
    DType::Nvfp4,
    DType::Iq4Nl,
    DType::Iq4Xs,
    DType::Iq2Xxs,
    DType::Iq2Xs,
    DType::Iq2S,
    DType::Iq3Xxs,
    DType::Iq3S,
    DType::Iq1S,
    DType::Iq1M,
];

fn all() -> impl Iterator<Item = DType> {
    ENCODED.into_iter().chain(K_QUANTS).chain(EDGED)
}

/// Files of `xtask/oracles/quant_vectors.py`, which describes their content.
fn golden(dtype: DType) -> &'static [u8] {
    match dtype {
        DType::Q4_0 => include_bytes!("../../../testdata/quant/q4_0.bin"),
        DType::Q4_1 => include_bytes!("../../../testdata/quant/q4_1.bin"),
        DType::Q5_0 => include_bytes!("../../../testdata/quant/q5_0.bin"),
        DType::Q5_1 => include_bytes!("../../../testdata/quant/q5_1.bin"),
        DType::Q8_0 => include_bytes!("../../../testdata/quant/q8_0.bin"),
        DType::Q2K => include_bytes!("../../../testdata/quant/q2_k.bin"),
        DType::Q3K => include_bytes!("../../../testdata/quant/q3_k.bin"),
        DType::Q4K => include_bytes!("../../../testdata/quant/q4_k.bin"),
        DType::Q5K => include_bytes!("../../../testdata/quant/q5_k.bin"),
        DType::Q6K => include_bytes!("../../../testdata/quant/q6_k.bin"),
        DType::Q8K => include_bytes!("../../../testdata/quant/q8_k.bin"),
        DType::Q8_1 => include_bytes!("../../../testdata/quant/q8_1.bin"),
        DType::Q1_0 => include_bytes!("../../../testdata/quant/q1_0.bin"),
        DType::Q2_0 => include_bytes!("../../../testdata/quant/q2_0.bin"),
        DType::Tq1_0 => include_bytes!("../../../testdata/quant/tq1_0.bin"),
        DType::Tq2_0 => include_bytes!("../../../testdata/quant/tq2_0.bin"),
        DType::Mxfp4 => include_bytes!("../../../testdata/quant/mxfp4.bin"),
        DType::Nvfp4 => include_bytes!("../../../testdata/quant/nvfp4.bin"),
        DType::Iq4Nl => include_bytes!("../../../testdata/quant/iq4_nl.bin"),
        DType::Iq4Xs => include_bytes!("../../../testdata/quant/iq4_xs.bin"),
        DType::Iq2Xxs => include_bytes!("../../../testdata/quant/iq2_xxs.bin"),
        DType::Iq2Xs => include_bytes!("../../../testdata/quant/iq2_xs.bin"),
        DType::Iq2S => include_bytes!("../../../testdata/quant/iq2_s.bin"),
        DType::Iq3Xxs => include_bytes!("../../../testdata/quant/iq3_xxs.bin"),
        DType::Iq3S => include_bytes!("../../../testdata/quant/iq3_s.bin"),
        DType::Iq1S => include_bytes!("../../../testdata/quant/iq1_s.bin"),
        DType::Iq1M => include_bytes!("../../../testdata/quant/iq1_m.bin"),
        _ => panic!("no vectors for {dtype}"),
    }
}

fn sizes(dtype: DType) -> (usize, usize) {
    let Block { elements, nbytes } = dtype.block().unwrap();
    (elements as usize, nbytes as usize)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn encoded(dtype: DType, values: &[f32]) -> Result<Vec<u8>, QuantError> {
    let (elements, nbytes) = sizes(dtype);
    let mut blocks = vec![0xa5; values.len() / elements * nbytes];
    encode(dtype, values, &mut blocks).map(|()| blocks)
}

fn decoded(dtype: DType, blocks: &[u8]) -> Vec<f32> {
    let (elements, nbytes) = sizes(dtype);
    let mut values = vec![f32::NAN; blocks.len() / nbytes * elements];
    decode(dtype, blocks, &mut values).unwrap();
    values
}

#[test]
fn encodes_as_ggml_and_decodes_as_gguf_does() {
    for dtype in ENCODED {
        let (elements, nbytes) = sizes(dtype);
        let file = golden(dtype);
        let count = file.len() / (8 * elements + nbytes);
        assert_eq!((file.len() % (8 * elements + nbytes), count), (0, 21), "{dtype}");
        let (values, rest) = file.split_at(count * 4 * elements);
        let (blocks, expected) = rest.split_at(count * nbytes);
        let made = encoded(dtype, &floats(values)).unwrap();
        for (n, (made, block)) in made.chunks(nbytes).zip(blocks.chunks(nbytes)).enumerate() {
            assert_eq!(made, block, "{dtype}, block {n}");
        }
        assert_eq!(bits(&decoded(dtype, blocks)), bits(&floats(expected)), "{dtype}");
    }
}

#[test]
fn decodes_k_quants_as_gguf_does() {
    for dtype in K_QUANTS {
        let (elements, nbytes) = sizes(dtype);
        let file = golden(dtype);
        assert_eq!(file.len(), 2 * (nbytes + 4 * elements), "{dtype}");
        let (blocks, expected) = file.split_at(2 * nbytes);
        assert_eq!(bits(&decoded(dtype, blocks)), bits(&floats(expected)), "{dtype}");
    }
}

#[test]
fn encodes_k_quants_as_ggml_does() {
    for dtype in K_ENCODED {
        let file: &[u8] = match dtype {
            DType::Q4K => include_bytes!("../../../testdata/quant/q4_k-encoded.bin"),
            DType::Q5K => include_bytes!("../../../testdata/quant/q5_k-encoded.bin"),
            _ => include_bytes!("../../../testdata/quant/q6_k-encoded.bin"),
        };
        let (_, nbytes) = sizes(dtype);
        assert_eq!(file.len(), 16 * (1024 + nbytes), "{dtype}");
        let (values, blocks) = file.split_at(16 * 1024);
        let made = encoded(dtype, &floats(values)).unwrap();
        for (n, (made, block)) in made.chunks(nbytes).zip(blocks.chunks(nbytes)).enumerate() {
            assert_eq!(made, block, "{dtype}, block {n}");
        }
    }
}

#[test]
fn k_quants_refuse_what_no_block_can_hold() {
    for dtype in K_ENCODED.into_iter().chain([DType::Q2K, DType::Q3K, DType::Iq4Xs]) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for element in [0, 31, 255, 256, 700] {
                let mut values = [0.25; 768];
                values[element] = bad;
                assert_eq!(encoded(dtype, &values), Err(QuantError::NotFinite { element }), "{dtype}, {bad}");
            }
        }
        for large in [1e9, -1e9, 1e14, 1e20, -1e20, f32::MAX, f32::MIN] {
            let mut values = [0.25; 768];
            values[300] = large;
            let refused = Err(QuantError::ScaleOverflow { element: 256 });
            assert_eq!(encoded(dtype, &values), refused, "{dtype}, {large}");
            // If no sub-block can be added up, ggml would write zeros.
            assert_eq!(
                encoded(dtype, &[large; 256]).map(drop),
                Err(QuantError::ScaleOverflow { element: 0 })
            );
        }
    }
}

#[test]
fn decodes_the_edges_of_scales_as_gguf_and_ggml_do() {
    for dtype in EDGED {
        let (elements, nbytes) = sizes(dtype);
        let file = golden(dtype);
        assert_eq!(file.len(), 6 * (nbytes + 4 * elements), "{dtype}");
        let (blocks, expected) = file.split_at(6 * nbytes);
        for (element, (ours, theirs)) in decoded(dtype, blocks).iter().zip(floats(expected)).enumerate() {
            let same = ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
            assert!(same, "{dtype}, element {element}: {ours}, not {theirs}");
        }
    }
}

#[test]
fn only_the_documented_types_are_known() {
    for &dtype in DType::ALL {
        let is_apr = matches!(dtype, DType::AprQ4 | DType::AprQ8);
        let encoded =
            is_apr || ENCODED.contains(&dtype) || BY_ORACLE.contains(&dtype) || K_ENCODED.contains(&dtype);
        assert_eq!(can_encode(dtype), encoded, "{dtype}");
        assert_eq!(can_decode(dtype), is_apr || all().any(|known| known == dtype), "{dtype}");
        assert_eq!(decode(dtype, &[], &mut []).is_ok(), can_decode(dtype), "{dtype}");
        assert_eq!(encode(dtype, &[], &mut []).is_ok(), can_encode(dtype), "{dtype}");
    }
    assert_eq!(decode(DType::F16, &[0; 2], &mut [0.0]), Err(QuantError::NoDecoder { dtype: DType::F16 }));
    assert_eq!(
        encode(DType::Iq3S, &[0.0; 256], &mut [0; 110]),
        Err(QuantError::NoEncoder { dtype: DType::Iq3S })
    );
}

#[test]
fn messages_say_what_to_do() {
    assert_eq!(
        QuantError::NoEncoder { dtype: DType::Iq3S }.to_string(),
        "no encoder for iq3_s; there are encoders for q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, apr_q4, apr_q8"
    );
    assert_eq!(
        QuantError::NoDecoder { dtype: DType::F16 }.to_string(),
        "no decoder for f16, which is no type of blocks"
    );
    assert_eq!(
        QuantError::Length { dtype: DType::Q8_0, elements: 33, nbytes: 34 }.to_string(),
        "33 elements do not take 34 bytes of q8_0, whose blocks hold 32 elements in 34 bytes"
    );
}

#[test]
fn a_value_that_is_not_finite_is_refused_by_its_index() {
    for dtype in ENCODED {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7f80_0001)] {
            for element in [0, 31, 32, 77, 95] {
                let mut values = [0.25; 96];
                values[element] = bad;
                assert_eq!(encoded(dtype, &values), Err(QuantError::NotFinite { element }), "{dtype}, {bad}");
                values[95] = f32::NAN;
                assert_eq!(
                    encoded(dtype, &values),
                    Err(QuantError::NotFinite { element }),
                    "{dtype}: the first"
                );
            }
        }
    }
}

#[test]
fn a_scale_beyond_f16_is_refused_by_its_block() {
    // 65520 is the smallest number that rounds to infinity. The divisors are those by which the scale is
    // computed.
    for (dtype, divisor) in [
        (DType::Q4_0, 8.0),
        (DType::Q4_1, 15.0),
        (DType::Q5_0, 16.0),
        (DType::Q5_1, 31.0),
        (DType::Q8_0, 127.0),
    ] {
        for sign in [1.0, -1.0] {
            let mut values = [0.0; 96];
            values[70] = sign * 65_519.0 * divisor;
            // As a minimum, this number alone is too small to be refused.
            let fits = sign > 0.0 || !matches!(dtype, DType::Q4_1 | DType::Q5_1);
            assert_eq!(encoded(dtype, &values).is_ok(), fits, "{dtype}");
            for large in [65_520.0 * divisor, f32::MAX] {
                values[70] = sign * large;
                assert_eq!(
                    encoded(dtype, &values),
                    Err(QuantError::ScaleOverflow { element: 64 }),
                    "{dtype}"
                );
            }
        }
    }
    for dtype in [DType::Q4_1, DType::Q5_1] {
        assert!(encoded(dtype, &[-65_519.0; 32]).is_ok());
        assert_eq!(encoded(dtype, &[-65_520.0; 32]), Err(QuantError::ScaleOverflow { element: 0 }));
        assert_eq!(encoded(dtype, &[65_520.0; 32]), Err(QuantError::ScaleOverflow { element: 0 }));
        let mut far_apart = [f32::MAX; 32];
        far_apart[1] = f32::MIN;
        assert_eq!(
            encoded(dtype, &far_apart),
            Err(QuantError::ScaleOverflow { element: 0 }),
            "max - min overflows"
        );
    }
}

/// Returns how far a decoded value may be from the original: a step (because the code for +8 or +16 does not
/// exist) or half a step, plus the rounding of scale and minimum to f16 and of the arithmetic to f32.
fn error_bound(dtype: DType, block: &[f32]) -> f32 {
    let rounding = |v: f32| (v.abs() / 2048.0).max(2.0_f32.powi(-25));
    let min = block.iter().copied().fold(f32::INFINITY, f32::min);
    let max = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let magnitude = max.max(-min);
    let (step, codes, minimum) = match dtype {
        DType::Q4_0 => (magnitude / 8.0, 8.0, 0.0),
        DType::Q5_0 => (magnitude / 16.0, 16.0, 0.0),
        DType::Q8_0 => (magnitude / 127.0, 127.0, 0.0),
        DType::Q4_1 => ((max - min) / 15.0, 15.0, rounding(min)),
        _ => ((max - min) / 31.0, 31.0, rounding(min)),
    };
    let steps = if matches!(dtype, DType::Q4_0 | DType::Q5_0) { 1.0 } else { 0.5 };
    steps * step + codes * rounding(step) + minimum + 1e-6 * magnitude
}

/// Generates the same cases in each run.
pub(super) fn cases(number: u32) -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(32),
        failure_persistence: None,
        ..ProptestConfig::with_cases(number)
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn decoded_values_are_near_what_was_encoded(
        values in prop::collection::vec(-1.0_f32..1.0, 96),
        offset in prop::sample::select(vec![0.0_f32, 0.0, 3.0, -3.0]),
        exponent in -30..13,
    ) {
        let values: Vec<f32> = values.iter().map(|v| (v + offset) * 2.0_f32.powi(exponent)).collect();
        for dtype in ENCODED {
            let back = decoded(dtype, &encoded(dtype, &values).unwrap());
            for (values, back) in values.chunks(32).zip(back.chunks(32)) {
                let bound = error_bound(dtype, values);
                for (value, back) in values.iter().zip(back) {
                    prop_assert!((value - back).abs() <= bound, "{}: {} became {}, {}", dtype, value, back, bound);
                }
            }
        }
    }

    #[test]
    fn k_quants_are_near_what_was_encoded(
        values in prop::collection::vec(-1.0_f32..1.0, 256),
        exponent in -10..20,
    ) {
        let values: Vec<f32> = values.iter().map(|v| v * 2.0_f32.powi(exponent)).collect();
        // Two steps of a 15th, 31st or 63rd of the block's span, because the best scale may clip the largest
        // elements.
        for (dtype, steps) in [(DType::Q4K, 15.0), (DType::Q5K, 31.0), (DType::Q6K, 63.0)] {
            let back = decoded(dtype, &encoded(dtype, &values).unwrap());
            let bound = 2.0 * 2.0 * 2.0_f32.powi(exponent) / steps;
            for (value, back) in values.iter().zip(&back) {
                prop_assert!((value - back).abs() <= bound, "{}: {} became {}, {}", dtype, value, back, bound);
            }
        }
    }

    #[test]
    fn any_finite_values_are_k_quants_or_refused(values in prop::collection::vec(any::<f32>(), 256)) {
        for dtype in K_ENCODED {
            match encoded(dtype, &values) {
                Ok(blocks) => prop_assert!(decoded(dtype, &blocks).iter().all(|v| v.is_finite())),
                Err(QuantError::ScaleOverflow { element }) => prop_assert_eq!(element, 0),
                Err(QuantError::NotFinite { element }) => prop_assert!(!values[element].is_finite()),
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn any_finite_values_are_encoded_or_refused(values in prop::collection::vec(any::<f32>(), 32)) {
        for dtype in ENCODED {
            match encoded(dtype, &values) {
                Ok(blocks) => prop_assert!(decoded(dtype, &blocks).iter().all(|v| v.is_finite())),
                Err(QuantError::ScaleOverflow { element }) => prop_assert_eq!(element, 0),
                Err(QuantError::NotFinite { element }) => prop_assert!(!values[element].is_finite()),
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn any_bytes_are_blocks(bytes in prop::collection::vec(any::<u8>(), 3 * 292)) {
        for dtype in all() {
            let (_, nbytes) = sizes(dtype);
            decoded(dtype, &bytes[..3 * nbytes]);
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused(bytes in 0_usize..700, elements in 0_usize..700) {
        for dtype in all() {
            let block = sizes(dtype);
            let fits = (0..=bytes / block.1).any(|n| bytes == n * block.1 && elements == n * block.0);
            let expected = if fits { Ok(()) } else { Err(QuantError::Length { dtype, elements, nbytes: bytes }) };
            prop_assert_eq!(decode(dtype, &vec![0; bytes], &mut vec![0.0; elements]), expected.clone());
            if can_encode(dtype) {
                prop_assert_eq!(encode(dtype, &vec![0.0; elements], &mut vec![0; bytes]), expected);
            }
        }
    }
}

#[test]
fn whole_blocks_of_each_length_are_taken() {
    for dtype in all() {
        let (elements, nbytes) = sizes(dtype);
        for (more_elements, more_bytes) in [(1, 0), (0, 1), (elements, 0), (0, nbytes), (1, 1)] {
            for count in 0..3 {
                let (e, b) = (count * elements, count * nbytes);
                assert!(decode(dtype, &vec![0; b], &mut vec![0.0; e]).is_ok());
                let result = decode(dtype, &vec![0; b + more_bytes], &mut vec![0.0; e + more_elements]);
                assert!(matches!(result, Err(QuantError::Length { .. })), "{dtype}");
            }
        }
    }
}

#[test]
fn tensors_give_numbers_of_blocks_and_of_plain_types() {
    use tensor_core::{Bytes, TensorInfo};
    let tensor = |dtype, shape, bytes| {
        TensorView::new(TensorInfo::new("t", dtype, shape).unwrap(), Bytes::Borrowed(bytes)).unwrap()
    };
    let mut block = vec![0u8; 34];
    block[..2].copy_from_slice(&f16::from_f32(2.0).to_le_bytes());
    block[2] = 3;
    let blocks = tensor(DType::Q8_0, &[32], &block);
    let values = to_f32(&blocks).unwrap();
    assert_eq!((values[0], values[1], values.len()), (6.0, 0.0, 32));
    assert_eq!(to_f64(&blocks).unwrap()[0], 6.0);
    assert_eq!(to_f64(&tensor(DType::U8, &[2], &[1, 7])).unwrap(), [1.0, 7.0]);
    let opaque = to_f32(&tensor(DType::C64, &[1], &[0; 8])).unwrap_err();
    assert_eq!(opaque, QuantError::View(TensorError::NotNumeric(DType::C64)));
}

#[test]
fn rows_that_are_filled_up_are_decoded_without_what_fills_them() {
    let row = decoded(DType::Q8_0, &[&[0, 0x3c][..], &[5; 32]].concat());
    let blocks = [&[0, 0x3c][..], &[5; 32], &[0, 0x3c], &[6; 32]].concat();
    let shape = [2, 20];
    let info = tensor_core::TensorInfo::with_nbytes("w", DType::Q8_0, &shape, 68, true);
    let view = TensorView::new(info, tensor_core::Bytes::Borrowed(&blocks)).unwrap();
    let values = to_f32(&view).unwrap();
    assert_eq!(values, [&row[..20], &[6.0; 20]].concat());
    let rows = |columns, out: usize| decode_rows(DType::Q8_0, &blocks, columns, &mut vec![0.0; out]);
    assert!(rows(20, 40).is_ok() && rows(32, 64).is_ok() && rows(40, 40).is_ok());
    for (columns, out) in [(20, 39), (33, 66), (0, 40), (20, 0), (20, 60), (usize::MAX, 40)] {
        assert!(rows(columns, out).is_err(), "{columns} {out}");
    }
    assert!(decode_rows(DType::AprQ8, &blocks, 20, &mut [0.0; 40]).is_err());
}
