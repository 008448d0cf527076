//! What programs know about dtypes: which are numbers, and which can hold every value of another.

use tensor_core::DType::{self, BF16, F16};
use tensor_core::{Kind, SmallType};

/// Checks whether elements of this dtype are numbers or booleans, so that they can be cast.
#[must_use]
pub const fn is_number(dtype: DType) -> bool {
    matches!(dtype.kind(), Kind::Bool | Kind::Int | Kind::UInt | Kind::Float)
}

/// Checks whether values can be cast to this dtype. T1 is excluded, because it has only signs, and a sign is
/// not a rounded number.
#[must_use]
pub fn is_castable(dtype: DType) -> bool {
    is_number(dtype) && dtype != DType::T1
}

/// Checks whether `wide` can hold every value of `narrow`.
#[must_use]
pub fn holds_every_value(wide: DType, narrow: DType) -> bool {
    let bits = |dtype: DType| {
        SmallType::from_dtype(dtype).map_or(dtype.size().unwrap_or(0).saturating_mul(8), SmallType::bits)
    };
    match (wide.kind(), narrow.kind()) {
        (Kind::Int | Kind::UInt, Kind::Bool) => true,
        (Kind::Int, Kind::Int) | (Kind::UInt, Kind::UInt) => bits(wide) >= bits(narrow),
        (Kind::Int, Kind::UInt) => bits(wide) > bits(narrow),
        (Kind::Float, Kind::Float) => match (wide, narrow) {
            (BF16, F16) | (F16, BF16 | DType::F8E8M0) => false,
            // Floats of at most 8 bits cannot hold each other's values.
            _ => wide == narrow || bits(wide) >= bits(narrow).max(16),
        },
        _ => false,
    }
}
