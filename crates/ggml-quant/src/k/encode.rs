//! Encoders of the K-quants that follow ggml's plain C (`quantize_row_q4_K_ref` and its siblings, and with
//! importance `quantize_row_q4_K_impl`) bit for bit.
//!
//! Some scales, and minima where the type has them, are tried for each sub-block, and those with the least
//! weighted errors are kept. These are then rounded to 4, 6 or 8 bits, and the elements get the nearest
//! codes.

use multiversion::multiversion;

use super::{Q2K, Q3K, Q4K, Q5K, Q6K, scales_and_minima, signed_scales};
use crate::lanes::{LANES, Lanes, by_element, by_lane, nearest_integer};
use crate::search::{
    Shifted, Signed, Steps, ZERO_THRESHOLD, check, descend, extremes, positive, sum_of_squares,
};
use crate::search::{sums, weighted};
use crate::{BlockError, Encode, EncodeWeighted, check_finite, each_weighted, narrow, wide};

/// The weighted encoders encode a row block by block.
macro_rules! weighted_by_block {
    ($($block:ident)*) => {
        $(impl EncodeWeighted<256> for $block {
            fn encode_row(
                out: &mut [Self],
                values: &[[f32; 256]],
                importance: &[[f32; 256]],
            ) -> Result<(), (usize, BlockError)> {
                each_weighted(out, values, importance, Self::with_importance)
            }
        })*
    };
}

weighted_by_block! { Q2K Q3K Q4K Q5K Q6K }

impl Encode<256> for Q2K {
    #[inline]
    fn encode(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        const STEPS: Steps = Steps { first: -0.5, by: 0.1, last: 15 };
        check_finite(values)?;
        let halves = halves(values);
        let found =
            halves.map(|elements| Shifted::of::<16, true>(&elements, &elements.map(Lanes::abs), 3, &STEPS));
        let [scales, mins] =
            [found.each_ref().map(|half| half.scale), found.each_ref().map(|half| -half.min)];
        let largest = |all: &[Lanes; 2]| all.iter().flat_map(|lanes| lanes.0).fold(0.0, larger);
        let (scale, min) = (largest(&scales), largest(&mins));
        let nibbles = |all: [Lanes; 2], largest: f32| {
            let inverse = if largest > 0.0 { 15.0 / largest } else { 0.0 };
            all.map(|lanes| lanes.0.map(|lane| low_byte(nearest_integer(inverse * lane))))
        };
        let (scales, mins) = (nibbles(scales, scale), nibbles(mins, min));
        (self.d, self.dmin) = (narrow(scale / 15.0)?, narrow(min / 15.0)?);
        self.finish(&halves, &found, scales, mins);
        Ok(())
    }
}

impl Q2K {
    fn with_importance(&mut self, values: &[f32; 256], importance: &[f32; 256]) -> Result<(), BlockError> {
        check(values)?;
        let mean = Lanes::all(sum_of_squares(values) / 256.0);
        let halves = halves(values);
        let [a, b] = &halves;
        let [p, q] = self::halves(importance);
        let weights = [weighted(a, &p, mean), weighted(b, &q, mean)];
        let [v, w] = &weights;
        let of = |elements, weights| Shifted::of::<16, false>(elements, weights, 3, &Steps::WEIGHTED);
        let found = [of(a, v), of(b, w)];
        let [first, second] = &found;
        let scales = joined(first.scale, second.scale);
        let mins = joined(-first.min, -second.min);
        let ([d, dmin], [scales, mins]) = scale_of_both(scales, mins, joined(sums(v), sums(w)), 15);
        (self.d, self.dmin) = (narrow(d)?, narrow(dmin)?);
        self.finish(&halves, &found, in_halves(scales), in_halves(mins));
        Ok(())
    }

    /// Stores the scales and minima, of which only the low nibbles are used, and the codes.
    #[inline]
    fn finish(
        &mut self,
        halves: &[[Lanes; 16]; 2],
        found: &[Shifted; 2],
        scales: [[u8; LANES]; 2],
        mins: [[u8; LANES]; 2],
    ) {
        for ((packed, scale), min) in
            self.scales.iter_mut().zip(scales.as_flattened()).zip(mins.as_flattened())
        {
            *packed = scale | (min << 4);
        }
        let (d, dmin) = (Lanes::all(wide(self.d)), Lanes::all(wide(self.dmin)));
        let mut codes = [0; 256];
        let parts = codes.as_chunks_mut::<128>().0.iter_mut().zip(self.scales.as_chunks::<LANES>().0);
        for ((found, elements), (codes, packed)) in found.iter().zip(halves).zip(parts) {
            let scales = Lanes(packed.map(|packed| (packed & 0xf).into()));
            let mins = Lanes(packed.map(|packed| (packed >> 4).into()));
            by_lane(&found.codes(elements, 3, d * scales, dmin * mins), codes);
        }
        pack_pairs(&codes, &mut self.qs);
    }
}

