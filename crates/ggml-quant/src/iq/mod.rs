//! The importance quants: levels that are not evenly spaced (IQ4), or whole groups of elements from a grid.

use bytemuck::{AnyBitPattern, NoUninit};

use super::{Decode, by_nibble, grids, pick, wide};

mod encode;

/// 4-bit codes of [`LEVELS`], with a scale in f16 for 32 elements. The low nibbles are the first 16 of them.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Iq4Nl {
    d: [u8; 2],
    qs: [u8; 16],
}

/// Sub-blocks of 32 like [`Iq4Nl`], with scales of 6 bits: four bits in a nibble of `scales_l`, two more in
/// `scales_h`.
#[derive(Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Iq4Xs {
    d: [u8; 2],
    scales_h: [u8; 2],
    scales_l: [u8; 4],
    qs: [[u8; 16]; 8],
}

/// For each 32 elements, four points of 8 bits, then a word of four times seven bits of signs and four bits
/// of scale.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Iq2Xxs {
    d: [u8; 2],
    qs: [[[u8; 4]; 2]; 8],
}

/// Points of 9 bits below seven bits of signs; a scale of four bits for each 16 elements.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Iq2Xs {
    d: [u8; 2],
    qs: [[[u8; 2]; 4]; 8],
    scales: [u8; 8],
}

/// Points of 10 bits, two of these in `qh`, and all eight signs; a scale of four bits for each 16 elements.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Iq2S {
    d: [u8; 2],
    qs: [[u8; 4]; 8],
    signs: [[u8; 4]; 8],
    qh: [u8; 8],
    scales: [u8; 8],
}

/// For each 32 elements, eight points of four elements; signs and scale as in [`Iq2Xxs`].
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Iq3Xxs {
    d: [u8; 2],
    qs: [[[u8; 2]; 4]; 8],
    signs_and_scales: [[u8; 4]; 8],
}

/// Points of four elements with 9 bits, one of these in `qh`, and all signs; a scale of four bits for each 32
/// elements.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Iq3S {
    d: [u8; 2],
    qs: [[[u8; 2]; 4]; 8],
    qh: [u8; 8],
    signs: [[u8; 4]; 8],
    scales: [u8; 4],
}

/// For each 32 elements, four points of 11 bits, three of these in `qh`, with scale and shift above them.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Iq1S {
    d: [u8; 2],
    qs: [[u8; 4]; 8],
    qh: [[u8; 2]; 8],
}

/// Points like those of [`Iq1S`], each with its own shift above its three bits in `qh`; a scale of three bits
/// for each 16 elements, and above four such scales a nibble of the f16 that scales the block.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(super) struct Iq1M {
    qs: [[u8; 4]; 8],
    qh: [[u8; 2]; 8],
    scales: [[u8; 2]; 4],
}

/// The values of the codes of [`Iq4Nl`] and [`Iq4Xs`].
const LEVELS: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0,
];

impl Decode<32> for Iq4Nl {
    #[inline]
    fn decode(&self, out: &mut [f32; 32]) {
        by_nibble(wide(self.d), &LEVELS, &self.qs, out);
    }
}

impl Decode<256> for Iq4Xs {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        let high = u16::from_le_bytes(self.scales_h);
        let low = self.scales_l.iter().flat_map(|scales| [scales & 0xf, scales >> 4]);
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs);
        for (((out, qs), low), shift) in blocks.zip(low).zip((0..16).step_by(2)) {
            let scale = u16::from(low) | (((high >> shift) & 3) << 4);
            by_nibble(d * (i32::from(scale) - 32) as f32, &LEVELS, qs, out);
        }
    }
}

impl Decode<256> for Iq2Xxs {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        for (out, [points, word]) in out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs) {
            let (signs, scale) = signs_and_scale(*word);
            let d = d * (0.5 + scale) * 0.25;
            for ((out, &point), signs) in out.as_chunks_mut::<8>().0.iter_mut().zip(points).zip(signs) {
                signed(d, pick(&grids::IQ2_XXS, point.into()), signs, out);
            }
        }
    }
}

impl Decode<256> for Iq2Xs {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs);
        for ((out, qs), &scales) in blocks.zip(&self.scales) {
            let groups = out.as_chunks_mut::<8>().0.iter_mut().zip(qs);
            for ((out, q), d) in groups.zip(quarters(d, scales)) {
                let q = u16::from_le_bytes(*q);
                let [_, signs] = (q >> 1).to_le_bytes();
                signed(d, pick(&grids::IQ2_XS, (q & 0x1ff).into()), with_parity(signs), out);
            }
        }
    }
}

impl Decode<256> for Iq2S {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs).zip(&self.signs);
        for (((out, qs), signs), (&qh, &scales)) in blocks.zip(self.qh.iter().zip(&self.scales)) {
            let groups = out.as_chunks_mut::<8>().0.iter_mut().zip(qs).zip(signs);
            for (((out, &q), &signs), (shift, d)) in
                groups.zip([0, 2, 4, 6].into_iter().zip(quarters(d, scales)))
            {
                let point = usize::from(q) | usize::from((qh >> shift) & 3) << 8;
                signed(d, pick(&grids::IQ2_S, point), signs, out);
            }
        }
    }
}

