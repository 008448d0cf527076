//! Finds how often each value occurs, and which value has a given rank, with radix tables over the bits of
//! the values, from the highest 16 bits down.

use super::element::Element;
use super::exec::PassError;

/// Up to this many values are collected and sorted. For more, a table counts the next 16 bits.
pub(super) const COLLECTED: u64 = 1 << 14;

/// The number of entries of a table of 16-bit digits.
const DIGITS: usize = 1 << 16;

/// After this many elements, the 32-bit counters are added to the 64-bit ones.
const FLUSH: usize = 1 << 30;

/// The finite values whose keys begin with the bits `prefix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    /// The number of high bits of the key that are given.
    fixed: u32,
    /// These bits, at the low end.
    prefix: u64,
}

impl Zone {
    pub(super) const EVERYTHING: Self = Self { fixed: 0, prefix: 0 };

    /// Returns the position of the next digit in an element's bits.
    fn shift<T: Element>(self) -> u32 {
        T::WIDTH.saturating_sub(self.fixed + 16)
    }

    /// Returns the part of the zone whose next digit, as a key, is `digit`.
    fn narrow<T: Element>(self, digit: u64) -> Self {
        let bits = 16.min(T::WIDTH - self.fixed);
        Self { fixed: self.fixed + bits, prefix: self.prefix << bits | digit }
    }

    /// Returns the element of the zone whose further key bits are zero.
    fn sample<T: Element>(self) -> T {
        T::from_key(self.prefix << (T::WIDTH - self.fixed).min(63))
    }
}

/// Gathers the values of a zone: the values themselves, or how many have each digit.
pub(super) struct Gather<T> {
    zone: Zone,
    mask: u64,
    wanted: u64,
    store: Store,
    element: std::marker::PhantomData<T>,
}

enum Store {
    Keys { keys: Vec<u64>, population: u64 },
    Table(Table),
}

impl<T: Element> Gather<T> {
    /// Starts to gather `zone`, which is expected to have `population` values.
    pub(super) fn new(zone: Zone, population: u64) -> Self {
        let mask = if zone.fixed == 0 { 0 } else { u64::MAX << (T::WIDTH - zone.fixed).min(63) };
        let store = if population <= COLLECTED {
            Store::Keys { keys: Vec::new(), population }
        } else {
            Store::Table(Table::new())
        };
        Self {
            zone,
            mask,
            wanted: zone.sample::<T>().bits() & mask,
            store,
            element: std::marker::PhantomData,
        }
    }

    pub(super) fn add(&mut self, values: &[T]) {
        let (mask, wanted) = (self.mask, self.wanted);
        match &mut self.store {
            Store::Keys { keys, population } => {
                matching(values, mask, wanted, |_, value| {
                    // If there are more than expected, this is noticed when the keys are counted.
                    if value.is_finite() && keys.len() as u64 <= *population {
                        keys.push(T::key(value.bits()));
                    }
                });
            }
            Store::Table(table) if self.zone.fixed == 0 => table.count(values, self.zone.shift::<T>()),
            Store::Table(table) => table.count_some(values, self.zone.shift::<T>(), mask, wanted),
        }
    }

    /// Joins what several workers gathered of the same zone.
    pub(super) fn join(parts: impl Iterator<Item = Self>) -> Option<Gathered<T>> {
        let (mut zone, mut keys, mut counts) = (None, Vec::new(), Vec::new());
        for part in parts {
            zone = Some(part.zone);
            match part.store {
                Store::Keys { keys: mut more, .. } => keys.append(&mut more),
                Store::Table(table) => table.add_to(&mut counts),
            }
        }
        keys.sort_unstable();
        zone.map(|zone| Gathered { zone, keys, counts, element: std::marker::PhantomData })
    }
}

/// All values of a zone, in ascending order: keys (sorted), or counts of the next digit of the elements' bits.
pub(super) struct Gathered<T> {
    zone: Zone,
    keys: Vec<u64>,
    counts: Vec<u64>,
    element: std::marker::PhantomData<T>,
}