impl Encode<256> for Q3K {
    #[inline]
    fn encode(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        check(values)?;
        let halves = halves(values).map(|elements| (descended(&elements), elements));
        let largest = largest_scale(halves.iter().map(|(found, _)| found.scale))?;
        let mut scales = [[32; LANES]; 2];
        let inverse = -32.0 / largest;
        for (scales, (found, _)) in scales.iter_mut().zip(&halves) {
            *scales =
                found.scale.0.map(|scale| low_byte(nearest_integer(inverse * scale).clamp(-32, 31) + 32));
        }
        (self.d, self.scales) = (narrow(1.0 / inverse)?, pack_signed_scales(scales));
        if largest == 0.0 {
            (self.d, self.scales) = ([0; 2], [0; 12]);
        }
        self.finish(|d| halves.each_ref().map(|(found, elements)| (elements, d, found)), Descended::codes);
        Ok(())
    }
}

impl Q3K {
    fn with_importance(&mut self, values: &[f32; 256], importance: &[f32; 256]) -> Result<(), BlockError> {
        check(values)?;
        let mean = Lanes::all(2.0 * sum_of_squares(values) / 256.0);
        let halves = halves(values);
        let [a, b] = &halves;
        let [p, q] = self::halves(importance);
        let weights = [weighted(a, &p, mean), weighted(b, &q, mean)];
        let [v, w] = &weights;
        let found = [Signed::<4>::of(a, v), Signed::<4>::of(b, w)];
        let [first, second] = &found;
        // A second search takes the scales as its elements.
        let scales = joined(first.scale, second.scale).map(|scale| in_lane(scale, 0.0));
        let sums = joined(sums(v), sums(w)).map(|sum| in_lane(sum, 0.0));
        largest_scale(found.iter().map(|found| found.scale))?;
        let outer = Signed::<32>::of(&scales, &sums);
        let codes = outer.best_codes(&scales).map(|Lanes([code, ..])| low_byte(nearest_integer(code)));
        let [d, ..] = outer.scale.0;
        (self.d, self.scales) = (narrow(d)?, pack_signed_scales(in_halves(codes)));
        self.finish(|d| [(a, d, first), (b, d, second)], Signed::codes);
        Ok(())
    }

    /// Stores the codes, given the elements and the result of the search.
    #[inline]
    fn finish<'a, F: 'a>(
        &mut self,
        halves: impl Fn(f32) -> [(&'a [Lanes; 16], f32, &'a F); 2],
        codes_of: impl Fn(&F, &[Lanes; 16], Lanes) -> [Lanes; 16],
    ) {
        let mut codes = [0; 256];
        let scales = signed_scales(&self.scales);
        let parts = codes.as_chunks_mut::<128>().0.iter_mut().zip(scales.as_chunks::<LANES>().0);
        for ((elements, d, found), (codes, scales)) in halves(wide(self.d)).into_iter().zip(parts) {
            let d = Lanes::all(d) * Lanes(scales.map(f32::from));
            by_lane(&codes_of(found, elements, d), codes);
        }
        self.hmask = [0; 32];
        for (codes, bit) in codes.as_chunks::<32>().0.iter().zip(0..8) {
            for (high, code) in self.hmask.iter_mut().zip(codes) {
                *high |= ((code >> 2) & 1) << bit;
            }
        }
        pack_pairs(&codes.map(|code| code & 3), &mut self.qs);
    }
}

impl Encode<256> for Q4K {
    #[inline]
    fn encode(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        const STEPS: Steps = Steps { first: -1.0, by: 0.1, last: 20 };
        let (head, codes) = with_minima::<15>(values, &STEPS)?;
        self.pack(&head, &codes);
        Ok(())
    }
}

