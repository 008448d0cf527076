//! Numeric types of 8 bits and fewer that Rust lacks: small floats and packed integers.

use std::fmt;

use crate::dtype::DType;

/// A numeric type of 8 bits or fewer for which Rust has no type: the floats of 8, 6 and 4 bits and the integers
/// of 4, 2 and 1.
///
/// The bits of one element are its code. Elements narrower than a byte share bytes: the first has the lowest bits, and there
/// are no gaps between them.
///
/// Floats are encoded and decoded as in the Python package `ml_dtypes` 0.6, bit for bit. A number is rounded
/// to the nearest, ties to even. A number beyond the largest becomes
///
/// - an infinity in `f8_e5m2`,
/// - a NaN in `f8_e4m3`, `f8_e4m3fnuz`, `f8_e5m2fnuz` and `f8_e8m0`, which have no infinities,
/// - the largest number in the floats of 6 and 4 bits, which have no NaN either; in these a NaN becomes a
///   zero.
///
/// `f8_e8m0` holds powers of two: zero and negative numbers become NaN, a tie becomes the larger power.
///
/// ```
/// use tensor_core::{DType, SmallType};
///
/// let f8 = SmallType::from_dtype(DType::F8E4M3).ok_or("not a small type")?;
/// assert_eq!(f8.to_f32(0x38), 1.0);
/// assert_eq!(f8.from_f32(0.33), 0x2b); // 0.34375 is the nearest
/// assert!(f8.to_f32(f8.from_f32(1e6)).is_nan());
///
/// let mut values = [0.0; 4];
/// SmallType::from_dtype(DType::I4).ok_or("not a small type")?.decode(&[0x21, 0xf3], &mut values);
/// assert_eq!(values, [1.0, 2.0, 3.0, -1.0]);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy)]
pub struct SmallType {
    dtype: DType,
    bits: u32,
    codes: Codes,
    values: &'static [f32; 256],
}

/// The meaning of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codes {
    Float(Layout),
    /// The powers of two of `f8_e8m0`.
    Powers,
    /// The smallest and the largest integer. The codes are two's complement if the smallest is negative.
    Integer(i16, i16),
    /// −1 and +1.
    Signs,
}

/// A float with sign, exponent and mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// The number of bits, including the sign.
    bits: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

/// Which codes are not numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// Codes with the largest exponent: infinities and NaN, as in IEEE 754.
    Ieee,
    /// Codes with all bits set, for either sign: NaN.
    Ones,
    /// The code that would be the negative zero: NaN.
    NegativeZero,
    /// No code.
    None,
}

impl SmallType {
    /// Returns the small type for a dtype; `None` if the dtype is not one of these.
    #[must_use]
    pub const fn from_dtype(dtype: DType) -> Option<Self> {
        /// A type with its table of values, which is computed at compile time.
        macro_rules! small {
            ($bits:literal, $codes:expr) => {{
                const CODES: Codes = $codes;
                static VALUES: [f32; 256] = values($bits, CODES);
                Some(Self { dtype, bits: $bits, codes: CODES, values: &VALUES })
            }};
        }
        macro_rules! float {
            ($bits:literal, $mantissa:literal, $bias:literal, $special:ident) => {
                small!(
                    $bits,
                    Codes::Float(Layout {
                        bits: $bits,
                        mantissa: $mantissa,
                        bias: $bias,
                        special: Special::$special
                    })
                )
            };
        }
        match dtype {
            DType::F8E4M3 => float!(8, 3, 7, Ones),
            DType::F8E5M2 => float!(8, 2, 15, Ieee),
            DType::F8E4M3Fnuz => float!(8, 3, 8, NegativeZero),
            DType::F8E5M2Fnuz => float!(8, 2, 16, NegativeZero),
            DType::F8E8M0 => small!(8, Codes::Powers),
            DType::F6E2M3 => float!(6, 3, 1, None),
            DType::F6E3M2 => float!(6, 2, 3, None),
            DType::F4 => float!(4, 1, 1, None),
            DType::I4 => small!(4, Codes::Integer(-8, 7)),
            DType::I2 => small!(2, Codes::Integer(-2, 1)),
            DType::I1 => small!(1, Codes::Integer(-1, 0)),
            DType::U4 => small!(4, Codes::Integer(0, 15)),
            DType::U2 => small!(2, Codes::Integer(0, 3)),
            DType::U1 => small!(1, Codes::Integer(0, 1)),
            DType::T2 => small!(2, Codes::Integer(-1, 1)),
            DType::T1 => small!(1, Codes::Signs),
            _ => None,
        }
    }

    /// Returns the number of bits of one element: 8, 6, 4, 2 or 1.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Decodes a number; bits beyond those of one element are ignored.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "a byte is inside a table of 256")]
    pub const fn to_f32(self, code: u8) -> f32 {
        self.values[code as usize]
    }

