//! Encoders of the K-quants by the rules of ggml's plain C (`quantize_row_q4_K_ref` and its siblings), bit for bit.
//!
//! Each sub-block gets the scale, and the minimum where the type has one, whose weighted squares of errors are least
//! among some that are tried. These are then rounded to 6 or 8 bits, and the elements take the nearest codes.

use super::{Q4K, Q5K, Q6K};
use crate::lanes::{LANES, Lanes, by_element, by_lane, nearest_integer};
use crate::{Encode, Refusal, check_finite, narrow, wide};

/// What is smaller in magnitude is zero to ggml.
const NOTHING: f32 = 1e-15;

impl Encode<256> for Q4K {
    #[inline]
    fn encode(&mut self, values: &[f32; 256]) -> Result<(), Refusal> {
        let (head, codes) = with_minima::<15>(values, -1.0, 20)?;
        (self.d, self.dmin, self.scales) = (head.d, head.dmin, head.scales);
        pack_nibbles(&codes, &mut self.qs);
        Ok(())
    }
}

impl Encode<256> for Q5K {
    #[inline]
    fn encode(&mut self, values: &[f32; 256]) -> Result<(), Refusal> {
        let (head, codes) = with_minima::<31>(values, -0.5, 15)?;
        (self.d, self.dmin, self.scales) = (head.d, head.dmin, head.scales);
        self.qh = [0; 32];
        for (codes, bit) in codes.as_chunks::<32>().0.iter().zip(0..8) {
            for (high, code) in self.qh.iter_mut().zip(codes) {
                *high |= (code >> 4) << bit;
            }
        }
        pack_nibbles(&codes.map(|code| code & 0xf), &mut self.qs);
        Ok(())
    }
}

impl Encode<256> for Q6K {
    #[inline]
    fn encode(&mut self, values: &[f32; 256]) -> Result<(), Refusal> {
        check_finite(values)?;
        let (first, second) = values.split_at(128);
        let halves =
            [by_element::<16>(first), by_element(second)].map(|elements| (Signed::of(&elements), elements));
        let mut largest = 0.0_f32;
        for &scale in halves.iter().flat_map(|(found, _)| &found.scale.0) {
            if !scale.is_finite() {
                return Err(Refusal::ScaleOverflow);
            }
            largest = if scale.abs() > largest.abs() { scale } else { largest };
        }
        if largest.abs() < NOTHING {
            *self = bytemuck::Zeroable::zeroed();
            return Ok(());
        }
        let inverse = -128.0 / largest;
        self.d = narrow(1.0 / inverse)?;
        let d = Lanes::all(wide(self.d));
        let mut codes = [0; 256];
        let parts = codes.as_chunks_mut::<128>().0.iter_mut().zip(self.scales.as_chunks_mut::<LANES>().0);
        for ((found, elements), (codes, scales)) in halves.iter().zip(parts) {
            *scales = found.scale.0.map(|scale| {
                let [rounded, ..] = nearest_integer(inverse * scale).min(127).to_le_bytes();
                rounded
            });
            let rounded = Lanes(scales.map(|scale| scale.cast_signed().into()));
            by_lane(&found.codes(elements, d * rounded), codes);
        }
        self.pack(&codes);
        Ok(())
    }
}

impl Q6K {
    fn pack(&mut self, codes: &[u8; 256]) {
        for ((codes, [ql0, ql1]), qh) in codes.as_chunks::<128>().0.iter().zip(&mut self.ql).zip(&mut self.qh)
        {
            let [a, b, c, d] = codes.as_chunks::<32>().0 else { continue };
            let all = a.iter().zip(b).zip(c.iter().zip(d));
            let packed = ql0.iter_mut().zip(ql1).zip(qh);
            for (((ql0, ql1), qh), ((a, b), (c, d))) in packed.zip(all) {
                *ql0 = (a & 0xf) | (c << 4);
                *ql1 = (b & 0xf) | (d << 4);
                *qh = (a >> 4) | ((b >> 4) << 2) | ((c >> 4) << 4) | ((d >> 4) << 6);
            }
        }
    }
}

/// What is before the codes of [`Q4K`] and [`Q5K`].
struct Head {
    d: [u8; 2],
    dmin: [u8; 2],
    scales: [u8; 12],
}

