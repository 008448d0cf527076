//! Compares the same work on one thread and on several.

use crate::race::{Spread, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result};

/// Like [`compare`], but also times the bare work. If that gains less from threads, no more is required of
/// ours.
pub(crate) fn compare_with(
    bench: &mut Bench,
    (id, case): (String, &str),
    least: f64,
    work: impl FnMut(usize) -> Result,
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

/// Times `work`, which takes a number of threads, on several threads and on one. It should be `least` times
/// as fast.
pub(crate) fn compare(
    bench: &mut Bench,
    (id, case): (String, &str),
    least: f64,
    work: impl FnMut(usize) -> Result,
) -> Result {
    let threads = bench.sizes.threads;
    let work = std::cell::RefCell::new(work); // both sides need it, one after the other
    let timed = |threads| seconds(|| (work.borrow_mut())(threads));
    let race = race(bench.rounds(5), || timed(threads), || timed(1))?;
    let gain = Spread::of(&race.speedups()).median;
    bench.add(Row {
        id,
        work: format!("{threads} threads: faster than one"),
        case: case.to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target: Target::AtLeast(least),
        note: format!("{}; {}", race.times(), on_more(gain, threads)),
    });
    Ok(())
}

/// Extrapolates to more cores by Amdahl's law: the serial share, and how many times faster 8 and 64 cores can
/// be than one.
fn on_more(gain: f64, threads: usize) -> String {
    let threads = threads as f64;
    if threads <= 1.0 {
        return "one thread says nothing of more".to_owned();
    }
    let serial = ((threads / gain - 1.0) / (threads - 1.0)).clamp(0.0, 1.0);
    let most = |cores: f64| 1.0 / (serial + (1.0 - serial) / cores);
    format!(
        "serial {:.1} %: at most {:.1} × on 8 cores, {:.1} × on 64",
        100.0 * serial,
        most(8.0),
        most(64.0)
    )
}
