//! The encoders of K-quants as GCC compiles ggml's C for processors with fused operations, where it may
//! contract `a * b + c` to one operation that rounds once: `-O3 -mavx2 -mfma -ffp-contract=fast`, which is
//! how llama.cpp is built for x86-64. A few percent of the blocks get codes that differ from those of [the
//! plain rules](super::encode).
//!
//! Experiments showed what is contracted: all sums of products except those in loops that the compiler
//! vectorizes. Tests compare with the compiler. This code serves comparisons and is not optimized for speed.

use multiversion::multiversion;

use super::encode::{low_byte, pack_nibbles, pack_pairs, pack_scales};
use super::{Q2K, Q4K, Q5K, Q6K, scales_and_minima};
use crate::lanes::{nearest_integer, nearest_of_product};
use crate::search::{Steps, ZERO_THRESHOLD, check};
use crate::{BlockError, narrow, wide};

/// Finds the best `x = scale * code - min`, and the codes.
#[multiversion(targets("x86_64+avx2+fma"))]
fn shifted(
    elements: &[f32],
    weights: &[f32],
    (max_code, steps): (u8, &Steps),
    by_magnitude: bool,
    codes: &mut [u8],
) -> (f32, f32) {
    let pairs = || elements.iter().copied().zip(weights.iter().copied());
    let Some((first, w)) = pairs().next() else { return (0.0, 0.0) };
    let (mut min, mut max, mut sum_w, mut sum_x) = (first, first, w, w * first);
    for (x, w) in pairs().skip(1) {
        min = if x < min { x } else { min };
        max = if x > max { x } else { max };
        sum_w += w;
        sum_x = w.mul_add(x, sum_x);
    }
    min = if min > 0.0 { 0.0 } else { min };
    if max == min {
        codes.fill(0);
        return (0.0, -min);
    }
    let levels = f32::from(max_code);
    let code = |inverse: f32, x: f32, min: f32| {
        low_byte(nearest_of_product(inverse, x - min).clamp(0, max_code.into()))
    };
    let error = |codes: &[u8], scale: f32, min: f32| {
        pairs().zip(codes).fold(0.0_f32, |sum, ((x, w), &code)| {
            let off = scale.mul_add(f32::from(code), min) - x;
            w.mul_add(if by_magnitude { off.abs() } else { off * off }, sum)
        })
    };
    let inverse = levels / (max - min);
    codes.iter_mut().zip(elements).for_each(|(out, &x)| *out = code(inverse, x, min));
    let mut scale = 1.0 / inverse;
    let mut least = error(codes, scale, min);
    let mut tried = [0_u8; 32];
    let tried = tried.get_mut(..codes.len()).unwrap_or_default();
    for step in 0..=steps.last {
        let inverse = (steps.by.mul_add(f32::from(step), steps.first) + levels) / (max - min);
        let (mut sum_l, mut sum_l2, mut sum_xl) = (0.0_f32, 0.0_f32, 0.0_f32);
        for ((x, w), out) in pairs().zip(tried.iter_mut()) {
            *out = code(inverse, x, min);
            let l = f32::from(*out);
            let wl = w * l;
            sum_l += wl;
            sum_l2 = wl.mul_add(l, sum_l2);
            sum_xl = wl.mul_add(x, sum_xl);
        }
        let determinant = sum_w.mul_add(sum_l2, -(sum_l * sum_l));
        if determinant > 0.0 {
            let mut next = sum_w.mul_add(sum_xl, -(sum_x * sum_l)) / determinant;
            let mut next_min = sum_l2.mul_add(sum_x, -(sum_l * sum_xl)) / determinant;
            if next_min > 0.0 {
                (next, next_min) = (sum_xl / sum_l2, 0.0);
            }
            let found = error(tried, next, next_min);
            if found < least {
                codes.copy_from_slice(tried);
                (least, scale, min) = (found, next, next_min);
            }
        }
    }
    (scale, -min)
}

