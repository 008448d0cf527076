//! Finds which values a second pass has to process, after the first one has counted the highest 16 bits of
//! all values.
//!
//! Most of these digits determine the histogram bin of every value that has them. What remains are at most
//! nine digits at the edges of bins, and the digits of the median. A lookup in a small table finds the values
//! that have one of these digits.

use super::bins::{Bins, Counter};
use super::element::Element;
use super::gather::{Gather, Gathered, Zone};

/// The number of entries of the table, one for each digit.
const DIGITS: usize = 1 << 16;
/// The number of values that are checked at a time.
const GROUP: usize = 16;
/// If more than one in so many values remains, comparing all values is faster.
const FEW: u64 = 8;

/// Marks a digit whose values belong to different bins, depending on their other bits.
const EDGE: u8 = 1;
/// Marks a digit whose values may be the median.
const MIDDLE: u8 = 2;

/// The digits whose values have to be processed.
pub(super) struct Focus {
    flags: Vec<u8>,
}

impl Focus {
    /// Adds the counts of whole digits to the bins of `counter`, and returns the digits that remain. Returns
    /// `None` and counts nothing if too many of the `finite` values would remain, or if no digits have been
    /// counted.
    pub(super) fn new<T: Element>(
        gathered: &Gathered<T>,
        counter: &mut Counter<T>,
        middle: &[(Zone, u64)],
        finite: u64,
    ) -> Option<Self> {
        let bins = counter.bins()?;
        let mut whole = bins.clone();
        let mut flags = vec![0; DIGITS];
        let (mut counted, mut left) = (0, middle.iter().map(|&(_, population)| population).sum::<u64>());
        for (digit, low, high, count) in gathered.digits() {
            counted += count;
            if !whole.add_range(low, high, count) {
                set(&mut flags, digit, EDGE);
                left += count;
            }
        }
        for (zone, _) in middle {
            set(&mut flags, zone.digit::<T>(), MIDDLE);
        }
        if counted != finite || left > finite / FEW {
            return None;
        }
        *bins = whole;
        Some(Self { flags })
    }

    /// Counts those of `values` that remain.
    pub(super) fn add<T: Element>(&self, values: &[T], bins: &mut Bins<T>, gathers: &mut [Gather<T>]) {
        let Some(flags) = self.flags.first_chunk::<DIGITS>() else { return };
        let (groups, rest) = values.as_chunks::<GROUP>();
        for group in groups {
            if group.iter().fold(0, |any, &value| any | flag(flags, value)) != 0 {
                add_group(flags, group, bins, gathers);
            }
        }
        add_group(flags, rest, bins, gathers);
    }
}

fn add_group<T: Element>(flags: &[u8; DIGITS], group: &[T], bins: &mut Bins<T>, gathers: &mut [Gather<T>]) {
    let mut any = 0;
    for &value in group {
        let flag = flag(flags, value);
        any |= flag;
        if flag & EDGE != 0 {
            bins.add_one(value);
        }
    }
    if any & MIDDLE != 0 {
        for gather in gathers {
            gather.add(group);
        }
    }
}

// An index of 16 bits is within a table of 2^16 entries.
#[allow(clippy::indexing_slicing)]
fn flag<T: Element>(flags: &[u8; DIGITS], value: T) -> u8 {
    flags[usize::from(value.digit(T::WIDTH - 16))]
}

fn set(flags: &mut [u8], digit: u16, flag: u8) {
    if let Some(flags) = flags.get_mut(usize::from(digit)) {
        *flags |= flag;
    }
}
