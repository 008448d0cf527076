//! The statistics of small floats and packed integers are those of their numbers.

use tensor_core::{Bytes, SmallType, TensorInfo, TensorView};

use super::*;

fn types() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|&dtype| SmallType::from_dtype(dtype).is_some())
}

/// Returns random packed elements, and their numbers as little-endian f32.
fn packed(dtype: DType, count: u64) -> (Vec<u8>, Vec<u8>) {
    let shape = [count];
    let nbytes = dtype.nbytes(&shape).unwrap() as usize;
    let bytes: Vec<u8> = golden::random(count, nbytes.div_ceil(8))
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .take(nbytes)
        .collect();
    let info = TensorInfo::new("", dtype, &shape).unwrap();
    let numbers = TensorView::new(info, Bytes::Borrowed(&bytes)).unwrap().to_f32().unwrap();
    (bytes, numbers.into_iter().flat_map(f32::to_le_bytes).collect())
}

/// Prints all results that do not depend on how sums are rounded.
fn exact(stats: &Stats) -> String {
    format!("{:?}", (stats.count, stats.min, stats.max, stats.median, stats.non_finite))
}

#[test]
fn they_are_those_of_the_numbers() {
    for dtype in types() {
        for count in [8, 1000, 150_008] {
            let (bytes, wide) = packed(dtype, count);
            let (found, expected) =
                (stats_of_bytes(dtype, &bytes).unwrap(), stats_of_bytes(DType::F32, &wide).unwrap());
            assert_eq!(exact(&found), exact(&expected), "{dtype} {count}");
            for (a, b) in [(found.mean, expected.mean), (found.std, expected.std)] {
                assert!((a - b).abs() <= b.abs() * 1e-12 + 1e-12, "{dtype} {count}: {a} {b}");
            }
            match found.histogram {
                Histogram::Values(values) => {
                    let counts: u64 = values.iter().map(|value| value.1).sum();
                    assert_eq!(counts, count, "{dtype}");
                    assert!(found.exact.is_some() && values.len() > 1, "{dtype}");
                }
                other => assert_eq!(other, expected.histogram, "{dtype} {count}"),
            }
        }
    }
}

#[test]
fn readers_threads_and_memory_agree_and_the_last_byte_need_not_be_full() {
    for dtype in types() {
        let in_block = u64::from(dtype.block().unwrap().elements);
        let is_float = dtype.kind() == tensor_core::Kind::Float;
        let count = if is_float { 200_000 / in_block * in_block } else { 200_003 };
        let (bytes, _) = packed(dtype, count);
        let bits = u64::from(SmallType::from_dtype(dtype).unwrap().bits());
        let read = |first: u64, buffer: &mut [u8]| {
            let start = (first * bits / 8) as usize;
            buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
            Ok::<(), Infallible>(())
        };
        let alone = stats(dtype, count, read).unwrap();
        assert_eq!(alone.count + alone.non_finite.total(), count, "{dtype}");
        assert_eq!(alone, stats_parallel(dtype, count, 3, read).unwrap(), "{dtype}");
        if count * bits % 8 == 0 {
            assert_eq!(alone, stats_of_bytes(dtype, &bytes).unwrap(), "{dtype}");
            assert_eq!(alone, stats_of_bytes_parallel(dtype, &bytes, 2).unwrap(), "{dtype}");
        }
    }
}

#[test]
fn nan_and_infinities_are_counted() {
    let stats = stats_of_bytes(DType::F8E5M2, &[0x7c, 0xfc, 0x7d, 0xff, 0x3c, 0xbc]).unwrap();
    assert_eq!(stats.non_finite, NonFinite { nan: 2, pos_inf: 1, neg_inf: 1 });
    assert_eq!((stats.count, stats.min, stats.max), (2, -1.0, 1.0));
    let stats = stats_of_bytes(DType::F8E4M3, &[0x7f, 0xff, 0x7e]).unwrap();
    assert_eq!((stats.non_finite.nan, stats.max), (2, 448.0));
    let stats = stats_of_bytes(DType::F8E8M0, &[0, 0xfe, 0xff]).unwrap();
    assert_eq!((stats.min, stats.max, stats.non_finite.nan), (2f64.powi(-127), 2f64.powi(127), 1));
    let stats = stats_of_bytes(DType::T1, &[0b0000_0111]).unwrap();
    assert_eq!(stats.histogram, Histogram::Values(vec![(-1, 5), (0, 0), (1, 3)]));
}

#[test]
fn a_reader_that_fails_is_heard() {
    let fail = |first: u64, _: &mut [u8]| if first > 1 << 20 { Err(first) } else { Ok(()) };
    for dtype in [DType::F8E4M3, DType::F4, DType::U1] {
        assert!(matches!(stats(dtype, 1 << 40, fail), Err(Error::Read(_))), "{dtype}");
        assert!(matches!(stats_parallel(dtype, 1 << 40, 2, fail), Err(Error::Read(_))), "{dtype}");
    }
}
