//! Long work beside the interpreter: on threads of its own and without the GIL, while the calling thread looks for Ctrl-C and
//! tells of progress.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use modelfmt::Execution;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often the calling thread looks for signals and tells of progress.
const LOOK: Duration = Duration::from_millis(50);

/// Who is told of progress: `callback(done, total)`, in bytes.
pub(crate) struct Progress<'py> {
    pub(crate) callback: Option<Bound<'py, PyAny>>,
    pub(crate) total: u64,
}

impl Progress<'_> {
    pub(crate) const fn none() -> Self {
        Self { callback: None, total: 0 }
    }

    fn tell(&self, done: u64) -> PyResult<()> {
        match &self.callback {
            Some(callback) => callback.call1((done.min(self.total), self.total)).map(drop),
            None => Ok(()),
        }
    }

    /// Tells of the end.
    pub(crate) fn finish(&self) -> PyResult<()> {
        self.tell(self.total)
    }
}

/// Where the work leaves its result.
struct Slot<T> {
    value: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Running,
    Done(T),
    /// It panicked, or its result was taken.
    Gone,
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, state: State<T>) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    /// The result once it is there; `None` while the work goes on.
    fn wait(&self) -> Option<State<T>> {
        let running = |state: &mut State<T>| matches!(state, State::Running);
        let waited = self.changed.wait_timeout_while(self.lock(), LOOK, running);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Running => None,
            _ => Some(std::mem::replace(&mut *state, State::Gone)),
        }
    }
}

/// Says that there will be no result, unless there is one.
struct Ending<'a, T>(&'a Slot<T>);

impl<T> Drop for Ending<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.put(State::Gone);
        }
    }
}

/// Runs `job` on another thread, so that Ctrl-C and an error of the callback stop it: by [`Execution::advance`], which it asks as
/// it goes. `threads` of `None` are as many as there are cores, at most 8.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: &Progress<'_>,
    job: impl FnOnce(&Execution<'_>) -> T + Send,
) -> PyResult<T> {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let advance = |nbytes: u64| {
        done.fetch_add(nbytes, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut work = Execution { progress: Some(&advance), ..Execution::default() };
    if let Some(threads) = threads {
        work.threads = threads.max(1);
    }
    let slot = Slot { value: Mutex::new(State::Running), changed: Condvar::new() };
    let (work, slot) = (&work, &slot);
    std::thread::scope(|scope| {
        let begun = std::thread::Builder::new().spawn_scoped(scope, move || {
            let _ending = Ending(slot);
            slot.put(State::Done(job(work)));
        });
        let helper =
            begun.map_err(|error| PyRuntimeError::new_err(format!("no thread can be started: {error}")))?;
        let (mut interrupted, mut told) = (Ok(()), None);
        let state = loop {
            if let Some(state) = py.detach(|| slot.wait()) {
                break state;
            }
            if interrupted.is_err() {
                continue;
            }
            let now = done.load(Ordering::Relaxed);
            interrupted = py.check_signals();
            if interrupted.is_ok() && told.replace(now) != Some(now) {
                interrupted = progress.tell(now);
            }
            stop.store(interrupted.is_err(), Ordering::Relaxed);
        };
        // The scope would panic in its turn if nobody looked at the thread.
        let _ = helper.join();
        interrupted?;
        match state {
            State::Done(value) => Ok(value),
            _ => Err(PyRuntimeError::new_err("internal error: the work panicked")),
        }
    })
}
