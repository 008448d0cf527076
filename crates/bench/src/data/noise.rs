//! Values that depend only on their position, so that any piece of a tensor can be generated at any time.

use std::collections::BTreeSet;

use modelfmt_write::{BoxError, TensorData};

/// The kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// `f32`, uniform between −1 and 1.
    F32,
    /// `f16`, uniform between −1 and 1, except for one row of zeros in 64, so that LZ4 saves about 1 %.
    /// Without these rows, LZ4 would save nothing, and the tensor would be stored raw.
    F16,
    /// `f16`, nine tenths of which are zero, scattered.
    Pruned,
}

/// The values of the tensors of a model.
pub struct Noise {
    values: Values,
    /// The only tensors that are not zero; `None` for all.
    only: Option<BTreeSet<usize>>,
}

impl Noise {
    /// Fills all tensors with such values.
    pub const fn new(values: Values) -> Self {
        Self { values, only: None }
    }

    /// Fills only these tensors with values; all others are zero.
    pub fn only(values: Values, tensors: impl IntoIterator<Item = usize>) -> Self {
        Self { values, only: Some(tensors.into_iter().collect()) }
    }

    /// Returns the bytes `8 × index` to `8 × index + 8` of a tensor.
    fn word(&self, tensor: usize, index: u64) -> [u8; 8] {
        let place = ((tensor as u64) << 40) + index;
        let word = match self.values {
            Values::F32 => f32s(mix(place)),
            // The first 1 KiB of each 64 KiB.
            Values::F16 if (index / 128).is_multiple_of(64) => 0,
            Values::F16 => f16s(mix(place)),
            Values::Pruned => f16s(mix(place)) & kept(mix(!place)),
        };
        word.to_le_bytes()
    }
}

impl TensorData for Noise {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        if self.only.as_ref().is_some_and(|only| !only.contains(&tensor)) {
            out.fill(0);
            return Ok(());
        }
        let first = self.word(tensor, offset / 8);
        let begun = (offset % 8) as usize;
        let head_len = if begun == 0 { 0 } else { out.len().min(8 - begun) };
        let (head, rest) = out.split_at_mut(head_len);
        head.copy_from_slice(&first[begun..begun + head_len]);
        let (words, tail) = rest.as_chunks_mut::<8>();
        let mut index = offset.div_ceil(8);
        for word in words {
            *word = self.word(tensor, index);
            index += 1;
        }
        tail.copy_from_slice(&self.word(tensor, index)[..tail.len()]);
        Ok(())
    }
}

/// Returns uniform bits for every number (the finalizer of `splitmix64`).
const fn mix(place: u64) -> u64 {
    let mut bits = place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Returns two `f32` between −1 and 1.
fn f32s(bits: u64) -> u64 {
    let one = |bits: u32| (bits.cast_signed() as f32 / 2_147_483_648.0).to_bits();
    u64::from(one(bits as u32)) | u64::from(one((bits >> 32) as u32)) << 32
}

/// Returns four `f16` between −1 and 1: a sign, an exponent whose probability halves with each step down, and
/// ten bits.
fn f16s(bits: u64) -> u64 {
    let one = |bits: u64| {
        let exponent = 14 - (bits >> 10 & 0x1f | 0x4000).trailing_zeros().min(14) as u64;
        bits & 0x8000 | exponent << 10 | bits & 0x3ff
    };
    one(bits & 0xffff)
        | one(bits >> 16 & 0xffff) << 16
        | one(bits >> 32 & 0xffff) << 32
        | one(bits >> 48) << 48
}

/// Returns ones in one of ten 16-bit lanes.
fn kept(bits: u64) -> u64 {
    let one = |bits: u64| if bits & 0xffff < 6554 { 0xffff } else { 0 };
    one(bits) | one(bits >> 16) << 16 | one(bits >> 32) << 32 | one(bits >> 48) << 48
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelfmt_core::f16;

    fn bytes(values: Values, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        Noise::new(values).read(3, 0, &mut out).unwrap();
        out
    }

    #[test]
    fn any_piece_is_the_same_as_in_the_whole() {
        let whole = bytes(Values::F32, 100);
        for start in 0..20 {
            for end in [start, start + 1, start + 7, start + 40, 100] {
                let mut piece = vec![0; end - start];
                Noise::new(Values::F32).read(3, start as u64, &mut piece).unwrap();
                assert_eq!(piece, whole[start..end], "{start}..{end}");
            }
        }
    }

    #[test]
    fn values_are_what_they_are_said_to_be() {
        let f32s = bytes(Values::F32, 4000);
        let f32s = f32s.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b));
        assert!(
            f32s.clone().all(|v| v.abs() <= 1.0)
                && f32s.clone().any(|v| v < -0.9)
                && f32s.clone().any(|v| v > 0.9)
        );
        let halves = |values| {
            let bytes = bytes(values, 1 << 16);
            bytes.as_chunks::<2>().0.iter().map(|&b| f16::from_le_bytes(b).to_f32()).collect::<Vec<_>>()
        };
        let f16s = halves(Values::F16);
        assert!(f16s.iter().all(|v| v.abs() < 1.0) && f16s.iter().filter(|v| **v == 0.0).count() < 700);
        let kept = halves(Values::Pruned).into_iter().filter(|v| *v != 0.0).count();
        assert!((2900..3700).contains(&kept), "{kept} of 32768");
    }

    #[test]
    fn tensors_that_are_not_asked_for_are_zero() {
        let noise = Noise::only(Values::F32, [1]);
        let (mut zero, mut some) = ([1; 16], [0; 16]);
        noise.read(0, 0, &mut zero).unwrap();
        noise.read(1, 0, &mut some).unwrap();
        assert_eq!(zero, [0; 16]);
        assert_ne!(some, [0; 16]);
    }
}
