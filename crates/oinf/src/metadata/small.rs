//! Numbers of 8 bits and fewer, and what their packed bytes may not be.
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
    /// The number of a code; its bits beyond those of the type are left out. `None` for a type that is none of these.
    #[must_use]
    pub fn new(dtype: DType, code: u8) -> Option<Self> {
        let bits = SmallType::from_dtype(dtype)?.bits();
        Some(Self { value_type: ValueType::from_dtype(dtype)?, code: code & low_bits(bits) })
    }

    /// As a file has it, with whatever bits are beyond those of the type.
    pub(crate) const fn stored(value_type: ValueType, code: u8) -> Self {
        Self { value_type, code }
    }

    pub(crate) const fn value_type(self) -> ValueType {
        self.value_type
    }

    /// Its type.
    #[must_use]
    pub fn dtype(self) -> DType {
        self.value_type.dtype().unwrap_or(DType::U8)
    }

    /// Its bits.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.code
    }

    /// The number.
    #[must_use]
    pub fn to_f32(self) -> f32 {
        SmallType::from_dtype(self.dtype()).map_or(f32::NAN, |small| small.to_f32(self.code))
    }
}

/// A byte with its lowest bits set.
const fn low_bits(bits: u32) -> u8 {
    if bits >= 8 { u8::MAX } else { !(u8::MAX << bits) }
}

/// Bits of packed elements beyond the last are zero, and ternaries are −1, 0 and 1 (docs/formats/oinf.md#types-16-to-25).
pub(crate) fn packed_fault(dtype: DType, bytes: &[u8], elements: u64) -> Option<Fault> {
    let stray = bytes.last().and_then(|&last| stray_fault(dtype, last, elements));
    stray.or_else(|| ternary_fault(dtype, bytes))
}

/// Bits of the last byte beyond the last element are zero.
pub(crate) fn stray_fault(dtype: DType, last: u8, elements: u64) -> Option<Fault> {
    let bits = SmallType::from_dtype(dtype).map_or(8, |small| u64::from(small.bits()));
    let used = (elements % 8).saturating_mul(bits) % 8;
    (used > 0 && last >> used != 0).then_some(Fault::Padding(last))
}

/// Ternaries are −1, 0 and 1.
pub(crate) fn ternary_fault(dtype: DType, bytes: &[u8]) -> Option<Fault> {
    if dtype != DType::T2 {
        return None;
    }
    let count: u64 = bytes.iter().map(|&byte| u64::from(ternaries(byte).count_ones())).sum();
    (count > 0).then_some(Fault::Ternary(count))
}

/// A bit for each element of a byte of ternaries that is −2, whose code is 0b10.
pub(crate) const fn ternaries(byte: u8) -> u8 {
    byte >> 1 & !byte & 0b0101_0101
}
