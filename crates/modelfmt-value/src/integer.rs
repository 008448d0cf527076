//! The integer type of metadata: it holds `i64`, `u64`, and larger integers of JSON.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

/// A signed integer of 128 bits.
///
/// Each number has one representation: 5 read from JSON equals 5 made from an `i64`. JSON files do contain
/// integers beyond 64 bits, such as `"model_max_length": 1000000000000000019884624838656`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Integer {
    // The halves of an i128. An i128 itself would need an alignment of 16 bytes and make every value of a
    // tree larger. With the fields in this order, the derived `Ord` is the order of the numbers.
    high: i64,
    low: u64,
}

impl Integer {
    const fn to_i128(self) -> i128 {
        (self.high as i128) << 64 | self.low as i128
    }

    /// Returns the number as `u64`; `None` if it is negative or above 2^64 − 1.
    #[must_use]
    pub const fn as_u64(self) -> Option<u64> {
        if self.high == 0 { Some(self.low) } else { None }
    }

    /// Returns the number as `i64`; `None` if it is below −2^63 or above 2^63 − 1.
    #[must_use]
    pub const fn as_i64(self) -> Option<i64> {
        let low = self.low.cast_signed();
        if self.high == low >> 63 { Some(low) } else { None }
    }

    /// Returns the number as `f64`; `None` if it would have to be rounded.
    #[must_use]
    pub const fn as_f64(self) -> Option<f64> {
        let number = self.to_i128();
        let magnitude = number.unsigned_abs();
        let unused = magnitude.leading_zeros().saturating_add(magnitude.trailing_zeros());
        if magnitude == 0 || u128::BITS.saturating_sub(unused) <= f64::MANTISSA_DIGITS {
            Some(number as f64)
        } else {
            None
        }
    }

    /// Returns whether the number is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.high < 0
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_i128().fmt(f)
    }
}

impl fmt::Debug for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<i128> for Integer {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are what is left")]
    fn from(n: i128) -> Self {
        Self { high: (n >> 64) as i64, low: n.cast_unsigned() as u64 }
    }
}

impl From<u64> for Integer {
    fn from(n: u64) -> Self {
        Self { high: 0, low: n }
    }
}

impl From<i64> for Integer {
    fn from(n: i64) -> Self {
        Self { high: n >> 63, low: n.cast_unsigned() }
    }
}

impl From<usize> for Integer {
    fn from(n: usize) -> Self {
        Self::from(n as u64)
    }
}

impl From<isize> for Integer {
    fn from(n: isize) -> Self {
        Self::from(n as i64)
    }
}

macro_rules! from_smaller {
    ($($small:ty => $large:ty),*) => {
        $(impl From<$small> for Integer {
            fn from(n: $small) -> Self {
                Self::from(<$large>::from(n))
            }
        })*
    };
}

from_smaller!(u8 => u64, u16 => u64, u32 => u64, i8 => i64, i16 => i64, i32 => i64);

impl From<Integer> for i128 {
    fn from(n: Integer) -> Self {
        n.to_i128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_representation_for_each_number() {
        assert_eq!(Integer::from(5i64), Integer::from(5u8));
        assert_eq!(Integer::from(0i8), Integer::from(0u64));
        assert_ne!(Integer::from(-1i64), Integer::from(u64::MAX));
        assert_eq!(Integer::from(i64::MAX).as_u64(), Some(i64::MAX as u64));
    }

    #[test]
    fn conversions_are_exact_or_none() {
        assert_eq!(Integer::from(u64::MAX).as_i64(), None);
        assert_eq!(Integer::from(i64::MIN).as_i64(), Some(i64::MIN));
        assert_eq!(Integer::from(-1i32).as_u64(), None);
        assert_eq!(Integer::from(0u8).as_f64(), Some(0.0));
        assert_eq!(Integer::from(1u64 << 53).as_f64(), Some(9007199254740992.0));
        assert_eq!(Integer::from((1u64 << 53) + 1).as_f64(), None);
        assert_eq!(Integer::from(1u64 << 63).as_f64(), Some(9223372036854775808.0));
        assert_eq!(Integer::from(u64::MAX).as_f64(), None);
        assert_eq!(Integer::from(i64::MIN).as_f64(), Some(-9223372036854775808.0));
        assert_eq!(Integer::from(i64::MIN + 1).as_f64(), None);
        assert_eq!(i128::from(Integer::from(u64::MAX)), i128::from(u64::MAX));
        let large = Integer::from(1_000_000_000_000_000_019_884_624_838_656i128);
        assert_eq!((large.as_u64(), large.as_i64(), large.as_f64()), (None, None, Some(1e30)));
        assert_eq!(Integer::from(i128::from(u64::MAX) + 2).as_f64(), None);
        let below = Integer::from(i128::from(i64::MIN) - 1);
        assert_eq!((below.as_u64(), below.as_i64(), below.is_negative()), (None, None, true));
        for n in [i128::MIN, i128::MAX, -1, 0, 1, i128::from(i64::MIN), i128::from(u64::MAX) + 1] {
            assert_eq!(i128::from(Integer::from(n)), n);
        }
    }

    #[test]
    fn order_and_text_are_those_of_the_numbers() {
        let (least, most) = (i128::from(i64::MIN), i128::from(u64::MAX));
        let numbers = [i128::MIN, least - 1, least, -2, -1, 0, 1, most / 2, most, most + 1, i128::MAX];
        let made: Vec<Integer> = numbers.map(Integer::from).into();
        assert!(made.is_sorted());
        for (n, made) in numbers.iter().zip(&made) {
            assert_eq!(n.to_string(), made.to_string());
            assert_eq!(made.is_negative(), *n < 0);
        }
    }
}
