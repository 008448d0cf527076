//! Types of 32 and 64 bits: one pass computes range and sum, a second deviations and histogram, and both
//! narrow the median.

use super::bins::Counter;
use super::element::Element;
use super::exec::{Exec, Pass, PassError};
use super::focus::Focus;
use super::gather::{Gather, Search, Zone};
use super::sum::pairwise;
use super::{NonFinite, Stats, middle, power_of_two};

/// The smallest and the largest value.
#[derive(Clone, Copy)]
struct Range<T> {
    min: T,
    max: T,
}

#[inline(never)] // One caller has all types, and a caller with one type needs no others.
pub(super) fn numbers<T: Element>(exec: &mut Exec<'_>, count: u64) -> Result<Stats, PassError> {
    let (sum, firsts) = exec.pass(count, &|| First::<T>::new(count))?;
    let mut non_finite = NonFinite::default();
    let mut range = None;
    for first in &firsts {
        non_finite.add(first.non_finite);
        range = Range::join(range, first.range);
    }
    let gathered = Gather::join(firsts.into_iter().map(|first| first.gather)).ok_or(PassError::Changed)?;
    let finite = count.checked_sub(non_finite.total()).ok_or(PassError::Changed)?;
    let Some(range) = range.filter(|_| finite > 0) else { return Ok(Stats::empty(non_finite)) };
    let mut search = Search::middle(finite);
    search.narrow(std::slice::from_ref(&gathered))?;
    let exact = exact_moments(exec, count, range)?;
    let mean = match exact {
        Some((mean, _)) => mean,
        None => mean(exec, count, sum, finite, range)?,
    };

    let squares = Squares { mean, scale: 1.0, all_finite: non_finite.total() == 0 };
    let blank = Counter::new(range.min, range.max);
    let mut counter = blank.clone();
    let zones = search.wanted::<T>();
    let focus = Focus::new(&gathered, &mut counter, &zones, finite);
    let focus = focus.as_ref();
    let second = || Second { squares, focus, counter: blank.clone(), gathers: gathers(&zones) };
    let (sum, seconds) = exec.pass(count, &second)?;
    let mut parts = Vec::with_capacity(seconds.len());
    for second in seconds {
        counter.merge(&second.counter);
        parts.push(second.gathers);
    }
    narrow(&mut search, parts)?;
    let std = match exact {
        Some((_, std)) => std,
        None => deviation(exec, count, sum, finite, squares, range)?,
    };
    while !search.wanted::<T>().is_empty() {
        let zones = search.wanted::<T>();
        let (_, parts) = exec.pass(count, &|| gathers::<T>(&zones))?;
        narrow(&mut search, parts)?;
    }
    let (lower, upper) = search.found::<T>()?;
    // Comparing all values with the edges counts infinities too.
    let infinities = if focus.is_some() { 0 } else { non_finite.pos_inf };
    Ok(Stats {
        count: finite,
        min: range.min.to_f64(),
        max: range.max.to_f64(),
        exact: range.min.exact().zip(range.max.exact()),
        mean,
        median: median(lower, upper),
        std,
        non_finite,
        histogram: counter.finish(finite, infinities).ok_or(PassError::Changed)?,
    })
}

/// Computes the mean from the sum, or from a sum of scaled numbers if that overflowed.
#[allow(clippy::cast_precision_loss)]
fn mean<T: Element>(
    exec: &mut Exec<'_>,
    count: u64,
    sum: f64,
    finite: u64,
    range: Range<T>,
) -> Result<f64, PassError> {
    if sum.is_finite() {
        // Adding +0 turns -0 into +0, as numpy's sum does.
        return Ok(sum / finite as f64 + 0.0);
    }
    // 2^64 is more than any number of values.
    let scale = power_of_two(-64);
    let (sum, _) = exec.pass::<T, _>(count, &|| Scaled { scale })?;
    Ok((sum / finite as f64 / scale).max(range.min.to_f64()).min(range.max.to_f64()))
}

