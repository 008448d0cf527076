//! Casts numbers from one dtype to another, in pieces of whole elements.
//!
//! - Float to float, integer to float: rounded once, to the nearest, ties to even, as in IEEE 754. A number
//!   beyond the range becomes an infinity (or, for a dtype without infinities, the value that [`SmallType`]
//!   documents) and is counted. A NaN stays a NaN, and is refused if the dtype has none.
//! - Float to integer: rounded toward zero. A number beyond the range becomes the end of the range, and is counted. A NaN is
//!   refused.
//! - Integer to integer: a number beyond the range becomes the end of the range, and is counted.
//! - Booleans are 0 and 1; every number but zero becomes true.

use multiversion::multiversion;
use tensor_core::{DType, Kind, SmallType, bf16, f16};

use crate::types::holds_every_value;

/// Counts the values that a cast did not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Values that were not 0 and became 0.
    pub zero: u64,
    /// Finite numbers that became infinite.
    pub infinite: u64,
    /// Numbers that became a NaN, in a dtype that has a NaN but no infinity.
    pub nan: u64,
    /// Numbers that became the smallest or the largest number of the dtype.
    pub saturated: u64,
}

impl Lost {
    /// Adds the counts of another piece.
    pub const fn add(&mut self, other: Self) {
        self.zero = self.zero.saturating_add(other.zero);
        self.infinite = self.infinite.saturating_add(other.infinite);
        self.nan = self.nan.saturating_add(other.nan);
        self.saturated = self.saturated.saturating_add(other.saturated);
    }
}

/// A NaN that the dtype cannot hold: the index of its element in the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotANumber(pub(crate) usize);

/// The number of elements that are cast at once, in buffers on the stack. So many elements are whole bytes in
/// every dtype.
const RUN: usize = 256;

/// Returns the length of a run in bytes.
fn run_len(dtype: DType) -> usize {
    match SmallType::from_dtype(dtype) {
        Some(small) => RUN / 8 * small.bits() as usize,
        None => RUN * dtype.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1),
    }
}

/// Casts whole elements. Returns how many values were lost.
pub(crate) fn cast(from: DType, to: DType, source: &[u8], out: &mut [u8]) -> Result<Lost, NotANumber> {
    if let Some(lost) = half_floats(from, to, source, out) {
        return Ok(lost);
    }
    if let Some(small) = SmallType::from_dtype(from).filter(|_| holds_every_value(to, from))
        && widen_small(small, to, source, out)
    {
        return Ok(Lost::default());
    }
    cast_runs(from, to, source, out)
}

/// Casts by way of `f64` and `i128`.
fn cast_runs(from: DType, to: DType, source: &[u8], out: &mut [u8]) -> Result<Lost, NotANumber> {
    let runs = source.chunks(run_len(from)).zip(out.chunks_mut(run_len(to)));
    let mut lost = Lost::default();
    for (number, (source, out)) in runs.enumerate() {
        let run = if from.kind() == Kind::Float {
            let mut floats = [0.0; RUN];
            decode_floats(from, source, &mut floats);
            cast_floats(to, &floats, out)
        } else {
            let mut integers = [0; RUN];
            decode_integers(from, source, &mut integers);
            Ok(cast_integers(to, &integers, out))
        };
        lost.add(run.map_err(|NotANumber(element)| NotANumber(number * RUN + element))?);
    }
    Ok(lost)
}

