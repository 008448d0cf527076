//! The histogram: computes numpy's edges and counts elements by comparing them with the edges.

use super::element::Element;
use super::{BINS, Histogram, MAX_VALUE_SPAN};

/// The number of edges between the first and the last.
const INNER: usize = BINS - 1;

/// The number of edges that are compared each time an element is loaded: as many as registers hold.
const TOGETHER: usize = 3;

/// The number of elements that are counted in 32 bits, and stay in the first-level cache meanwhile.
const BLOCK: usize = 1 << 12;

/// Counters for the values of a small span: 21 rounded up to a power of two, so that a mask keeps an index in
/// bounds.
const PLACES: usize = 32;

/// Computes the edges of ten bins as `numpy.linspace(min, max, 11)` does.
///
/// Two cases go beyond numpy. If `max - min` overflows, the edges are computed from halves. If the span is
/// too small for ten bins, numpy raises an error; here, edges coincide and the bins between them are empty.
#[allow(clippy::cast_precision_loss)]
pub(super) fn edges(min: f64, max: f64) -> [f64; BINS + 1] {
    let span = max - min;
    let (scale, start, span) =
        if span.is_finite() { (1.0, min, span) } else { (2.0, min / 2.0, max / 2.0 - min / 2.0) };
    let step = span / BINS as f64;
    let mut last = min;
    std::array::from_fn(|i| {
        if i == BINS {
            return max;
        }
        let i = i as f64;
        // As in numpy, a step that underflows to zero is not multiplied.
        let offset = if step == 0.0 { i / BINS as f64 * span } else { i * step };
        last = ((offset + start) * scale).max(last).min(max);
        last
    })
}

/// Returns the bin of a value between the first and the last edge.
pub(super) fn bin(edges: &[f64; BINS + 1], value: f64) -> usize {
    edges.iter().skip(1).take(INNER).filter(|&&edge| value >= edge).count()
}

/// Counts elements for the kind of histogram that fits them.
#[derive(Clone)]
pub(super) enum Counter<T: Element> {
    Bins(Bins<T>),
    Values(Values),
    /// All finite elements have the same value.
    Constant(f64),
}

impl<T: Element> Counter<T> {
    pub(super) fn new(min: T, max: T) -> Self {
        match (min.exact(), max.exact()) {
            (Some(first), Some(last)) if last - first <= i128::from(MAX_VALUE_SPAN) => {
                Self::Values(Values { first, last, key: T::key(min.bits()), counts: [0; PLACES] })
            }
            _ if min == max => Self::Constant(max.to_f64()),
            _ => {
                let edges = edges(min.to_f64(), max.to_f64());
                let inner = std::array::from_fn(|i| T::edge(edges.get(i + 1).copied().unwrap_or(f64::NAN)));
                Self::Bins(Bins { edges, inner, reached: [0; INNER] })
            }
        }
    }

    pub(super) fn add(&mut self, values: &[T]) {
        match self {
            Self::Bins(bins) => bins.add(values),
            Self::Values(counts) => counts.add(values),
            Self::Constant(_) => {}
        }
    }

    /// Returns the bins, if there are any.
    pub(super) const fn bins(&mut self) -> Option<&mut Bins<T>> {
        match self {
            Self::Bins(bins) => Some(bins),
            Self::Values(_) | Self::Constant(_) => None,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Bins(a), Self::Bins(b)) => add_counts(&mut a.reached, &b.reached),
            (Self::Values(a), Self::Values(b)) => add_counts(&mut a.counts, &b.counts),
            _ => {}
        }
    }

    /// Returns the histogram of `count` finite values, given that `pos_inf` infinities were counted as well,
    /// or `None` if the counts contradict each other.
    pub(super) fn finish(&self, count: u64, pos_inf: u64) -> Option<Histogram> {
        Some(match self {
            &Self::Constant(value) => Histogram::Constant { value, count },
            Self::Values(values) => {
                Histogram::Values((values.first..=values.last).zip(values.counts).collect())
            }
            Self::Bins(bins) => {
                let mut counts = [0; BINS];
                let mut above = count;
                let reached = bins.reached.iter().map(|reached| reached.checked_sub(pos_inf));
                for (slot, reached) in counts.iter_mut().zip(reached.chain([Some(0)])) {
                    *slot = above.checked_sub(reached?)?;
                    above = reached?;
                }
                Histogram::Bins { edges: bins.edges, counts }
            }
        })
    }
}

/// Counts how many elements reach each inner edge. A NaN reaches none, and an infinity reaches all or none.
///
/// Nine comparisons are faster than computing the bin, because they need no table and handle several elements
/// in one instruction. They are also exact where rounding would put the computed bin next to the right one.
#[derive(Clone)]
pub(super) struct Bins<T: Element> {
    edges: [f64; BINS + 1],
    inner: [T::Edge; INNER],
    reached: [u64; INNER],
}

impl<T: Element> Bins<T> {
    fn add(&mut self, values: &[T]) {
        for block in values.chunks(BLOCK) {
            let edges = self.inner.as_chunks::<TOGETHER>().0;
            let counts = self.reached.as_chunks_mut::<TOGETHER>().0;
            for (&edges, counts) in edges.iter().zip(counts) {
                for (count, reached) in counts.iter_mut().zip(reached(block, edges)) {
                    *count += u64::from(reached);
                }
            }
        }
    }
}

impl<T: Element> Bins<T> {
    /// Adds `count` elements between `low` and `high` if they all belong to one bin; otherwise returns false.
    pub(super) fn add_range(&mut self, low: T, high: T, count: u64) -> bool {
        if self.inner.iter().any(|&edge| low.reaches(edge) != high.reaches(edge)) {
            return false;
        }
        for (reached, &edge) in self.reached.iter_mut().zip(&self.inner) {
            *reached += if low.reaches(edge) { count } else { 0 };
        }
        true
    }

    /// Adds one element.
    pub(super) fn add_one(&mut self, value: T) {
        for (reached, &edge) in self.reached.iter_mut().zip(&self.inner) {
            *reached += u64::from(value.reaches(edge));
        }
    }
}

fn reached<T: Element>(values: &[T], edges: [T::Edge; TOGETHER]) -> [u32; TOGETHER] {
    let mut counts = [0; TOGETHER];
    for value in values {
        for (count, edge) in counts.iter_mut().zip(edges) {
            *count += u32::from(value.reaches(edge));
        }
    }
    counts
}

/// Counts how often each integer of a small span occurs.
#[derive(Clone)]
pub(super) struct Values {
    first: i128,
    last: i128,
    /// The key of `first`.
    key: u64,
    counts: [u64; PLACES],
}

impl Values {
    // The index is masked to the size of the table.
    #[allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]
    fn add<T: Element>(&mut self, values: &[T]) {
        let mut lanes = [[0u64; PLACES]; 4];
        for (place, value) in values.iter().enumerate() {
            lanes[place & 3][T::key(value.bits()).wrapping_sub(self.key) as usize & (PLACES - 1)] += 1;
        }
        for lane in lanes {
            add_counts(&mut self.counts, &lane);
        }
    }
}

fn add_counts(counts: &mut [u64], more: &[u64]) {
    for (count, more) in counts.iter_mut().zip(more) {
        *count += more;
    }
}
