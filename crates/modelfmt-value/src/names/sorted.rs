//! The numbers of very many names, sorted by the hashes of the names.
//!
//! Filling a hash table of ten million names costs a cache miss for each name. Sorting visits the memory in
//! order, and its time per name does not depend on the number of names.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// Entries in ascending order: a hash in the upper 32 bits and a number in the lower 32.
#[derive(Clone, Debug, Default)]
pub(super) struct Sorted(Vec<u64>);

/// The number of entries that are sorted at once: as many as the nearest caches hold.
const PART: usize = 4096;

const fn entry(hash: u32, number: u32) -> u64 {
    (hash as u64) << 32 | number as u64
}

#[allow(clippy::cast_possible_truncation, reason = "the upper half")]
const fn hash_of(entry: u64) -> u32 {
    (entry >> 32) as u32
}

#[allow(clippy::cast_possible_truncation, reason = "the lower half")]
const fn number_of(entry: u64) -> u32 {
    entry as u32
}

/// Returns how many of `total` entries have a lower hash than this one if hashes are spread evenly.
const fn share(hash: u32, total: usize) -> usize {
    let share = (hash as u64).saturating_mul(total as u64) >> 32;
    share as usize // at most `total`
}

impl Sorted {
    /// Sorts the numbers below `count` by the hash that `hash` returns for each.
    pub(super) fn new(count: u32, hash: impl Fn(u32) -> u32) -> Self {
        let parts = (count as usize).div_ceil(PART);
        let mut ends = vec![0usize; parts.saturating_add(1)];
        let mut entries = Vec::with_capacity(count as usize);
        for number in 0..count {
            let hash = hash(number);
            entries.push(entry(hash, number));
            if let Some(end) = ends.get_mut(share(hash, parts).saturating_add(1)) {
                *end = end.saturating_add(1);
            }
        }
        // First the number of entries before each part. Adding the entries of a part then raises it to their
        // end.
        let mut before = 0usize;
        for end in &mut ends {
            before = before.saturating_add(*end);
            *end = before;
        }
        let mut sorted = vec![0; entries.len()];
        for entry in entries {
            let next = ends.get_mut(share(hash_of(entry), parts));
            if let Some((place, next)) = next.and_then(|next| Some((sorted.get_mut(*next)?, next))) {
                *place = entry;
                *next = next.saturating_add(1);
            }
        }
        let mut begin = 0;
        for end in ends {
            sorted.get_mut(begin..end).unwrap_or_default().sort_unstable();
            begin = end;
        }
        Self(sorted)
    }

    /// Returns the number with this hash for which `is` returns true.
    #[inline]
    pub(super) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let same = self.0.get(self.begin(hash)..)?.iter().take_while(|&&entry| hash_of(entry) == hash);
        same.map(|&entry| number_of(entry)).find(|&number| is(number))
    }

    /// Returns the lowest number that is a duplicate of a lower one according to `same`.
    pub(super) fn first_repeated(&self, same: impl Fn(u32, u32) -> bool) -> Option<u32> {
        // Numbers with the same hash are adjacent, in ascending order. There are hardly ever three.
        let runs = self.0.chunk_by(|&a, &b| hash_of(a) == hash_of(b)).filter(|run| run.len() > 1);
        let repeated = |run: &[u64]| {
            let before = |at: usize| run.get(..at).unwrap_or_default().iter();
            let mut each = run.iter().enumerate();
            each.find(|&(at, &b)| before(at).any(|&a| same(number_of(a), number_of(b))))
                .map(|(_, &b)| number_of(b))
        };
        runs.filter_map(repeated).min()
    }

    pub(super) const fn heap_size(&self) -> usize {
        self.0.capacity().saturating_mul(size_of::<u64>())
    }

    /// Returns where the entries of this hash begin, or would begin. Hashes are spread evenly, so the hash
    /// gives an estimate.
    fn begin(&self, hash: u32) -> usize {
        let (count, wanted) = (self.0.len(), entry(hash, 0));
        let mut at = share(hash, count).min(count.saturating_sub(1));
        for _ in 0..2 {
            let here = self.0.get(at).map_or(hash, |&entry| hash_of(entry));
            at = match here.cmp(&hash) {
                std::cmp::Ordering::Less => at.saturating_add(share(hash.wrapping_sub(here), count)),
                _ => at.saturating_sub(share(here.wrapping_sub(hash), count)),
            };
            at = at.min(count.saturating_sub(1));
        }
        // Search from there in both directions, in steps that double.
        let is_below = |at: usize| self.0.get(at).is_some_and(|&entry| entry < wanted);
        let (mut low, mut high, mut step) = (at, at, 4usize);
        while low > 0 && !is_below(low.saturating_sub(1)) {
            low = low.saturating_sub(step);
            step = step.saturating_mul(2);
        }
        step = 4;
        while high < count && is_below(high) {
            high = high.saturating_add(step).min(count);
            step = step.saturating_mul(2);
        }
        let between = self.0.get(low..high).unwrap_or_default();
        low.saturating_add(between.partition_point(|&entry| entry < wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mixes the bits of a number.
    fn mixed(number: u32) -> u32 {
        let mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash_of(mixed) ^ number_of(mixed)
    }

    #[test]
    fn every_number_is_found_by_its_hash_and_no_other() {
        for count in [0, 1, 2, 5000, 100_000] {
            let sorted = Sorted::new(count, mixed);
            assert!(sorted.0.is_sorted());
            for number in 0..count {
                assert_eq!(sorted.find(mixed(number), |found| found == number), Some(number));
                assert_eq!(sorted.find(mixed(number), |_| false), None);
            }
            for hash in [0, 1, u32::MAX / 2, u32::MAX] {
                let begin = sorted.0.partition_point(|&entry| hash_of(entry) < hash);
                assert_eq!(sorted.begin(hash), begin, "{hash} of {count}");
            }
        }
    }

    #[test]
    fn hashes_that_are_not_spread_evenly_are_found_all_the_same() {
        let hash = |number: u32| match number % 3 {
            0 => u32::MAX - number,
            1 => number,
            _ => 7,
        };
        let sorted = Sorted::new(30_000, hash);
        for number in 0..30_000 {
            assert_eq!(sorted.find(hash(number), |found| found == number), Some(number));
        }
    }

    #[test]
    fn the_first_that_is_there_twice_is_said() {
        let sorted = Sorted::new(10_000, |number| mixed(number % 9000));
        assert_eq!(sorted.first_repeated(|a, b| a % 9000 == b % 9000), Some(9000));
        // Equal hashes alone do not make duplicates.
        assert_eq!(sorted.first_repeated(|_, _| false), None);
        assert_eq!(Sorted::new(3, |_| 5).first_repeated(|a, b| (a, b) == (0, 2)), Some(2));
    }
}