impl<T: Element> Gathered<T> {
    /// Returns the narrower zones that have values, ascending, with the number of their values.
    fn parts(&self) -> impl Iterator<Item = (Zone, u64)> + '_ {
        let shift = self.zone.shift::<T>();
        let digits = if self.counts.is_empty() { 0 } else { 1 << 16.min(T::WIDTH - self.zone.fixed) };
        let tabled = (0..digits).filter_map(move |digit| {
            let zone = self.zone.narrow::<T>(digit);
            let sample = zone.sample::<T>();
            let count = self.counts.get(usize::from(sample.digit(shift))).copied().unwrap_or(0);
            // The highest 16 bits of all floats hold the whole exponent: either all of a part is finite or none.
            (count > 0 && sample.is_finite()).then_some((zone, count))
        });
        let listed = self.keys.chunk_by(|a, b| a == b).filter_map(|run| {
            let zone = Zone { fixed: T::WIDTH, prefix: *run.first()? };
            Some((zone, run.len() as u64))
        });
        tabled.chain(listed)
    }

    /// For each 16-bit digit that finite values have: the digit, the smallest and the largest value that can have it, and
    /// how many do. Nothing if values were collected instead of counted.
    pub(super) fn digits(&self) -> impl Iterator<Item = (u16, T, T, u64)> + '_ {
        let shift = self.zone.shift::<T>();
        let tabled = if self.counts.is_empty() { None } else { Some(self.parts()) };
        tabled.into_iter().flatten().map(move |(zone, count)| {
            let low: T = zone.sample();
            let high = T::from_key(T::key(low.bits()) | ((1u64 << shift) - 1));
            (low.digit(shift), low, high, count)
        })
    }

    /// Returns each value, ascending, and how often it occurs. Only for types of up to 16 bits, whose whole
    /// value is one digit.
    pub(super) fn runs(&self) -> Vec<(T, u64)> {
        self.parts().map(|(zone, count)| (zone.sample(), count)).collect()
    }
}

/// A table of how many elements have each digit.
pub(super) struct Table {
    /// Four counters for each digit, used in turn, so that an element need not wait for the one before it,
    /// even if both are equal.
    lanes: Vec<[u32; 4]>,
    /// The counts that were moved out of `lanes` so far.
    totals: Vec<u64>,
    /// The number of elements counted in `lanes`.
    pub(super) pending: usize,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { lanes: vec![[0; 4]; DIGITS], totals: Vec::new(), pending: 0 }
    }

    // An index of 16 bits is within a table of 2^16 entries.
    #[allow(clippy::indexing_slicing)]
    pub(super) fn count<T: Element>(&mut self, values: &[T], shift: u32) {
        self.make_room(values.len());
        let Some(lanes) = self.lanes.first_chunk_mut::<DIGITS>() else { return };
        let (fours, rest) = values.as_chunks::<4>();
        for &[a, b, c, d] in fours {
            lanes[usize::from(a.digit(shift))][0] += 1;
            lanes[usize::from(b.digit(shift))][1] += 1;
            lanes[usize::from(c.digit(shift))][2] += 1;
            lanes[usize::from(d.digit(shift))][3] += 1;
        }
        for value in rest {
            lanes[usize::from(value.digit(shift))][0] += 1;
        }
    }

    // An index of 16 bits is within a table of 2^16 entries.
    #[allow(clippy::indexing_slicing)]
    pub(super) fn count_some<T: Element>(&mut self, values: &[T], shift: u32, mask: u64, wanted: u64) {
        self.make_room(values.len());
        let Some(lanes) = self.lanes.first_chunk_mut::<DIGITS>() else { return };
        matching(values, mask, wanted, |place, value| {
            lanes[usize::from(value.digit(shift))][place & 3] += 1;
        });
    }

    /// Makes sure that `more` elements cannot overflow a counter.
    fn make_room(&mut self, more: usize) {
        self.pending = self.pending.saturating_add(more);
        if self.pending > FLUSH {
            let full = std::mem::replace(&mut self.lanes, vec![[0; 4]; DIGITS]);
            add_lanes(&full, &mut self.totals);
            self.pending = more;
        }
    }

    pub(super) fn add_to(&self, counts: &mut Vec<u64>) {
        add_lanes(&self.lanes, counts);
        for (count, &more) in counts.iter_mut().zip(&self.totals) {
            *count += more;
        }
    }
}

