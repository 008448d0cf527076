//! Compares every code, and numbers at every edge, with ml_dtypes; tests packing.
#![allow(clippy::cast_possible_truncation, reason = "codes are bytes")]

use super::*;

/// Types and their files from `xtask/oracles/small_vectors.py`, which describes the contents.
const GOLDEN: [(DType, &[u8]); 8] = [
    (DType::F8E4M3, include_bytes!("../../../../testdata/small/f8_e4m3.bin")),
    (DType::F8E5M2, include_bytes!("../../../../testdata/small/f8_e5m2.bin")),
    (DType::F8E4M3Fnuz, include_bytes!("../../../../testdata/small/f8_e4m3fnuz.bin")),
    (DType::F8E5M2Fnuz, include_bytes!("../../../../testdata/small/f8_e5m2fnuz.bin")),
    (DType::F8E8M0, include_bytes!("../../../../testdata/small/f8_e8m0.bin")),
    (DType::F6E2M3, include_bytes!("../../../../testdata/small/f6_e2m3.bin")),
    (DType::F6E3M2, include_bytes!("../../../../testdata/small/f6_e3m2.bin")),
    (DType::F4, include_bytes!("../../../../testdata/small/f4.bin")),
];

const INTEGERS: [DType; 8] =
    [DType::I4, DType::I2, DType::I1, DType::U4, DType::U2, DType::U1, DType::T2, DType::T1];

fn small(dtype: DType) -> SmallType {
    SmallType::from_dtype(dtype).unwrap()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

#[test]
fn every_code_is_the_number_that_ml_dtypes_says() {
    for (dtype, file) in GOLDEN {
        let small = small(dtype);
        let expected = floats(&file[..4 << small.bits()]);
        for (code, expected) in (0..=u8::MAX).zip(&expected) {
            assert_eq!(small.to_f32(code).to_bits(), expected.to_bits(), "{dtype} {code:#x}");
        }
        let (last, first) = (small.to_f32(u8::MAX), expected.last().unwrap());
        assert_eq!(last.to_bits(), first.to_bits(), "{dtype}: high bits do not count");
    }
}

#[test]
fn every_edge_is_rounded_as_ml_dtypes_does() {
    for (dtype, file) in GOLDEN {
        let small = small(dtype);
        let rest = &file[4 << small.bits()..];
        let count = rest.len() / 5;
        assert!(count > 40 && count * 5 == rest.len(), "{dtype}");
        for (value, &code) in floats(&rest[..count * 4]).into_iter().zip(&rest[count * 4..]) {
            assert_eq!(small.from_f32(value), code, "{dtype} {value} {:#x}", value.to_bits());
        }
    }
}

#[test]
fn numbers_that_a_code_has_come_back_and_fit() {
    for dtype in GOLDEN.into_iter().map(|(dtype, _)| dtype).chain(INTEGERS) {
        let small = small(dtype);
        for code in 0..1u16 << small.bits() {
            let number = small.to_f32(code as u8);
            let (back, fits) = small.rounded(number);
            if dtype == DType::T2 && code == 2 {
                assert_eq!((number, back, fits), (-2.0, 3, false), "no ternary number");
                continue;
            }
            assert!(fits, "{dtype} {code:#x}");
            assert!(u16::from(back) == code || number.is_nan(), "{dtype} {code:#x}");
            assert_eq!(number.is_nan(), small.to_f32(back).is_nan(), "{dtype} {code:#x}");
        }
    }
}

#[test]
fn what_is_beyond_the_range_does_not_fit() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    for (dtype, fitting, beyond) in [
        (DType::F8E4M3, &[464.0, -464.0, 1e-30, nan][..], &[465.0, 1e30, infinity][..]),
        (DType::F8E5M2, &[61_439.0, infinity, -infinity, nan], &[61_440.0, -1e30]),
        (DType::F8E4M3Fnuz, &[247.9, -0.0, nan], &[248.0, -infinity]),
        (DType::F8E5M2Fnuz, &[61_439.0, nan], &[61_440.0, infinity]),
        (DType::F8E8M0, &[1e-40, 2e38, nan], &[0.0, -1.0, 3e38, infinity]),
        (DType::F6E2M3, &[7.74, -7.74], &[7.75, -8.0, infinity, nan]),
        (DType::F6E3M2, &[29.9, 1e-30], &[30.0, -infinity, nan]),
        (DType::F4, &[6.9, -6.9, 0.0], &[7.0, 100.0, -infinity, nan]),
        (DType::I4, &[7.9, -8.9, 0.5], &[8.0, -9.0, infinity, nan]),
        (DType::U4, &[15.0, -0.5], &[16.0, -1.0, nan]),
        (DType::U1, &[1.5, 0.0], &[2.0, -1.0]),
        (DType::T1, &[1.0, -1.0], &[0.0, 2.0, nan]),
    ] {
        let small = small(dtype);
        fitting.iter().for_each(|&x| assert!(small.rounded(x).1, "{dtype} {x}"));
        beyond.iter().for_each(|&x| assert!(!small.rounded(x).1, "{dtype} {x}"));
        assert_eq!(small.rounded(nan).1, small.has_nan(), "{dtype}");
    }
    assert_eq!([200.0, -200.0, 2.9, -2.9].map(|x| small(DType::I4).from_f32(x)), [7, 8, 2, 14]);
    assert_eq!(small(DType::I4).from_f32(nan), 0);
    assert_eq!(
        [0.0, -0.0, nan].map(|x| small(DType::T1).from_f32(x)),
        [0; 3],
        "only what is above zero is +1"
    );
    // The smallest i16 is beyond every range.
    assert_eq!(small(DType::U2).rounded(-1e9), (0, false));
}