/// Casts between f32, f16 and bf16 without going through f64, several at once. Returns `None` for other
/// dtypes.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn half_floats(from: DType, to: DType, source: &[u8], out: &mut [u8]) -> Option<Lost> {
    let of_bf16 = |bits: [u8; 2]| u32::from(u16::from_le_bytes(bits)) << 16;
    let of_f16 = |bits: [u8; 2]| widened(u16::from_le_bytes(bits));
    let to_bf16 = |bits: u32| bf16::from_f32(f32::from_bits(bits)).to_bits();
    match (from, to) {
        (DType::BF16, DType::F32) => widen_bf16(source, out),
        (DType::F16, DType::F32) => {
            for (out, bits) in out.as_chunks_mut::<4>().0.iter_mut().zip(source.as_chunks::<2>().0) {
                *out = of_f16(*bits).to_le_bytes();
            }
        }
        (DType::F32, DType::F16) => return Some(narrow(source, out, u32::from_le_bytes, rounded, F16)),
        (DType::BF16, DType::F16) => return Some(narrow(source, out, of_bf16, rounded, F16)),
        (DType::F32, DType::BF16) => return Some(narrow(source, out, u32::from_le_bytes, to_bf16, BF16)),
        (DType::F16, DType::BF16) => return Some(narrow(source, out, of_f16, to_bf16, BF16)),
        _ => return None,
    }
    Some(Lost::default())
}

/// Multiplies `floats` by `number`, adds them to floats of 16 bits in f32, and rounds once. Counts losses as
/// a cast does.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
pub(crate) fn add_halves(dtype: DType, out: &mut [u8], floats: &[f32], number: f32) -> Lost {
    let of_bf16 = |bits: u16| u32::from(bits) << 16;
    let to_bf16 = |bits: u32| bf16::from_f32(f32::from_bits(bits)).to_bits();
    match dtype {
        DType::BF16 => add_to(out, floats, number, of_bf16, to_bf16, BF16),
        _ => add_to(out, floats, number, widened, rounded, F16),
    }
}

#[inline]
fn add_to(
    out: &mut [u8],
    floats: &[f32],
    number: f32,
    wide: impl Fn(u16) -> u32,
    round: impl Fn(u32) -> u16,
    infinite: u16,
) -> Lost {
    let mut lost = Lost::default();
    for (out, floats) in out.as_chunks_mut::<2>().0.chunks_mut(RUN).zip(floats.chunks(RUN)) {
        let (mut overflown, mut vanished) = (0_u32, 0_u32);
        for (out, float) in out.iter_mut().zip(floats) {
            let sum = (f32::from_bits(wide(u16::from_le_bytes(*out))) + float * number).to_bits();
            let half = round(sum);
            *out = half.to_le_bytes();
            overflown += u32::from(became_infinite(half, sum, infinite));
            vanished += u32::from(became_zero(half, sum));
        }
        lost.infinite += u64::from(overflown);
        lost.zero += u64::from(vanished);
    }
    lost
}

/// The bits of infinity.
const F16: u16 = 0x7c00;
const BF16: u16 = 0x7f80;
const F32: u32 = 0x7f80_0000;

/// Narrows floats to 16 bits, and counts those that became 0 or `infinite`. Free of branches, so that the
/// compiler can vectorize it.
#[inline]
fn narrow<const N: usize>(
    source: &[u8],
    out: &mut [u8],
    bits: impl Fn([u8; N]) -> u32,
    round: impl Fn(u32) -> u16,
    infinite: u16,
) -> Lost {
    let mut lost = Lost::default();
    let runs = source.as_chunks::<N>().0.chunks(RUN).zip(out.as_chunks_mut::<2>().0.chunks_mut(RUN));
    for (source, out) in runs {
        let (mut overflown, mut vanished) = (0_u32, 0_u32);
        for (source, out) in source.iter().zip(out) {
            let wide = bits(*source);
            let rounded = round(wide);
            *out = rounded.to_le_bytes();
            overflown += u32::from(became_infinite(rounded, wide, infinite));
            vanished += u32::from(became_zero(rounded, wide));
        }
        lost.infinite += u64::from(overflown);
        lost.zero += u64::from(vanished);
    }
    lost
}

/// Checks whether a finite f32 became `infinite` or its negative. Free of branches, so that loops with it can
/// be vectorized.
#[inline]
const fn became_infinite(half: u16, wide: u32, infinite: u16) -> bool {
    (half & 0x7fff == infinite) & (wide & 0x7fff_ffff < F32)
}

/// Checks whether an f32 that was not 0 became 0.
#[inline]
const fn became_zero(half: u16, wide: u32) -> bool {
    is_zero(half) & (wide << 1 != 0)
}

