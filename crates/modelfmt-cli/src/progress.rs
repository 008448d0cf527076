//! Progress bars, and stopping on Ctrl-C.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use modelfmt::Work;

static STOP: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C stops the work, which cleans up; a second one ends the process at once.
pub(crate) fn stop_on_ctrl_c() {
    // Without a handler Ctrl-C ends the process as ever; all that is lost is the cleaning up.
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Whether Ctrl-C was pressed.
pub(crate) fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

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
        let bar = ProgressBar::new(total).with_style(style).with_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Runs `job` with the bar, and takes the bar away.
    pub(crate) fn run<T>(&self, job: impl FnOnce(&Work<'_>) -> T) -> T {
        let advance = |nbytes| {
            self.0.inc(nbytes);
            if stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let result = job(&Work { progress: Some(&advance), ..Work::default() });
        self.0.finish_and_clear();
        result
    }
}