/// Encodes with codes from 0 to `MAX`; `first` and `steps` say which scales are tried.
#[inline]
fn with_minima<const MAX: u8>(
    values: &[f32; 256],
    first: f32,
    steps: u8,
) -> Result<(Head, [u8; 256]), Refusal> {
    check_finite(values)?;
    let elements = by_element::<32>(values);
    let found = Shifted::of(&elements, MAX, first, steps);
    let largest =
        |lanes: Lanes| lanes.0.into_iter().fold(0.0, |most, lane| if lane > most { lane } else { most });
    let (scale, min) = (largest(found.scale), largest(-found.min));
    let six_bits = |lanes: Lanes, largest: f32| {
        let inverse = if largest > 0.0 { 63.0 / largest } else { 0.0 };
        lanes.0.map(|lane| {
            let [code, ..] = nearest_integer(inverse * lane).to_le_bytes();
            code.min(63)
        })
    };
    let (scales, mins) = (six_bits(found.scale, scale), six_bits(-found.min, min));
    let (d, dmin) = (narrow(scale / 63.0)?, narrow(min / 63.0)?);
    let scaled = |d: [u8; 2], codes: [u8; LANES]| Lanes::all(wide(d)) * Lanes(codes.map(f32::from));
    let mut codes = [0; 256];
    by_lane(&found.codes(&elements, MAX, scaled(d, scales), scaled(dmin, mins)), &mut codes);
    Ok((Head { d, dmin, scales: pack_scales(scales, mins) }, codes))
}

/// The other way round than [`scales_and_minima`](super::scales_and_minima).
fn pack_scales(scales: [u8; LANES], mins: [u8; LANES]) -> [u8; 12] {
    let [s0, s1, s2, s3, s4, s5, s6, s7] = scales;
    let [m0, m1, m2, m3, m4, m5, m6, m7] = mins;
    let first = |low: u8, high: u8| low | ((high >> 4) << 6);
    let last = |scale: u8, min: u8| (scale & 0xf) | (min << 4);
    [
        first(s0, s4),
        first(s1, s5),
        first(s2, s6),
        first(s3, s7),
        first(m0, m4),
        first(m1, m5),
        first(m2, m6),
        first(m3, m7),
        last(s4, m4),
        last(s5, m5),
        last(s6, m6),
        last(s7, m7),
    ]
}

/// Pairs of sub-blocks, as low and high nibbles.
fn pack_nibbles(codes: &[u8; 256], qs: &mut [u8; 128]) {
    for (codes, qs) in codes.as_chunks::<64>().0.iter().zip(qs.as_chunks_mut::<32>().0) {
        let (low, high) = codes.split_at(32);
        for (q, (low, high)) in qs.iter_mut().zip(low.iter().zip(high)) {
            *q = low | (high << 4);
        }
    }
}

/// The best `x = scale * code + min` for eight sub-blocks, with codes from 0 on and a minimum that is not above 0.
struct Shifted {
    scale: Lanes,
    min: Lanes,
    /// What gave the codes that were the best: `inverse * (x - base)`.
    inverse: Lanes,
    base: Lanes,
}