/// Returns the bits of the f16 that is nearest to an f32, ties to even. A NaN is made quiet and keeps the
/// payload bits for which there is room.
#[expect(clippy::cast_possible_truncation, reason = "the bits are those of a number of 16 bits")]
const fn rounded(bits: u32) -> u16 {
    /// 2^16, from which on every number is infinite, and 2^-14, below which numbers are subnormal.
    const TOO_LARGE: u32 = 143 << 23;
    const NORMAL: u32 = 113 << 23;
    let (sign, x) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // At one half, the last bit of an f32 has the value of the last bit of a subnormal f16, so the addition
    // rounds to it.
    let subnormal = (f32::from_bits(x) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let normal = x.wrapping_sub((127 - 15) << 23).wrapping_add(0xfff + (x >> 13 & 1)) >> 13;
    let beyond = if x > F32 { 0x7e00 | x >> 13 & 0x3ff } else { F16 as u32 };
    let finite = if x < NORMAL { subnormal } else { normal };
    (sign | if x >= TOO_LARGE { beyond } else { finite }) as u16
}

/// Widens an f16 to the bits of an f32, which is exact. A NaN is made quiet.
#[expect(clippy::cast_precision_loss, reason = "the number has 10 bits")]
const fn widened(bits: u16) -> u32 {
    const STEP: f32 = 1.0 / (1 << 24) as f32;
    let (sign, x) = ((bits as u32 & 0x8000) << 16, bits as u32 & 0x7fff);
    let subnormal = (x as f32 * STEP).to_bits();
    let normal = (x << 13) + ((127 - 15) << 23);
    let quiet = if x > F16 as u32 { 1 << 22 } else { 0 };
    let beyond = x << 13 | F32 | quiet;
    sign | if x < 1 << 10 {
        subnormal
    } else if x >= F16 as u32 {
        beyond
    } else {
        normal
    }
}

/// Widens bf16 to f32 bit for bit, NaNs included.
#[inline]
fn widen_bf16(source: &[u8], out: &mut [u8]) {
    for (out, bits) in out.as_chunks_mut::<4>().0.iter_mut().zip(source.as_chunks::<2>().0) {
        *out = [0, 0, bits[0], bits[1]];
    }
}

/// Casts from a small type by a table of all its codes. Returns false if there is no table for `to`.
fn widen_small(small: SmallType, to: DType, source: &[u8], out: &mut [u8]) -> bool {
    match to {
        DType::F16 => by_table(small, source, out, |x| f16::from_f32(x).to_le_bytes()),
        DType::BF16 => by_table(small, source, out, |x| bf16::from_f32(x).to_le_bytes()),
        DType::F32 => by_table(small, source, out, f32::to_le_bytes),
        _ => return false,
    }
    true
}

#[expect(clippy::indexing_slicing, reason = "a byte is inside a table of 256")]
fn by_table<const N: usize>(small: SmallType, source: &[u8], out: &mut [u8], wide: impl Fn(f32) -> [u8; N]) {
    let mut table = [[0; N]; 256];
    table.iter_mut().zip(0..=u8::MAX).for_each(|(entry, code)| *entry = wide(small.to_f32(code)));
    small.unpack(source, out.as_chunks_mut().0, |code| table[usize::from(code)]);
}

macro_rules! read {
    ($source:expr, $out:expr, $type:ty, |$x:ident| $convert:expr) => {
        for (out, bytes) in $out.iter_mut().zip($source.as_chunks::<{ size_of::<$type>() }>().0) {
            let $x = <$type>::from_le_bytes(*bytes);
            *out = $convert;
        }
    };
}

fn decode_floats(from: DType, source: &[u8], out: &mut [f64]) {
    match from {
        DType::F16 => read!(source, out, f16, |x| f64::from(x)),
        DType::BF16 => read!(source, out, bf16, |x| f64::from(x)),
        DType::F32 => read!(source, out, f32, |x| f64::from(x)),
        DType::F64 => read!(source, out, f64, |x| x),
        small => {
            if let Some(small) = SmallType::from_dtype(small) {
                small.unpack(source, out, |code| small.to_f32(code).into());
            }
        }
    }
}

fn decode_integers(from: DType, source: &[u8], out: &mut [i128]) {
    match from {
        DType::Bool => read!(source, out, u8, |x| i128::from(x != 0)),
        DType::I8 => read!(source, out, i8, |x| x.into()),
        DType::U8 => read!(source, out, u8, |x| x.into()),
        DType::I16 => read!(source, out, i16, |x| x.into()),
        DType::U16 => read!(source, out, u16, |x| x.into()),
        DType::I32 => read!(source, out, i32, |x| x.into()),
        DType::U32 => read!(source, out, u32, |x| x.into()),
        DType::I64 => read!(source, out, i64, |x| x.into()),
        DType::U64 => read!(source, out, u64, |x| x.into()),
        small => {
            if let Some(small) = SmallType::from_dtype(small) {
                #[expect(clippy::cast_possible_truncation, reason = "these numbers are integers")]
                small.unpack(source, out, |code| small.to_f32(code) as i128);
            }
        }
    }
}

macro_rules! write {
    ($values:expr, $out:expr, $type:ty, |$x:ident| $convert:expr) => {
        for (out, &$x) in $out.as_chunks_mut::<{ size_of::<$type>() }>().0.iter_mut().zip($values) {
            *out = <$type>::to_le_bytes($convert);
        }
    };
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest f32 is what is asked for")]
fn cast_floats(to: DType, values: &[f64; RUN], out: &mut [u8]) -> Result<Lost, NotANumber> {
    let mut lost = Lost::default();
    // Free of branches, so that the compiler can vectorize it.
    let mut note = |value: f64, is_infinite: bool, is_zero: bool| {
        lost.infinite += u64::from(is_infinite & value.is_finite());
        lost.zero += u64::from(is_zero & (value != 0.0));
    };
    match to {
        DType::F16 => write!(values, out, f16, |x| {
            let rounded = f16::from_f32(odd_f32(x));
            note(x, rounded.is_infinite(), is_zero(rounded.to_bits()));
            rounded
        }),
        DType::BF16 => write!(values, out, bf16, |x| {
            let rounded = bf16::from_f32(odd_f32(x));
            note(x, rounded.is_infinite(), is_zero(rounded.to_bits()));
            rounded
        }),
        DType::F32 => write!(values, out, f32, |x| {
            let rounded = x as f32;
            note(x, rounded.is_infinite(), rounded == 0.0);
            rounded
        }),
        DType::F64 => write!(values, out, f64, |x| x),
        _ => match SmallType::from_dtype(to).filter(|_| to.kind() == Kind::Float) {
            Some(small) => return floats_to_small(small, values, out),
            None => return floats_to_integers(to, values, out),
        },
    }
    Ok(lost)
}

/// Checks whether the bits of a 16-bit float are 0 or −0.
const fn is_zero(bits: u16) -> bool {
    bits << 1 == 0
}

/// Returns what was lost when a number became this code of a small type.
fn small_loss(small: SmallType, code: u8, fits: bool, is_zero: bool) -> Lost {
    let number = small.to_f32(code);
    let mut lost = Lost::default();
    match fits {
        true => lost.zero = u64::from(number == 0.0 && !is_zero),
        false if number.is_nan() => lost.nan = 1,
        false if number.is_infinite() => lost.infinite = 1,
        false => lost.saturated = 1,
    }
    lost
}

fn floats_to_small(small: SmallType, values: &[f64; RUN], out: &mut [u8]) -> Result<Lost, NotANumber> {
    if !small.has_nan() {
        find_nan(values)?;
    }
    let mut lost = Lost::default();
    small.pack(values, out, |&x| {
        let (code, fits) = small.rounded(odd_f32(x));
        lost.add(small_loss(small, code, fits, x == 0.0));
        code
    });
    Ok(lost)
}

fn find_nan(values: &[f64; RUN]) -> Result<(), NotANumber> {
    // Buffers have zeros beyond the last element, so a NaN is always within the piece.
    values.iter().position(|x| x.is_nan()).map_or(Ok(()), |element| Err(NotANumber(element)))
}

#[expect(clippy::cast_possible_truncation, reason = "the ends of i128 are beyond those of every type")]
fn floats_to_integers(to: DType, values: &[f64; RUN], out: &mut [u8]) -> Result<Lost, NotANumber> {
    find_nan(values)?;
    let integer = |x: f64| if to == DType::Bool { i128::from(x != 0.0) } else { x as i128 };
    let integers = values.map(integer);
    let vanished = values.iter().zip(&integers).map(|(&x, &integer)| u64::from(integer == 0 && x != 0.0));
    let mut lost = cast_integers(to, &integers, out);
    lost.zero += vanished.sum::<u64>();
    Ok(lost)
}

#[expect(clippy::cast_possible_truncation, reason = "values are clamped to the type's range")]
fn cast_integers(to: DType, values: &[i128; RUN], out: &mut [u8]) -> Lost {
    let mut lost = Lost::default();
    macro_rules! integers {
        ($type:ty) => {
            write!(values, out, $type, |x| {
                let fitting = x.clamp(<$type>::MIN.into(), <$type>::MAX.into());
                lost.saturated += u64::from(fitting != x);
                fitting as $type
            })
        };
    }
    match to {
        DType::Bool => write!(values, out, u8, |x| u8::from(x != 0)),
        DType::I8 => integers!(i8),
        DType::U8 => integers!(u8),
        DType::I16 => integers!(i16),
        DType::U16 => integers!(u16),
        DType::I32 => integers!(i32),
        DType::U32 => integers!(u32),
        DType::I64 => integers!(i64),
        DType::U64 => integers!(u64),
        DType::F16 => write!(values, out, f16, |x| {
            let rounded = f16::from_f32(odd_f32_of(x));
            lost.infinite += u64::from(rounded.is_infinite());
            rounded
        }),
        DType::BF16 => write!(values, out, bf16, |x| bf16::from_f32(odd_f32_of(x))),
        DType::F32 => write!(values, out, f32, |x| x as f32),
        DType::F64 => write!(values, out, f64, |x| x as f64),
        small => {
            if let Some(small) = SmallType::from_dtype(small) {
                small.pack(values, out, |&x| {
                    let (code, fits) = small.rounded(odd_f32_of(x));
                    lost.add(small_loss(small, code, fits, x == 0));
                    code
                });
            }
        }
    }
    lost
}

/// Returns `x` as f32. If that is not exact, this is the neighbour toward zero with its last bit set
/// ("rounding to odd"). Rounding the result to 11 or 8 bits gives the same as rounding `x` once, because f32
/// has more than two bits to spare.
#[expect(clippy::cast_possible_truncation, reason = "corrected below")]
fn odd_f32(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    if back == x || !nearest.is_finite() {
        return nearest;
    }
    odd(nearest, back.abs() > x.abs())
}

/// Like [`odd_f32`], for an integer of at most 64 bits and a sign.
#[expect(clippy::cast_possible_truncation, reason = "corrected below")]
fn odd_f32_of(x: i128) -> f32 {
    let nearest = x as f32;
    let back = nearest as i128;
    if back == x {
        return nearest;
    }
    odd(nearest, back.unsigned_abs() > x.unsigned_abs())
}

fn odd(nearest: f32, is_beyond: bool) -> f32 {
    // The next float toward zero has these bits minus one. If `nearest` is zero, `is_beyond` is false.
    f32::from_bits(nearest.to_bits().saturating_sub(u32::from(is_beyond)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Casts, and returns whether values were beyond the range.
    fn cast(from: DType, to: DType, source: &[u8], out: &mut [u8]) -> Result<bool, NotANumber> {
        super::cast(from, to, source, out).map(|lost| lost != Lost { zero: lost.zero, ..Lost::default() })
    }

    /// Counts the `f32` values that became 0, infinite, a NaN, and an end of the range.
    fn lost(values: &[f32], to: DType) -> [u64; 4] {
        let source: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut out = vec![0; usize::try_from(to.nbytes(&[values.len() as u64]).unwrap()).unwrap()];
        let Lost { zero, infinite, nan, saturated } = super::cast(DType::F32, to, &source, &mut out).unwrap();
        [zero, infinite, nan, saturated]
    }

    #[test]
    fn values_that_are_not_kept_are_counted() {
        let values = [0.0, -0.0, 0.25, -0.75, 1.0, 1e-30, -1e30, f32::INFINITY];
        assert_eq!(lost(&values, DType::I8), [3, 0, 0, 2]);
        assert_eq!(lost(&values, DType::U8), [3, 0, 0, 2]);
        assert_eq!(lost(&values, DType::F16), [1, 1, 0, 0]);
        assert_eq!(lost(&values, DType::BF16), [0; 4]);
        assert_eq!(lost(&values, DType::F8E5M2), [1, 1, 0, 0]);
        assert_eq!(lost(&values, DType::F8E4M3), [1, 0, 2, 0]);
        assert_eq!(lost(&[1e30, 0.25], DType::F4), [1, 0, 0, 1]);
        assert_eq!(lost(&values, DType::Bool), [0; 4]);
        assert_eq!(lost(&values, DType::F64), [0; 4]);
    }

    /// Tries every f16 and bf16, and f32 values with every upper half and with lower halves around the ties.
    #[test]
    fn floats_of_16_bits_are_what_the_way_through_f64_makes() {
        let half: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let lower = [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x7fff, 0x8000, 0x8001, 0xffff_u32];
        let whole = (0..=u32::from(u16::MAX)).flat_map(|upper| lower.map(|lower| upper << 16 | lower));
        let whole: Vec<u8> = whole.flat_map(u32::to_le_bytes).collect();
        for (from, source) in [(DType::F16, &half), (DType::BF16, &half), (DType::F32, &whole)] {
            for to in [DType::F16, DType::BF16, DType::F32] {
                if from == to || (from, to) == (DType::BF16, DType::F32) {
                    continue;
                }
                let len = source.len() / from.size().unwrap() as usize * to.size().unwrap() as usize;
                let (mut fast, mut slow) = (vec![0; len], vec![0; len]);
                let lost = half_floats(from, to, source, &mut fast).unwrap();
                assert_eq!(Ok(lost), cast_runs(from, to, source, &mut slow), "{from} {to}");
                assert!(fast == slow, "{from} {to}");
            }
        }
        for (bits, lower) in (0..=u16::MAX).zip(half.as_chunks::<2>().0) {
            assert_eq!(
                f32::from_bits(widened(bits)).to_bits(),
                f16::from_le_bytes(*lower).to_f32().to_bits()
            );
        }
    }

    fn one(from: DType, to: DType, source: &[u8]) -> (Vec<u8>, Result<bool, NotANumber>) {
        let mut out = vec![0; to.size().unwrap() as usize];
        let result = cast(from, to, source, &mut out);
        (out, result)
    }

    #[test]
    fn floats_round_once_to_the_nearest() {
        let f16_of = |x: f64| {
            let (out, result) = one(DType::F64, DType::F16, &x.to_le_bytes());
            (f16::from_le_bytes([out[0], out[1]]).to_f64(), result.unwrap())
        };
        // Just above the middle of 1 and the next f16: rounded twice it would be 1.
        assert_eq!(f16_of(1.0 + 2f64.powi(-11) + 2f64.powi(-40)), (1.0 + 2f64.powi(-10), false));
        assert_eq!(f16_of(1.0 + 2f64.powi(-11)), (1.0, false));
        assert_eq!(f16_of(-(1.0 + 2f64.powi(-11) + 2f64.powi(-40))), (-1.0 - 2f64.powi(-10), false));
        // Just below: rounding to f32 alone gives the middle.
        assert_eq!(f16_of(1.0 + 3.0 * 2f64.powi(-11) - 2f64.powi(-40)), (1.0 + 2f64.powi(-10), false));
        assert_eq!(f16_of(1e-300), (0.0, false));
        assert_eq!(f16_of(1e300), (f64::INFINITY, true));
        assert_eq!(f16_of(f64::INFINITY), (f64::INFINITY, false));
        assert!(f16_of(f64::NAN).0.is_nan());
    }

    #[test]
    fn large_integers_round_once() {
        // 2^63 + 2^55 + 1 is just above the middle of two bf16; as f32 it would be rounded to the middle.
        let x = (1u64 << 63) + (1 << 55) + 1;
        let (out, _) = one(DType::U64, DType::BF16, &x.to_le_bytes());
        let expected = 2f64.powi(63) + 2f64.powi(56);
        assert_eq!(bf16::from_le_bytes([out[0], out[1]]).to_f64(), expected);
        let (out, clipped) = one(DType::I32, DType::F16, &70_000i32.to_le_bytes());
        assert!(f16::from_le_bytes([out[0], out[1]]).is_infinite() && clipped.unwrap());
    }

    #[test]
    fn integers_saturate_and_floats_truncate() {
        assert_eq!(one(DType::F32, DType::I8, &(-1.9f32).to_le_bytes()), (vec![255], Ok(false)));
        assert_eq!(one(DType::F32, DType::U8, &300f32.to_le_bytes()), (vec![255], Ok(true)));
        assert_eq!(one(DType::F32, DType::U8, &f32::NEG_INFINITY.to_le_bytes()), (vec![0], Ok(true)));
        assert_eq!(one(DType::I16, DType::I8, &(-129i16).to_le_bytes()), (vec![128], Ok(true)));
        assert_eq!(one(DType::U64, DType::I64, &u64::MAX.to_le_bytes()).0, i64::MAX.to_le_bytes());
        assert_eq!(one(DType::F32, DType::Bool, &0.5f32.to_le_bytes()), (vec![1], Ok(false)));
        assert_eq!(one(DType::Bool, DType::F32, &[2]).0, 1f32.to_le_bytes());
    }

    #[test]
    fn a_nan_has_no_integer_and_is_found_by_its_place() {
        let mut values = vec![1f32; 600];
        values[517] = f32::NAN;
        let source: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(cast(DType::F32, DType::I32, &source, &mut vec![0; 2400]), Err(NotANumber(517)));
        assert_eq!(cast(DType::F32, DType::Bool, &source, &mut vec![0; 600]), Err(NotANumber(517)));
        assert_eq!(cast(DType::F32, DType::BF16, &source, &mut vec![0; 1200]), Ok(false));
    }

    #[test]
    fn widening_and_narrowing_again_keeps_every_value() {
        let bits: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for narrow in [DType::F16, DType::BF16] {
            let (mut wide, mut back) = (vec![0; 2 * bits.len()], vec![0; bits.len()]);
            assert_eq!(cast(narrow, DType::F32, &bits, &mut wide), Ok(false));
            assert_eq!(cast(DType::F32, narrow, &wide, &mut back), Ok(false));
            let is_nan = |b: &[u8; 2]| {
                f64::from(f16::from_le_bytes(*b)).is_nan() && narrow == DType::F16
                    || bf16::from_le_bytes(*b).is_nan() && narrow == DType::BF16
            };
            for (a, b) in bits.as_chunks::<2>().0.iter().zip(back.as_chunks::<2>().0) {
                assert!(a == b || is_nan(a) && is_nan(b), "{narrow} {a:?} {b:?}");
            }
        }
    }

    fn small() -> impl Iterator<Item = (DType, SmallType)> {
        DType::ALL.iter().filter_map(|&dtype| Some((dtype, SmallType::from_dtype(dtype)?)))
    }

    #[test]
    fn small_numbers_come_back_from_wider_types() {
        for (dtype, small) in small().filter(|&(dtype, _)| crate::is_castable(dtype)) {
            // More elements than a run, in whole blocks.
            let codes: Vec<u8> = (0..=u8::MAX).cycle().take(520).collect();
            let mut bytes = vec![0; 520 * small.bits() as usize / 8];
            small.pack(&codes, &mut bytes, |&code| code);
            for wide in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I8, DType::I16, DType::U64] {
                let is_integer = wide.kind() != Kind::Float;
                if is_integer == (dtype.kind() == Kind::Float) || !holds_every_value(wide, dtype) {
                    continue;
                }
                let (mut wider, mut back) = (vec![0; run_len(wide) * 520 / RUN], vec![0xa5; bytes.len()]);
                assert_eq!(cast(dtype, wide, &bytes, &mut wider), Ok(false), "{dtype} {wide}");
                // One code of t2 does not stand for a ternary number.
                assert_eq!(cast(wide, dtype, &wider, &mut back), Ok(dtype == DType::T2), "{wide} {dtype}");
                let number = |bytes: &[u8]| {
                    let mut numbers = vec![0.0; 520];
                    small.decode(bytes, &mut numbers);
                    numbers.into_iter().map(|x| if x == -2.0 && dtype == DType::T2 { -1.0 } else { x })
                };
                for (a, b) in number(&bytes).zip(number(&back)) {
                    assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{dtype} {wide} {a} {b}");
                }
            }
        }
    }

    #[test]
    fn small_floats_are_rounded_once() {
        let f8_of = |x: f64| one(DType::F64, DType::F8E4M3, &x.to_le_bytes());
        // Just above the middle of 1 and 1.125: rounded twice it would be 1.
        assert_eq!(f8_of(1.0625 + 2f64.powi(-40)), (vec![0x39], Ok(false)));
        assert_eq!(f8_of(1.0625), (vec![0x38], Ok(false)));
        assert_eq!(f8_of(1e300), (vec![0x7f], Ok(true)));
        assert_eq!(f8_of(f64::NAN), (vec![0x7f], Ok(false)));
        let middle = 3u64 << 59; // of 2^60 and 2^61
        assert_eq!(one(DType::U64, DType::F8E8M0, &middle.to_le_bytes()).0, [127 + 61]);
        assert_eq!(one(DType::U64, DType::F8E8M0, &(middle - 1).to_le_bytes()).0, [127 + 60]);
        assert_eq!(one(DType::I32, DType::F8E5M2, &70_000i32.to_le_bytes()), (vec![0x7c], Ok(true)));
        assert_eq!(one(DType::I64, DType::F8E8M0, &(-1i64).to_le_bytes()), (vec![0xff], Ok(true)));
    }

    #[test]
    fn a_nan_that_a_small_type_lacks_is_found_by_its_place() {
        let mut values = vec![1f32; 600];
        values[517] = f32::NAN;
        let source: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        for to in [DType::F4, DType::F6E2M3, DType::F6E3M2, DType::I4, DType::U1] {
            let mut out = vec![0; run_len(to) * 600 / RUN];
            assert_eq!(cast(DType::F32, to, &source, &mut out), Err(NotANumber(517)), "{to}");
        }
        assert_eq!(cast(DType::F32, DType::F8E5M2, &source, &mut [0; 600]), Ok(false));
    }

    #[test]
    fn packed_integers_saturate() {
        let source: Vec<u8> = [-9i32, -8, 7, 8, 3].iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut out = [0; 3];
        assert_eq!(cast(DType::I32, DType::I4, &source, &mut out), Ok(true));
        assert_eq!(out, [0x88, 0x77, 0x03]);
        assert_eq!(cast(DType::I32, DType::T2, &source, &mut out[..2]), Ok(true));
        assert_eq!(out[..2], [0b0101_1111, 0b01]);
        let floats: Vec<u8> = [-1.9f32, 2.9].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(cast(DType::F32, DType::I4, &floats, &mut out[..1]), Ok(false));
        assert_eq!(out[0], 0x2f);
    }
}
