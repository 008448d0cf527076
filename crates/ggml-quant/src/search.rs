//! The searches for scales and minima that the encoders share, on eight sub-blocks at once.
//!
//! Each search tries some scales and keeps the one with the least weighted square error. The order of every
//! sum is ggml's.

use crate::lanes::{Lanes, Mask};
use crate::{BlockError, check_finite};

/// ggml treats smaller magnitudes as zero.
pub(crate) const ZERO_THRESHOLD: f32 = 1e-15;

/// The square of a larger element exceeds the range of `f32`, so no search can add it up.
const TOO_LARGE: f32 = 1e18;

/// Refuses values that no block can hold.
#[inline]
pub(crate) fn check(values: &[f32]) -> Result<(), BlockError> {
    check_finite(values)?;
    if values.iter().fold(true, |all, value| all & (value.abs() <= TOO_LARGE)) {
        return Ok(());
    }
    Err(BlockError::ScaleOverflow)
}

/// Sums the squares, one after the other.
#[inline]
pub(crate) fn sum_of_squares(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, x| sum + x * x)
}

/// Returns the weight of each element: its importance times the square root of the sum of its square and a
/// mean square.
#[inline]
pub(crate) fn weighted<const N: usize>(
    elements: &[Lanes; N],
    importance: &[Lanes; N],
    mean: Lanes,
) -> [Lanes; N] {
    let mut weights = *elements;
    for (weight, &importance) in weights.iter_mut().zip(importance) {
        *weight = importance * (mean + *weight * *weight).sqrt();
    }
    weights
}

/// Sums the elements of each sub-block.
#[inline]
pub(crate) fn sums<const N: usize>(elements: &[Lanes; N]) -> Lanes {
    elements.iter().fold(Lanes::ZERO, |sum, &x| sum + x)
}

/// Determines which scales [`Shifted`] tries.
pub(crate) struct Steps {
    /// The number that is added to the number of levels in the first step.
    pub(crate) first: f32,
    /// The number that is added in each further step.
    pub(crate) by: f32,
    /// The number of the last step.
    pub(crate) last: u8,
}

impl Steps {
    /// The steps of the encoders of K-quants and of types with a minimum, with importance.
    pub(crate) const WEIGHTED: Self = Self { first: -0.9, by: 0.05, last: 36 };
}

/// The best `x = scale * code + min` for eight sub-blocks, with codes from 0 on and a minimum that is not above 0.
pub(crate) struct Shifted {
    pub(crate) scale: Lanes,
    pub(crate) min: Lanes,
    /// The best codes are those of `inverse * (x - base)`.
    inverse: Lanes,
    base: Lanes,
}

impl Shifted {
    /// Searches with codes up to `max_code`. Errors are weighted by their magnitudes if `MAGNITUDES`,
    /// otherwise by their squares.
    pub(crate) fn of<const N: usize, const MAGNITUDES: bool>(
        elements: &[Lanes; N],
        weights: &[Lanes; N],
        max_code: u8,
        steps: &Steps,
    ) -> Self {
        let levels = f32::from(max_code);
        let [(mut min, max), (sum_w, sum_x)] = bounds_and_sums(elements, weights);
        min = min.is_above(Lanes::ZERO).select(Lanes::ZERO, min);
        // If all elements are equal and not above 0, the inverse is infinite, the scale is 0, every product
        // is a NaN and thus every code 0. No error is below 0, so the search keeps this. ggml handles the
        // case separately, with the same result.
        let inverse = Lanes::all(levels) / (max - min);
        let mut best = Self { scale: Lanes::all(1.0) / inverse, min, inverse, base: min };
        let mut codes = [Lanes::ZERO; N];
        best.try_codes(elements, max_code, &mut codes);
        let mut least = error::<N, MAGNITUDES>(elements, weights, &codes, best.scale, best.min);
        for step in 0..=steps.last {
            let levels = steps.first + steps.by * f32::from(step) + levels;
            let inverse = Lanes::all(levels) / (max - best.min);
            let mut next = Self { inverse, base: best.min, ..best };
            next.try_codes(elements, max_code, &mut codes);
            let determinant = next.fit(elements, weights, &codes, sum_w, sum_x);
            let error = error::<N, MAGNITUDES>(elements, weights, &codes, next.scale, next.min);
            let better = determinant.is_above(Lanes::ZERO).and(error.is_below(least));
            least = better.select(error, least);
            best = Self {
                scale: better.select(next.scale, best.scale),
                min: better.select(next.min, best.min),
                inverse: better.select(next.inverse, best.inverse),
                base: better.select(next.base, best.base),
            };
        }
        best
    }

