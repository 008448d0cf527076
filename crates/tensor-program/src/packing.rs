//! How numbers of a few bits are packed in bytes.

use std::fmt;

/// How unsigned numbers of a few bits follow each other in bytes.
///
/// The first number is in the lowest bits of the first byte, and a number may begin in one byte and end in
/// the next. This also describes numbers of 3 bits in little-endian words of 32 bits, packed three words at a
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    pub(crate) bits: u8,
    high_first: bool,
    add: u8,
}

impl Packing {
    /// Describes numbers of this many bits. Returns `None` unless `bits` is 1 to 8.
    #[must_use]
    pub const fn of_bits(bits: u32) -> Option<Self> {
        match bits {
            // At most 8.
            #[allow(clippy::cast_possible_truncation, reason = "checked here")]
            1..=8 => Some(Self { bits: bits as u8, high_first: false, add: 0 }),
            _ => None,
        }
    }

    /// Puts the first of two numbers of 4 bits in the high bits of its byte. Has no effect on other widths.
    #[must_use]
    pub const fn high_first(self) -> Self {
        Self { high_first: self.bits == 4, ..self }
    }

    /// Adds `add` to each number, modulo 2 to the power of the number of bits.
    #[must_use]
    pub const fn add(self, add: u8) -> Self {
        Self { add, ..self }
    }

    /// Returns how many different numbers there are: one more than the largest.
    pub(crate) const fn count(self) -> u64 {
        1 << self.bits
    }

    /// Returns the byte in which a number begins, and the bit in that byte. Positions fit a `u64`, because
    /// the number of bytes does.
    pub(crate) fn place(self, number: u64) -> (u64, u32) {
        let bits = u64::from(self.bits);
        let (eights, rest) = (number / 8, number % 8 * bits);
        let byte = eights.saturating_mul(bits).saturating_add(rest / 8);
        (byte, u32::try_from(rest % 8).unwrap_or(0))
    }

    /// Fills `out` with the numbers in `bytes` from bit `skip` of the first byte on.
    pub(crate) fn unpack(self, bytes: &[u8], skip: u32, out: &mut [u8]) {
        let (bits, mask) = (u32::from(self.bits), u16::from(u8::MAX >> (8 - self.bits)));
        let number = |low: u16, bit: u32| {
            let bit = if self.high_first { 4 - bit } else { bit };
            let [number, _] = ((low >> bit).wrapping_add(u16::from(self.add)) & mask).to_le_bytes();
            number
        };
        if self.bits == 4 && skip == 0 {
            for (out, &byte) in out.chunks_mut(2).zip(bytes) {
                for (out, bit) in out.iter_mut().zip([0, 4]) {
                    *out = number(u16::from(byte), bit);
                }
            }
            return;
        }
        let mut place = skip;
        let at = |index: u32| bytes.get(index as usize).copied().unwrap_or(0);
        for out in out {
            let (index, bit) = (place / 8, place % 8);
            let pair = u16::from_le_bytes([at(index), at(index.saturating_add(1))]);
            *out = number(pair, bit);
            place = place.saturating_add(bits);
        }
    }
}

/// Prints what the step does, such as `unpack 4 bits`.
impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bits, high_first, add } = self;
        write!(f, "unpack {bits} bits")?;
        if *high_first {
            f.write_str(", high bits first")?;
        }
        match add {
            0 => Ok(()),
            _ => write!(f, " plus {add} modulo {}", self.count()),
        }
    }
}
