//! Reports progress: a bar for people, JSON lines for programs.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use modelfmt::Execution;

use crate::failure::say;
use crate::stop;

/// The maximum number of threads of a job; 0 if the user has not set it.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Sets the maximum number of threads of every job.
pub(crate) fn set_threads(threads: Option<u16>) {
    THREADS.store(threads.map_or(0, usize::from), Ordering::Relaxed);
}

pub(crate) fn threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => Execution::default().threads,
        threads => threads,
    }
}

/// A bar on a terminal, or lines of JSON for a program. Prints nothing without either, or with `quiet`.
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
}

impl Progress {
    /// Begins a bar over `total` bytes.
    pub(crate) fn new(what: &str, total: u64, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden(), lines: None };
        }
        let template =
            "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        // No steady tick: it needs a thread, and indicatif panics if it cannot start one.
        let bar = ProgressBar::new(total).with_style(style).with_message(what.to_owned());
        Self { bar, lines: None }
    }

    /// Begins a bar, or lines for a program that reads JSON.
    pub(crate) fn of(what: &str, total: u64, is_json: bool, quiet: bool) -> Self {
        if is_json { Self::lines(total, quiet) } else { Self::new(what, total, quiet) }
    }

    /// Begins lines for a program, over `total` bytes. With `quiet` there are none.
    fn lines(total: u64, quiet: bool) -> Self {
        Self { bar: ProgressBar::hidden(), lines: (!quiet).then(|| Lines::new(total)) }
    }

    /// Runs `job` with the bar, and then removes the bar.
    pub(crate) fn run<T>(&self, job: impl FnOnce(&Execution<'_>) -> T) -> T {
        let begun = Instant::now();
        let advance = |nbytes| {
            self.bar.inc(nbytes);
            if let Some(line) = self.lines.as_ref().and_then(|lines| lines.advance(nbytes, begun.elapsed())) {
                say(line);
            }
            if stop::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let result = job(&Execution { threads: threads(), progress: Some(&advance) });
        self.bar.finish_and_clear();
        result
    }
}

/// A function that is called with the progress of a job and its total, and returns whether to continue.
#[cfg(feature = "remote")]
pub(crate) type Tell<'a> = dyn Fn(u64, u64) -> ControlFlow<()> + Sync + 'a;

#[cfg(feature = "remote")]
impl Progress {
    /// Runs `job` with the bar, for a job whose total is not known at the beginning, and then removes the
    /// bar.
    pub(crate) fn run_to<T>(&self, job: impl FnOnce(&Tell<'_>) -> T) -> T {
        let begun = Instant::now();
        let tell = |done, total| {
            self.bar.set_length(total);
            self.bar.set_position(done);
            if let Some(line) = self.lines.as_ref().and_then(|lines| lines.at(done, total, begun.elapsed())) {
                say(line);
            }
            if stop::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let result = job(&tell);
        self.bar.finish_and_clear();
        result
    }

    /// Prints something while the bar is hidden.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

/// Makes lines that report the progress of a job from time to time.
struct Lines {
    total: u64,
    done: AtomicU64,
    /// The time at which the last line was due, in milliseconds since the job began.
    last: AtomicU64,
}

impl Lines {
    /// The milliseconds between two lines.
    const EVERY: u64 = 500;
    /// For fewer bytes there are no lines: they take long only on a machine that is busy with something else.
    const LEAST: u64 = 1 << 20;

    const fn new(total: u64) -> Self {
        Self { total, done: AtomicU64::new(0), last: AtomicU64::new(0) }
    }

    /// Counts bytes. Returns a line if one is due.
    fn advance(&self, nbytes: u64, elapsed: Duration) -> Option<String> {
        let done = self.done.fetch_add(nbytes, Ordering::Relaxed).saturating_add(nbytes);
        self.at(done, self.total, elapsed)
    }

    /// Returns a line if one is due.
    fn at(&self, done: u64, total: u64, elapsed: Duration) -> Option<String> {
        let now = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let last = self.last.load(Ordering::Relaxed);
        if total < Self::LEAST || now.saturating_sub(last) < Self::EVERY {
            return None;
        }
        // Another thread may have been first.
        self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        let seconds = elapsed.as_secs_f64();
        Some(format!(r#"{{"progress":{{"done":{done},"total":{total},"seconds":{seconds:.1}}}}}"#))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs get progress lines whether or not there is a terminal.
    #[test]
    fn json_has_lines_and_text_has_none() {
        assert!(Progress::of("x", 1, true, false).lines.is_some());
        assert!(Progress::of("x", 1, true, true).lines.is_none());
        assert!(Progress::of("x", 1, false, false).lines.is_none());
    }

    #[test]
    fn a_line_comes_twice_a_second() {
        let lines = Lines::new(10 << 20);
        let at = |mib: u64, ms| lines.advance(mib << 20, Duration::from_millis(ms));
        assert_eq!(at(1, 499), None);
        assert_eq!(at(1, 520).unwrap(), r#"{"progress":{"done":2097152,"total":10485760,"seconds":0.5}}"#);
        assert_eq!((at(3, 600), at(1, 1019)), (None, None));
        assert_eq!(at(3, 1020).unwrap(), r#"{"progress":{"done":9437184,"total":10485760,"seconds":1.0}}"#);
        assert_eq!(Lines::new(1000).advance(10, Duration::from_secs(9)), None);
    }
}
