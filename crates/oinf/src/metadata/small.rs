//! Numbers of 8 bits or fewer, and the rules for their packed bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{DType, SmallType};

use crate::error::Fault;
use crate::wire::ValueType;

/// A number of 8 bits or fewer: f8_e5m2, or an integer of 4, 2 or 1 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallNumber {
    value_type: ValueType,
    code: u8,
}

impl SmallNumber {
    /// Creates the number with this code. Bits beyond the width of the type are dropped. Returns `None` if
    /// the dtype is not one of these types.
    #[must_use]
    pub fn new(dtype: DType, code: u8) -> Option<Self> {
        let bits = SmallType::from_dtype(dtype)?.bits();
        Some(Self { value_type: ValueType::from_dtype(dtype)?, code: code & low_bits(bits) })
    }

    /// Creates the number as the file stores it, including any bits beyond the width of the type.
    pub(crate) const fn stored(value_type: ValueType, code: u8) -> Self {
        Self { value_type, code }
    }

    pub(crate) const fn value_type(self) -> ValueType {
        self.value_type
    }

    /// Returns the type of the number.
    #[must_use]
    pub fn dtype(self) -> DType {
        self.value_type.dtype().unwrap_or(DType::U8)
    }

    /// Returns the bits of the number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.code
    }

    /// Returns the value of the number.
    #[must_use]
    pub fn to_f32(self) -> f32 {
        SmallType::from_dtype(self.dtype()).map_or(f32::NAN, |small| small.to_f32(self.code))
    }
}

/// Returns a byte with its lowest `bits` bits set.
const fn low_bits(bits: u32) -> u8 {
    if bits >= 8 { u8::MAX } else { !(u8::MAX << bits) }
}

/// Returns a fault if bits after the last packed element are set, or if a ternary is not −1, 0 or 1
/// (docs/formats/oinf.md#types-16-to-25).
pub(crate) fn packed_fault(dtype: DType, bytes: &[u8], elements: u64) -> Option<Fault> {
    let stray = bytes.last().and_then(|&last| stray_fault(dtype, last, elements));
    stray.or_else(|| ternary_fault(dtype, bytes))
}

/// Returns a fault if bits of the last byte are set after the last element.
pub(crate) fn stray_fault(dtype: DType, last: u8, elements: u64) -> Option<Fault> {
    let bits = SmallType::from_dtype(dtype).map_or(8, |small| u64::from(small.bits()));
    let used = (elements % 8).saturating_mul(bits) % 8;
    (used > 0 && last >> used != 0).then_some(Fault::Padding(last))
}

/// Returns a fault if a ternary is not −1, 0 or 1.
pub(crate) fn ternary_fault(dtype: DType, bytes: &[u8]) -> Option<Fault> {
    if dtype != DType::T2 {
        return None;
    }
    let count: u64 = bytes.iter().map(|&byte| u64::from(ternaries(byte).count_ones())).sum();
    (count > 0).then_some(Fault::Ternary(count))
}

/// Returns a byte with one bit set for each ternary that is −2, whose code is 0b10.
pub(crate) const fn ternaries(byte: u8) -> u8 {
    byte >> 1 & !byte & 0b0101_0101
}
