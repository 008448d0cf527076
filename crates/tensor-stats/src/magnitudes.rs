//! Counts the magnitudes of each power of two, and checks whether the largest is far beyond the others.

use tensor_core::DType;

use super::{Error, power_of_two};

/// The exponents of all normal numbers of an `f64`.
const EXPONENTS: std::ops::RangeInclusive<i32> = -1022..=1023;

/// A magnitude is an outlier if it is at least this many powers of two beyond half of the others.
const FAR: usize = 15;

/// Counts how many values of a tensor have each power of two as their magnitude, whatever their signs.
///
/// NaN and infinities are left out. In `f64`, `f32` and `bf16`, numbers below the smallest normal number
/// (2^−1022, 2^−126) count as 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Magnitudes {
    finite: u64,
    largest: f64,
    /// The number of values for each exponent, from -1022 on.
    counts: Vec<u64>,
}

/// A tensor whose largest magnitude is far beyond the others: at least half of the values are nonzero and, by
/// their exponents, smaller by a factor of at least 2^15. A damaged exponent looks like this, but so do the
/// few large values of some trained models.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outlier {
    /// The largest magnitude.
    pub max_abs: f64,
    /// The power of two of the median of all nonzero magnitudes: the median is at least this and less than
    /// twice this.
    pub median_abs: f64,
}

/// The number of values for each power of two, from the smallest power that has a value to the largest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Powers {
    /// The exponent of the smallest power.
    pub first: i32,
    /// The numbers of values, the smallest power first.
    pub counts: Vec<u64>,
}

impl Default for Magnitudes {
    fn default() -> Self {
        let len = EXPONENTS.end().abs_diff(*EXPONENTS.start()) as usize;
        Self { finite: 0, largest: 0.0, counts: vec![0; len + 1] }
    }
}

impl Magnitudes {
    /// Counts values: little-endian `f16`, `bf16`, `f32` or `f64`, of any alignment.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for other types; [`Error::Ragged`] if the bytes are not whole values.
    pub fn of(dtype: DType, bytes: &[u8]) -> Result<Self, Error> {
        match dtype {
            DType::F16 => Self::each(dtype, bytes, 0.0, |x| half::f16::from_le_bytes(x).to_f64()),
            DType::BF16 => {
                let least = f64::from(f32::MIN_POSITIVE);
                Self::each(dtype, bytes, least, |x| half::bf16::from_le_bytes(x).to_f64())
            }
            DType::F32 => {
                Self::each(dtype, bytes, f32::MIN_POSITIVE.into(), |x| f32::from_le_bytes(x).into())
            }
            DType::F64 => Self::each(dtype, bytes, f64::MIN_POSITIVE, f64::from_le_bytes),
            _ => Err(Error::Unsupported(dtype)),
        }
    }

    fn each<const SIZE: usize>(
        dtype: DType,
        bytes: &[u8],
        least: f64,
        value: impl Fn([u8; SIZE]) -> f64,
    ) -> Result<Self, Error> {
        let (values, rest) = bytes.as_chunks::<SIZE>();
        if !rest.is_empty() {
            return Err(Error::Ragged { dtype, len: bytes.len() });
        }
        let mut all = Self::default();
        values.iter().for_each(|&x| all.add(value(x), least));
        Ok(all)
    }

    /// Counts a value. A value smaller than `least` counts as 0.
    fn add(&mut self, value: f64, least: f64) {
        if !value.is_finite() {
            return;
        }
        let value = value.abs();
        self.finite = self.finite.saturating_add(1);
        self.largest = self.largest.max(value);
        if value > 0.0
            && value >= least
            && let Some(count) = self.counts.get_mut(place(value))
        {
            *count = count.saturating_add(1);
        }
    }

    /// Returns the magnitudes of these values and of the following ones.
    #[must_use]
    pub fn then(mut self, next: &Self) -> Self {
        self.finite = self.finite.saturating_add(next.finite);
        self.largest = self.largest.max(next.largest);
        for (count, more) in self.counts.iter_mut().zip(&next.counts) {
            *count = count.saturating_add(*more);
        }
        self
    }

