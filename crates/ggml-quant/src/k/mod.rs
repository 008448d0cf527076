//! The K-quants: blocks of 256 elements, divided into sub-blocks of 16 or 32 with their own scales.

use bytemuck::{AnyBitPattern, NoUninit};

use super::{Decode, wide};

mod contracted;
mod encode;

/// 2 bits; sub-blocks of 16, with a scale in the low and a minimum in the high nibble of `scales`.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q2K {
    scales: [u8; 16],
    qs: [u8; 64],
    d: [u8; 2],
    dmin: [u8; 2],
}

/// 3 bits, the third of these in `hmask`; sub-blocks of 16 with scales of 6 bits.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q3K {
    hmask: [u8; 32],
    qs: [u8; 64],
    scales: [u8; 12],
    d: [u8; 2],
}

/// 4 bits; sub-blocks of 32 with a scale and a minimum of 6 bits each.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q4K {
    d: [u8; 2],
    dmin: [u8; 2],
    scales: [u8; 12],
    qs: [u8; 128],
}

/// 5 bits, the fifth of these in `qh`; otherwise like [`Q4K`].
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q5K {
    d: [u8; 2],
    dmin: [u8; 2],
    scales: [u8; 12],
    qh: [u8; 32],
    qs: [u8; 128],
}

/// 6 bits, the upper two of these in `qh`; sub-blocks of 16 with signed scales.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Q6K {
    ql: [[[u8; 32]; 2]; 2],
    qh: [[u8; 32]; 2],
    scales: [u8; 16],
    d: [u8; 2],
}

/// 8 bits in two's complement with a scale in f32. ggml needs the sums for its products; the values do not
/// depend on them.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Q8K {
    d: [u8; 4],
    qs: [u8; 256],
    _bsums: [u8; 32],
}

impl Decode<256> for Q2K {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (wide(self.d), wide(self.dmin));
        let mut scales = self.scales.iter();
        for (out, qs) in out.as_chunks_mut::<128>().0.iter_mut().zip(self.qs.as_chunks::<32>().0) {
            for (out, shift) in out.as_chunks_mut::<32>().0.iter_mut().zip([0, 2, 4, 6]) {
                let halves = out.as_chunks_mut::<16>().0.iter_mut().zip(qs.as_chunks::<16>().0);
                for ((out, qs), scale) in halves.zip(&mut scales) {
                    let (d, m) = (d * f32::from(scale & 0xf), dmin * f32::from(scale >> 4));
                    for (out, q) in out.iter_mut().zip(qs) {
                        *out = d * f32::from((q >> shift) & 3) - m;
                    }
                }
            }
        }
    }
}

impl Decode<256> for Q3K {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        let mut scales = signed_scales(&self.scales).into_iter();
        let mut high_bit = 0;
        for (out, qs) in out.as_chunks_mut::<128>().0.iter_mut().zip(self.qs.as_chunks::<32>().0) {
            for (out, shift) in out.as_chunks_mut::<32>().0.iter_mut().zip([0, 2, 4, 6]) {
                let mut codes = [0; 32];
                for ((code, q), high) in codes.iter_mut().zip(qs).zip(&self.hmask) {
                    *code = ((q >> shift) & 3) | (((high >> high_bit) & 1) << 2);
                }
                high_bit += 1;
                let halves = out.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0);
                for ((out, codes), scale) in halves.zip(&mut scales) {
                    let d = d * f32::from(scale);
                    for (out, &code) in out.iter_mut().zip(codes) {
                        *out = d * (i32::from(code) - 4) as f32;
                    }
                }
            }
        }
    }
}

impl Decode<256> for Q4K {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (wide(self.d), wide(self.dmin));
        let mut scales = scales_and_minima(&self.scales).into_iter();
        for (out, qs) in out.as_chunks_mut::<64>().0.iter_mut().zip(self.qs.as_chunks::<32>().0) {
            let halves = out.as_chunks_mut::<32>().0.iter_mut().zip([0, 4]);
            for ((out, shift), (scale, min)) in halves.zip(&mut scales) {
                let (d, m) = (d * f32::from(scale), dmin * f32::from(min));
                for (out, q) in out.iter_mut().zip(qs) {
                    *out = d * f32::from((q >> shift) & 0xf) - m;
                }
            }
        }
    }
}

