// The casts are intended: they take low bits of random numbers and round numbers to narrower types.
#![allow(clippy::cast_possible_truncation)]

use proptest::prelude::*;

use super::*;

mod compare;
mod golden;
mod naive;
mod small;

/// Returns the little-endian bytes of some numbers.
fn bytes<T: Element>(values: &[T]) -> Vec<u8> {
    let width = T::WIDTH as usize / 8;
    values.iter().flat_map(|value| value.bits().to_le_bytes().into_iter().take(width)).collect()
}

fn of<T: Element>(dtype: DType, values: &[T]) -> Stats {
    stats_of_bytes(dtype, &bytes(values)).unwrap()
}

/// Computes statistics through a reader that checks the ranges it is called for.
fn by_reading(dtype: DType, bytes: &[u8]) -> Stats {
    let size = dtype.size().unwrap() as usize;
    let count = (bytes.len() / size) as u64;
    let read = |first: u64, buffer: &mut [u8]| {
        let len = (buffer.len() / size) as u64;
        assert_eq!(buffer.len() % size, 0);
        assert!(
            first.is_multiple_of(256) && (len.is_multiple_of(256) || first + len == count),
            "{first} {len}"
        );
        assert!(buffer.len() <= (65536 + 512) * size);
        let start = first as usize * size;
        buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
        Ok::<(), Infallible>(())
    };
    stats(dtype, count, read).unwrap()
}

#[test]
fn nothing_and_one() {
    for dtype in [DType::Bool, DType::I8, DType::F16, DType::U32, DType::F64] {
        let stats = stats_of_bytes(dtype, &[]).unwrap();
        assert_eq!((stats.count, stats.histogram), (0, Histogram::Empty));
        assert!(stats.min.is_nan() && stats.median.is_nan() && stats.std.is_nan());
    }
    let stats = of(DType::F32, &[2.5f32]);
    assert_eq!(
        (stats.count, stats.min, stats.max, stats.mean, stats.median, stats.std),
        (1, 2.5, 2.5, 2.5, 2.5, 0.0)
    );
    assert_eq!(stats.histogram, Histogram::Constant { value: 2.5, count: 1 });
    assert_eq!(of(DType::I64, &[-7i64]).histogram, Histogram::Values(vec![(-7, 1)]));
}

#[test]
fn constants() {
    for count in [2, 5, 1000, 70_000, 200_001] {
        let stats = of(DType::F32, &vec![0.1f32; count]);
        assert_eq!((stats.mean, stats.median, stats.std), (f64::from(0.1f32), f64::from(0.1f32), 0.0));
        assert_eq!(stats.histogram, Histogram::Constant { value: f64::from(0.1f32), count: count as u64 });
        let stats = of(DType::BF16, &vec![half::bf16::from_f32(-3.0); count]);
        assert_eq!((stats.mean, stats.median, stats.std), (-3.0, -3.0, 0.0));
        assert_eq!(stats.histogram, Histogram::Constant { value: -3.0, count: count as u64 });
        let stats = of(DType::U64, &vec![u64::MAX; count]);
        assert_eq!(stats.exact, Some((i128::from(u64::MAX), i128::from(u64::MAX))));
        assert_eq!(stats.histogram, Histogram::Values(vec![(i128::from(u64::MAX), count as u64)]));
    }
}

#[test]
fn what_is_not_finite_is_counted_apart() {
    let odd =
        [f32::NAN, f32::INFINITY, -f32::NAN, f32::NEG_INFINITY, f32::INFINITY, f32::from_bits(0x7f80_0001)];
    let non_finite = NonFinite { nan: 3, pos_inf: 2, neg_inf: 1 };
    let stats = of(DType::F32, &odd);
    assert_eq!((stats.count, stats.non_finite, stats.histogram), (0, non_finite, Histogram::Empty));

    for count in [4, 1000, 100_000] {
        let plain: Vec<f32> = (0..count).map(|i| i as f32).collect();
        let mixed: Vec<f32> = plain.iter().copied().chain(odd).collect();
        let (plain, mixed) = (of(DType::F32, &plain), of(DType::F32, &mixed));
        assert_eq!(mixed.non_finite, non_finite);
        assert_eq!((mixed.count, mixed.min, mixed.max), (plain.count, plain.min, plain.max));
        assert_eq!(
            (mixed.mean, mixed.median, &mixed.histogram),
            (plain.mean, plain.median, &plain.histogram)
        );
        assert!((mixed.std - plain.std).abs() <= plain.std * 1e-12);

        let odd: Vec<half::f16> = odd.iter().map(|&x| half::f16::from_f32(x)).collect();
        let plain: Vec<half::f16> = (0..count).map(|i| half::f16::from_f32((i % 999) as f32)).collect();
        let mixed: Vec<half::f16> = odd.iter().copied().chain(plain.iter().copied()).collect();
        let (plain, mixed) = (of(DType::F16, &plain), of(DType::F16, &mixed));
        assert_eq!(mixed, Stats { non_finite, ..plain });
    }
    let odd = odd.map(f64::from);
    let mixed: Vec<f64> =
        (0..100_000).map(|i| if i % 7 == 0 { odd[i / 7 % 6] } else { (i % 10) as f64 }).collect();
    let stats = of(DType::F64, &mixed);
    assert_eq!(stats.non_finite.total(), 14286);
    let Histogram::Bins { counts, .. } = stats.histogram else { panic!("{stats:?}") };
    assert_eq!(counts.iter().sum::<u64>(), stats.count);
}

