//! CRC-32 (IEEE) of pieces. The CRCs of pieces can be joined to the CRC of the whole.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crc32fast::Hasher;

use super::{DigestKind, Parcel};

/// The CRC-32 (IEEE) of some bytes, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc {
    /// The CRC.
    pub value: u32,
    /// The number of bytes.
    pub len: u64,
}

impl Crc {
    /// Computes the CRC of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { value: crc32fast::hash(bytes), len: bytes.len() as u64 }
    }

    /// Returns the CRC of these bytes followed by those of `next`.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        if next.len == 0 {
            return self;
        }
        let mut hasher = Hasher::new_with_initial_len(self.value, self.len);
        hasher.combine(&Hasher::new_with_initial_len(next.value, next.len));
        Self { value: hasher.finalize(), len: self.len.saturating_add(next.len) }
    }

    /// Returns the CRC of a message whose first bytes, those of `self`, are replaced by those of `by`.
    /// `whole` is the CRC of the old message, in which `len` more bytes follow; the bytes themselves are not
    /// needed. If `whole` was wrong, the result is wrong too.
    #[must_use]
    pub fn replaced(self, whole: u32, len: u64, by: Self) -> u32 {
        // CRCs are linear: the contribution of the bytes in front does not depend on those after them.
        let shifted = |front: Self| front.then(Self { value: 0, len }).value;
        whole ^ shifted(self) ^ shifted(by)
    }

    /// Removes the last bytes, whose CRC is `end`, and returns the CRC of the rest. The bytes themselves are
    /// not needed.
    #[must_use]
    pub fn without(self, end: Self) -> Self {
        // The polynomial is primitive, so appending 2^32 − 1 zero bytes to a message does not change its CRC. The effect of
        // `end.len` bytes is therefore undone by appending the rest of that number.
        const PERIOD: u64 = u32::MAX as u64;
        let front = Self { value: self.value ^ end.value, len: self.len };
        let undo = Self { value: 0, len: PERIOD.saturating_sub(end.len % PERIOD) };
        Self { value: front.then(undo).value, len: self.len.saturating_sub(end.len) }
    }
}

impl Parcel for Crc {
    fn put(&self, out: &mut Vec<u8>) {
        (self.value, self.len).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (value, len) = Parcel::take(from)?;
        Some(Self { value, len })
    }
}

/// CRC-32 of bytes whose pieces come in any order.
#[derive(Clone, Copy, Debug)]
pub struct Crc32;

impl DigestKind for Crc32 {
    const NAME: &'static str = "crc32";
    type Digest = u32;
    type Run = Crc;

    fn begin(_: u64) -> Crc {
        Crc::default()
    }

    fn extend(_: u64, run: &mut Crc, bytes: &[u8]) {
        let mut hasher = Hasher::new_with_initial_len(run.value, run.len);
        hasher.update(bytes);
        *run = Crc { value: hasher.finalize(), len: run.len.saturating_add(bytes.len() as u64) };
    }

    fn join(_: u64, first: Crc, second: Crc) -> Crc {
        first.then(second)
    }

    fn finish(_: u64, run: Crc) -> u32 {
        run.value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_end_of_any_length_is_taken_away() {
        let front = Crc::of(b"what stays");
        for len in [0, 1, u64::from(u32::MAX) - 1, u64::from(u32::MAX), 1 << 32, (1 << 40) + 7] {
            let end = Crc { value: 0x1234_5678, len };
            // No bytes have the CRC 0.
            let end = if len == 0 { Crc::default() } else { end };
            assert_eq!(front.then(end).without(end), front, "{len}");
        }
    }

    proptest! {
        #[test]
        fn an_end_is_taken_away_without_the_rest(
            front in proptest::collection::vec(any::<u8>(), 0..100),
            end in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let whole = Crc::of(&[&front[..], &end].concat());
            prop_assert_eq!(whole.without(Crc::of(&end)), Crc::of(&front));
        }

        #[test]
        fn a_head_is_replaced_without_the_rest(
            old in proptest::collection::vec(any::<u8>(), 0..50),
            new in proptest::collection::vec(any::<u8>(), 0..50),
            rest in proptest::collection::vec(any::<u8>(), 0..100),
            wrong in 1u32..,
        ) {
            let whole = |head: &[u8]| crc32fast::hash(&[head, &rest].concat());
            let replaced = |stated| Crc::of(&old).replaced(stated, rest.len() as u64, Crc::of(&new));
            prop_assert_eq!(replaced(whole(&old)), whole(&new));
            prop_assert_ne!(replaced(whole(&old) ^ wrong), whole(&new));
        }

        #[test]
        fn runs_make_the_crc_however_they_are_joined(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
            order in proptest::collection::vec(0usize..100, 1..12),
        ) {
            let total = bytes.len() as u64;
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|c| {
                let mut run = Crc32::begin(c[0] as u64);
                Crc32::extend(total, &mut run, &bytes[c[0]..c[1]]);
                run
            });
            let mut runs: Vec<Crc> = pieces.collect();
            for pick in order.iter().cycle() {
                if runs.len() < 2 {
                    break;
                }
                let at = pick % (runs.len() - 1);
                let second = runs.remove(at + 1);
                runs[at] = Crc32::join(total, runs[at], second);
            }
            let crc = runs.first().copied().unwrap_or_default();
            prop_assert_eq!(Crc32::finish(total, crc), crc32fast::hash(&bytes));
        }
    }
}