/// Computes the standard deviation from the sum of squares, or from a sum of scaled squares if the former
/// overflowed or lost its precision.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn deviation<T: Element>(
    exec: &mut Exec<'_>,
    count: u64,
    sum: f64,
    finite: u64,
    squares: Squares,
    range: Range<T>,
) -> Result<f64, PassError> {
    let underflow = sum < f64::MIN_POSITIVE / f64::EPSILON && range.min < range.max;
    if sum.is_finite() && !underflow {
        return Ok((sum / finite as f64).sqrt());
    }
    // A power of two that brings the range near 1, so that scaling does not round. The cast saturates.
    let half = range.max.to_f64() / 2.0 - range.min.to_f64() / 2.0;
    let scale = power_of_two((-half.log2()).clamp(-1000.0, 1000.0) as i32);
    let squares = Squares { mean: squares.mean * scale, scale, all_finite: false };
    let (sum, _) = exec.pass::<T, _>(count, &|| squares)?;
    Ok(((sum / finite as f64).sqrt() / scale).min(f64::MAX))
}

/// Computes mean and standard deviation of integers beyond 2^53. `f64` cannot hold each of these, so their
/// differences would be lost.
#[allow(clippy::cast_precision_loss)]
fn exact_moments<T: Element>(
    exec: &mut Exec<'_>,
    count: u64,
    range: Range<T>,
) -> Result<Option<(f64, f64)>, PassError> {
    const EVERY_INTEGER: std::ops::RangeInclusive<i128> = -(1 << 53)..=1 << 53;
    let range = range.min.exact().zip(range.max.exact());
    if range.is_none_or(|(min, max)| EVERY_INTEGER.contains(&min) && EVERY_INTEGER.contains(&max)) {
        return Ok(None);
    }
    let (_, totals) = exec.pass::<T, _>(count, &Total::default)?;
    // No file has 2^61 values of 64 bits, and their sum would have 125 bits.
    let total = totals.iter().fold(0i128, |all, part| all.saturating_add(part.0));
    let count_signed = i128::from(count);
    let (floor, rest) = (total.div_euclid(count_signed), total.rem_euclid(count_signed));
    let (count_float, fraction) = (count as f64, rest as f64 / count as f64);
    // Deviations from the integer nearest to the mean are exact. The distance of that integer from the mean
    // is then subtracted from the squares.
    let (center, off) = if rest > count_signed / 2 { (floor + 1, fraction - 1.0) } else { (floor, fraction) };
    let (sum, _) = exec.pass::<T, _>(count, &|| Around { center })?;
    let variance = (sum / count_float - off * off).max(0.0);
    Ok(Some((floor as f64 + fraction, variance.sqrt())))
}

/// Returns the mean of the values in the middle; integers are added before they are rounded.
#[allow(clippy::cast_precision_loss)]
fn median<T: Element>(lower: T, upper: T) -> f64 {
    match lower.exact().zip(upper.exact()) {
        Some((lower, upper)) => (lower + upper) as f64 / 2.0,
        None => middle(lower.to_f64(), upper.to_f64()),
    }
}

fn gathers<T: Element>(zones: &[(Zone, u64)]) -> Vec<Gather<T>> {
    zones.iter().map(|&(zone, population)| Gather::new(zone, population)).collect()
}

/// Narrows the search with what each worker gathered. All workers list the zones in the same order.
fn narrow<T: Element>(search: &mut Search, parts: Vec<Vec<Gather<T>>>) -> Result<(), PassError> {
    let mut workers: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    let mut joined = Vec::new();
    while let Some(gathered) = Gather::join(workers.iter_mut().filter_map(Iterator::next)) {
        joined.push(gathered);
    }
    search.narrow(&joined)
}

/// The first pass: range and sum, and the first digit of every value.
struct First<T> {
    range: Option<Range<T>>,
    non_finite: NonFinite,
    gather: Gather<T>,
}

impl<T: Element> First<T> {
    fn new(count: u64) -> Self {
        Self { range: None, non_finite: NonFinite::default(), gather: Gather::new(Zone::EVERYTHING, count) }
    }
}

impl<T: Element> Pass<T> for First<T> {
    fn chunk(&mut self, values: &[T]) -> f64 {
        self.gather.add(values);
        let sum = pairwise(values, &T::to_f64);
        // A value that is not finite shows in the sum.
        if sum.is_finite() {
            self.range = Range::join(self.range, Range::of(values));
            return sum;
        }
        self.non_finite.count(values);
        for &value in values.iter().filter(|value| value.is_finite()) {
            self.range = Range::join(self.range, Some(Range { min: value, max: value }));
        }
        pairwise(values, &|value: T| if value.is_finite() { value.to_f64() } else { 0.0 })
    }
}