impl Decode<256> for Q5K {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (wide(self.d), wide(self.dmin));
        let mut scales = scales_and_minima(&self.scales).into_iter().zip(0..);
        for (out, qs) in out.as_chunks_mut::<64>().0.iter_mut().zip(self.qs.as_chunks::<32>().0) {
            let halves = out.as_chunks_mut::<32>().0.iter_mut().zip([0, 4]);
            for ((out, shift), ((scale, min), high_bit)) in halves.zip(&mut scales) {
                let (d, m) = (d * f32::from(scale), dmin * f32::from(min));
                for ((out, q), high) in out.iter_mut().zip(qs).zip(&self.qh) {
                    let q = ((q >> shift) & 0xf) | (((high >> high_bit) & 1) << 4);
                    *out = d * f32::from(q) - m;
                }
            }
        }
    }
}

impl Decode<256> for Q6K {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        let mut scales = self.scales.iter().map(|scale| d * f32::from(scale.cast_signed()));
        for ((out, [a, b]), qh) in out.as_chunks_mut::<128>().0.iter_mut().zip(&self.ql).zip(&self.qh) {
            let quarters = [(a, 0, 0), (b, 0, 2), (a, 4, 4), (b, 4, 6)];
            for (out, (ql, low_shift, high_shift)) in out.as_chunks_mut::<32>().0.iter_mut().zip(quarters) {
                let mut codes = [0; 32];
                for ((code, low), high) in codes.iter_mut().zip(ql).zip(qh) {
                    *code = ((low >> low_shift) & 0xf) | (((high >> high_shift) & 3) << 4);
                }
                let halves = out.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0);
                for ((out, codes), d) in halves.zip(&mut scales) {
                    for (out, &code) in out.iter_mut().zip(codes) {
                        *out = d * (i32::from(code) - 32) as f32;
                    }
                }
            }
        }
    }
}

impl Decode<256> for Q8K {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = f32::from_le_bytes(self.d);
        for (out, q) in out.iter_mut().zip(&self.qs) {
            *out = d * f32::from(q.cast_signed());
        }
    }
}

/// Unpacks the sixteen scales of [`Q3K`], less 32: the low nibbles of bytes 0 to 7, then their high nibbles,
/// with two more bits of each in the last four bytes.
#[inline]
fn signed_scales(packed: &[u8; 12]) -> [i8; 16] {
    let [low @ .., a, b, c, d] = packed;
    let mut scales = [0; 16];
    let low = low.iter().map(|l| l & 0xf).chain(low.iter().map(|l| l >> 4));
    let high = [0, 2, 4, 6].into_iter().flat_map(|shift| [a, b, c, d].map(|h| (h >> shift) & 3));
    for (scale, (low, high)) in scales.iter_mut().zip(low.zip(high)) {
        *scale = (low | (high << 4)).cast_signed() - 32;
    }
    scales
}

/// Unpacks the eight scales and minima of [`Q4K`] and [`Q5K`]. The first four of both have six bits in one
/// byte. The last four have a nibble, and two more bits above those of the first four.
#[inline]
fn scales_and_minima(packed: &[u8; 12]) -> [(u8, u8); 8] {
    let [s0, s1, s2, s3, m0, m1, m2, m3, n0, n1, n2, n3] = *packed;
    let first = |s: u8, m: u8| (s & 0x3f, m & 0x3f);
    let last = |s: u8, m: u8, n: u8| ((n & 0xf) | ((s >> 2) & 0x30), (n >> 4) | ((m >> 2) & 0x30));
    [
        first(s0, m0),
        first(s1, m1),
        first(s2, m2),
        first(s3, m3),
        last(s0, m0, n0),
        last(s1, m1, n1),
        last(s2, m2, n2),
        last(s3, m3, n3),
    ]
}
