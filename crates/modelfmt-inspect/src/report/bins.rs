//! A histogram that is made in one pass. Its range need not be known in advance.
//!
//! The bins are spread evenly around zero, and the range is a power of two. If a value is outside the range,
//! the range doubles, and every two bins are merged into one. This is exact, so the result depends neither on
//! the order of the values nor on how they were split.

use std::ops::Range;

/// The number of bins on each side of zero.
const SIDE: usize = 256;
/// The base-2 logarithm of `SIDE`.
const SIDE_BITS: i32 = 8;
/// The exponent of the smallest range for which the width of a bin is still a normal number.
const LEAST: i32 = -960;

/// A histogram of finite values.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    /// All values are in −2^exponent..2^exponent.
    exponent: i32,
    counts: Vec<u64>,
}

impl Default for Bins {
    fn default() -> Self {
        Self { exponent: LEAST, counts: Vec::new() }
    }
}

impl Bins {
    /// Adds finite values whose largest magnitude is `most`.
    pub(super) fn add(&mut self, values: &[f64], most: f64) {
        if values.is_empty() {
            return;
        }
        self.counts.resize(2 * SIDE, 0);
        self.widen(exponent(most));
        let scale = power(SIDE_BITS - self.exponent);
        let mut counts = [0_u32; 2 * SIDE];
        for value in values {
            let bin = floor(value * scale).wrapping_add(1 << SIDE_BITS);
            let bin = usize::try_from(bin).unwrap_or(0);
            if let Some(count) = counts.get_mut(bin) {
                *count += 1; // a chunk has few values
            }
        }
        self.counts.iter_mut().zip(counts).for_each(|(all, more)| *all = all.saturating_add(more.into()));
    }

    /// Adds the values of another histogram.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        self.counts.resize(2 * SIDE, 0);
        self.widen(other.exponent);
        let mut other = other.clone();
        other.widen(self.exponent);
        self.counts.iter_mut().zip(other.counts).for_each(|(all, more)| *all = all.saturating_add(more));
    }

    /// Makes the range at least 2^exponent.
    fn widen(&mut self, exponent: i32) {
        let shift = exponent.saturating_sub(self.exponent);
        if shift <= 0 {
            return;
        }
        self.exponent = exponent;
        let mut counts = vec![0_u64; self.counts.len()];
        for (bin, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let side = i64::try_from(bin).unwrap_or(0) - SIDE as i64;
            let bin = usize::try_from((side >> shift.min(63)) + SIDE as i64).unwrap_or(0);
            if let Some(all) = counts.get_mut(bin) {
                *all = all.saturating_add(*count);
            }
        }
        self.counts = counts;
    }

    /// Returns the counts from the first occupied bin to the last, in at most `most` columns of equal width.
    pub(super) fn columns(&self, most: usize) -> Vec<u64> {
        let Range { start, end } = self.occupied();
        let occupied = self.counts.get(start..end).unwrap_or_default();
        let width = occupied.len().div_ceil(most.max(1)).max(1);
        occupied.chunks(width).map(|bins| bins.iter().copied().fold(0, u64::saturating_add)).collect()
    }

    fn occupied(&self) -> Range<usize> {
        let start = self.counts.iter().position(|&count| count > 0).unwrap_or(0);
        let end = self.counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        start..end
    }
}

/// Returns the largest integer that is not above a number within ±256. On old processors, the function of the
/// standard library is a call.
#[expect(clippy::cast_possible_truncation, reason = "the number is small")]
fn floor(number: f64) -> i32 {
    let near = number as i32;
    near - i32::from(number < f64::from(near))
}

/// Returns the smallest exponent such that |value| < 2^exponent, but at least [`LEAST`].
fn exponent(value: f64) -> i32 {
    let bits = value.to_bits() >> 52 & 0x7ff;
    let exponent = i32::try_from(bits).unwrap_or(0) - 1022;
    exponent.max(LEAST)
}

/// Returns 2^exponent, for exponents of normal numbers.
fn power(exponent: i32) -> f64 {
    f64::from_bits(u64::try_from(exponent + 1023).unwrap_or(0) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(values: &[f64]) -> Bins {
        let mut bins = Bins::default();
        bins.add(values, values.iter().fold(0.0, |most, value| most.max(value.abs())));
        bins
    }

    #[test]
    fn order_and_pieces_do_not_count() {
        let values: Vec<f64> = (0..3000).map(|n| f64::from(n % 77 - 40) * 0.37 * f64::from(n)).collect();
        let whole = bins(&values);
        for piece in [1, 7, 1000] {
            let mut joined = Bins::default();
            values.rchunks(piece).for_each(|values| joined.merge(&bins(values)));
            assert_eq!((joined.exponent, &joined.counts), (whole.exponent, &whole.counts), "{piece}");
        }
        assert_eq!(whole.counts.iter().sum::<u64>(), 3000);
    }

    #[test]
    fn each_value_is_in_its_bin() {
        for most in [1.0, 0.75, 255.0, 1e-300, f64::MAX, 5e-324, 0.0] {
            let bins = bins(&[-most, 0.0, most / 2.0, most]);
            assert_eq!(bins.counts.iter().sum::<u64>(), 4, "{most}");
            assert!(most == 0.0 || most < power(bins.exponent.min(1023)) || bins.exponent == 1024, "{most}");
        }
        let bins = bins(&[-1.0, 0.0, 0.5, 0.999]);
        assert_eq!(bins.exponent, 1);
        let found: Vec<usize> = (0..2 * SIDE).filter(|&bin| bins.counts[bin] > 0).collect();
        assert_eq!(found, [128, 256, 320, 383]);
        assert_eq!(bins.columns(4), [1, 0, 1, 2]);
        assert!(Bins::default().columns(4).is_empty());
    }
}
