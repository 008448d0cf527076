//! The same work on one thread and on more.

use crate::race::{Spread, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result};

/// As [`compare`], beside the bare work: where that gains less from threads, no more is asked of ours.
pub(crate) fn compare_with(
    bench: &mut Bench,
    (id, case): (String, &str),
    least: f64,
    work: impl Fn(usize) -> Result,
    bare: impl Fn(usize) -> Result,
) -> Result {
    let threads = bench.sizes.threads;
    let race = race(bench.rounds(5), || seconds(|| bare(threads)), || seconds(|| bare(1)))?;
    let gain = Spread::of(&race.speedups()).median;
    compare(bench, (id, case), least.min(gain), work)?;
    if let Some(row) = bench.rows.last_mut() {
        row.note = format!("{}; the bare work gains {gain:.2} ×", row.note);
    }
    Ok(())
}

/// Times `work`, which is given a number of threads, on as many as are measured and on one; it should be `least` times as fast.
pub(crate) fn compare(
    bench: &mut Bench,
    (id, case): (String, &str),
    least: f64,
    work: impl Fn(usize) -> Result,
) -> Result {
    let threads = bench.sizes.threads;
    let race = race(bench.rounds(5), || seconds(|| work(threads)), || seconds(|| work(1)))?;
    bench.add(Row {
        id,
        work: format!("{threads} threads: faster than one"),
        case: case.to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target: Target::AtLeast(least),
        note: race.times(),
    });
    Ok(())
}