#[test]
fn integers_are_those_of_their_bits() {
    let all = |dtype| {
        let small = small(dtype);
        (0..1u8 << small.bits()).map(|code| small.to_f32(code)).collect::<Vec<_>>()
    };
    assert_eq!(all(DType::I4), [0., 1., 2., 3., 4., 5., 6., 7., -8., -7., -6., -5., -4., -3., -2., -1.]);
    assert_eq!(all(DType::U4), (0..16u8).map(f32::from).collect::<Vec<_>>());
    assert_eq!(all(DType::I2), [0.0, 1.0, -2.0, -1.0]);
    assert_eq!(all(DType::T2), [0.0, 1.0, -2.0, -1.0]);
    assert_eq!(all(DType::I1), [0.0, -1.0]);
    assert_eq!(all(DType::T1), [-1.0, 1.0]);
}

#[test]
fn packed_elements_of_any_number_come_back() {
    for dtype in GOLDEN.into_iter().map(|(dtype, _)| dtype).chain(INTEGERS) {
        let small = small(dtype);
        for count in 0..20usize {
            let codes: Vec<u8> =
                (0..count).map(|i| (i * 37 + 11) as u8 & (u8::MAX >> (8 - small.bits()))).collect();
            let nbytes = (count * small.bits() as usize).div_ceil(8);
            let mut bytes = vec![0xa5; nbytes];
            small.pack(&codes, &mut bytes, |&code| code);
            let bit = |at: usize| bytes[at / 8] >> (at % 8) & 1;
            for (i, &code) in codes.iter().enumerate() {
                let bits = small.bits() as usize;
                let found = (0..bits).fold(0, |found, at| found | bit(i * bits + at) << at);
                assert_eq!(found, code, "{dtype} {count} {i}");
            }
            assert!((count * small.bits() as usize..nbytes * 8).all(|at| bit(at) == 0), "{dtype} {count}");
            let mut back = vec![0; count];
            small.unpack(&bytes, &mut back, |code| code);
            assert_eq!(back, codes, "{dtype} {count}");
        }
    }
}

#[test]
fn numbers_are_packed_and_unpacked() {
    let numbers = [1.0, -8.0, 7.0];
    let mut bytes = [0xa5; 3];
    small(DType::I4).encode(&numbers, &mut bytes);
    assert_eq!(bytes, [0x81, 0x07, 0xa5], "bytes that no element takes stay");
    let mut back = [9.0; 5];
    small(DType::I4).decode(&bytes[..2], &mut back);
    assert_eq!(back, [1.0, -8.0, 7.0, 0.0, 9.0], "elements that have no byte stay");
}

#[test]
fn other_types_are_not_small() {
    let is_small = |dtype: &&DType| SmallType::from_dtype(**dtype).is_some();
    assert_eq!(DType::ALL.iter().filter(is_small).count(), 16);
    for &dtype in DType::ALL.iter().filter(is_small) {
        let (elements, nbytes) = small(dtype).group();
        let block = dtype.block().unwrap();
        assert_eq!((block.elements as usize, block.nbytes as usize), (elements, nbytes), "{dtype}");
        assert_eq!(elements * small(dtype).bits() as usize, nbytes * 8, "{dtype}");
    }
    assert_eq!(format!("{:?}", small(DType::F4)), "SmallType(F4)");
}
