//! Sums of logarithms of magnitudes. They are cheap, because the highest bits of a float are its exponent.
//!
//! For nearly every tensor they show that no value is far beyond the others, so that its magnitudes need not
//! be counted one by one.

use multiversion::multiversion;

/// A summary of the highest 16 bits of floats, without their signs. [`Logs::then`] joins the summaries of two
/// pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Logs {
    /// The number of bits in an exponent; 0 if the values are not floats of at least 16 bits.
    pub(super) exponent_bits: u32,
    /// The largest of the high bits.
    pub(super) largest: u16,
    /// The number of values whose high bits are 0.
    zeros: u64,
    /// The sum of all high bits, each without its lowest [`COARSE`] bits.
    sum: u64,
}

/// The number of lowest bits that a sum leaves out, so that the sums of one piece fit into 16 bits.
const COARSE: u32 = 6;

/// The most bytes whose sums fit into 16 bits: (2^15 − 1) >> 6 is 511, and a lane adds 128 of them.
pub(super) const MOST_BYTES: usize = 2 * LANES * 128;

/// A multiple of the number of 16-bit halves in a word. Three accumulators of this many lanes fit the
/// registers of every processor.
const LANES: usize = 32;

impl Logs {
    /// Summarizes at most [`MOST_BYTES`] bytes, which are words of `SIZE` bytes. All floats of at least 16
    /// bits are processed as numbers of 16 bits, for which every processor has vector instructions. For
    /// single bytes, only the largest is computed, without its highest bit.
    pub(super) fn of<const SIZE: usize>(bytes: &[u8]) -> Self {
        if SIZE == 1 {
            let largest = bytes.iter().fold(0, |max, byte| max.max(byte & 0x7f)).into();
            return Self { largest, ..Self::default() };
        }
        let (rows, rest) = bytes.as_chunks::<2>().0.as_chunks::<LANES>();
        let [largest, zeros, sums] = in_lanes(rows);
        let high = |lanes: &[i16; LANES], add: fn(u32, u32) -> u32| {
            let high = |at| at % (SIZE / 2) == SIZE / 2 - 1;
            let each = lanes.iter().enumerate();
            each.fold(0, |all, (at, &lane)| add(all, if high(at) { lane.cast_unsigned().into() } else { 0 }))
        };
        let largest = high(&largest, u32::max);
        let rows = Self {
            exponent_bits: 0,
            largest: u16::try_from(largest).unwrap_or(u16::MAX),
            zeros: high(&zeros, |a, b| a + b).into(),
            sum: high(&sums, |a, b| a + b).into(),
        };
        let rest = rest.iter().skip(SIZE / 2 - 1).step_by(SIZE / 2);
        rows.then(Self::of_each(rest.map(|&half| u16::from_le_bytes(half) & i16::MAX.cast_unsigned())))
    }

    /// Summarizes high bits without signs, one by one.
    pub(super) fn of_each(halves: impl Iterator<Item = u16>) -> Self {
        let mut logs = Self::default();
        for half in halves {
            logs.largest = logs.largest.max(half);
            logs.zeros += u64::from(half == 0);
            logs.sum += u64::from(half >> COARSE);
        }
        logs
    }

    pub(super) fn then(self, next: Self) -> Self {
        Self {
            exponent_bits: self.exponent_bits.max(next.exponent_bits),
            largest: self.largest.max(next.largest),
            zeros: self.zeros.saturating_add(next.zeros),
            sum: self.sum.saturating_add(next.sum),
        }
    }

    /// Checks whether at least half of the `finite` values may be nonzero and at least 2^15 times smaller
    /// than the largest. To find out, compares how far all nonzero values are below the largest with how far
    /// that half would be at least.
    pub(super) const fn may_have_outlier(&self, finite: u64) -> bool {
        let largest = (self.largest >> COARSE) as u64;
        // The least distance of a small value from the largest. In wider types, values with exponent 0 count
        // as 0.
        let far = match self.exponent_bits {
            5 if largest < 16 => return false, // less than 2^15 lies between the smallest and the largest of them
            5 if largest < 240 => largest - 15,
            5 => 225,
            8 => 29,
            11 => 3,
            _ => return false,
        };
        let not_zero = finite.saturating_sub(self.zeros);
        let below = not_zero.saturating_mul(largest).saturating_sub(self.sum);
        largest >= far && not_zero > 0 && below.saturating_mul(2) >= finite.saturating_mul(far)
    }
}

/// Returns for each lane the largest half, the number of zeros and the sum.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn in_lanes(rows: &[[[u8; 2]; LANES]]) -> [[i16; LANES]; 3] {
    let (mut largest, mut zeros, mut sums) = ([0i16; LANES], [0i16; LANES], [0i16; LANES]);
    for row in rows {
        let lanes = row.iter().zip(&mut largest).zip(&mut zeros).zip(&mut sums);
        for (((&half, max), zeros), sum) in lanes {
            let half = i16::from_le_bytes(half) & i16::MAX;
            *max = half.max(*max);
            *zeros = zeros.wrapping_add(i16::from(half == 0));
            *sum = sum.wrapping_add(half >> COARSE);
        }
    }
    [largest, zeros, sums]
}