/// Finds the best `x = scale * (code - 32)`, and the codes.
#[multiversion(targets("x86_64+avx2+fma"))]
fn signed(elements: &[f32; 16], codes: &mut [u8; 16]) -> f32 {
    const HALF: i32 = 32;
    let mut max = 0.0_f32;
    for &x in elements {
        max = if x.abs() > max.abs() { x } else { max };
    }
    if max.abs() < ZERO_THRESHOLD {
        codes.fill(0);
        return 0.0;
    }
    let code = |inverse: f32, x: f32| nearest_of_product(inverse, x).clamp(-HALF, HALF - 1);
    let put = |codes: &mut [u8; 16], inverse: f32| {
        codes.iter_mut().zip(elements).for_each(|(out, &x)| *out = low_byte(code(inverse, x) + HALF));
    };
    let inverse = -(HALF as f32) / max;
    put(codes, inverse);
    let (mut sum_lx, mut sum_l2) = (0.0_f32, 0.0_f32);
    for &x in elements {
        let (w, l) = (x * x, code(inverse, x) as f32);
        sum_lx = (w * x).mul_add(l, sum_lx);
        sum_l2 = (w * l).mul_add(l, sum_l2);
    }
    let mut scale = if sum_l2 == 0.0 { 0.0 } else { sum_lx / sum_l2 };
    let mut best = scale * sum_lx;
    for step in (-9_i8..=9).filter(|step| *step != 0) {
        let inverse = -0.1_f32.mul_add(step.into(), HALF as f32) / max;
        // The compiler vectorizes the products of these loops and adds them up afterwards.
        let (mut sum_lx, mut sum_l2) = (0.0_f32, 0.0_f32);
        for &x in elements {
            let (w, l) = (x * x, code(inverse, x) as f32);
            sum_lx += w * x * l;
            sum_l2 += w * l * l;
        }
        if sum_l2 > 0.0 && sum_lx * sum_lx > best * sum_l2 {
            put(codes, inverse);
            scale = sum_lx / sum_l2;
            best = scale * sum_lx;
        }
    }
    scale
}

/// Replaces codes by the nearest codes of elements: `(x + min) / scale`. If the scale is 0, the codes stay as
/// they are.
fn nearest(elements: &[f32], codes: &mut [u8], (scale, min): (f32, f32), (low, high): (i32, i32)) {
    if scale == 0.0 {
        return;
    }
    for (code, x) in codes.iter_mut().zip(elements) {
        *code = low_byte(nearest_integer((x + min) / scale).clamp(low, high) - low);
    }
}

/// Returns the largest of some numbers, or 0 if all are below 0.
fn largest(all: &[f32]) -> f32 {
    all.iter().fold(0.0, |most, &x| if x > most { x } else { most })
}

/// Returns the codes of scales or minima: the low byte of each.
fn rounded<const N: usize>(all: [f32; N], levels: f32, largest: f32) -> [u8; N] {
    let inverse = if largest > 0.0 { levels / largest } else { 0.0 };
    all.map(|one| low_byte(nearest_of_product(inverse, one)))
}

impl Q2K {
    pub(crate) fn contracted(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        const STEPS: Steps = Steps { first: -0.5, by: 0.1, last: 15 };
        check(values)?;
        let (mut codes, mut scales, mut mins) = ([0; 256], [0.0; 16], [0.0; 16]);
        let parts = values.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<16>().0);
        for ((elements, codes), (scale, min)) in parts.zip(scales.iter_mut().zip(&mut mins)) {
            let weights = elements.map(f32::abs);
            (*scale, *min) = shifted(elements, &weights, (3, &STEPS), true, codes);
        }
        let (scale, min) = (largest(&scales), largest(&mins));
        (self.d, self.dmin) = (narrow(scale / 15.0)?, narrow(min / 15.0)?);
        let both = rounded(scales, 15.0, scale).into_iter().zip(rounded(mins, 15.0, min));
        self.scales.iter_mut().zip(both).for_each(|(packed, (scale, min))| *packed = scale | (min << 4));
        let parts = values.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<16>().0);
        for ((elements, codes), packed) in parts.zip(&self.scales) {
            let d = wide(self.d) * f32::from(packed & 0xf);
            let m = wide(self.dmin) * f32::from(packed >> 4);
            nearest(elements, codes, (d, m), (0, 3));
        }
        pack_pairs(&codes, &mut self.qs);
        Ok(())
    }
}

