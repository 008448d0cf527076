//! Types of 8 and 16 bits: all their values are counted in one pass, and everything follows from the counts.

use super::bins::{bin, edges};
use super::element::Element;
use super::exec::{Exec, Pass, PassError};
use super::gather::{Gather, Zone};
use super::sum::Compensated;
use super::{BINS, Histogram, MAX_VALUE_SPAN, NonFinite, Stats, middle};

pub(super) fn bools(exec: &mut Exec<'_>, count: u64) -> Result<Stats, PassError> {
    let runs = count_runs::<u8>(exec, count)?.runs;
    let zeros = runs.first().filter(|run| run.0 == 0).map_or(0, |run| run.1);
    let ones = count.checked_sub(zeros).ok_or(PassError::Changed)?;
    let runs: Vec<_> = [(0u8, zeros), (1, ones)].into_iter().filter(|run| run.1 > 0).collect();
    let mut stats = describe(&runs, NonFinite::default());
    stats.exact = None;
    if stats.count > 0 {
        stats.histogram = Histogram::Bools { zeros, ones };
    }
    Ok(stats)
}

#[inline(never)] // One caller has all types, and a caller with one type needs no others.
pub(super) fn numbers<T: Element>(exec: &mut Exec<'_>, count: u64) -> Result<Stats, PassError> {
    let Counted { runs, non_finite } = count_runs::<T>(exec, count)?;
    Ok(describe(&runs, non_finite))
}

/// Each finite value, ascending, with its count.
struct Counted<T> {
    runs: Vec<(T, u64)>,
    non_finite: NonFinite,
}

fn count_runs<T: Element>(exec: &mut Exec<'_>, count: u64) -> Result<Counted<T>, PassError> {
    let new =
        || Counting { gather: Gather::<T>::new(Zone::EVERYTHING, count), non_finite: NonFinite::default() };
    let (_, passes) = exec.pass(count, &new)?;
    let mut non_finite = NonFinite::default();
    for pass in &passes {
        non_finite.add(pass.non_finite);
    }
    let gathered = Gather::join(passes.into_iter().map(|pass| pass.gather)).ok_or(PassError::Changed)?;
    Ok(Counted { runs: gathered.runs(), non_finite })
}

struct Counting<T> {
    gather: Gather<T>,
    non_finite: NonFinite,
}

impl<T: Element> Pass<T> for Counting<T> {
    fn chunk(&mut self, values: &[T]) -> f64 {
        self.gather.add(values);
        self.non_finite.count(values);
        0.0
    }
}

/// Returns the statistics of values, each given with its count, ascending.
fn describe<T: Element>(runs: &[(T, u64)], non_finite: NonFinite) -> Stats {
    let (Some(&(min, _)), Some(&(max, _))) = (runs.first(), runs.last()) else {
        return Stats::empty(non_finite);
    };
    let count: u64 = runs.iter().map(|run| run.1).sum();
    let mean = mean_of(runs, count, |value| value);
    let variance = mean_of(runs, count, |value| (value - mean) * (value - mean));
    Stats {
        count,
        min: min.to_f64(),
        max: max.to_f64(),
        exact: min.exact().zip(max.exact()),
        mean,
        median: middle(ranked(runs, (count - 1) / 2), ranked(runs, count / 2)),
        std: variance.sqrt(),
        non_finite,
        histogram: histogram(runs, min, max, count),
    }
}

/// Returns the mean of `term`. The product of a count and a value of at most 16 bits is exact in `f64`.
#[allow(clippy::cast_precision_loss)]
fn mean_of<T: Element>(runs: &[(T, u64)], count: u64, term: impl Fn(f64) -> f64) -> f64 {
    let mut sum = Compensated::default();
    for &(value, times) in runs {
        sum.add(term(value.to_f64()) * times as f64);
    }
    sum.value() / count as f64 + 0.0
}

/// Returns the value that has `rank` values below it.
fn ranked<T: Element>(runs: &[(T, u64)], rank: u64) -> f64 {
    let mut seen = 0;
    let found = runs.iter().find(|run| {
        seen += run.1;
        rank < seen
    });
    found.map_or(f64::NAN, |run| run.0.to_f64())
}

fn histogram<T: Element>(runs: &[(T, u64)], min: T, max: T, count: u64) -> Histogram {
    if let (Some(first), Some(last)) = (min.exact(), max.exact())
        && last - first <= i128::from(MAX_VALUE_SPAN)
    {
        let times = |wanted| runs.iter().find(|run| run.0.exact() == Some(wanted)).map_or(0, |run| run.1);
        return Histogram::Values((first..=last).map(|value| (value, times(value))).collect());
    }
    if min == max {
        return Histogram::Constant { value: max.to_f64(), count };
    }
    let edges = edges(min.to_f64(), max.to_f64());
    let mut counts = [0; BINS];
    for &(value, times) in runs {
        if let Some(slot) = counts.get_mut(bin(&edges, value.to_f64())) {
            *slot += times;
        }
    }
    Histogram::Bins { edges, counts }
}
