//! Ending on SIGINT and SIGTERM: work is asked to stop and cleans up after itself; where it does not do so in time, the
//! process ends all the same and leaves nothing behind.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use modelfmt::modelfmt_write::remove_unfinished;

/// How long work has to see that it is to stop.
const GRACE: Duration = Duration::from_millis(400);
/// How long a bucket has to take back the parts of an upload.
const TAKE_BACK: Duration = Duration::from_secs(5);

/// The exit status that the signal asks for, 128 and its number; 0 as long as none came.
static STATUS: AtomicU8 = AtomicU8::new(0);

/// Whether the work is to stop.
pub(crate) fn is_asked() -> bool {
    STATUS.load(Ordering::Relaxed) != 0
}

/// The exit status of a process that was asked to stop, and did.
pub(crate) fn status() -> Option<ExitCode> {
    match STATUS.load(Ordering::Relaxed) {
        0 => None,
        status => Some(ExitCode::from(status)),
    }
}

/// What happens on a signal: the first asks the work to stop and gives it a moment, the second does not wait.
fn on_signal(status: u8) {
    if STATUS.swap(status, Ordering::Relaxed) != 0 {
        end(status, GRACE);
    }
    // On a thread of its own, so that a second signal is noticed. Without a thread, the process ends at once.
    let wait = move || {
        thread::sleep(GRACE);
        end(status, TAKE_BACK);
    };
    if thread::Builder::new().spawn(wait).is_err() {
        end(status, GRACE);
    }
}

/// Ends the process wherever its other threads are: in a read that the system does not come back from, perhaps.
fn end(status: u8, take_back: Duration) -> ! {
    #[cfg(feature = "remote")]
    modelfmt_remote::abort_uploads(take_back);
    #[cfg(not(feature = "remote"))]
    let _ = take_back;
    let _halted = remove_unfinished();
    std::process::exit(status.into())
}

/// From now on signals are heard. If they cannot be, they end the process as ever; all that is lost is the cleaning up.
#[cfg(unix)]
pub(crate) fn listen() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    // If a limit on the size of files is reached, the write fails and its file is removed. By default the signal would end the process.
    let _ = signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default());
    // A signal that is ignored stays so: `nohup` asks for that, and a shell for what runs in its background.
    let ignored = ignored_signals();
    let heard =
        [SIGHUP, SIGINT, SIGTERM].into_iter().filter(move |signal| ignored & (1 << (signal - 1)) == 0);
    // The thread comes first: without one to hear them, signals that are taken would be lost.
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

/// The signals that were ignored when the process began, bit 0 for signal 1. If the system does not say, hangup counts as ignored,
/// as with `nohup`.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    const HANGUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(HANGUP)
}

/// As on Unix; one number stands for all that ends a process here.
#[cfg(not(unix))]
pub(crate) fn listen() {
    let _ = ctrlc::set_handler(|| on_signal(130));
}