impl Q4K {
    fn with_importance(&mut self, values: &[f32; 256], importance: &[f32; 256]) -> Result<(), BlockError> {
        let (head, codes) = with_minima_and_importance::<15>(values, importance)?;
        self.pack(&head, &codes);
        Ok(())
    }

    #[inline]
    fn pack(&mut self, head: &Head, codes: &[u8; 256]) {
        (self.d, self.dmin, self.scales) = (head.d, head.dmin, head.scales);
        pack_nibbles(codes, &mut self.qs);
    }
}

impl Encode<256> for Q5K {
    #[inline]
    fn encode(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        const STEPS: Steps = Steps { first: -0.5, by: 0.1, last: 15 };
        let (head, codes) = with_minima::<31>(values, &STEPS)?;
        self.pack(&head, &codes);
        Ok(())
    }
}

impl Q5K {
    fn with_importance(&mut self, values: &[f32; 256], importance: &[f32; 256]) -> Result<(), BlockError> {
        let (head, codes) = with_minima_and_importance::<31>(values, importance)?;
        self.pack(&head, &codes);
        Ok(())
    }

    #[inline]
    fn pack(&mut self, head: &Head, codes: &[u8; 256]) {
        (self.d, self.dmin, self.scales) = (head.d, head.dmin, head.scales);
        self.pack_codes(codes);
    }

    pub(super) fn pack_codes(&mut self, codes: &[u8; 256]) {
        self.qh = [0; 32];
        for (codes, bit) in codes.as_chunks::<32>().0.iter().zip(0..8) {
            for (high, code) in self.qh.iter_mut().zip(codes) {
                *high |= (code >> 4) << bit;
            }
        }
        pack_nibbles(&codes.map(|code| code & 0xf), &mut self.qs);
    }
}

impl Encode<256> for Q6K {
    #[inline]
    fn encode(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        check_finite(values)?;
        let halves = halves(values);
        self.with_weights(&halves, &halves.map(|elements| elements.map(|x| x * x)))
    }
}

impl Q6K {
    fn with_importance(&mut self, values: &[f32; 256], importance: &[f32; 256]) -> Result<(), BlockError> {
        check(values)?;
        self.with_weights(&halves(values), &halves(importance))
    }

    #[inline]
    fn with_weights(
        &mut self,
        halves: &[[Lanes; 16]; 2],
        weights: &[[Lanes; 16]; 2],
    ) -> Result<(), BlockError> {
        let [a, b] = halves;
        let [v, w] = weights;
        let found = [Signed::<32>::of(a, v), Signed::of(b, w)];
        let largest = largest_scale(found.iter().map(|found| found.scale))?;
        if largest.abs() < ZERO_THRESHOLD {
            *self = bytemuck::Zeroable::zeroed();
            return Ok(());
        }
        let inverse = -128.0 / largest;
        self.d = narrow(1.0 / inverse)?;
        let d = Lanes::all(wide(self.d));
        let mut codes = [0; 256];
        let parts = codes.as_chunks_mut::<128>().0.iter_mut().zip(self.scales.as_chunks_mut::<LANES>().0);
        for ((found, elements), (codes, scales)) in found.iter().zip(halves).zip(parts) {
            *scales = found.scale.0.map(|scale| low_byte(nearest_integer(inverse * scale).min(127)));
            let rounded = Lanes(scales.map(|scale| scale.cast_signed().into()));
            by_lane(&found.codes(elements, d * rounded), codes);
        }
        self.pack(&codes);
        Ok(())
    }

