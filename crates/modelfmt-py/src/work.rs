//! Runs long work in parallel to the interpreter: on separate threads and without the GIL, while the calling
//! thread checks for Ctrl-C and reports progress.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use modelfmt::Execution;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How often the calling thread checks for signals and reports progress.
const LOOK: Duration = Duration::from_millis(50);
/// How long the caller waits for work that was asked to stop. Work that a server or a disk delays for longer
/// ends by itself, without a result.
const GRACE: Duration = Duration::from_millis(500);

/// A callback for progress, which is called with the number of bytes done and the total.
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

    /// Reports the end.
    pub(crate) fn finish(&self) -> PyResult<()> {
        self.tell(self.total)
    }
}

/// The state that the work shares with the thread that waits for it.
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    done: AtomicU64,
    stop: AtomicBool,
}

enum State<T> {
    Running,
    Done(T),
    /// The work panicked, or its result was taken.
    Gone,
}

impl<T> Shared<T> {
    fn new() -> Self {
        let state = Mutex::new(State::Running);
        Self { state, changed: Condvar::new(), done: AtomicU64::new(0), stop: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, state: State<T>) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    /// Returns the result once it is available, or `None` if the work is still running.
    fn wait(&self) -> Option<State<T>> {
        let running = |state: &mut State<T>| matches!(state, State::Running);
        let waited = self.changed.wait_timeout_while(self.lock(), LOOK, running);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Running => None,
            _ => Some(std::mem::replace(&mut *state, State::Gone)),
        }
    }

    fn run(&self, threads: Option<usize>, job: impl FnOnce(&Execution<'_>) -> T) {
        let (done, stop) = (&self.done, &self.stop);
        let advance = |nbytes: u64| {
            done.fetch_add(nbytes, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut work = Execution { progress: Some(&advance), ..Execution::default() };
        if let Some(threads) = threads {
            work.threads = threads.max(1);
        }
        let _ending = Ending(self);
        self.put(State::Done(job(&work)));
    }
}

/// Records that there will be no result, if the work panics.
struct Ending<'a, T>(&'a Shared<T>);

impl<T> Drop for Ending<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.put(State::Gone);
        }
    }
}

/// Runs `job` on another thread, so that Ctrl-C or an error of the callback can stop it: the job calls
/// [`Execution::advance`] from time to time. With `threads` of `None` there is one thread for each core, at
/// most 8. If the job does not stop within half a second, the caller no longer waits for it.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: &Progress<'_>,
    job: impl FnOnce(&Execution<'_>) -> T + Send + 'static,
) -> PyResult<T> {
    run_telling(py, threads, &|done| progress.tell(done), job)
}

/// Like [`run`], with a function that is called with the number of bytes done.
pub(crate) fn run_telling<T: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    tell: &dyn Fn(u64) -> PyResult<()>,
    job: impl FnOnce(&Execution<'_>) -> T + Send + 'static,
) -> PyResult<T> {
    wait_for(py, threads, tell, Some(GRACE), job)
}

/// Like [`run`], for a job that reads memory of Python: the caller always waits until it has ended.
pub(crate) fn run_to_end<T: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: &Progress<'_>,
    job: impl FnOnce(&Execution<'_>) -> T + Send + 'static,
) -> PyResult<T> {
    wait_for(py, threads, &|done| progress.tell(done), None, job)
}

fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    tell: &dyn Fn(u64) -> PyResult<()>,
    patience: Option<Duration>,
    job: impl FnOnce(&Execution<'_>) -> T + Send + 'static,
) -> PyResult<T> {
    let shared = Arc::new(Shared::new());
    let its = Arc::clone(&shared);
    let begun = std::thread::Builder::new().spawn(move || its.run(threads, job));
    begun.map_err(|error| PyRuntimeError::new_err(format!("no thread can be started: {error}")))?;
    let (mut stopped, mut told) = (None, None);
    let state = loop {
        if let Some(state) = py.detach(|| shared.wait()) {
            break state;
        }
        if let Some((since, error)) = stopped.take() {
            if patience.is_some_and(|patience| Instant::elapsed(&since) >= patience) {
                return Err(error);
            }
            stopped = Some((since, error));
            continue;
        }
        let now = shared.done.load(Ordering::Relaxed);
        let mut looked = py.check_signals();
        if looked.is_ok() && told.replace(now) != Some(now) {
            looked = tell(now);
        }
        if let Err(error) = looked {
            shared.stop.store(true, Ordering::Relaxed);
            stopped = Some((Instant::now(), error));
        }
    };
    match (stopped, state) {
        (Some((_, error)), _) => Err(error),
        (None, State::Done(value)) => Ok(value),
        _ => Err(PyRuntimeError::new_err("internal error: the work panicked")),
    }
}
