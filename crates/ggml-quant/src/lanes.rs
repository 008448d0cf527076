//! Arithmetic on eight sub-blocks at once, for the encoders of the K-quants.
//!
//! ggml's rules fix the order of every sum, because each result is rounded to `f32`. So nothing within a
//! sub-block can be added in parallel. But sub-blocks do not depend on each other, so each gets its own lane.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// The number of sub-blocks that are processed at once.
pub(crate) const LANES: usize = 8;

/// The same quantity of each sub-block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lanes(pub(crate) [f32; LANES]);

/// A boolean for each sub-block: all bits set or none, as in vector comparisons.
#[derive(Clone, Copy)]
pub(crate) struct Mask([u32; LANES]);

impl Lanes {
    pub(crate) const ZERO: Self = Self::all(0.0);

    /// Puts the same value in all lanes.
    pub(crate) const fn all(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline]
    pub(crate) fn map(mut self, f: impl Fn(f32) -> f32) -> Self {
        for lane in &mut self.0 {
            *lane = f(*lane);
        }
        self
    }

    #[inline]
    fn zip(mut self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        for (lane, other) in self.0.iter_mut().zip(other.0) {
            *lane = f(*lane, other);
        }
        self
    }

    #[inline]
    fn compare(self, other: Self, f: impl Fn(f32, f32) -> bool) -> Mask {
        let mut mask = Mask([0; LANES]);
        for (mask, (a, b)) in mask.0.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            *mask = if f(a, b) { u32::MAX } else { 0 };
        }
        mask
    }

    #[inline]
    pub(crate) fn is_above(self, other: Self) -> Mask {
        self.compare(other, |a, b| a > b)
    }

    #[inline]
    pub(crate) fn is_below(self, other: Self) -> Mask {
        self.compare(other, |a, b| a < b)
    }

    #[inline]
    pub(crate) fn is_other(self, other: Self) -> Mask {
        self.compare(other, |a, b| a != b)
    }

    #[inline]
    pub(crate) fn is_zero(self) -> Mask {
        self.compare(self, |a, _| a == 0.0)
    }

    #[inline]
    pub(crate) fn abs(self) -> Self {
        self.map(f32::abs)
    }

    #[inline]
    pub(crate) fn sqrt(self) -> Self {
        self.map(f32::sqrt)
    }

    /// Like [`codes`](Self::codes), but faster, for values of at most 2^22 in magnitude: floats can be
    /// clamped in vectors.
    #[inline]
    pub(crate) fn small_codes(self, low: f32, high: f32) -> Self {
        self.map(|value| {
            let code = (value + MAGIC) - MAGIC;
            let code = if code < high { code } else { high };
            if code > low { code } else { low }
        })
    }

    /// Returns `step` for each value that is not below `threshold`, and 0 for the others. A NaN is not below
    /// anything.
    #[inline]
    pub(crate) fn steps_at(self, threshold: f32, step: f32) -> Self {
        self.map(|value| if value < threshold { 0.0 } else { step })
    }

    /// Converts codes to unsigned bytes, as ggml does, if some may be below 0.
    #[inline]
    pub(crate) fn as_byte(self, lowest: i32) -> Self {
        if lowest > i32::MIN {
            return self;
        }
        self.map(|code| (nearest_integer(code) & 0xff) as f32)
    }

    /// Rounds to the nearest integers and clamps them to two bounds.
    #[inline]
    pub(crate) fn codes(self, low: i32, high: i32) -> Self {
        self.map(|value| nearest_integer(value).max(low).min(high) as f32)
    }
}

/// A float this large has no fraction, and the low bits of its mantissa are the integer.
const MAGIC: f32 = 1.5 * 8_388_608.0;

/// Rounds a value of at most 2^22 in magnitude to the nearest integer, halves to even.
///
/// For any other value, infinities and NaNs included, the result is the same as ggml's: the low bits of the sum.
#[inline]
pub(crate) fn nearest_integer(value: f32) -> i32 {
    integer_in(value + MAGIC)
}

/// Rounds a product to the nearest integer, without rounding the product first.
#[inline]
pub(crate) fn nearest_of_product(a: f32, b: f32) -> i32 {
    integer_in(a.mul_add(b, MAGIC))
}

/// Returns the integer that was added to [`MAGIC`].
#[inline]
fn integer_in(sum: f32) -> i32 {
    (sum.to_bits() & 0x007f_ffff).cast_signed() - 0x0040_0000
}

impl Mask {
    #[inline]
    pub(crate) fn and(mut self, other: Self) -> Self {
        for (lane, other) in self.0.iter_mut().zip(other.0) {
            *lane &= other;
        }
        self
    }

    /// Returns `yes` where the mask is set, and `no` elsewhere.
    #[inline]
    pub(crate) fn select(self, yes: Lanes, no: Lanes) -> Lanes {
        let mut out = no;
        for (out, (yes, mask)) in out.0.iter_mut().zip(yes.0.into_iter().zip(self.0)) {
            *out = f32::from_bits((yes.to_bits() & mask) | (out.to_bits() & !mask));
        }
        out
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $operator:tt)*) => {
        $(impl $trait for Lanes {
            type Output = Self;

            #[inline]
            fn $method(self, other: Self) -> Self {
                self.zip(other, |a, b| a $operator b)
            }
        })*
    };
}

operator! { Add add + Sub sub - Mul mul * Div div / }

impl AddAssign for Lanes {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Neg for Lanes {
    type Output = Self;

    #[inline]
    fn neg(self) -> Self {
        self.map(|value| -value)
    }
}

/// Transposes eight consecutive sub-blocks of `N` elements to their elements.
#[inline]
pub(crate) fn by_element<const N: usize>(values: &[f32]) -> [Lanes; N] {
    let mut out = [Lanes::ZERO; N];
    for (lane, values) in values.as_chunks::<N>().0.iter().enumerate() {
        for (out, &value) in out.iter_mut().zip(values) {
            if let Some(out) = out.0.get_mut(lane) {
                *out = value;
            }
        }
    }
    out
}

/// Writes the codes of eight sub-blocks as bytes, one sub-block after the other.
#[inline]
pub(crate) fn by_lane<const N: usize>(codes: &[Lanes; N], out: &mut [u8]) {
    for (lane, out) in out.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        for (out, codes) in out.iter_mut().zip(codes) {
            // Codes are from 0 to 63.
            let code = codes.0.get(lane).copied().unwrap_or_default();
            [*out, ..] = (code + 8_388_608.0).to_bits().to_le_bytes();
        }
    }
}
