//! Progress bars.

use std::io::IsTerminal;
use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressStyle};
use modelfmt::Execution;

use crate::stop;

/// A bar on a terminal; nothing elsewhere, or when `quiet`.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Begins a bar over `total` bytes.
    pub(crate) fn new(what: &str, total: u64, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let template =
            "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        // No steady tick: it needs a thread, and indicatif panics where there can be none.
        Self(ProgressBar::new(total).with_style(style).with_message(what.to_owned()))
    }

    /// Runs `job` with the bar, and takes the bar away.
    pub(crate) fn run<T>(&self, job: impl FnOnce(&Execution<'_>) -> T) -> T {
        let advance = |nbytes| {
            self.0.inc(nbytes);
            if stop::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let result = job(&Execution { progress: Some(&advance), ..Execution::default() });
        self.0.finish_and_clear();
        result
    }
}