    #[inline]
    fn try_codes<const N: usize>(&self, elements: &[Lanes; N], max_code: u8, codes: &mut [Lanes; N]) {
        for (codes, &x) in codes.iter_mut().zip(elements) {
            *codes = (self.inverse * (x - self.base)).codes(0, max_code.into());
        }
    }

    /// Returns the best codes.
    #[inline]
    pub(crate) fn best_codes<const N: usize>(&self, elements: &[Lanes; N], max_code: u8) -> [Lanes; N] {
        let mut codes = [Lanes::ZERO; N];
        self.try_codes(elements, max_code, &mut codes);
        codes
    }

    /// Fits scale and minimum to codes by least squares. The result is above 0 in the lanes that have such a
    /// fit.
    #[inline]
    fn fit<const N: usize>(
        &mut self,
        elements: &[Lanes; N],
        weights: &[Lanes; N],
        codes: &[Lanes; N],
        sum_w: Lanes,
        sum_x: Lanes,
    ) -> Lanes {
        let (mut sum_l, mut sum_l2, mut sum_xl) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
        for ((&x, &w), &l) in elements.iter().zip(weights).zip(codes) {
            let wl = w * l;
            sum_l += wl;
            sum_l2 += wl * l;
            sum_xl += wl * x;
        }
        let determinant = sum_w * sum_l2 - sum_l * sum_l;
        let min = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
        let is_above = min.is_above(Lanes::ZERO);
        self.min = is_above.select(Lanes::ZERO, min);
        self.scale = is_above.select(sum_xl / sum_l2, (sum_w * sum_xl - sum_x * sum_l) / determinant);
        determinant
    }

    /// Returns the codes for a rounded scale and minimum. Where the scale became 0, returns the best codes of
    /// the search.
    #[inline]
    pub(crate) fn codes<const N: usize>(
        &self,
        elements: &[Lanes; N],
        max_code: u8,
        d: Lanes,
        m: Lanes,
    ) -> [Lanes; N] {
        let mut codes = self.best_codes(elements, max_code);
        let is_zero = d.is_zero();
        for (codes, &x) in codes.iter_mut().zip(elements) {
            *codes = is_zero.select(*codes, ((x + m) / d).codes(0, max_code.into()));
        }
        codes
    }
}

/// Returns the smallest and the largest element, and the sums of the weights and of the weighted elements.
#[inline]
fn bounds_and_sums<const N: usize>(elements: &[Lanes; N], weights: &[Lanes; N]) -> [(Lanes, Lanes); 2] {
    let (first, weight) = (first(elements), first(weights));
    let (mut min, mut max) = (first, first);
    let (mut sum_w, mut sum_x) = (weight, weight * first);
    for (&x, &w) in elements.iter().zip(weights).skip(1) {
        min = x.is_below(min).select(x, min);
        max = x.is_above(max).select(x, max);
        sum_w += w;
        sum_x += w * x;
    }
    [(min, max), (sum_w, sum_x)]
}

#[inline]
fn first<const N: usize>(elements: &[Lanes; N]) -> Lanes {
    elements.first().copied().unwrap_or(Lanes::ZERO)
}

/// Returns the weighted sum of the errors of codes, or of their squares.
#[inline]
fn error<const N: usize, const MAGNITUDES: bool>(
    elements: &[Lanes; N],
    weights: &[Lanes; N],
    codes: &[Lanes; N],
    scale: Lanes,
    min: Lanes,
) -> Lanes {
    let mut sum = Lanes::ZERO;
    for ((&x, &w), &l) in elements.iter().zip(weights).zip(codes) {
        let off = scale * l + min - x;
        sum += w * if MAGNITUDES { off.abs() } else { off * off };
    }
    sum
}