/// Calls `show` for each element with `bits & mask == wanted`, with its position in the group.
fn matching<T: Element>(values: &[T], mask: u64, wanted: u64, mut show: impl FnMut(usize, T)) {
    let (groups, rest) = values.as_chunks::<16>();
    for group in groups {
        // Most groups have no such element, and this check compiles to a few vector instructions.
        if group.iter().fold(false, |any, value| any | value.matches(mask, wanted)) {
            show_matching(group, mask, wanted, &mut show);
        }
    }
    show_matching(rest, mask, wanted, &mut show);
}

fn show_matching<T: Element>(values: &[T], mask: u64, wanted: u64, show: &mut impl FnMut(usize, T)) {
    for (place, &value) in values.iter().enumerate() {
        if value.matches(mask, wanted) {
            show(place, value);
        }
    }
}

fn add_lanes(lanes: &[[u32; 4]], counts: &mut Vec<u64>) {
    counts.resize(DIGITS, 0);
    for (count, lanes) in counts.iter_mut().zip(lanes) {
        *count += lanes.iter().copied().map(u64::from).sum::<u64>();
    }
}

/// Searches for the values in the middle: one, or two if the number of values is even.
pub(super) struct Search {
    /// The zone of each value that is sought.
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    zone: Zone,
    /// The number of values in the zone that are below the one that is sought.
    rank: u64,
    /// The number of values in the zone.
    population: u64,
}

impl Zone {
    /// Returns the first digit of the elements in the zone. The zone must be no wider than that digit.
    pub(super) fn digit<T: Element>(self) -> u16 {
        self.sample::<T>().digit(T::WIDTH - 16)
    }
}

impl Search {
    /// Seeks the middle of `count` values; `count` must not be 0.
    pub(super) fn middle(count: u64) -> Self {
        let place = |rank| Place { zone: Zone::EVERYTHING, rank, population: count };
        let (lower, upper) = ((count - 1) / 2, count / 2);
        let places = if lower == upper { vec![place(lower)] } else { vec![place(lower), place(upper)] };
        Self { places }
    }

    /// Returns the zones to gather for the next step; none when the search is over.
    pub(super) fn wanted<T: Element>(&self) -> Vec<(Zone, u64)> {
        let open = self.places.iter().filter(|place| place.zone.fixed < T::WIDTH);
        let mut zones: Vec<_> = open.map(|place| (place.zone, place.population)).collect();
        zones.dedup();
        zones
    }

    /// Narrows the search with what was gathered.
    pub(super) fn narrow<T: Element>(&mut self, gathered: &[Gathered<T>]) -> Result<(), PassError> {
        for place in self.places.iter_mut().filter(|place| place.zone.fixed < T::WIDTH) {
            let gathered = gathered.iter().find(|g| g.zone == place.zone).ok_or(PassError::Changed)?;
            let mut below = 0u64;
            let found = gathered.parts().find_map(|(zone, population)| {
                let rank = place.rank.checked_sub(below)?;
                below += population;
                (rank < population).then_some(Place { zone, rank, population })
            });
            *place = found.ok_or(PassError::Changed)?;
        }
        Ok(())
    }

    /// Returns the lower and the upper value in the middle, when the search is over.
    pub(super) fn found<T: Element>(&self) -> Result<(T, T), PassError> {
        match (self.places.first(), self.places.last()) {
            (Some(lower), Some(upper)) => Ok((lower.zone.sample(), upper.zone.sample())),
            _ => Err(PassError::Changed),
        }
    }
}
