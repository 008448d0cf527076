//! Encoders of IQ4 that follow ggml's plain C (`quantize_row_iq4_nl_impl`) bit for bit.

use super::{Iq4Nl, Iq4Xs, LEVELS};
use crate::lanes::{LANES, Lanes, by_element, by_lane, nearest_integer};
use crate::search::{ZERO_THRESHOLD, check, extremes, sum_of_squares, weighted};
use crate::{BlockError, Encode, EncodeWeighted, each_weighted, narrow};

impl EncodeWeighted<32> for Iq4Nl {
    fn encode_row(
        out: &mut [Self],
        values: &[[f32; 32]],
        importance: &[[f32; 32]],
    ) -> Result<(), (usize, BlockError)> {
        let (group, rest) = values.as_chunks::<LANES>();
        let (weights, fewer) = importance.as_chunks::<LANES>();
        let whole = group.len() * LANES;
        let mut weights = weights.iter();
        for (index, (out, values)) in out.chunks_mut(LANES).zip(group).enumerate() {
            let at = |(lane, error)| (index * LANES + lane, error);
            eight(out, values, weights.next()).map_err(at)?;
        }
        let Some(out) = out.get_mut(whole..).filter(|out| !out.is_empty()) else { return Ok(()) };
        let padded = (!fewer.is_empty()).then(|| padded(fewer));
        eight(out, &self::padded(rest), padded.as_ref()).map_err(|(lane, error)| (whole + lane, error))
    }
}

/// Copies up to eight blocks; missing blocks are zeros.
fn padded(blocks: &[[f32; 32]]) -> [[f32; 32]; LANES] {
    let mut all = [[0.0; 32]; LANES];
    for (all, block) in all.iter_mut().zip(blocks) {
        *all = *block;
    }
    all
}

/// Encodes up to eight blocks.
fn eight(
    out: &mut [Iq4Nl],
    values: &[[f32; 32]; LANES],
    importance: Option<&[[f32; 32]; LANES]>,
) -> Result<(), (usize, BlockError)> {
    let mut mean = Lanes::ZERO;
    for (lane, (mean, values)) in mean.0.iter_mut().zip(values).enumerate() {
        check(values).map_err(|error| (lane, error))?;
        *mean = sum_of_squares(values) * (2.0 / 32.0);
    }
    let elements = by_element::<32>(values.as_flattened());
    let importance = importance.map(|importance| by_element::<32>(importance.as_flattened()));
    let scales = search(&elements, importance.as_ref(), mean);
    let inverse = scales.is_zero().select(Lanes::ZERO, Lanes::all(1.0) / scales);
    let mut codes = [0; 256];
    by_lane(&elements.map(|x| code(inverse * x)), &mut codes);
    let blocks = out.iter_mut().zip(scales.0.into_iter().zip(codes.as_chunks::<32>().0));
    for (lane, (out, (scale, codes))) in blocks.enumerate() {
        out.d = narrow(scale).map_err(|error| (lane, error))?;
        out.qs = nibbles(codes);
    }
    Ok(())
}

impl Encode<256> for Iq4Xs {
    fn encode(&mut self, values: &[f32; 256]) -> Result<(), BlockError> {
        self.set_block(values, None)
    }
}

impl EncodeWeighted<256> for Iq4Xs {
    fn encode_row(
        out: &mut [Self],
        values: &[[f32; 256]],
        importance: &[[f32; 256]],
    ) -> Result<(), (usize, BlockError)> {
        each_weighted(out, values, importance, |out, values, importance| {
            out.set_block(values, Some(importance))
        })
    }
}

