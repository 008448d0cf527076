//! Compares statistics with a naive computation.

use super::*;

macro_rules! same {
    ($left:expr, $right:expr, $($context:tt)+) => {
        prop_assert_eq!($left, $right, $($context)+)
    };
}

pub(super) fn with_naive(dtype: DType, bytes: &[u8]) -> Result<(), TestCaseError> {
    let (all, whole) = naive::decode(dtype, bytes);
    let stats = stats_of_bytes(dtype, bytes).unwrap();
    same!(format!("{stats:?}"), format!("{:?}", by_reading(dtype, bytes)), "{} read", dtype);

    let mut sorted: Vec<f64> = all.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let counted = |test: fn(&f64) -> bool| all.iter().filter(|x| test(x)).count() as u64;
    same!(stats.count, sorted.len() as u64, "{}", dtype);
    same!(stats.non_finite.nan, counted(|x| x.is_nan()), "{}", dtype);
    same!(stats.non_finite.pos_inf, counted(|&x| x == f64::INFINITY), "{}", dtype);
    same!(stats.non_finite.neg_inf, counted(|&x| x == f64::NEG_INFINITY), "{}", dtype);
    let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
        same!(stats.histogram, Histogram::Empty, "{}", dtype);
        return Ok(());
    };
    same!(
        (stats.min.to_bits(), stats.max.to_bits()),
        (min.to_bits(), max.to_bits()),
        "{} {} {}",
        dtype,
        min,
        max
    );
    same!(stats.exact, whole.iter().min().copied().zip(whole.iter().max().copied()), "{}", dtype);

    let (lower, upper) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    let median = if let [_, ..] = whole[..] {
        let mut whole = whole.clone();
        whole.sort_unstable();
        (whole[(whole.len() - 1) / 2] + whole[whole.len() / 2]) as f64 / 2.0
    } else if (lower + upper).is_finite() {
        (lower + upper) / 2.0
    } else {
        lower / 2.0 + upper / 2.0
    };
    same!(stats.median, median, "{}", dtype);
    moments(&stats, &sorted)?;

    match stats.histogram {
        Histogram::Bools { zeros, ones } => {
            same!((zeros, ones), (counted(|&x| x == 0.0), counted(|&x| x == 1.0)), "bool");
        }
        Histogram::Constant { value, count } => {
            same!((value, count, min), (max, stats.count, max), "{}", dtype);
        }
        Histogram::Values(values) => {
            let first = *whole.iter().min().unwrap();
            prop_assert!(whole.iter().max().unwrap() - first <= 20);
            let expected = values.iter().zip(first..);
            for (&(value, count), wanted) in expected {
                let times = whole.iter().filter(|x| **x == wanted).count() as u64;
                same!((value, count), (wanted, times), "{}", dtype);
            }
            same!(values.last().map(|value| value.0), whole.iter().max().copied(), "{}", dtype);
        }
        Histogram::Bins { edges, counts } => {
            // Different integers beyond 2^53 can be the same float.
            prop_assert!((min < max || !whole.is_empty()) && edges.is_sorted());
            if let (Some(first), Some(last)) = (whole.iter().min(), whole.iter().max()) {
                prop_assert!(last - first > 20);
            }
            let (low, high) = (edges[0], edges[10]);
            same!((low, high), (min, max), "{}", dtype);
            for (i, &count) in counts.iter().enumerate() {
                let inside = |x: f64| x >= edges[i] && (i == 9 || x < edges[i + 1]);
                same!(count, sorted.iter().filter(|x| inside(**x)).count() as u64, "{} {:?}", dtype, edges);
            }
            // numpy refuses spans that are too small for ten bins.
            let (numpy_edges, numpy_counts) = naive::histogram(&sorted, min, max);
            if (max - min).is_finite() && numpy_edges.is_sorted_by(|a, b| a < b) && max - min > 1e-300 {
                same!(edges, numpy_edges, "{}", dtype);
                same!(counts, numpy_counts, "{}", dtype);
            }
        }
        Histogram::Empty => prop_assert!(false, "{} is empty", dtype),
    }
    Ok(())
}

/// Checks the mean and the deviation of values that are small enough not to overflow.
fn moments(stats: &Stats, sorted: &[f64]) -> Result<(), TestCaseError> {
    let scale = sorted.iter().fold(0.0, |scale: f64, x| scale.max(x.abs()));
    if scale == 0.0 {
        prop_assert_eq!((stats.mean, stats.std), (0.0, 0.0));
        return Ok(());
    }
    if scale < 1e-300 {
        return Ok(());
    }
    let count = sorted.len() as f64;
    let mean = sorted.iter().map(|x| x / scale).sum::<f64>() / count;
    let squares = sorted.iter().map(|x| (x / scale - mean) * (x / scale - mean)).sum::<f64>();
    prop_assert!((stats.mean / scale - mean).abs() < 1e-12, "{} {}", stats.mean, mean * scale);
    let std = (squares / count).sqrt();
    prop_assert!((stats.std / scale - std).abs() < 1e-11, "{} {}", stats.std, std * scale);
    Ok(())
}
