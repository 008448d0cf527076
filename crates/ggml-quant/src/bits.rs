//! The types of one or two bits, or of three levels, with a single scale in f16.

use bytemuck::AnyBitPattern;

use super::{Decode, wide};

/// A bit for each of 128 elements: `d` if it is set, otherwise `-d`.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Q1_0 {
    d: [u8; 2],
    qs: [u8; 16],
}

/// Two bits for each of 64 elements, with four consecutive elements in a byte: `d * (q - 1)`.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Q2_0 {
    d: [u8; 2],
    qs: [u8; 16],
}

/// Three levels: `d * (q - 1)`. A byte is a fraction of 256, whose five digits to base 3 are elements (four
/// digits in `qh`).
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Tq1_0 {
    qs: [u8; 48],
    qh: [u8; 4],
    d: [u8; 2],
}

/// Three levels, two bits for each: `d * (q - 1)`. The elements of a byte are 32 apart.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Tq2_0 {
    qs: [[u8; 32]; 2],
    d: [u8; 2],
}

impl Decode<128> for Q1_0 {
    #[inline]
    fn decode(&self, out: &mut [f32; 128]) {
        let d = wide(self.d);
        for (out, q) in out.as_chunks_mut::<8>().0.iter_mut().zip(self.qs) {
            for (out, bit) in out.iter_mut().zip([1, 2, 4, 8, 16, 32, 64, 128]) {
                *out = if q & bit == 0 { -d } else { d };
            }
        }
    }
}

impl Decode<64> for Q2_0 {
    #[inline]
    fn decode(&self, out: &mut [f32; 64]) {
        let d = wide(self.d);
        for (out, q) in out.as_chunks_mut::<4>().0.iter_mut().zip(self.qs) {
            // Not every processor has vector shifts by a different count for each element, and these
            // quotients are exact.
            let levels = [(0x03_u8, 1.0_f32), (0x0c, 0.25), (0x30, 0.0625), (0xc0, 0.015_625)];
            for (out, (mask, unit)) in out.iter_mut().zip(levels) {
                *out = d * ((i32::from(q & mask) as f32) * unit - 1.0);
            }
        }
    }
}

impl Decode<256> for Tq1_0 {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        let (first, rest) = out.split_at_mut(160);
        let (second, last) = rest.split_at_mut(80);
        let (qs, rs) = self.qs.split_at(32);
        digits::<32>(qs, d, first);
        digits::<16>(rs, d, second);
        digits::<4>(&self.qh, d, last);
    }
}

impl Decode<256> for Tq2_0 {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        for (out, qs) in out.as_chunks_mut::<128>().0.iter_mut().zip(&self.qs) {
            for (out, shift) in out.as_chunks_mut::<32>().0.iter_mut().zip([0, 2, 4, 6]) {
                for (out, q) in out.iter_mut().zip(qs) {
                    *out = d * (i32::from((q >> shift) & 3) - 1) as f32;
                }
            }
        }
    }
}

/// Decodes `N` bytes of [`Tq1_0`]: the first digit of each byte, then the second, and so on until `out` is
/// full.
#[inline]
fn digits<const N: usize>(bytes: &[u8], d: f32, out: &mut [f32]) {
    let powers = [1_u8, 3, 9, 27, 81];
    for (out, power) in out.as_chunks_mut::<N>().0.iter_mut().zip(powers) {
        for (out, byte) in out.iter_mut().zip(bytes) {
            // The fraction after the digits before this one. The integer part of three times that is the
            // digit.
            let fraction = byte.wrapping_mul(power);
            let digit = (u16::from(fraction) * 3) >> 8;
            *out = d * (i32::from(digit) - 1) as f32;
        }
    }
}