impl Iq4Xs {
    fn set_block(&mut self, values: &[f32; 256], importance: Option<&[f32; 256]>) -> Result<(), BlockError> {
        check(values)?;
        let mean = Lanes::all(sum_of_squares(values) * (2.0 / 256.0));
        let elements = by_element::<32>(values);
        let importance = importance.map(|importance| by_element::<32>(importance));
        let scales = search(&elements, importance.as_ref(), mean);
        if !scales.0.iter().all(|scale| scale.is_finite()) {
            return Err(BlockError::ScaleOverflow);
        }
        let larger = |most: f32, scale: f32| if scale.abs() > most.abs() { scale } else { most };
        // The rounding to `f16` affects only the stored scale; the following steps use `d` itself.
        let d = -scales.0.into_iter().fold(0.0, larger) / 32.0;
        self.d = narrow(d)?;
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        let rounded = scales.0.map(|scale| nearest_integer(inverse * scale).clamp(-32, 31));
        let scaled = Lanes(rounded.map(|code| d * code as f32));
        let inverse = scaled.is_zero().select(Lanes::ZERO, Lanes::all(1.0) / scaled);
        let mut codes = [0; 256];
        by_lane(&elements.map(|x| code(inverse * x)), &mut codes);
        for (qs, codes) in self.qs.iter_mut().zip(codes.as_chunks::<32>().0) {
            *qs = nibbles(codes);
        }
        let mut high = 0_u16;
        let mut low = [0_u8; LANES];
        for ((low, code), shift) in low.iter_mut().zip(rounded).zip((0..16).step_by(2)) {
            let [code, ..] = (code + 32).to_le_bytes();
            *low = code & 0xf;
            high |= u16::from(code >> 4) << shift;
        }
        self.scales_h = high.to_le_bytes();
        for (packed, [first, second]) in self.scales_l.iter_mut().zip(low.as_chunks::<2>().0) {
            *packed = first | (second << 4);
        }
        Ok(())
    }
}

/// Finds the best scales of eight blocks. Without importance, the weights are the squares of the elements.
fn search(elements: &[Lanes; 32], importance: Option<&[Lanes; 32]>, mean: Lanes) -> Lanes {
    let weights = match importance {
        Some(importance) => weighted(elements, importance, mean),
        None => elements.map(|x| x * x),
    };
    let (magnitude, extreme) = extremes(elements);
    let [lowest, ..] = LEVELS;
    let d = -extreme / Lanes::all(lowest);
    let (sum_qx, sum_q2) = sums(elements, &weights, Lanes::all(1.0) / d);
    let mut scale = sum_q2.is_zero().select(Lanes::ZERO, sum_qx / sum_q2);
    let mut most = scale * sum_qx;
    for step in -7_i8..=7 {
        let inverse = Lanes::all(f32::from(step) + lowest) / extreme;
        let (sum_qx, sum_q2) = sums(elements, &weights, inverse);
        let better = sum_q2.is_above(Lanes::ZERO).and((sum_qx * sum_qx).is_above(most * sum_q2));
        let next = sum_qx / sum_q2;
        scale = better.select(next, scale);
        most = better.select(next * sum_qx, most);
    }
    magnitude.is_below(Lanes::all(ZERO_THRESHOLD)).select(Lanes::ZERO, scale)
}

/// Sums the weighted products of elements and levels, and the weighted squares of levels.
#[inline]
fn sums(elements: &[Lanes; 32], weights: &[Lanes; 32], inverse: Lanes) -> (Lanes, Lanes) {
    let (mut sum_qx, mut sum_q2) = (Lanes::ZERO, Lanes::ZERO);
    for (&x, &w) in elements.iter().zip(weights) {
        let q = level(inverse * x);
        let wq = w * q;
        sum_qx += wq * x;
        sum_q2 += wq * q;
    }
    (sum_qx, sum_q2)
}

/// Returns the level that is nearest to each value; the higher of two at the same distance, and the highest
/// for a NaN.
#[inline]
fn level(values: Lanes) -> Lanes {
    let [lowest, ..] = LEVELS;
    let mut level = Lanes::all(lowest);
    for pair in LEVELS.windows(2) {
        if let [below, above] = pair {
            // The middle is exact, and so are ggml's differences where they are close to each other.
            level += values.steps_at((below + above) / 2.0, above - below);
        }
    }
    level
}

/// Returns the code of each level.
#[inline]
fn code(values: Lanes) -> Lanes {
    let mut code = Lanes::ZERO;
    for pair in LEVELS.windows(2) {
        if let [below, above] = pair {
            code += values.steps_at((below + above) / 2.0, 1.0);
        }
    }
    code
}

/// Packs pairs of codes that are 16 apart.
#[inline]
fn nibbles(codes: &[u8; 32]) -> [u8; 16] {
    let mut packed = [0; 16];
    let (low, high) = codes.split_at(16);
    for (packed, (low, high)) in packed.iter_mut().zip(low.iter().zip(high)) {
        *packed = low | (high << 4);
    }
    packed
}