/// Returns the magnitude of the element of largest magnitude, and the element itself; the first one if there
/// are several.
#[inline]
pub(crate) fn extremes<const N: usize>(elements: &[Lanes; N]) -> (Lanes, Lanes) {
    let (mut magnitude, mut extreme) = (Lanes::ZERO, Lanes::ZERO);
    for &x in elements {
        let is_larger = x.abs().is_above(magnitude);
        magnitude = is_larger.select(x.abs(), magnitude);
        extreme = is_larger.select(x, extreme);
    }
    (magnitude, extreme)
}

/// The best `x = scale * code` for eight sub-blocks, with codes from `-LEVELS` to `LEVELS - 1`.
pub(crate) struct Signed<const LEVELS: i8> {
    pub(crate) scale: Lanes,
    /// The best codes are those of `inverse * x`.
    inverse: Lanes,
    /// The magnitude of the element of largest magnitude.
    largest: Lanes,
}

impl<const LEVELS: i8> Signed<LEVELS> {
    pub(crate) fn of<const N: usize>(elements: &[Lanes; N], weights: &[Lanes; N]) -> Self {
        let (largest, extreme) = extremes(elements);
        let levels = f32::from(LEVELS);
        let inverse = Lanes::all(-levels) / extreme;
        let (sum_xl, sum_l2) = signed_sums(elements, weights, inverse, levels);
        let scale = sum_l2.is_zero().select(Lanes::ZERO, sum_xl / sum_l2);
        let mut best = Self { scale, inverse, largest };
        let mut most = scale * sum_xl;
        for step in (-9_i8..=9).filter(|&step| step != 0) {
            let inverse = Lanes::all(-(levels + 0.1 * f32::from(step))) / extreme;
            let (sum_xl, sum_l2) = signed_sums(elements, weights, inverse, levels);
            let better = sum_l2.is_above(Lanes::ZERO).and((sum_xl * sum_xl).is_above(most * sum_l2));
            let scale = sum_xl / sum_l2;
            most = better.select(scale * sum_xl, most);
            best.scale = better.select(scale, best.scale);
            best.inverse = better.select(inverse, best.inverse);
        }
        best.scale = best.is_nothing().select(Lanes::ZERO, best.scale);
        best
    }

    #[inline]
    fn is_nothing(&self) -> Mask {
        self.largest.is_below(Lanes::all(ZERO_THRESHOLD))
    }

    /// Returns the best codes, plus `LEVELS`; 0 where ggml treats all elements as zero.
    #[inline]
    pub(crate) fn best_codes<const N: usize>(&self, elements: &[Lanes; N]) -> [Lanes; N] {
        self.codes(elements, Lanes::ZERO)
    }

    /// Returns the codes, plus `LEVELS`, for a rounded scale. Where the scale became 0, returns the best
    /// codes of the search.
    #[inline]
    pub(crate) fn codes<const N: usize>(&self, elements: &[Lanes; N], d: Lanes) -> [Lanes; N] {
        let middle = Lanes::all(LEVELS.into());
        let (low, high) = (-i32::from(LEVELS), i32::from(LEVELS) - 1);
        let (is_zero, is_nothing) = (d.is_zero(), self.is_nothing());
        elements.map(|x| {
            let best = (self.inverse * x).codes(low, high) + middle;
            let best = is_nothing.select(Lanes::ZERO, best);
            is_zero.select(best, (x / d).codes(low, high) + middle)
        })
    }
}

/// Sums the weighted products of elements and codes, and the weighted squares of codes.
#[inline]
fn signed_sums<const N: usize>(
    elements: &[Lanes; N],
    weights: &[Lanes; N],
    inverse: Lanes,
    levels: f32,
) -> (Lanes, Lanes) {
    let (mut sum_xl, mut sum_l2) = (Lanes::ZERO, Lanes::ZERO);
    for (&x, &w) in elements.iter().zip(weights) {
        // The products are at most 32.9 in magnitude. If all elements are zero, the result is not used.
        let l = (inverse * x).small_codes(-levels, levels - 1.0);
        sum_xl += w * x * l;
        sum_l2 += w * l * l;
    }
    (sum_xl, sum_l2)
}