    /// Encodes a number, rounded. For integer types the number is rounded toward zero, a number outside the
    /// range becomes the smallest or largest value, and a NaN becomes 0.
    #[must_use]
    pub fn from_f32(self, value: f32) -> u8 {
        self.rounded(value).0
    }

    /// Encodes a number like [`from_f32`](Self::from_f32) and also returns whether it fits. A number outside
    /// the range does not fit, nor does an infinity or a NaN if the type has none.
    #[must_use]
    pub fn rounded(self, value: f32) -> (u8, bool) {
        match self.codes {
            Codes::Float(layout) => layout.code(value),
            Codes::Powers => power(value),
            Codes::Integer(min, max) => integer(value, min, max, self.bits),
            Codes::Signs => (u8::from(value > 0.0), value.abs() == 1.0),
        }
    }

    /// Returns whether the type has a NaN.
    #[must_use]
    pub const fn has_nan(self) -> bool {
        match self.codes {
            Codes::Float(layout) => !matches!(layout.special, Special::None),
            Codes::Powers => true,
            Codes::Integer(..) | Codes::Signs => false,
        }
    }

    /// Decodes packed elements into `out`: as many as `bytes` and `out` both hold.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) {
        self.unpack(bytes, out, |code| self.to_f32(code));
    }

    /// Packs numbers, rounded: as many as `values` and `out` both hold. Unused bits of the last byte become
    /// 0.
    pub fn encode(self, values: &[f32], out: &mut [u8]) {
        self.pack(values, out, |&value| self.from_f32(value));
    }

    /// Returns the smallest number of elements that fill whole bytes, and the number of these bytes.
    pub(crate) const fn group(self) -> (usize, usize) {
        match self.bits {
            8 => (1, 1),
            6 => (4, 3),
            4 => (2, 1),
            2 => (4, 1),
            _ => (8, 1),
        }
    }

    /// Unpacks codes, converts each with `of` and writes the results to `out`, as far as `bytes` reach.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
    pub fn unpack<T>(self, bytes: &[u8], out: &mut [T], of: impl Fn(u8) -> T) {
        if self.bits == 8 {
            return bytes.iter().zip(out).for_each(|(&byte, out)| *out = of(byte));
        }
        let mask = u8::MAX >> (8 - self.bits);
        let (elements, nbytes) = self.group();
        for (bytes, out) in bytes.chunks(nbytes).zip(out.chunks_mut(elements)) {
            let word = bytes.iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
            for (out, shift) in out.iter_mut().zip((0..).step_by(self.bits as usize)) {
                *out = of((word >> shift) as u8 & mask);
            }
        }
    }

    /// Packs values that `code` encodes: as many as `values` and `out` both hold. Unused bits of the last
    /// byte become 0.
    pub fn pack<T>(self, values: &[T], out: &mut [u8], mut code: impl FnMut(&T) -> u8) {
        let mask = u8::MAX >> (8 - self.bits);
        let (elements, nbytes) = self.group();
        for (values, out) in values.chunks(elements).zip(out.chunks_mut(nbytes)) {
            let mut word = 0u32;
            for (value, shift) in values.iter().zip((0..).step_by(self.bits as usize)) {
                word |= u32::from(code(value) & mask) << shift;
            }
            out.iter_mut().zip(word.to_le_bytes()).for_each(|(out, byte)| *out = byte);
        }
    }
}

impl fmt::Debug for SmallType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SmallType").field(&self.dtype).finish()
    }
}

/// Returns the values of all codes. For a type with fewer than 8 bits, the values repeat.
#[expect(clippy::cast_possible_truncation, reason = "codes are smaller than 256")]
#[expect(clippy::indexing_slicing, reason = "codes are smaller than 256")]
const fn values(bits: u32, codes: Codes) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let own = code as u32 & ((1 << bits) - 1);
        values[code] = match codes {
            Codes::Float(layout) => layout.value(own),
            Codes::Powers => power_of(own),
            Codes::Integer(min, _) => {
                let is_negative = min < 0 && own >> (bits - 1) == 1;
                own as f32 - if is_negative { (1u32 << bits) as f32 } else { 0.0 }
            }
            Codes::Signs => own as f32 * 2.0 - 1.0,
        };
        code += 1;
    }
    values
}

impl Layout {
    /// Returns the exponent of the smallest normal number.
    const fn min_exponent(self) -> i32 {
        1 - self.bias
    }

    /// Returns the largest code of a finite positive number.
    const fn max_code(self) -> u32 {
        let ones = (1 << (self.bits - 1)) - 1;
        match self.special {
            Special::Ieee => ones - (1 << self.mantissa),
            Special::Ones => ones - 1,
            Special::NegativeZero | Special::None => ones,
        }
    }

