//! The types with blocks of 32 elements: one scale, or a scale and a minimum, for all of them.
//!
//! Where an encoder's arithmetic could be done in several ways, it follows ggml's plain C, which rounds every
//! intermediate result to `f32`. For example, the quotient `1 / d` is rounded first, and `x * (1 / d)` is not
//! `x / d`. gguf.quants does the same, except where zeros of both signs meet.

use bytemuck::{AnyBitPattern, NoUninit};

use super::{BlockError, Decode, Encode, narrow, wide};

mod weighted;

/// 4 bits, `d * (q - 8)`. The low nibbles are the first 16 elements, the high nibbles the other 16.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q4_0 {
    d: [u8; 2],
    qs: [u8; 16],
}

/// 4 bits, `d * q + m`; nibbles as in [`Q4_0`].
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q4_1 {
    d: [u8; 2],
    m: [u8; 2],
    qs: [u8; 16],
}

/// 5 bits, `d * (q - 16)`; nibbles as in [`Q4_0`], the fifth bits in a little-endian word.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q5_0 {
    d: [u8; 2],
    qh: [u8; 4],
    qs: [u8; 16],
}

/// 5 bits, `d * q + m`; stored like [`Q5_0`].
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q5_1 {
    d: [u8; 2],
    m: [u8; 2],
    qh: [u8; 4],
    qs: [u8; 16],
}

/// 8 bits in two's complement, `d * q`.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q8_0 {
    d: [u8; 2],
    qs: [u8; 32],
}

/// Like [`Q8_0`], with the sum of the elements. ggml needs the sum for its products; the values do not depend
/// on it.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Q8_1 {
    d: [u8; 2],
    _sum: [u8; 2],
    qs: [u8; 32],
}

impl Decode<32> for Q4_0 {
    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let d = wide(self.d);
        let (low, high) = out.split_at_mut(16);
        for ((low, high), q) in low.iter_mut().zip(high).zip(&self.qs) {
            *low = d * (i32::from(q & 0xf) - 8) as f32;
            *high = d * (i32::from(q >> 4) - 8) as f32;
        }
    }
}

impl Encode<32> for Q4_0 {
    #[inline]
    fn encode(&mut self, values: &[f32; 32]) -> Result<(), BlockError> {
        let (d, code) = centred::<8>(values)?;
        self.d = d;
        self.qs = nibbles(values, code);
        Ok(())
    }
}

impl Decode<32> for Q4_1 {
    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let (d, m) = (wide(self.d), wide(self.m));
        let (low, high) = out.split_at_mut(16);
        for ((low, high), q) in low.iter_mut().zip(high).zip(&self.qs) {
            *low = d * f32::from(q & 0xf) + m;
            *high = d * f32::from(q >> 4) + m;
        }
    }
}

impl Encode<32> for Q4_1 {
    #[inline]
    fn encode(&mut self, values: &[f32; 32]) -> Result<(), BlockError> {
        let (d, m, code) = above_minimum::<15>(values)?;
        (self.d, self.m) = (d, m);
        self.qs = nibbles(values, code);
        Ok(())
    }
}

impl Decode<32> for Q5_0 {
    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let d = wide(self.d);
        for (out, q) in out.iter_mut().zip(five_bits(self.qh, &self.qs)) {
            *out = d * (i32::from(q) - 16) as f32;
        }
    }
}

impl Encode<32> for Q5_0 {
    #[inline]
    fn encode(&mut self, values: &[f32; 32]) -> Result<(), BlockError> {
        let (d, code) = centred::<16>(values)?;
        self.d = d;
        self.qh = fifth_bits(values, code);
        self.qs = nibbles(values, code);
        Ok(())
    }
}

impl Decode<32> for Q5_1 {
    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let (d, m) = (wide(self.d), wide(self.m));
        for (out, q) in out.iter_mut().zip(five_bits(self.qh, &self.qs)) {
            *out = d * f32::from(q) + m;
        }
    }
}

impl Encode<32> for Q5_1 {
    #[inline]
    fn encode(&mut self, values: &[f32; 32]) -> Result<(), BlockError> {
        let (d, m, code) = above_minimum::<31>(values)?;
        (self.d, self.m) = (d, m);
        self.qh = fifth_bits(values, code);
        self.qs = nibbles(values, code);
        Ok(())
    }
}

