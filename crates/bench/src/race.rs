//! Times two ways to do the same thing, alternately.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::Result;

/// The seconds that each side took, one pair per round.
pub(crate) struct Race {
    rounds: Vec<(f64, f64)>,
}

/// Times both sides alternately (ours, the other, ours, the other, …), so that a change in the speed of the
/// machine affects both. Each side returns how long it took, as measured by [`seconds`].
pub(crate) fn race(
    rounds: usize,
    mut ours: impl FnMut() -> Result<f64>,
    mut other: impl FnMut() -> Result<f64>,
) -> Result<Race> {
    let rounds = (0..rounds).map(|_| Ok((ours()?, other()?))).collect::<Result<_>>()?;
    Ok(Race { rounds })
}

/// Returns the time that `work` takes. Its result is dropped afterwards.
pub(crate) fn seconds<T>(work: impl FnOnce() -> Result<T>) -> Result<f64> {
    let begin = Instant::now();
    let result = black_box(work());
    let seconds = begin.elapsed().as_secs_f64();
    result.map(|_| seconds)
}

impl Race {
    /// Returns how many times faster ours was, for each round.
    pub(crate) fn speedups(&self) -> Vec<f64> {
        self.each(|ours, other| other / ours)
    }

    /// Returns how many times longer ours took, for each round.
    pub(crate) fn costs(&self) -> Vec<f64> {
        self.each(|ours, other| ours / other)
    }

    /// Applies `of` to the seconds of both sides, for each round.
    pub(crate) fn each(&self, of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        self.rounds.iter().map(|&(ours, other)| of(ours, other)).collect()
    }

    /// Returns the throughput of ours in gigabytes (10^9 bytes) per second, for each round.
    pub(crate) fn rates(&self, nbytes: usize) -> Vec<f64> {
        self.rounds.iter().map(|(ours, _)| nbytes as f64 / ours / 1e9).collect()
    }

    /// Formats the median times: `ours 5.10 ms, other 67.2 ms`.
    pub(crate) fn times(&self) -> String {
        let [ours, other] = self.spreads();
        format!("ours {}, other {}", time(ours.median), time(other.median))
    }

    /// Returns the spread of the seconds of ours and of the other.
    pub(crate) fn spreads(&self) -> [Spread; 2] {
        let of = |side: fn(&(f64, f64)) -> f64| Spread::of(&self.rounds.iter().map(side).collect::<Vec<_>>());
        [of(|round| round.0), of(|round| round.1)]
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

/// A summary of several measurements of the same thing.
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Returns the spread of these samples; NaN if there are none.
    pub(crate) fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let last = sorted.len().saturating_sub(1);
        Self { min: at(0), median: f64::midpoint(at(last / 2), at(sorted.len() / 2)), max: at(last) }
    }
}

/// The bare loop, called "raw": runs `piece` for every number below `count` on several threads, each with its
/// own state.
pub(crate) fn on_threads<S>(
    threads: usize,
    count: usize,
    state: impl Fn() -> S + Sync,
    piece: impl Fn(&mut S, usize) + Sync,
) {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut state = state();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            piece(&mut state, number);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        let Spread { min, median, max } = Spread::of(&[3.0, 1.0, 2.0]);
        assert_eq!((min, median, max), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert!(Spread::of(&[]).median.is_nan());
    }

    #[test]
    fn the_bare_loop_does_everything_once() {
        let sum = AtomicUsize::new(0);
        on_threads(
            3,
            1000,
            || (),
            |(), number| {
                sum.fetch_add(number, Ordering::Relaxed);
            },
        );
        assert_eq!(sum.into_inner(), 999 * 1000 / 2);
    }

    #[test]
    fn sides_take_turns() {
        let mut order = Vec::new();
        let calls = std::cell::RefCell::new(&mut order);
        let side = |name| {
            calls.borrow_mut().push(name);
            Ok(1.0)
        };
        let race = race(2, || side("ours"), || side("other")).unwrap();
        assert_eq!(race.speedups(), [1.0, 1.0]);
        assert_eq!(order, ["ours", "other", "ours", "other"]);
    }
}