impl Decode<256> for Iq3Xxs {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs);
        for ((out, qs), word) in blocks.zip(&self.signs_and_scales) {
            let (signs, scale) = signs_and_scale(*word);
            let d = d * (0.5 + scale) * 0.5;
            for ((out, &[a, b]), signs) in out.as_chunks_mut::<8>().0.iter_mut().zip(qs).zip(signs) {
                let point = joined(pick(&grids::IQ3_XXS, a.into()), pick(&grids::IQ3_XXS, b.into()));
                signed(d, &point, signs, out);
            }
        }
    }
}

impl Decode<256> for Iq3S {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        let scales = self.scales.iter().flat_map(|scales| [scales & 0xf, scales >> 4]);
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs).zip(&self.signs);
        for (((out, qs), signs), (&qh, scale)) in blocks.zip(self.qh.iter().zip(scales)) {
            let d = d * f32::from(1 + 2 * scale);
            let groups = out.as_chunks_mut::<8>().0.iter_mut().zip(qs).zip(signs);
            for (((out, &[a, b]), &signs), shift) in groups.zip([0, 2, 4, 6]) {
                let point = |q: u8, shift: u8| usize::from(q) | usize::from((qh >> shift) & 1) << 8;
                let (a, b) = (point(a, shift), point(b, shift + 1));
                signed(d, &joined(pick(&grids::IQ3_S, a), pick(&grids::IQ3_S, b)), signs, out);
            }
        }
    }
}

impl Decode<256> for Iq1S {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = wide(self.d);
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs);
        for ((out, qs), qh) in blocks.zip(&self.qh) {
            let qh = u16::from_le_bytes(*qh);
            let d = d * f32::from(2 * ((qh >> 12) & 7) + 1);
            for ((out, &q), shift) in out.as_chunks_mut::<8>().0.iter_mut().zip(qs).zip([0, 3, 6, 9]) {
                let point = usize::from(q) | usize::from((qh >> shift) & 7) << 8;
                shifted(d, point, qh & 0x8000 != 0, out);
            }
        }
    }
}

impl Decode<256> for Iq1M {
    #[inline]
    fn decode(&self, out: &mut [f32; 256]) {
        let words = self.scales.map(u16::from_le_bytes);
        let [a, b, c, e] = words.map(|word| word & 0xf000);
        let d = wide(((a >> 12) | (b >> 8) | (c >> 4) | e).to_le_bytes());
        let mut scales = words.into_iter().flat_map(|word| [0, 3, 6, 9].map(|shift| (word >> shift) & 7));
        for ((out, qs), qh) in out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs).zip(&self.qh) {
            let halves = out.as_chunks_mut::<16>().0.iter_mut().zip(qs.as_chunks::<2>().0).zip(qh);
            for (((out, qs), qh), scale) in halves.zip(&mut scales) {
                let d = d * f32::from(2 * scale + 1);
                for ((out, &q), high) in
                    out.as_chunks_mut::<8>().0.iter_mut().zip(qs).zip([qh & 0xf, qh >> 4])
                {
                    let point = usize::from(q) | usize::from(high & 7) << 8;
                    shifted(d, point, high & 8 != 0, out);
                }
            }
        }
    }
}

/// Writes `d * level` with the sign that each bit gives.
#[inline]
fn signed(d: f32, point: &[u8; 8], signs: u8, out: &mut [f32; 8]) {
    for ((out, &level), bit) in out.iter_mut().zip(point).zip([1, 2, 4, 8, 16, 32, 64, 128]) {
        // Free of branches, so that it can be vectorized.
        let sign = if signs & bit == 0 { 0 } else { 1 << 31 };
        *out = f32::from_bits((d * f32::from(level)).to_bits() ^ sign);
    }
}

/// Writes `d * (level ± 1/8)` for a point of IQ1.
#[inline]
fn shifted(d: f32, point: usize, is_down: bool, out: &mut [f32; 8]) {
    // The grid stores levels plus 1. This is a table lookup, because a branch would be mispredicted half of
    // the time.
    let delta = pick(&[-0.875, -1.125], usize::from(is_down));
    for (out, &level) in out.iter_mut().zip(pick(&grids::IQ1, point)) {
        *out = d * (f32::from(level) + delta);
    }
}

/// Joins two points of four elements to one of eight.
#[inline]
const fn joined(&[a, b, c, d]: &[u8; 4], &[e, f, g, h]: &[u8; 4]) -> [u8; 8] {
    [a, b, c, d, e, f, g, h]
}

/// Returns the scales of four groups of eight: the low nibble is for the first two, the high nibble for the
/// others.
#[inline]
fn quarters(d: f32, scales: u8) -> [f32; 4] {
    let [a, b] = [scales & 0xf, scales >> 4].map(|scale| d * (0.5 + f32::from(scale)) * 0.25);
    [a, a, b, b]
}

/// Returns seven bits of signs for each of four groups, and a scale of four bits.
#[inline]
fn signs_and_scale(word: [u8; 4]) -> ([u8; 4], f32) {
    let word = u32::from_le_bytes(word);
    let [_, _, _, scale] = (word >> 4).to_le_bytes();
    let signs = [0, 7, 14, 21].map(|shift| {
        let [signs, ..] = (word >> shift).to_le_bytes();
        with_parity(signs & 0x7f)
    });
    (signs, f32::from(scale))
}

/// Completes seven signs to eight: the number of negative signs is even.
#[inline]
const fn with_parity(signs: u8) -> u8 {
    let odd = signs.count_ones() & 1 == 1;
    if odd { signs | 0x80 } else { signs }
}
