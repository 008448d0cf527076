//! One integer type for all that `i64` and `u64` hold.

use std::fmt;

/// An integer between −2^63 and 2^64 − 1.
///
/// Each number has one representation, so 5 read from JSON equals 5 made from an `i64`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Integer(Repr);

/// The variants stand in numerical order, which is what the derived `Ord` goes by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Repr {
    /// Always below zero.
    Negative(i64),
    NonNegative(u64),
}

impl Integer {
    /// The number as `u64`; `None` if it is negative.
    #[must_use]
    pub const fn as_u64(self) -> Option<u64> {
        match self.0 {
            Repr::Negative(_) => None,
            Repr::NonNegative(n) => Some(n),
        }
    }

    /// The number as `i64`; `None` if it is above 2^63 − 1.
    #[must_use]
    pub const fn as_i64(self) -> Option<i64> {
        match self.0 {
            Repr::Negative(n) => Some(n),
            Repr::NonNegative(n) => 0i64.checked_add_unsigned(n),
        }
    }

    /// The number as `f64`; `None` if it would have to be rounded.
    #[must_use]
    pub const fn as_f64(self) -> Option<f64> {
        let (magnitude, float) = match self.0 {
            Repr::Negative(n) => (n.unsigned_abs(), n as f64),
            Repr::NonNegative(n) => (n, n as f64),
        };
        let unused = magnitude.leading_zeros() + magnitude.trailing_zeros();
        if magnitude == 0 || u64::BITS - unused <= f64::MANTISSA_DIGITS { Some(float) } else { None }
    }

    /// Whether the number is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        matches!(self.0, Repr::Negative(_))
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Repr::Negative(n) => n.fmt(f),
            Repr::NonNegative(n) => n.fmt(f),
        }
    }
}

impl fmt::Debug for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<u64> for Integer {
    fn from(n: u64) -> Self {
        Self(Repr::NonNegative(n))
    }
}

impl From<i64> for Integer {
    fn from(n: i64) -> Self {
        Self(u64::try_from(n).map_or(Repr::Negative(n), Repr::NonNegative))
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
        match n.0 {
            Repr::Negative(n) => n.into(),
            Repr::NonNegative(n) => n.into(),
        }
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
    }

    #[test]
    fn order_and_text_are_those_of_the_numbers() {
        let numbers = [i128::from(i64::MIN), -2, -1, 0, 1, i128::from(i64::MAX), i128::from(u64::MAX)];
        let made: Vec<Integer> = numbers
            .iter()
            .map(|&n| {
                i64::try_from(n).map_or_else(|_| Integer::from(u64::try_from(n).unwrap()), Integer::from)
            })
            .collect();
        assert!(made.is_sorted());
        for (n, made) in numbers.iter().zip(&made) {
            assert_eq!(n.to_string(), made.to_string());
            assert_eq!(made.is_negative(), *n < 0);
        }
    }
}
