//! The types whose elements are 4-bit floats (E2M1) with a scale of 8 bits.

use bytemuck::AnyBitPattern;

use super::{Decode, by_nibble, pick};

/// A scale that is a power of two for 32 elements. The low nibbles are the first 16 of them, the high nibbles
/// the other 16.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Mxfp4 {
    e: u8,
    qs: [u8; 16],
}

/// Four scales, one for each 16 elements, as E4M3 without a sign. The nibbles of each 16 elements are as in
/// [`Mxfp4`].
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Nvfp4 {
    d: [u8; 4],
    qs: [[u8; 8]; 4],
}

impl Decode<32> for Mxfp4 {
    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        by_nibble(half_power_of_two(self.e), &DOUBLED, &self.qs, out);
    }
}

impl Decode<64> for Nvfp4 {
    #[inline]
    fn decode(&self, out: &mut [f32; 64]) {
        for ((out, qs), d) in out.as_chunks_mut::<16>().0.iter_mut().zip(&self.qs).zip(self.d) {
            by_nibble(*pick(&HALF_SCALES, d.into()), &DOUBLED, qs, out);
        }
    }
}

/// The doubled value of each E2M1.
const DOUBLED: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// Returns `2^(e - 128)`, half of the scale, because the elements are doubled. As in ggml, no `e` is a NaN.
#[inline]
fn half_power_of_two(e: u8) -> f32 {
    let e = u32::from(e);
    // Below 2^-126, a bit of the mantissa encodes the power.
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 })
}

/// Half of each E4M3 with a bias of 7. The sign is ignored, and the code of NaN is 0.
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated when the crate is compiled: a mistake is an error of the compiler"
)]
const HALF_SCALES: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut bits = 0;
    while bits < 256 {
        let (exponent, mantissa) = ((bits as u32 >> 3) & 0xf, bits as u32 & 7);
        scales[bits] = match exponent {
            0 => mantissa as f32 / 1024.0,
            _ => f32::from_bits(((exponent + 119) << 23) | (mantissa << 20)),
        };
        bits += 1;
    }
    scales[0x7f] = 0.0;
    scales
};