impl Decode<32> for Q8_0 {
    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let d = wide(self.d);
        for (out, q) in out.iter_mut().zip(&self.qs) {
            *out = f32::from(q.cast_signed()) * d;
        }
    }
}

impl Decode<32> for Q8_1 {
    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        let d = wide(self.d);
        for (out, q) in out.iter_mut().zip(&self.qs) {
            *out = f32::from(q.cast_signed()) * d;
        }
    }
}

impl Encode<32> for Q8_0 {
    #[inline]
    fn encode(&mut self, values: &[f32; 32]) -> Result<(), BlockError> {
        let d = largest_magnitude(values)? / 127.0;
        self.d = narrow(d)?;
        let inverse = inverse(d).unwrap_or(0.0);
        for (q, &value) in self.qs.iter_mut().zip(values) {
            *q = round_to_i8(value * inverse).cast_unsigned();
        }
        Ok(())
    }
}

/// Returns the scale of `x = d * (q - LEVELS)`, in which the element of largest magnitude has q = 0, and a
/// function that computes q from x.
#[inline]
fn centred<const LEVELS: u8>(values: &[f32; 32]) -> Result<([u8; 2], impl Fn(f32) -> u8 + Copy), BlockError> {
    let levels = f32::from(LEVELS);
    let scale = extreme(values)? / -levels;
    let (inverse, offset) = inverse(scale).map_or((0.0, 0.0), |inverse| (inverse, levels + 0.5));
    Ok((narrow(scale)?, move |x| truncate(x * inverse + offset, 2 * LEVELS - 1)))
}

/// Returns the scale and the minimum of `x = d * q + m` with q up to `MAX`, and a function that computes q
/// from x.
#[inline]
#[expect(clippy::type_complexity, reason = "an `impl Fn` has no other name")]
fn above_minimum<const MAX: u8>(
    values: &[f32; 32],
) -> Result<([u8; 2], [u8; 2], impl Fn(f32) -> u8 + Copy), BlockError> {
    let (min, max) = bounds(values)?;
    let scale = (max - min) / f32::from(MAX);
    let inverse = inverse(scale).unwrap_or(0.0);
    Ok((narrow(scale)?, narrow(min)?, move |x| truncate((x - min) * inverse + 0.5, MAX)))
}

/// Returns the factor for the elements: `1 / d`, or 0 if d is 0.
///
/// Returns `None` if the quotient is infinite, which it is for d below 2^-128. The reference then converts
/// infinities and NaNs to integers, which gives 0 on x86, so that all codes are 0.
#[inline]
fn inverse(d: f32) -> Option<f32> {
    if d == 0.0 {
        return Some(0.0);
    }
    let inverse = 1.0 / d;
    inverse.is_finite().then_some(inverse)
}

/// A float this large has no fraction. Its low bits are the integer that was added to it, in two's
/// complement, so the integer may be negative. `as` saturates, which keeps compilers from vectorizing it.
const MAGIC: f32 = 1.5 * 8_388_608.0;

/// Returns the integer part of a value that is not negative, at most `max`.
#[inline]
fn truncate(value: f32, max: u8) -> u8 {
    let max = f32::from(max);
    let value = if value < max { value } else { max };
    let magic = value + MAGIC;
    let [code, ..] = (magic.to_bits() - u32::from(magic - MAGIC > value)).to_le_bytes();
    code
}

/// Rounds a value between -127.5 and 127.5 to the nearest integer, halves away from zero.
#[inline]
fn round_to_i8(value: f32) -> i8 {
    // The sum rounds halves to even, so some results must go one further. All differences are exact.
    let magic = value + MAGIC;
    let [nearest, ..] = magic.to_bits().to_le_bytes();
    let short = value - (magic - MAGIC) == 0.5_f32.copysign(value);
    let away = if value < 0.0 { -1 } else { 1 };
    nearest.cast_signed().wrapping_add(if short { away } else { 0 })
}

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = f32::INFINITY.to_bits();

/// Returns the largest magnitude of finite values.
#[inline]
fn largest_magnitude(values: &[f32; 32]) -> Result<f32, BlockError> {
    // Magnitudes order like their bits, NaN above infinity, and the maximum of integers vectorizes.
    let bits = values.iter().map(|v| (v.to_bits() & !SIGN).cast_signed()).fold(0, i32::max).cast_unsigned();
    if bits < INFINITY { Ok(f32::from_bits(bits)) } else { Err(not_finite(values)) }
}

