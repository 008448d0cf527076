//! Encoders for elements of different importance, following ggml's `quantize_row_q4_0_impl` and its siblings.

use super::{Q4_0, Q4_1, Q5_0, Q5_1};
use crate::lanes::{LANES, Lanes, by_element, by_lane};
use crate::search::{Shifted, Signed, Steps, check, sum_of_squares, weighted};
use crate::{BlockError, EncodeWeighted, narrow};

/// Encodes a row, eight blocks at a time; the last group may have fewer.
fn by_eight<B>(
    out: &mut [B],
    values: &[[f32; 32]],
    importance: &[[f32; 32]],
    search: impl Fn(&[Lanes; 32], &[Lanes; 32]) -> (Lanes, Lanes, [Lanes; 32]),
    pack: impl Fn(&mut B, f32, f32, &[u8; 32]) -> Result<(), BlockError>,
) -> Result<(), (usize, BlockError)> {
    for (index, values) in values.iter().enumerate() {
        check(values).map_err(|error| (index, error))?;
    }
    let flat = values.as_flattened();
    let mean = Lanes::all(sum_of_squares(flat) / flat.len() as f32);
    let groups = values.chunks(LANES).zip(importance.chunks(LANES)).zip(out.chunks_mut(LANES));
    for (group, ((values, importance), out)) in groups.enumerate() {
        let elements = padded(values);
        let weights = weighted(&elements, &padded(importance), mean);
        let (scales, mins, codes) = search(&elements, &weights);
        let mut bytes = [0; 256];
        by_lane(&codes, &mut bytes);
        let each = bytes.as_chunks::<32>().0.iter().zip(scales.0.into_iter().zip(mins.0));
        for (lane, (out, (codes, (scale, min)))) in out.iter_mut().zip(each).enumerate() {
            pack(out, scale, min, codes).map_err(|error| (group * LANES + lane, error))?;
        }
    }
    Ok(())
}

/// Transposes up to eight blocks to their elements; missing blocks are zeros.
#[inline]
fn padded(blocks: &[[f32; 32]]) -> [Lanes; 32] {
    let mut all = [[0.0; 32]; LANES];
    for (all, block) in all.iter_mut().zip(blocks) {
        *all = *block;
    }
    by_element(all.as_flattened())
}

/// The search that [`by_eight`] takes, for types without a minimum.
#[inline]
fn signed<const LEVELS: i8>(elements: &[Lanes; 32], weights: &[Lanes; 32]) -> (Lanes, Lanes, [Lanes; 32]) {
    let found = Signed::<LEVELS>::of(elements, weights);
    (found.scale, Lanes::ZERO, found.best_codes(elements))
}

/// The search that `by_eight` takes, for types with a minimum.
#[inline]
fn shifted<const MAX: u8>(elements: &[Lanes; 32], weights: &[Lanes; 32]) -> (Lanes, Lanes, [Lanes; 32]) {
    let found = Shifted::of::<32, false>(elements, weights, MAX, &Steps::WEIGHTED);
    (found.scale, found.min, found.best_codes(elements, MAX))
}

/// Packs the low nibbles of codes: the first sixteen in the low halves of the bytes.
#[inline]
fn nibbles(codes: &[u8; 32]) -> [u8; 16] {
    let mut packed = [0; 16];
    let (low, high) = codes.split_at(16);
    for (packed, (low, high)) in packed.iter_mut().zip(low.iter().zip(high)) {
        *packed = (low & 0xf) | (high << 4);
    }
    packed
}

/// Packs the fifth bits of codes.
#[inline]
fn fifth_bits(codes: &[u8; 32]) -> [u8; 4] {
    let bits = codes.iter().zip(0..).fold(0_u32, |bits, (code, at)| bits | u32::from((code >> 4) & 1) << at);
    bits.to_le_bytes()
}

macro_rules! weighted_row {
    ($($block:ident $search:expr, |$out:ident, $min:ident, $codes:ident| $more:block)*) => {
        $(impl EncodeWeighted<32> for $block {
            fn encode_row(
                out: &mut [Self],
                values: &[[f32; 32]],
                importance: &[[f32; 32]],
            ) -> Result<(), (usize, BlockError)> {
                by_eight(out, values, importance, $search, |$out, scale, $min, $codes| {
                    $out.d = narrow(scale)?;
                    $out.qs = nibbles($codes);
                    $more
                    Ok(())
                })
            }
        })*
    };
}

weighted_row! {
    Q4_0 signed::<8>, |out, _min, codes| {}
    Q4_1 shifted::<15>, |out, min, codes| { out.m = narrow(min)?; }
    Q5_0 signed::<16>, |out, _min, codes| { out.qh = fifth_bits(codes); }
    Q5_1 shifted::<31>, |out, min, codes| { out.m = narrow(min)?; out.qh = fifth_bits(codes); }
}