    /// Returns how many values have each power of two. Zeros, and values that count as 0, have none.
    #[must_use]
    pub fn powers(&self) -> Powers {
        let is_some = |count: &u64| *count > 0;
        let (first, last) = (self.counts.iter().position(is_some), self.counts.iter().rposition(is_some));
        let Some((first, last)) = first.zip(last) else { return Powers::default() };
        let counts = self.counts.get(first..=last).unwrap_or_default().to_vec();
        Powers { first: i32::try_from(first).unwrap_or(0) + EXPONENTS.start(), counts }
    }

    /// Returns the outlier, if the largest magnitude is one.
    #[must_use]
    pub fn outlier(&self) -> Option<Outlier> {
        let last = self.counts.iter().rposition(|&count| count > 0)?;
        let small: u64 = self.counts.iter().take((last + 1).checked_sub(FAR)?).sum();
        if small == 0 || small < self.finite.div_ceil(2) {
            return None;
        }
        let half = self.counts.iter().sum::<u64>().div_ceil(2);
        let mut seen = 0;
        let median = self.counts.iter().position(|count| {
            seen += count;
            seen >= half
        })?;
        let exponent = i32::try_from(median).ok()? + EXPONENTS.start();
        Some(Outlier { max_abs: self.largest, median_abs: power_of_two(exponent) })
    }
}