impl Shifted {
    fn of(elements: &[Lanes; 32], max_code: u8, first: f32, steps: u8) -> Self {
        let levels = f32::from(max_code);
        let weights = weights(elements);
        let [(mut min, max), (sum_w, sum_x)] = bounds_and_sums(elements, &weights);
        min = min.is_above(Lanes::ZERO).select(Lanes::ZERO, min);
        // Where all elements are the same and not above 0, the inverse is infinite, the scale 0, every product a NaN and
        // so every code 0; no error is below 0, so that this stays. It is what ggml does by a case of its own.
        let inverse = Lanes::all(levels) / (max - min);
        let mut best = Self { scale: Lanes::all(1.0) / inverse, min, inverse, base: min };
        let mut codes = [Lanes::ZERO; 32];
        best.try_codes(elements, max_code, &mut codes);
        let mut least = error(elements, &weights, &codes, best.scale, best.min);
        for step in 0..=steps {
            let inverse = Lanes::all(first + 0.1 * f32::from(step) + levels) / (max - best.min);
            let mut next = Self { inverse, base: best.min, ..best };
            next.try_codes(elements, max_code, &mut codes);
            let determinant = next.fit(elements, &weights, &codes, sum_w, sum_x);
            let error = error(elements, &weights, &codes, next.scale, next.min);
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
    fn try_codes(&self, elements: &[Lanes; 32], max_code: u8, codes: &mut [Lanes; 32]) {
        for (codes, &x) in codes.iter_mut().zip(elements) {
            *codes = (self.inverse * (x - self.base)).codes(0, max_code.into());
        }
    }

    /// Fits scale and minimum to codes by least squares. What it returns is above 0 where there is such a fit.
    #[inline]
    fn fit(
        &mut self,
        elements: &[Lanes; 32],
        weights: &[Lanes; 32],
        codes: &[Lanes; 32],
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

    /// The codes for a scale and a minimum that were rounded; where the scale became 0, those that were the best.
    #[inline]
    fn codes(&self, elements: &[Lanes; 32], max_code: u8, d: Lanes, m: Lanes) -> [Lanes; 32] {
        let mut codes = [Lanes::ZERO; 32];
        self.try_codes(elements, max_code, &mut codes);
        let is_zero = d.is_zero();
        for (codes, &x) in codes.iter_mut().zip(elements) {
            *codes = is_zero.select(*codes, ((x + m) / d).codes(0, max_code.into()));
        }
        codes
    }
}

/// How much each element counts: its magnitude, and the root of the mean square.
#[inline]
fn weights(elements: &[Lanes; 32]) -> [Lanes; 32] {
    let mut squares = Lanes::ZERO;
    for &x in elements {
        squares += x * x;
    }
    let mean = (squares / Lanes::all(32.0)).sqrt();
    elements.map(|x| mean + x.abs())
}

/// The smallest and the largest element, and the sums of the weights and of the weighted elements.
#[inline]
fn bounds_and_sums(elements: &[Lanes; 32], weights: &[Lanes; 32]) -> [(Lanes, Lanes); 2] {
    let [first, rest @ ..] = elements;
    let [weight, weights @ ..] = weights;
    let (mut min, mut max) = (*first, *first);
    let (mut sum_w, mut sum_x) = (*weight, *weight * *first);
    for (&x, &w) in rest.iter().zip(weights) {
        min = x.is_below(min).select(x, min);
        max = x.is_above(max).select(x, max);
        sum_w += w;
        sum_x += w * x;
    }
    [(min, max), (sum_w, sum_x)]
}

/// The weighted sum of the squares of what codes are off.
#[inline]
fn error(
    elements: &[Lanes; 32],
    weights: &[Lanes; 32],
    codes: &[Lanes; 32],
    scale: Lanes,
    min: Lanes,
) -> Lanes {
    let mut sum = Lanes::ZERO;
    for ((&x, &w), &l) in elements.iter().zip(weights).zip(codes) {
        let off = scale * l + min - x;
        sum += w * (off * off);
    }
    sum
}

/// The best `x = scale * code` for eight sub-blocks, with codes from -32 to 31.
struct Signed {
    scale: Lanes,
    /// What gave the codes that were the best.
    inverse: Lanes,
    /// The element of largest magnitude, as a magnitude.
    largest: Lanes,
}

impl Signed {
    fn of(elements: &[Lanes; 16]) -> Self {
        let (mut magnitude, mut extreme) = (Lanes::ZERO, Lanes::ZERO);
        for &x in elements {
            let is_larger = x.abs().is_above(magnitude);
            magnitude = is_larger.select(x.abs(), magnitude);
            extreme = is_larger.select(x, extreme);
        }
        let inverse = Lanes::all(-32.0) / extreme;
        let (sum_xl, sum_l2) = signed_sums(elements, inverse);
        let scale = sum_l2.is_zero().select(Lanes::ZERO, sum_xl / sum_l2);
        let mut best = Self { scale, inverse, largest: magnitude };
        let mut most = scale * sum_xl;
        for step in (-9_i8..=9).filter(|&step| step != 0) {
            let inverse = Lanes::all(-(32.0 + 0.1 * f32::from(step))) / extreme;
            let (sum_xl, sum_l2) = signed_sums(elements, inverse);
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
    fn is_nothing(&self) -> crate::lanes::Mask {
        self.largest.is_below(Lanes::all(NOTHING))
    }

    /// The codes, 32 higher, for a scale that was rounded; where it became 0, those that were the best.
    #[inline]
    fn codes(&self, elements: &[Lanes; 16], d: Lanes) -> [Lanes; 16] {
        let (is_zero, is_nothing, middle) = (d.is_zero(), self.is_nothing(), Lanes::all(32.0));
        elements.map(|x| {
            let best = (self.inverse * x).codes(-32, 31) + middle;
            let best = is_nothing.select(Lanes::ZERO, best);
            is_zero.select(best, (x / d).codes(-32, 31) + middle)
        })
    }
}

/// The sums of the weighted products of elements and codes, and of the weighted squares of codes. The weights are the
/// squares of the elements.
#[inline]
fn signed_sums(elements: &[Lanes; 16], inverse: Lanes) -> (Lanes, Lanes) {
    let (mut sum_xl, mut sum_l2) = (Lanes::ZERO, Lanes::ZERO);
    for &x in elements {
        // No element is larger than that which the inverse makes 32.9. Where all are zero, what comes out is not used.
        let l = (inverse * x).small_codes(-32.0, 31.0);
        let w = x * x;
        sum_xl += w * x * l;
        sum_l2 += w * l * l;
    }
    (sum_xl, sum_l2)
}