#[test]
fn booleans() {
    let stats = stats_of_bytes(DType::Bool, &[0, 1, 1, 0, 2, 255]).unwrap();
    assert_eq!(stats.histogram, Histogram::Bools { zeros: 2, ones: 4 });
    assert_eq!((stats.count, stats.min, stats.max, stats.median, stats.exact), (6, 0.0, 1.0, 1.0, None));
    assert!((stats.mean - 4.0 / 6.0).abs() < 1e-15);
    let stats = stats_of_bytes(DType::Bool, &[1; 100_000]).unwrap();
    assert_eq!(stats.histogram, Histogram::Bools { zeros: 0, ones: 100_000 });
    assert_eq!((stats.min, stats.max, stats.mean, stats.median, stats.std), (1.0, 1.0, 1.0, 1.0, 0.0));
    let stats = stats_of_bytes(DType::Bool, &[0; 3]).unwrap();
    assert_eq!(stats.histogram, Histogram::Bools { zeros: 3, ones: 0 });
    assert_eq!((stats.min, stats.max, stats.median), (0.0, 0.0, 0.0));
}

#[test]
fn extreme_integers() {
    let stats = of(DType::I64, &[i64::MIN, i64::MAX, 0]);
    assert_eq!(stats.exact, Some((i128::from(i64::MIN), i128::from(i64::MAX))));
    assert_eq!((stats.min, stats.max, stats.median), (-(2f64.powi(63)), 2f64.powi(63), 0.0));
    let Histogram::Bins { counts, .. } = stats.histogram else { panic!("{stats:?}") };
    assert_eq!(counts, [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
    // Beyond 2^53, a span of 20 is still distinguished from one of 21.
    let stats = of(DType::U64, &[u64::MAX - 20, u64::MAX, u64::MAX - 1, u64::MAX]);
    let Histogram::Values(values) = stats.histogram else { panic!("{stats:?}") };
    assert_eq!(values.len(), 21);
    assert_eq!((values[0].1, values[18].1, values[19].1, values[20]), (1, 0, 1, (i128::from(u64::MAX), 2)));
    let stats = of(DType::U64, &[u64::MAX - 21, u64::MAX]);
    let Histogram::Bins { counts, .. } = stats.histogram else { panic!("{stats:?}") };
    assert_eq!(counts.iter().sum::<u64>(), 2);
    assert_eq!(stats.exact, Some((i128::from(u64::MAX) - 21, i128::from(u64::MAX))));
}

#[test]
fn extreme_floats() {
    let max = f64::MAX;
    let stats = of(DType::F64, &[max, -max, max, -max, 1.0]);
    assert_eq!((stats.min, stats.max, stats.median), (-max, max, 1.0));
    assert!(stats.mean.abs() <= 1.0 && stats.std.is_finite() && stats.std > max / 2.0);
    let Histogram::Bins { edges, counts } = stats.histogram else { panic!("{stats:?}") };
    assert_eq!((edges[0], edges[10], counts), (-max, max, [2, 0, 0, 0, 0, 1, 0, 0, 0, 2]));
    assert!(edges.iter().all(|edge| edge.is_finite()) && edges.is_sorted());

    let stats = of(DType::F64, &[max; 70_000]);
    assert_eq!((stats.mean, stats.median, stats.std), (max, max, 0.0));
    let stats = of(DType::F64, &[1e200, -1e200, f64::NAN]);
    assert!((stats.std / 1e200 - 1.0).abs() < 1e-14);
    // The squares of these would be zero.
    let stats = of(DType::F64, &[1e-200, -1e-200, f64::INFINITY]);
    assert!((stats.std / 1e-200 - 1.0).abs() < 1e-14);
    let tiny = f64::from_bits(1);
    let stats = of(DType::F64, &[0.0, tiny, 3.0 * tiny]);
    assert_eq!((stats.max, stats.median), (3.0 * tiny, tiny));
    assert_eq!(stats.std, tiny);
    let Histogram::Bins { edges, counts } = stats.histogram else { panic!("{stats:?}") };
    assert!(edges.is_sorted());
    assert_eq!(counts.iter().sum::<u64>(), 3);
}

#[test]
fn subnormal_floats_of_32_bits() {
    let values: Vec<f32> = (0..=1000).map(f32::from_bits).collect();
    let stats = of(DType::F32, &values);
    assert_eq!(stats.median, f64::from(f32::from_bits(500)));
    let Histogram::Bins { counts, .. } = stats.histogram else { panic!("{stats:?}") };
    assert_eq!(counts, [100, 100, 100, 100, 100, 100, 100, 100, 100, 101]);
}

#[test]
fn signs_of_zero() {
    let stats = of(DType::F32, &[0.0f32, -0.0, 0.0]);
    assert_eq!((stats.min.to_bits(), stats.max.to_bits()), ((-0.0f64).to_bits(), 0.0f64.to_bits()));
    assert_eq!(stats.histogram, Histogram::Constant { value: 0.0, count: 3 });
    let stats = of(DType::F32, &[-0.0f32; 40_000]);
    assert_eq!(
        (stats.max.to_bits(), stats.mean.to_bits(), stats.median.to_bits()),
        ((-0.0f64).to_bits(), 0, 0)
    );
    let stats = of(DType::F16, &[half::f16::NEG_ZERO, half::f16::ZERO]);
    assert_eq!(stats.histogram, Histogram::Constant { value: 0.0, count: 2 });
}

#[test]
fn refusals() {
    assert_eq!(stats_of_bytes(DType::Q4_0, &[]), Err(Error::Unsupported(DType::Q4_0)));
    assert_eq!(stats_of_bytes(DType::C64, &[1; 8]), Err(Error::Unsupported(DType::C64)));
    assert_eq!(stats_of_bytes(DType::F6E2M3, &[1; 4]), Err(Error::Ragged { dtype: DType::F6E2M3, len: 4 }));
    assert_eq!(stats_of_bytes(DType::Packed, &[1]), Err(Error::Unsupported(DType::Packed)));
    assert_eq!(stats_of_bytes(DType::F32, &[1; 6]), Err(Error::Ragged { dtype: DType::F32, len: 6 }));
    let fail = |first: u64, _: &mut [u8]| if first > 100_000 { Err("no more") } else { Ok(()) };
    assert_eq!(stats(DType::F32, 1 << 40, fail), Err(Error::Read("no more")));
    assert_eq!(stats(DType::U8, u64::MAX, fail), Err(Error::Read("no more")));
    assert_eq!(stats(DType::C64, 5, fail), Err(Error::Unsupported(DType::C64)));
}

#[test]
fn values_that_change_between_reads_are_noticed_or_harmless() {
    for count in [100u64, 5000, 100_000] {
        for dtype in [DType::F32, DType::I32, DType::F64, DType::U64, DType::I16, DType::BF16] {
            let mut state = 1u64;
            let random = |_: u64, buffer: &mut [u8]| {
                for byte in buffer {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    *byte = (state >> 56) as u8;
                }
                Ok::<(), Infallible>(())
            };
            if let Err(error) = stats(dtype, count, random) {
                assert_eq!(error, Error::Changed);
            }
        }
    }
}

#[cfg(feature = "parallel")]
#[test]
fn many_values_agree_with_sorting() {
    // Enough values for tables of digits. Some are spread out, so that most digits determine the bin; others
    // are close together, so that no digit does.
    let units: Vec<f64> =
        golden::random(5, 60_000).into_iter().map(|bits| bits as f64 / u64::MAX as f64).collect();
    for (center, width) in [(0.0, 8.0), (-3.0, 0.5), (1.0, 0.01)] {
        // Products of uniform numbers lie around zero as weights do.
        let spread = |pair: &[f64]| center + width * (pair[0] - 0.5) * pair[1];
        let mut values: Vec<f64> = units.windows(2).map(spread).collect();
        for special in [None, Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(f64::NAN)] {
            values.extend(special);
            compare::with_naive(DType::F64, &bytes(&values)).unwrap();
            let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            compare::with_naive(DType::F32, &bytes(&narrow)).unwrap();
        }
        let integers: Vec<i32> = values.iter().map(|&value| (value * 1e8) as i32).collect();
        compare::with_naive(DType::I32, &bytes(&integers)).unwrap();
        let wide: Vec<u64> = values.iter().map(|&value| (value.abs() * 1e18) as u64).collect();
        compare::with_naive(DType::U64, &bytes(&wide)).unwrap();
    }
}

#[test]
fn threads_and_readers_agree() {
    // Long enough for several pieces, and with a median that needs all steps.
    let count = 150_003u64;
    let near_one: Vec<u8> =
        (0..count).flat_map(|i| (1.0 + (i * 7919 % count) as f64 * 1e-15).to_le_bytes()).collect();
    let noise: Vec<u8> = golden::random(3, count as usize).into_iter().flat_map(u64::to_le_bytes).collect();
    for dtype in
        [DType::Bool, DType::I8, DType::F16, DType::BF16, DType::I32, DType::F32, DType::U64, DType::F64]
    {
        for bytes in [&near_one, &noise] {
            let bytes = &bytes[..bytes.len().min(150_000 * dtype.size().unwrap() as usize)];
            let alone = format!("{:?}", stats_of_bytes(dtype, bytes).unwrap());
            assert_eq!(alone, format!("{:?}", by_reading(dtype, bytes)), "{dtype} read");
            for threads in [0, 2, 7] {
                let stats = stats_of_bytes_parallel(dtype, bytes, threads).unwrap();
                assert_eq!(alone, format!("{stats:?}"), "{dtype} on {threads} threads");
            }
            let size = dtype.size().unwrap() as usize;
            let read = |first: u64, buffer: &mut [u8]| {
                let start = first as usize * size;
                buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
                Ok::<(), Infallible>(())
            };
            let stats = stats_parallel(dtype, (bytes.len() / size) as u64, 2, read).unwrap();
            assert_eq!(alone, format!("{stats:?}"), "{dtype} read on two threads");
        }
    }
    let fail = |first: u64, _: &mut [u8]| if first > 1 << 20 { Err(first) } else { Ok(()) };
    assert!(matches!(stats_parallel(DType::F32, 1 << 40, 4, fail), Err(Error::Read(_))));
}

#[test]
fn counters_of_32_bits_do_not_overflow() {
    let mut table = gather::Table::new();
    for _ in 0..3 {
        table.count(&[7u16; 100], 0);
        // Simulates so many counted elements that there is no room for more.
        table.pending = usize::MAX;
    }
    table.count_some(&[7u16; 9], 0, u64::MAX, 7);
    let mut counts = Vec::new();
    table.add_to(&mut counts);
    assert_eq!((counts[7], counts.iter().sum::<u64>()), (309, 309));
}

#[test]
fn alignment_of_the_bytes_does_not_matter() {
    let bytes: Vec<u8> = golden::random(9, 100_000).into_iter().flat_map(u64::to_le_bytes).collect();
    for dtype in [DType::I16, DType::F32, DType::I64] {
        let copy = bytes[1..bytes.len() - 7].to_vec();
        assert_eq!(
            format!("{:?}", stats_of_bytes(dtype, &bytes[1..bytes.len() - 7])),
            format!("{:?}", stats_of_bytes(dtype, &copy))
        );
    }
}

/// Generates values that are edge cases, and others.
fn bits() -> impl Strategy<Value = u64> {
    let edge = prop::sample::select(vec![
        0,
        1,
        u64::MAX,
        1 << 63,
        0x7f80_0000_7f80_0000,
        0xff80_0000_ff80_0000,
        0x7c00_7c00_7c00_7c00,
        0x7ff0_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x8000_8000_8000_8000,
        0x7f7f_ffff_7f7f_ffff,
        0x3f80_0000_3f80_0000,
        0x3ff0_0000_0000_0000,
    ]);
    prop_oneof![1 => edge, 4 => any::<u64>(), 4 => (-30i64..30).prop_map(|small| small as u64)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_sorting(values in prop::collection::vec(bits(), 0..200), repeat in prop::sample::select(vec![1usize, 1, 1, 1, 200])) {
        let values = values.repeat(repeat);
        let bytes: Vec<u8> = values.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        for &dtype in naive::DTYPES {
            let end = bytes.len().min(20_000 * dtype.size().unwrap() as usize);
            compare::with_naive(dtype, &bytes[..end])?;
        }
    }

    #[test]
    fn ordinary_floats_agree_with_sorting(
        center in -1e3..1e3f64, width in 1e-9..1e3f64, units in prop::collection::vec(-1.0..1.0f64, 1..200),
        repeat in prop::sample::select(vec![1usize, 1, 1, 1, 120]),
    ) {
        let values: Vec<f64> = units.iter().map(|unit| center + width * unit).collect::<Vec<_>>().repeat(repeat);
        compare::with_naive(DType::F64, &bytes(&values))?;
        let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        compare::with_naive(DType::F32, &bytes(&values))?;
        let values: Vec<half::f16> = values.iter().map(|&value| half::f16::from_f32(value)).collect();
        compare::with_naive(DType::F16, &bytes(&values))?;
    }

    #[test]
    fn keys_keep_the_order(a in bits(), b in bits()) {
        fn check<T: Element>(a: u64, b: u64) -> Result<(), TestCaseError> {
            let (a, b) = (T::from_bits(a), T::from_bits(b));
            prop_assert_eq!(T::from_key(T::key(a.bits())).bits(), a.bits());
            if a.partial_cmp(&b) == Some(std::cmp::Ordering::Less) {
                prop_assert!(T::key(a.bits()) < T::key(b.bits()));
            }
            if a.is_finite() && b.is_finite() {
                prop_assert_eq!(a.reaches(T::edge(b.to_f64())), a.to_f64() >= b.to_f64());
                let between = a.to_f64() / 2.0 + b.to_f64() / 2.0;
                prop_assert_eq!(a.reaches(T::edge(between)), a.to_f64() >= between);
            }
            Ok(())
        }
        check::<i8>(a, b)?;
        check::<u16>(a, b)?;
        check::<half::f16>(a, b)?;
        check::<half::bf16>(a, b)?;
        check::<i32>(a, b)?;
        check::<f32>(a, b)?;
        check::<i64>(a, b)?;
        check::<f64>(a, b)?;
    }
}

/// Compares integers of every width with exact fractions.
#[test]
fn integers_have_exact_moments() {
    fn check(dtype: DType, bytes: &[u8]) {
        let (_, values) = naive::decode(dtype, bytes);
        let (count, min) = (values.len() as i128, *values.iter().min().unwrap());
        let total: i128 = values.iter().sum();
        let mean = total.div_euclid(count) as f64 + total.rem_euclid(count) as f64 / count as f64;
        // The variance is (n Σd² − (Σd)²) / n², where d are the distances from the smallest value.
        let square = |x: i128| x * x;
        let distances = values.iter().map(|value| value - min);
        let squares: i128 = distances.clone().map(square).sum();
        let std = ((count * squares - square(distances.sum())) as f64).sqrt() / count as f64;
        let stats = stats_of_bytes(dtype, bytes).unwrap();
        let context = format!("{dtype} {values:?}: {stats:?}, {mean}, {std}");
        assert!((stats.mean - mean).abs() <= 4.0 * f64::EPSILON * mean.abs().max(std), "{context}");
        assert!((stats.std - std).abs() <= 1e-11 * std, "{context}");
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let middle = sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2];
        assert_eq!(stats.median, middle as f64 / 2.0, "{context}");
        assert_eq!(format!("{stats:?}"), format!("{:?}", by_reading(dtype, bytes)));
    }
    let of = |values: &[i64]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
    let stats = stats_of_bytes(DType::I64, &of(&[1 << 62, (1 << 62) + 1])).unwrap();
    assert_eq!((stats.std, stats.mean, stats.median), (0.5, 2f64.powi(62), 2f64.powi(62)));
    let stats = stats_of_bytes(DType::I64, &of(&[i64::MIN, i64::MAX])).unwrap();
    assert_eq!((stats.std, stats.mean, stats.median), (2f64.powi(63), -0.5, -0.5));
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 3
    };
    let integers =
        [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64];
    for _ in 0..300 {
        for dtype in integers {
            let size = dtype.size().unwrap() as usize;
            // A span of any number of bits above a base. Sums of squares of 60 bits fit i128.
            let (count, bits, base) = (1 + random() % 8, random() % 60, random() << 3);
            let value = |random: u64| base.wrapping_add(random & ((1 << bits) - 1));
            let bytes: Vec<u8> =
                (0..count).flat_map(|_| value(random()).to_le_bytes()[..size].to_vec()).collect();
            let (_, values) = naive::decode(dtype, &bytes);
            // If values wrap around, their span is too large for the check.
            let span = values.iter().max().unwrap() - values.iter().min().unwrap();
            if span < 1 << 60 {
                check(dtype, &bytes);
            }
        }
    }
}