/// Returns the index of a normal number's exponent among the counts.
fn place(value: f64) -> usize {
    let exponent = value.abs().to_bits() >> (f64::MANTISSA_DIGITS - 1);
    usize::try_from(exponent.saturating_sub(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan;

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    fn f16s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect()
    }

    /// Applies the definition to values, by sorting them.
    fn slow(values: &[f64]) -> bool {
        let exponent = |x: f64| x.abs().log2().floor();
        let finite: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
        let largest = finite.iter().fold(0.0f64, |max, x| max.max(x.abs()));
        let small = finite.iter().filter(|&&x| x != 0.0 && exponent(x) <= exponent(largest) - 15.0).count();
        small > 0 && 2 * small >= finite.len()
    }

    #[test]
    fn a_value_far_beyond_the_others_is_an_outlier() {
        let mut values = vec![0.01f32; 100];
        values[7] = -300.0;
        let found = Magnitudes::of(DType::F32, &f32s(&values)).unwrap().outlier();
        assert_eq!(found, Some(Outlier { max_abs: 300.0, median_abs: 0.007_812_5 }));
        values[7] = 255.9; // 2^7, and 2^-7 · 1.28
        assert_eq!(Magnitudes::of(DType::F32, &f32s(&values)).unwrap().outlier(), None);
        values[8] = f32::INFINITY;
        values[9] = f32::NAN;
        values[7] = 1e30;
        let found = Magnitudes::of(DType::F32, &f32s(&values)).unwrap().outlier().unwrap();
        assert_eq!(found.max_abs, f64::from(1e30f32));
    }

    #[test]
    fn powers_reach_from_the_smallest_to_the_largest() {
        let values = [0.0, 0.25, -0.3, 1.0, 1.9, f32::NAN, 1e-42, -8.0];
        let powers = Magnitudes::of(DType::F32, &f32s(&values)).unwrap().powers();
        assert_eq!(powers, Powers { first: -2, counts: vec![2, 0, 2, 0, 0, 1] });
        assert_eq!(Magnitudes::default().powers(), Powers::default());
        let ends = [f64::MIN_POSITIVE, f64::MAX].map(f64::to_le_bytes);
        let powers = Magnitudes::of(DType::F64, ends.as_flattened()).unwrap().powers();
        assert_eq!((powers.first, powers.counts.len()), (-1022, 2046));
    }

    #[test]
    fn zeros_are_no_small_values() {
        let mut values = vec![0f32; 100];
        values[0] = 1e6;
        assert_eq!(Magnitudes::of(DType::F32, &f32s(&values)).unwrap().outlier(), None);
        values[..50].fill(1e-3);
        values[0] = 1e6;
        assert_eq!(Magnitudes::of(DType::F32, &f32s(&values)).unwrap().outlier(), None, "49 of 100");
        values[50] = 1e-3;
        assert!(Magnitudes::of(DType::F32, &f32s(&values)).unwrap().outlier().is_some());
    }

    /// Whatever the values are and however they are cut, the sums of logarithms never miss an outlier.
    #[test]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "lengths are small, and values rounded on purpose"
    )]
    fn no_outlier_is_passed_over() {
        let mut state = 7u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        let mut with = 0;
        for round in 0..2000 {
            let len = 1 + (random() * 300.0) as usize * if round % 50 == 0 { 40 } else { 1 };
            let (below, spread, zeros) = (random() * 24.0, random() * 12.0, random() * 0.6);
            let (highest, large) = (random() * 20.0 - 6.0, random());
            let values: Vec<f64> = (0..len)
                .map(|_| match random() {
                    x if x < zeros => 0.0,
                    x if x < zeros + large * 0.3 => highest.exp2(),
                    _ => {
                        (highest - below - random() * spread).exp2() * if random() < 0.5 { -1.0 } else { 1.0 }
                    }
                })
                .collect();
            let narrow: Vec<f32> = values.iter().map(|&x| x as f32).collect();
            let bf16: Vec<u8> = narrow.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect();
            let f64s: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            for (dtype, bytes, size) in [
                (DType::F32, f32s(&narrow), 4),
                (DType::F16, f16s(&narrow), 2),
                (DType::BF16, bf16, 2),
                (DType::F64, f64s, 8),
            ] {
                let cut = len / 3;
                let (a, b) = bytes.split_at(cut * size);
                let scanned = scan(dtype, a, cut as u64).unwrap();
                let scanned = scanned.then(scan(dtype, b, (len - cut) as u64).unwrap());
                let magnitudes = Magnitudes::of(dtype, a).unwrap();
                let outlier = magnitudes.then(&Magnitudes::of(dtype, b).unwrap()).outlier();
                assert!(outlier.is_none() || scanned.may_have_outlier(), "{dtype} {values:?}");
                if dtype == DType::F64 {
                    assert_eq!(outlier.is_some(), slow(&values), "{values:?}");
                    with += usize::from(outlier.is_some());
                }
            }
        }
        assert!((100..1900).contains(&with), "{with}");
    }

    /// The magnitudes of ordinary weights need not be counted.
    #[test]
    fn of_common_values_magnitudes_need_not_be_counted() {
        let mut state = 1u64;
        let mut normal = move || {
            let mut sum = 0.0;
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                sum += (state >> 40) as f32 / (1 << 24) as f32;
            }
            (sum - 6.0) * 0.02
        };
        let values: Vec<f32> = (0..10_000).map(|_| normal()).collect();
        let bf16: Vec<u8> = values.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect();
        let f64s: Vec<u8> = values.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect();
        let all = [
            (DType::F32, f32s(&values)),
            (DType::F16, f16s(&values)),
            (DType::BF16, bf16),
            (DType::F64, f64s),
        ];
        for (dtype, bytes) in all {
            assert!(!scan(dtype, &bytes, 10_000).unwrap().may_have_outlier(), "{dtype}");
        }
    }

    #[test]
    fn other_types_and_bytes_that_are_no_values_are_refused() {
        assert_eq!(Magnitudes::of(DType::I32, &[0; 4]), Err(Error::Unsupported(DType::I32)));
        assert_eq!(Magnitudes::of(DType::F16, &[0; 3]), Err(Error::Ragged { dtype: DType::F16, len: 3 }));
        assert_eq!(Magnitudes::of(DType::F64, &[]).unwrap().outlier(), None);
    }
}
