//! Ends the program on SIGINT and SIGTERM. The running work is asked to stop and cleans up after itself. If
//! it does not stop in time, the process still ends and leaves no files behind.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use modelfmt::modelfmt_write::remove_unfinished;
use modelfmt::wording::Printable;

use crate::failure::say;

/// The time in which the work has to notice that it must stop.
const GRACE: Duration = Duration::from_millis(400);
/// The time in which the parts of an upload are removed from a bucket.
const TAKE_BACK: Duration = Duration::from_secs(5);

/// The exit status for the signal, 128 plus its number; 0 before any signal.
static STATUS: AtomicU8 = AtomicU8::new(0);

/// Checks whether the work must stop.
pub(crate) fn is_asked() -> bool {
    STATUS.load(Ordering::Relaxed) != 0
}

/// Returns the exit status after a signal, or `None` if there was none.
pub(crate) fn status() -> Option<ExitCode> {
    match STATUS.load(Ordering::Relaxed) {
        0 => None,
        status => Some(ExitCode::from(status)),
    }
}

/// The line about what remains, to be printed once a signal has ended the work.
static EXIT_MESSAGE: Mutex<Option<Line>> = Mutex::new(None);

type Line = Box<dyn FnOnce() -> String + Send>;

/// Sets the line to print if a signal ends the program.
pub(crate) fn set_exit_message(line: impl FnOnce() -> String + Send + 'static) {
    *EXIT_MESSAGE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(line));
}

/// Removes the line, because the work is complete and a signal would leave nothing to report.
pub(crate) fn clear_exit_message() {
    *EXIT_MESSAGE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Prints the line, if there is one that was not yet printed.
pub(crate) fn print_exit_message() {
    let line = EXIT_MESSAGE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(line) = line {
        say(line());
    }
}

/// If a signal ends the program, prints whether a file was written that appears whole or not at all. A
/// folder, a pipe or a device may have received a part.
pub(crate) fn say_whether_written(output: &Path) {
    let (path, before) = (output.to_owned(), version(output));
    set_exit_message(move || match (version(&path), before) {
        (Ok(now), Ok(before)) if now == before => "interrupted; nothing was written".to_owned(),
        (Ok(_), Ok(_)) => format!("interrupted; {} had been written", Printable(&path.to_string_lossy())),
        _ => "interrupted".to_owned(),
    });
}

/// Returns values that distinguish a file from one that replaces it, `None` if there is no file, or an error
/// if the path is not a regular file.
fn version(path: &Path) -> Result<Option<(u64, Option<SystemTime>)>, NoFile> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(Some((found.len(), found.modified().ok()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => Err(NoFile),
    }
}

struct NoFile;

/// Handles a signal. The first one asks the work to stop and gives it a moment; the second one ends the
/// process at once.
fn on_signal(status: u8) {
    if STATUS.swap(status, Ordering::Relaxed) != 0 {
        end(status, GRACE);
    }
    // The wait has its own thread, so that a second signal is noticed. If no thread can be started, the
    // process ends at once.
    let wait = move || {
        thread::sleep(GRACE);
        end(status, TAKE_BACK);
    };
    if thread::Builder::new().spawn(wait).is_err() {
        end(status, GRACE);
    }
}

/// Ends the process even if other threads are busy, perhaps in a read that never returns.
fn end(status: u8, take_back: Duration) -> ! {
    print_exit_message();
    #[cfg(feature = "remote")]
    modelfmt_remote::abort_uploads(take_back);
    #[cfg(not(feature = "remote"))]
    let _ = take_back;
    let _halted = remove_unfinished();
    std::process::exit(status.into())
}

/// Begins to handle signals. If that fails, signals end the process as usual, without cleaning up.
#[cfg(unix)]
pub(crate) fn listen() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    // At a limit on the size of files, the write fails and its file is removed. By default the signal would
    // end the process.
    let _ = signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default());
    // Ignored signals stay ignored: `nohup` requires that, and so do background jobs of a shell.
    let ignored = ignored_signals();
    let heard =
        [SIGHUP, SIGINT, SIGTERM].into_iter().filter(move |signal| ignored & (1 << (signal - 1)) == 0);
    // The thread starts first: without it, handled signals would be lost.
    let (ready, is_ready) = std::sync::mpsc::channel::<()>();
    let begun = thread::Builder::new().spawn(move || {
        let Ok(mut signals) = signal_hook::iterator::Signals::new(heard) else { return };
        drop(ready);
        for signal in signals.forever() {
            on_signal(u8::try_from(signal).map_or(1, |number| number.saturating_add(128)));
        }
    });
    if begun.is_ok() {
        let _ = is_ready.recv(); // which ends when the other end is dropped
    }
}

/// Returns the signals that were ignored when the process began, bit 0 for signal 1. If the system does not
/// report them, hangup counts as ignored, as with `nohup`.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    const HANGUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(HANGUP)
}

/// Begins to handle signals, as on Unix. Here, one exit status stands for everything that ends a process.
#[cfg(not(unix))]
pub(crate) fn listen() {
    let _ = ctrlc::set_handler(|| on_signal(130));
}
