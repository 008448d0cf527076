//! Values that Rust and Python generate alike, and numpy's statistics of them.

use super::*;

/// SplitMix64, whose n-th number can be computed without the others.
pub(super) fn random(seed: u64, count: usize) -> Vec<u64> {
    let mix = |n: u64| {
        let z = seed.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    (1..=count as u64).map(mix).collect()
}

/// Returns a sum of four uniform numbers.
fn bell(bits: u64) -> f64 {
    let quarter = |k: u64| (bits >> (16 * k) & 0xffff) as f64;
    (quarter(0) + quarter(1) + quarter(2) + quarter(3)) / 65536.0 / 3.0 - 2.0 / 3.0
}

/// Returns the bytes of one value.
fn fill(dtype: DType, fill: &str, bits: u64) -> Vec<u8> {
    let number = match fill {
        "bell" => bell(bits),
        "near1" => 1.0 + (bits >> 11) as f64 / 2f64.powi(53) * 1e-3,
        "grid" => (bits % 1001) as f64 / 1000.0,
        "wild" if dtype == DType::F64 => {
            Some(f64::from_bits(bits)).filter(|x| x.abs() < 1e140).unwrap_or(0.0)
        }
        "wild" => Some(f64::from(f32::from_bits(bits as u32))).filter(|x| x.abs() < 3e38).unwrap_or(0.0),
        _ => 0.0,
    };
    let integer = match fill {
        "small" => bits % 21,
        "thousand" => bits % 1000,
        "odd" => bits % 2,
        _ => bits,
    };
    match dtype {
        DType::F64 => number.to_le_bytes().to_vec(),
        DType::F32 => (number as f32).to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f32(number as f32).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f32(number as f32).to_le_bytes().to_vec(),
        _ => integer.to_le_bytes()[..dtype.size().unwrap() as usize].to_vec(),
    }
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn agrees_with_numpy() {
    let rows = include_str!("golden.txt").lines().filter(|line| !line.starts_with('#'));
    let mut seen = 0;
    for row in rows {
        let [head, expected, edges, counts] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let [dtype, kind, count] = head.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{row}") };
        let (dtype, count): (DType, usize) = (dtype.parse().unwrap(), count.parse().unwrap());
        let bytes: Vec<u8> =
            random(count as u64, count).into_iter().flat_map(|bits| fill(dtype, kind, bits)).collect();
        let stats = stats_of_bytes(dtype, &bytes).unwrap();
        assert_eq!(stats.count, count as u64, "{head}");

        let expected = numbers(expected);
        let found = [stats.min, stats.max, stats.mean, stats.median, stats.std];
        if dtype.size() < Some(4) || kind == "bits" && matches!(dtype, DType::I64 | DType::U64) {
            // The sums are exact, even those of integers beyond 2^53; numpy's are rounded.
            let pairs = found.iter().zip(&expected);
            pairs.for_each(|(a, b)| {
                assert!((a - b).abs() <= 1e-16_f64.max(a.abs() * 1e-14), "{head} {a} {b}");
            });
        } else {
            assert_eq!(found[..], expected[..], "{head}");
        }
        let (found_edges, found_counts) = match stats.histogram {
            Histogram::Bins { edges, counts } => (edges.to_vec(), counts.to_vec()),
            Histogram::Constant { count, .. } => (vec![], vec![count]),
            Histogram::Values(values) => (vec![], values.iter().map(|value| value.1).collect()),
            Histogram::Bools { zeros, ones } => (vec![], vec![zeros, ones]),
            Histogram::Empty => (vec![], vec![]),
        };
        assert_eq!(found_edges, numbers(edges), "{head}");
        let counts: Vec<u64> = counts.split_whitespace().map(|count| count.parse().unwrap()).collect();
        assert_eq!(found_counts, counts, "{head}");
        seen += 1;
    }
    assert_eq!(seen, 35);
}