    pub(super) fn pack(&mut self, codes: &[u8; 256]) {
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

/// The parts of [`Q4K`] and [`Q5K`] before the codes.
struct Head {
    d: [u8; 2],
    dmin: [u8; 2],
    scales: [u8; 12],
}

impl Head {
    #[inline]
    fn codes(&self, found: &Shifted, elements: &[Lanes; 32], max_code: u8) -> [u8; 256] {
        let both = scales_and_minima(&self.scales);
        let scaled = |d: [u8; 2], codes: [u8; LANES]| Lanes::all(wide(d)) * Lanes(codes.map(f32::from));
        let d = scaled(self.d, both.map(|(scale, _)| scale));
        let m = scaled(self.dmin, both.map(|(_, min)| min));
        let mut codes = [0; 256];
        by_lane(&found.codes(elements, max_code, d, m), &mut codes);
        codes
    }
}

/// Encodes with codes from 0 to `MAX`.
#[inline]
fn with_minima<const MAX: u8>(values: &[f32; 256], steps: &Steps) -> Result<(Head, [u8; 256]), BlockError> {
    check_finite(values)?;
    let elements = by_element::<32>(values);
    let found = Shifted::of::<32, false>(&elements, &weights(&elements), MAX, steps);
    let largest = |lanes: Lanes| lanes.0.into_iter().fold(0.0, larger);
    let (scale, min) = (largest(found.scale), largest(-found.min));
    let six_bits = |lanes: Lanes, largest: f32| {
        let inverse = if largest > 0.0 { 63.0 / largest } else { 0.0 };
        lanes.0.map(|lane| low_byte(nearest_integer(inverse * lane)).min(63))
    };
    let scales = pack_scales(six_bits(found.scale, scale), six_bits(-found.min, min));
    let head = Head { d: narrow(scale / 63.0)?, dmin: narrow(min / 63.0)?, scales };
    let codes = head.codes(&found, &elements, MAX);
    Ok((head, codes))
}

/// Like `with_minima`, for elements of different importance.
fn with_minima_and_importance<const MAX: u8>(
    values: &[f32; 256],
    importance: &[f32; 256],
) -> Result<(Head, [u8; 256]), BlockError> {
    check(values)?;
    let mean = Lanes::all(2.0 * sum_of_squares(values) / 256.0);
    let elements = by_element::<32>(values);
    let weights = weighted(&elements, &by_element(importance), mean);
    let found = Shifted::of::<32, false>(&elements, &weights, MAX, &Steps::WEIGHTED);
    let ([d, dmin], [scales, mins]) = scale_of_both(found.scale.0, (-found.min).0, sums(&weights).0, 63);
    // A negative code wraps around when it becomes an unsigned byte. Only Q5_K clips such codes.
    let cut = |codes: [u8; LANES]| if MAX > 15 { codes.map(|code| code.min(63)) } else { codes };
    let head = Head { d: narrow(d)?, dmin: narrow(dmin)?, scales: pack_scales(cut(scales), cut(mins)) };
    let codes = head.codes(&found, &elements, MAX);
    Ok((head, codes))
}

/// Finds the best scale for the scales of all sub-blocks and the best one for their minima, with a code for
/// each.
fn scale_of_both<const N: usize>(
    scales: [f32; N],
    mins: [f32; N],
    weights: [f32; N],
    max_code: u8,
) -> ([f32; 2], [[u8; N]; 2]) {
    let mut elements = [Lanes::ZERO; N];
    for (element, (&scale, &min)) in elements.iter_mut().zip(scales.iter().zip(&mins)) {
        *element = in_lane(scale, min);
    }
    let (Lanes([d, dmin, ..]), codes) =
        positive(&elements, &weights.map(|weight| in_lane(weight, weight)), max_code);
    let code = |code: f32| low_byte(nearest_integer(code));
    (
        [d, dmin],
        [codes.map(|Lanes([first, ..])| code(first)), codes.map(|Lanes([_, second, ..])| code(second))],
    )
}

/// Puts a value in the first lane and one in the second.
#[inline]
fn in_lane(first: f32, second: f32) -> Lanes {
    Lanes([first, second, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
}

#[inline]
fn halves(values: &[f32; 256]) -> [[Lanes; 16]; 2] {
    let (first, second) = values.split_at(128);
    [by_element(first), by_element(second)]
}

/// Joins the lanes of two to one row.
#[inline]
fn joined(first: Lanes, second: Lanes) -> [f32; 16] {
    let mut all = [0.0; 16];
    for (all, lane) in all.iter_mut().zip(first.0.into_iter().chain(second.0)) {
        *all = lane;
    }
    all
}

#[inline]
fn in_halves(codes: [u8; 16]) -> [[u8; LANES]; 2] {
    let mut halves = [[0; LANES]; 2];
    halves.as_flattened_mut().copy_from_slice(&codes);
    halves
}

#[inline]
fn larger(most: f32, lane: f32) -> f32 {
    if lane > most { lane } else { most }
}

#[inline]
pub(super) fn low_byte(code: i32) -> u8 {
    let [low, ..] = code.to_le_bytes();
    low
}

/// Returns the scale of largest magnitude.
#[inline]
fn largest_scale(scales: impl Iterator<Item = Lanes>) -> Result<f32, BlockError> {
    let mut largest = 0.0_f32;
    for scale in scales.flat_map(|scales| scales.0) {
        if !scale.is_finite() {
            return Err(BlockError::ScaleOverflow);
        }
        largest = if scale.abs() > largest.abs() { scale } else { largest };
    }
    Ok(largest)
}

/// The inverse of [`scales_and_minima`].
pub(super) fn pack_scales(scales: [u8; LANES], mins: [u8; LANES]) -> [u8; 12] {
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

/// The inverse of [`signed_scales`], for scales to which 32 was added.
fn pack_signed_scales([first, second]: [[u8; LANES]; 2]) -> [u8; 12] {
    let mut packed = [0; 12];
    let (low, high) = packed.split_at_mut(LANES);
    for (low, (first, second)) in low.iter_mut().zip(first.iter().zip(second)) {
        *low = (first & 0xf) | (second << 4);
    }
    let quarters = first.as_chunks::<4>().0.iter().chain(second.as_chunks::<4>().0);
    for (quarter, shift) in quarters.zip([0, 2, 4, 6]) {
        for (high, scale) in high.iter_mut().zip(quarter) {
            *high |= ((scale >> 4) & 3) << shift;
        }
    }
    packed
}

/// Packs pairs of sub-blocks as low and high nibbles.
pub(super) fn pack_nibbles(codes: &[u8; 256], qs: &mut [u8; 128]) {
    for (codes, qs) in codes.as_chunks::<64>().0.iter().zip(qs.as_chunks_mut::<32>().0) {
        let (low, high) = codes.split_at(32);
        for (q, (low, high)) in qs.iter_mut().zip(low.iter().zip(high)) {
            *q = low | (high << 4);
        }
    }
}

/// Packs two bits of each code; the codes in one byte are those of elements that are 32 apart.
pub(super) fn pack_pairs(codes: &[u8; 256], qs: &mut [u8; 64]) {
    for (codes, qs) in codes.as_chunks::<128>().0.iter().zip(qs.as_chunks_mut::<32>().0) {
        let [a, b, c, d] = codes.as_chunks::<32>().0 else { continue };
        for (q, ((a, b), (c, d))) in qs.iter_mut().zip(a.iter().zip(b).zip(c.iter().zip(d))) {
            *q = a | (b << 2) | (c << 4) | (d << 6);
        }
    }
}

/// Returns the weight of each element: its magnitude plus the root of the mean square.
#[inline]
fn weights(elements: &[Lanes; 32]) -> [Lanes; 32] {
    let mut squares = Lanes::ZERO;
    for &x in elements {
        squares += x * x;
    }
    let mean = (squares / Lanes::all(32.0)).sqrt();
    elements.map(|x| mean + x.abs())
}

/// A good `x = scale * code` for eight sub-blocks of [`Q3K`], with codes from -4 to 3.
struct Descended {
    scale: Lanes,
    codes: [Lanes; 16],
}

impl Descended {
    /// Returns the codes, plus 4, for a rounded scale. Where the scale became 0, returns the codes that the
    /// search found.
    #[inline]
    fn codes(&self, elements: &[Lanes; 16], d: Lanes) -> [Lanes; 16] {
        let is_zero = d.is_zero();
        let mut codes = self.codes;
        for (code, &x) in codes.iter_mut().zip(elements) {
            *code = is_zero.select(*code, (x / d).codes(-4, 3) + Lanes::all(4.0));
        }
        codes
    }
}

/// Searches in the widest vectors that the processor has.
#[multiversion(targets("x86_64+avx2+bmi2"))]
fn descended(elements: &[Lanes; 16]) -> Descended {
    let (largest, extreme) = extremes(elements);
    let is_nothing = largest.is_below(Lanes::all(ZERO_THRESHOLD));
    let inverse = Lanes::all(-4.0) / extreme;
    let mut codes = elements.map(|x| (inverse * x).codes(-4, 3));
    let weights = elements.map(|x| x * x);
    let mut sums = (Lanes::ZERO, Lanes::ZERO);
    for ((&x, &w), &l) in elements.iter().zip(&weights).zip(&codes) {
        sums.0 += w * x * l;
        sums.1 += w * l * l;
    }
    let scale = descend(elements, &weights, &mut codes, sums, (-4, 3), false);
    Descended {
        scale: is_nothing.select(Lanes::ZERO, scale),
        codes: codes.map(|code| is_nothing.select(Lanes::ZERO, code + Lanes::all(4.0))),
    }
}