/// The parts before the codes of [`Q4K`] and [`Q5K`] (the two scales, and the scales of the sub-blocks), and
/// the codes, up to `max_code`.
type Found = ([[u8; 2]; 2], [u8; 12], [u8; 256]);

fn with_minima(values: &[f32; 256], max_code: u8, steps: &Steps) -> Result<Found, BlockError> {
    check(values)?;
    let (mut codes, mut scales, mut mins) = ([0; 256], [0.0; 8], [0.0; 8]);
    let parts = values.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<32>().0);
    for ((elements, codes), (scale, min)) in parts.zip(scales.iter_mut().zip(&mut mins)) {
        // The compiler vectorizes this sum too.
        let mean = (elements.iter().fold(0.0_f32, |sum, x| sum + x * x) / 32.0).sqrt();
        let weights = elements.map(|x| mean + x.abs());
        (*scale, *min) = shifted(elements, &weights, (max_code, steps), false, codes);
    }
    let (scale, min) = (largest(&scales), largest(&mins));
    let six_bits = |all, largest| rounded(all, 63.0, largest).map(|code| code.min(63));
    let packed = pack_scales(six_bits(scales, scale), six_bits(mins, min));
    let (d, dmin) = (narrow(scale / 63.0)?, narrow(min / 63.0)?);
    let parts = values.as_chunks::<32>().0.iter().zip(codes.as_chunks_mut::<32>().0);
    for ((elements, codes), (scale, min)) in parts.zip(scales_and_minima(&packed)) {
        let (d, m) = (wide(d) * f32::from(scale), wide(dmin) * f32::from(min));
        nearest(elements, codes, (d, m), (0, max_code.into()));
    }
    Ok(([d, dmin], packed, codes))
}

impl Q4K {
    pub(crate) fn contracted(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        let codes;
        ([self.d, self.dmin], self.scales, codes) =
            with_minima(values, 15, &Steps { first: -1.0, by: 0.1, last: 20 })?;
        pack_nibbles(&codes, &mut self.qs);
        Ok(())
    }
}

impl Q5K {
    pub(crate) fn contracted(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        let codes;
        ([self.d, self.dmin], self.scales, codes) =
            with_minima(values, 31, &Steps { first: -0.5, by: 0.1, last: 15 })?;
        self.pack_codes(&codes);
        Ok(())
    }
}

impl Q6K {
    pub(crate) fn contracted(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        check(values)?;
        let (mut codes, mut scales) = ([0; 256], [0.0_f32; 16]);
        let parts = values.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<16>().0);
        for ((elements, codes), scale) in parts.zip(&mut scales) {
            *scale = signed(elements, codes);
        }
        let largest = scales.iter().fold(0.0_f32, |most, &x| if x.abs() > most.abs() { x } else { most });
        if largest.abs() < ZERO_THRESHOLD {
            *self = bytemuck::Zeroable::zeroed();
            return Ok(());
        }
        let inverse = -128.0 / largest;
        self.d = narrow(1.0 / inverse)?;
        self.scales = scales.map(|scale| low_byte(nearest_of_product(inverse, scale).min(127)));
        let parts = values.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<16>().0);
        for ((elements, codes), scale) in parts.zip(&self.scales) {
            let d = wide(self.d) * f32::from(scale.cast_signed());
            nearest(elements, codes, (d, 0.0), (-32, 31));
        }
        self.pack(&codes);
        Ok(())
    }
}