/// Returns the element of largest magnitude, the first one if there are several. If all are zeros, returns
/// positive zero, whatever their signs: ggml looks for an element above zero and finds none.
#[inline]
fn extreme(values: &[f32; 32]) -> Result<f32, BlockError> {
    let positive = largest_magnitude(values)?;
    if positive == 0.0 {
        return Ok(0.0);
    }
    let negative = -positive;
    let has = |sought: f32| values.iter().fold(false, |has, v| has | (v.to_bits() == sought.to_bits()));
    Ok(match (has(positive), has(negative)) {
        (true, false) => positive,
        (false, _) => negative,
        (true, true) => values.iter().copied().find(|v| v.abs() == positive).unwrap_or(positive),
    })
}

/// Returns the smallest and the largest of finite values.
#[inline]
fn bounds(values: &[f32; 32]) -> Result<(f32, f32), BlockError> {
    let keys = values.iter().map(|v| ordered(v.to_bits().cast_signed()));
    let (min, max) = keys.fold((i32::MAX, i32::MIN), |(min, max), key| (min.min(key), max.max(key)));
    let number = |key| f32::from_bits(ordered(key).cast_unsigned());
    let (min, max) = (number(min), number(max));
    if !(min.is_finite() && max.is_finite()) {
        return Err(not_finite(values));
    }
    Ok((if min == 0.0 { first_zero(values) } else { min }, max))
}

/// Converts the bits of a float to an integer of the same order (-NaN, -infinity, …, -0, 0, …, infinity,
/// NaN), and back.
#[inline]
const fn ordered(bits: i32) -> i32 {
    bits ^ ((bits >> 31) & i32::MAX)
}

/// Returns the zero that ggml takes as the minimum if the smallest value is zero. It is the first one,
/// because ggml replaces the minimum only by a smaller value, and zeros of both signs are equal.
#[cold]
fn first_zero(values: &[f32; 32]) -> f32 {
    values.iter().copied().find(|&value| value == 0.0).unwrap_or(0.0)
}

#[cold]
fn not_finite(values: &[f32; 32]) -> BlockError {
    BlockError::NotFinite(values.iter().position(|v| !v.is_finite()).unwrap_or(0))
}

/// Packs the low four bits of the codes.
#[inline]
fn nibbles(values: &[f32; 32], code: impl Fn(f32) -> u8) -> [u8; 16] {
    let mut packed = [0; 16];
    let (low, high) = values.split_at(16);
    for ((packed, &low), &high) in packed.iter_mut().zip(low).zip(high) {
        *packed = (code(low) & 0xf) | (code(high) << 4);
    }
    packed
}

/// Gathers bit 4 of the codes; bit i of the little-endian result belongs to code i.
#[inline]
fn fifth_bits(values: &[f32; 32], code: impl Fn(f32) -> u8) -> [u8; 4] {
    let mut packed = [0; 4];
    for (packed, values) in packed.iter_mut().zip(values.as_chunks::<8>().0) {
        // Byte i holds bit 8 i. Multiplied by 2^(56 - 7 i) it becomes bit 56 + i, where no other product has
        // a bit.
        let bits = u64::from_le_bytes(values.map(|x| code(x) >> 4));
        [.., *packed] = bits.wrapping_mul(0x0102_0408_1020_4080).to_le_bytes();
    }
    packed
}

/// Joins the codes from their low nibbles and fifth bits.
#[inline]
fn five_bits(qh: [u8; 4], qs: &[u8; 16]) -> [u8; 32] {
    let mut codes = [0; 32];
    for (codes, qh) in codes.as_chunks_mut::<8>().0.iter_mut().zip(qh) {
        for (code, bit) in codes.iter_mut().zip([1, 2, 4, 8, 16, 32, 64, 128]) {
            *code = if qh & bit == 0 { 0 } else { 16 };
        }
    }
    let (low, high) = codes.split_at_mut(16);
    for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
        *low |= q & 0xf;
        *high |= q >> 4;
    }
    codes
}

#[cfg(test)]
mod tests;