impl<T: Element> Range<T> {
    /// Returns the range of finite values.
    fn of(values: &[T]) -> Option<Self> {
        let (groups, rest) = values.as_chunks::<16>();
        let &first = values.first()?;
        let (mut min, mut max) = ([first; 16], [first; 16]);
        for group in groups {
            for ((min, max), &value) in min.iter_mut().zip(&mut max).zip(group) {
                *min = if value < *min { value } else { *min };
                *max = if value > *max { value } else { *max };
            }
        }
        let mut range = Self { min: first, max: first };
        for (&min, &max) in min.iter().zip(&max).chain(rest.iter().zip(rest)) {
            range.min = if min < range.min { min } else { range.min };
            range.max = if max > range.max { max } else { range.max };
        }
        // Zeros of both signs compare equal, so which of them `min` and `max` keep depends on their order.
        if T::FLOAT {
            let (plus, minus) = (0, 1 << (T::WIDTH - 1));
            let any = |zero| values.iter().fold(false, |any, value| any | value.matches(u64::MAX, zero));
            if range.min.to_f64() == 0.0 {
                range.min = T::from_bits(if any(minus) { minus } else { plus });
            }
            if range.max.to_f64() == 0.0 {
                range.max = T::from_bits(if any(plus) { plus } else { minus });
            }
        }
        Some(range)
    }

    fn join(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
        let key = |value: T| T::key(value.bits());
        let min = if key(b.min) < key(a.min) { b.min } else { a.min };
        let max = if key(b.max) > key(a.max) { b.max } else { a.max };
        Some(Self { min, max })
    }
}

/// The second pass: squared deviations, the histogram, and the next digit of values near the middle.
struct Second<'a, T: Element> {
    squares: Squares,
    focus: Option<&'a Focus>,
    counter: Counter<T>,
    gathers: Vec<Gather<T>>,
}

impl<T: Element> Pass<T> for Second<'_, T> {
    fn chunk(&mut self, values: &[T]) -> f64 {
        match (self.focus, self.counter.bins()) {
            (Some(focus), Some(bins)) => focus.add(values, bins, &mut self.gathers),
            _ => {
                self.counter.add(values);
                self.gathers.chunk(values);
            }
        }
        self.squares.chunk(values)
    }
}

impl<T: Element> Pass<T> for Vec<Gather<T>> {
    fn chunk(&mut self, values: &[T]) -> f64 {
        for gather in self {
            gather.add(values);
        }
        0.0
    }
}

/// Sums the squares of deviations from the mean.
#[derive(Clone, Copy)]
struct Squares {
    /// The mean, times `scale`.
    mean: f64,
    scale: f64,
    all_finite: bool,
}

impl<T: Element> Pass<T> for Squares {
    fn chunk(&mut self, values: &[T]) -> f64 {
        let Self { mean, scale, all_finite } = *self;
        if all_finite {
            return pairwise(values, &|value: T| (value.to_f64() - mean) * (value.to_f64() - mean));
        }
        pairwise(values, &|value: T| {
            let deviation = value.to_f64() * scale - mean;
            if value.is_finite() { deviation * deviation } else { 0.0 }
        })
    }
}

/// Adds integers exactly.
#[derive(Default)]
struct Total(i128);

impl<T: Element> Pass<T> for Total {
    fn chunk(&mut self, values: &[T]) -> f64 {
        let sum: i128 = values.iter().filter_map(|value| value.exact()).sum();
        self.0 = self.0.saturating_add(sum);
        0.0
    }
}

/// Sums the squares of integers' distances from an integer.
struct Around {
    center: i128,
}

impl<T: Element> Pass<T> for Around {
    #[allow(clippy::cast_precision_loss)]
    fn chunk(&mut self, values: &[T]) -> f64 {
        let center = self.center;
        pairwise(values, &|value: T| {
            let distance = (value.exact().unwrap_or(center) - center) as f64;
            distance * distance
        })
    }
}

/// Sums values multiplied by `scale`.
struct Scaled {
    scale: f64,
}

impl<T: Element> Pass<T> for Scaled {
    fn chunk(&mut self, values: &[T]) -> f64 {
        let scale = self.scale;
        pairwise(values, &|value: T| if value.is_finite() { value.to_f64() * scale } else { 0.0 })
    }
}
