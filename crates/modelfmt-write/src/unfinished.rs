//! The temporary files of this process, for a program that a signal ends while it writes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static STATE: Mutex<State> = Mutex::new(State { files: BTreeSet::new(), appearing: 0 });
static APPEARED: Condvar = Condvar::new();

/// How long a set may take to appear: its files are complete by then and only get their names.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct State {
    files: BTreeSet<PathBuf>,
    /// How often [`commit_guard`] has begun and not ended.
    appearing: usize,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a temporary file, which is known from then on.
pub(super) fn begin<T>(path: &Path, create: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut state = state();
    let created = create()?;
    state.files.insert(path.to_owned());
    Ok(created)
}

/// Removes a temporary file or gives it its name; if that fails, it is still known.
pub(super) fn end(path: &Path, done: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut state = state();
    done()?;
    state.files.remove(path);
    Ok(())
}

/// While this is kept, [`remove_unfinished`] waits.
#[derive(Debug)]
#[must_use = "what is to be done whole is so only as long as this is kept"]
pub struct CommitGuard(());

/// Starts something that a signal must not stop halfway: all of a set's files get their names, and those of the set
/// that it replaces go. It has to be short.
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

/// No writer of this process creates or completes a file while this is kept.
#[derive(Debug)]
#[must_use = "writers go on as soon as this is dropped"]
pub struct HaltGuard(#[expect(dead_code, reason = "it is kept for its lock")] MutexGuard<'static, State>);

/// Removes the temporary files of every [`AtomicFile`](super::AtomicFile) of this process, for a program that is about to
/// end without unwinding, as on a signal. Writers that would create or complete a file wait as long as the result is kept;
/// one that goes on afterwards finds its file gone, which is an error. A set whose first file has got its name gets the time
/// to appear whole. Paths are taken as they were given: a program that has changed its working directory since then must
/// have given absolute ones.
pub fn remove_unfinished() -> HaltGuard {
    let waited = APPEARED.wait_timeout_while(state(), PATIENCE, |state| state.appearing > 0);
    let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
    for path in std::mem::take(&mut state.files) {
        // Nothing more can be done about one that stays: the process ends.
        let _ = fs::remove_file(path);
    }
    HaltGuard(state)
}
