//! The temporary files of this process, for a program that a signal ends while it writes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static STATE: Mutex<State> = Mutex::new(State { files: BTreeSet::new(), appearing: 0 });
static APPEARED: Condvar = Condvar::new();

/// How long to wait for a set to appear. By then its files are complete and are only renamed.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct State {
    files: BTreeSet<PathBuf>,
    /// The number of [`CommitGuard`]s that exist.
    appearing: usize,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a temporary file and registers it.
pub(super) fn begin<T>(path: &Path, create: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut state = state();
    let created = create()?;
    state.files.insert(path.to_owned());
    Ok(created)
}

/// Runs `done`, which removes or renames a temporary file, and unregisters the file unless that fails.
pub(super) fn end(path: &Path, done: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut state = state();
    done()?;
    state.files.remove(path);
    Ok(())
}

/// While this exists, [`remove_unfinished`] waits.
#[derive(Debug)]
#[must_use = "what is to be done whole is so only as long as this is kept"]
pub struct CommitGuard(());

/// Begins a section that a signal must not interrupt: all files of a set are renamed, and those of the set
/// that it replaces are removed. The section must be short.
pub fn commit_guard() -> CommitGuard {
    state().appearing += 1;
    CommitGuard(())
}

impl Drop for CommitGuard {
    fn drop(&mut self) {
        state().appearing -= 1;
        APPEARED.notify_all();
    }
}

/// While this exists, no writer of this process creates or completes a file.
#[derive(Debug)]
#[must_use = "writers go on as soon as this is dropped"]
pub struct HaltGuard(#[expect(dead_code, reason = "it is kept for its lock")] MutexGuard<'static, State>);

/// Removes the temporary files of every [`AtomicFile`](super::AtomicFile) of this process. Call this in a
/// program that is about to end without unwinding, for example after a signal. While the result exists,
/// writers that would create or complete a file wait. A writer that continues afterwards finds its file
/// removed, and fails. If the first file of a set has been renamed, this waits up to 5 seconds for the
/// others. Paths are used as they were given: if the program has changed its working directory since, they
/// must be absolute.
pub fn remove_unfinished() -> HaltGuard {
    let waited = APPEARED.wait_timeout_while(state(), PATIENCE, |state| state.appearing > 0);
    let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
    for path in std::mem::take(&mut state.files) {
        // A file that cannot be removed stays; the process ends anyway.
        let _ = fs::remove_file(path);
    }
    HaltGuard(state)
}