    const fn value(self, code: u32) -> f32 {
        let sign = code >> (self.bits - 1) << 31;
        let magnitude = code & ((1 << (self.bits - 1)) - 1);
        let is_nan = match self.special {
            Special::NegativeZero => sign != 0 && magnitude == 0,
            Special::Ieee => magnitude > self.max_code() + 1,
            Special::Ones | Special::None => magnitude > self.max_code(),
        };
        if is_nan {
            return f32::from_bits(sign | f32::NAN.to_bits());
        }
        if magnitude > self.max_code() {
            return f32::from_bits(sign | f32::INFINITY.to_bits());
        }
        let (exponent, mantissa) = (magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1));
        let is_normal = exponent > 0;
        let units = if is_normal { mantissa | 1 << self.mantissa } else { mantissa };
        // Both factors and their product are normal numbers of f32, so they are exact.
        let exponent = if is_normal { exponent as i32 - self.bias } else { self.min_exponent() };
        let unit = f32::from_bits(((exponent - self.mantissa as i32 + 127) as u32) << 23);
        f32::from_bits(sign | (units as f32 * unit).to_bits())
    }

    /// Returns the code of a number, and whether the number fits.
    #[expect(clippy::cast_possible_truncation, reason = "codes have 8 bits or fewer")]
    fn code(self, value: f32) -> (u8, bool) {
        let sign = value.to_bits() >> 31 << (self.bits - 1);
        let max = self.max_code();
        let (code, fits) = match self.magnitude(value.abs()) {
            _ if value.is_nan() => (self.nan(sign), self.special != Special::None),
            0 if self.special == Special::NegativeZero => (0, true),
            magnitude if magnitude <= max => (sign | magnitude, true),
            _ if self.special == Special::Ieee => (sign | (max + 1), value.is_infinite()),
            _ if self.special == Special::None => (sign | max, false),
            _ => (self.nan(sign), false),
        };
        (code as u8, fits)
    }

    /// Returns the code of a positive number as if exponents were unlimited, rounded to the nearest, ties to
    /// even.
    fn magnitude(self, value: f32) -> u32 {
        const IMPLICIT: u32 = 1 << 23;
        let (exponent, mantissa) = (value.to_bits() >> 23, value.to_bits() & (IMPLICIT - 1));
        // The distance of the exponent from the smallest normal number's. Subnormal numbers of f32 are below
        // half of the smallest number.
        let above = exponent.cast_signed() - 127 - self.min_exponent();
        let dropped = 23 - self.mantissa + above.min(0).unsigned_abs().min(8);
        let all = IMPLICIT | mantissa;
        let kept = all >> dropped;
        let (rest, half) = (all - (kept << dropped), 1 << (dropped - 1));
        let rounds_up = rest > half || (rest == half && kept & 1 == 1);
        // The implicit bit and a carry add to the exponent.
        (above.max(0).unsigned_abs() << self.mantissa) + kept + u32::from(rounds_up)
    }

    /// Returns the code of a NaN with this sign.
    const fn nan(self, sign: u32) -> u32 {
        let negative = 1 << (self.bits - 1);
        match self.special {
            Special::Ieee => sign | (self.max_code() + 1) | 1 << (self.mantissa - 1),
            Special::Ones => sign | (self.max_code() + 1),
            Special::NegativeZero => negative,
            // ml_dtypes encodes NaN as a zero of the opposite sign.
            Special::None => sign ^ negative,
        }
    }
}

/// Decodes a code of `f8_e8m0`.
const fn power_of(code: u32) -> f32 {
    f32::from_bits(match code {
        0 => 1 << 22, // 2^-127 is subnormal in f32
        0xff => f32::NAN.to_bits(),
        _ => code << 23,
    })
}

/// Returns the code of the nearest power of two, and whether the number fits.
#[expect(clippy::cast_possible_truncation, reason = "the exponent of f32 has 8 bits")]
fn power(value: f32) -> (u8, bool) {
    const HALF: u32 = 1 << 22;
    if value.is_nan() || value <= 0.0 {
        return (0xff, value.is_nan());
    }
    // Codes are the exponents of f32. Below the normal numbers of f32, ml_dtypes rounds to the nearest of 0
    // and 2^-126, and replaces the 0 by 2^-127.
    let bits = value.to_bits();
    let code = if bits <= HALF { 0 } else { ((bits + HALF) >> 23) as u8 };
    (code, code < 0xff)
}

/// Returns the code of an integer, and whether it is within the range.
#[expect(clippy::cast_possible_truncation, reason = "the integer is within the range of the type")]
#[expect(clippy::cast_sign_loss, reason = "codes are two's complement")]
fn integer(value: f32, min: i16, max: i16, bits: u32) -> (u8, bool) {
    let whole = value as i16; // toward zero; saturates far beyond every range
    let near = whole.clamp(min, max);
    (near as u8 & (u8::MAX >> (8 - bits)), whole == near && !value.is_nan())
}

#[cfg(test)]
mod tests;