/// Improves one code after the other, in up to five rounds, and returns the scale. The new code of an element
/// is the nearest one for the scale that fits all the other elements best, if that improves the fit.
///
/// With `all_above`, a code stays as it is if all other codes are 0.
#[inline]
pub(crate) fn descend<const N: usize>(
    elements: &[Lanes; N],
    weights: &[Lanes; N],
    codes: &mut [Lanes; N],
    mut sums: (Lanes, Lanes),
    (low, high): (i32, i32),
    all_above: bool,
) -> Lanes {
    for _ in 0..5 {
        let before = *codes;
        for ((&x, &w), code) in elements.iter().zip(weights).zip(codes.iter_mut()) {
            let (sum_xl, sum_l2) = sums;
            let (wx, wl) = (w * x, w * *code);
            let (others_xl, others_l2) = (sum_xl - wx * *code, sum_l2 - wl * *code);
            let mut moves = others_xl.is_above(Lanes::ZERO);
            if all_above {
                moves = moves.and(others_l2.is_above(Lanes::ZERO));
            }
            let next = (x * others_l2 / others_xl).codes(low, high);
            let (next_xl, next_l2) = (others_xl + wx * next, others_l2 + w * next * next);
            if !all_above {
                moves = moves.and(next_l2.is_above(Lanes::ZERO));
            }
            let gain = (next_xl * next_xl * sum_l2).is_above(sum_xl * sum_xl * next_l2);
            // Where the code stays, the sums stay too; recomputing them would add rounding errors.
            let moves = moves.and(gain).and(next.is_other(*code));
            *code = moves.select(next.as_byte(low), *code);
            sums = (moves.select(next_xl, sum_xl), moves.select(next_l2, sum_l2));
        }
        if before == *codes {
            break;
        }
    }
    let (sum_xl, sum_l2) = sums;
    sum_l2.is_zero().select(Lanes::ZERO, sum_xl / sum_l2)
}

/// Finds the best `x = scale * code` of values that are mostly not below 0, with codes from 0 to `max_code`,
/// and the codes.
pub(crate) fn positive<const N: usize>(
    elements: &[Lanes; N],
    weights: &[Lanes; N],
    max_code: u8,
) -> (Lanes, [Lanes; N]) {
    let levels = f32::from(max_code);
    let max = elements.iter().fold(Lanes::ZERO, |max, &x| max.is_above(x).select(max, x));
    let is_nothing = max.is_below(Lanes::all(ZERO_THRESHOLD));
    let mut best = Lanes::all(levels) / max;
    let squares = |inverse: Lanes, high: i32| {
        let scale = Lanes::all(1.0) / inverse;
        let mut sum = Lanes::ZERO;
        for (&x, &w) in elements.iter().zip(weights) {
            let code = (inverse * x).codes(i32::MIN, high);
            let code = if high == i32::MAX { code.as_byte(i32::MIN) } else { code };
            let off = x - scale * code;
            sum += w * off * off;
        }
        sum
    };
    let mut least = squares(best, i32::MAX);
    for step in (-4_i8..=4).filter(|&step| step != 0) {
        let inverse = Lanes::all(0.1 * f32::from(step) + levels) / max;
        let sum = squares(inverse, max_code.into());
        let better = sum.is_below(least);
        least = better.select(sum, least);
        best = better.select(inverse, best);
    }
    let mut codes = *elements;
    let mut sums = (Lanes::ZERO, Lanes::ZERO);
    for ((code, &x), &w) in codes.iter_mut().zip(elements).zip(weights) {
        let l = (best * x).codes(i32::MIN, max_code.into());
        sums.0 += w * x * l;
        sums.1 += w * l * l;
        *code = l.as_byte(i32::MIN);
    }
    let scale = descend(elements, weights, &mut codes, sums, (i32::MIN, max_code.into()), true);
    for code in &mut codes {
        *code = is_nothing.select(Lanes::ZERO, *code);
    }
    (is_nothing.select(Lanes::ZERO, scale), codes)
}
