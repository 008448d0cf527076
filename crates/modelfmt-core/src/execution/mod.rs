//! Runs heavy work in pieces: on several threads if allowed, with progress reports and cancellation.

mod piece_queue;

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use self::piece_queue::PieceQueue;

/// The number of bytes that are read, hashed or written at a time: large enough for every hash to run at full
/// speed, and small enough to stay in a core's own cache from reading to writing.
pub const PIECE: u64 = 512 << 10;

/// The number of pieces per thread that may be done ahead of the piece whose result is taken next.
const AHEAD: u64 = 4;

/// A callback that gets the number of bytes done since the last call. [`ControlFlow::Break`] stops the work.
pub type Progress<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// The number of threads and the progress callback for some work.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// The number of threads; 1 without the feature `parallel` and on wasm32. The result never depends on it.
    pub threads: usize,
    /// Called for every piece that is done.
    pub progress: Option<Progress<'a>>,
}

impl Default for Execution<'_> {
    /// Up to 8 threads, no progress callback.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: cores.min(8), progress: None }
    }
}

impl std::fmt::Debug for Execution<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Execution {{ threads: {}, progress: {} }}", self.threads, self.progress.is_some())
    }
}

impl Execution<'_> {
    /// Runs on the calling thread, without a progress callback.
    #[must_use]
    pub const fn sequential() -> Self {
        Self { threads: 1, progress: None }
    }

    /// Reports that `nbytes` more bytes are done. Returns whether to continue.
    pub fn advance(&self, nbytes: u64) -> ControlFlow<()> {
        self.progress.map_or(ControlFlow::Continue(()), |tell| tell(nbytes))
    }

    /// Calls `run` with every number below `count` and returns the results in order. Each thread has its own
    /// state, such as a buffer. After an error no new piece is started; the error of the smallest number is
    /// returned.
    ///
    /// # Errors
    /// The errors of `run`.
    pub fn map<S, T: Send, E: Send>(
        &self,
        count: u64,
        state: impl Fn() -> S + Sync,
        run: impl Fn(&mut S, u64) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let mut results = Vec::new();
        let take = |result| {
            results.push(result);
            Ok(())
        };
        self.each(count, state, run, take)?;
        Ok(results)
    }

    /// Calls `run` with every number below `count`, and passes the results to `take` in order, as soon as all
    /// earlier ones exist. No thread is more than a few pieces ahead, so memory does not grow with `count`.
    ///
    /// # Errors
    /// The errors of `run` and of `take`.
    pub fn each<S, T: Send, E: Send>(
        &self,
        count: u64,
        state: impl Fn() -> S + Sync,
        run: impl Fn(&mut S, u64) -> Result<T, E> + Sync,
        mut take: impl FnMut(T) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        let threads =
            if cfg!(all(feature = "parallel", not(target_arch = "wasm32"))) { self.threads } else { 1 };
        let threads = u64::try_from(threads).unwrap_or(1).min(count);
        if threads <= 1 {
            let mut state = state();
            return (0..count).try_for_each(|number| take(run(&mut state, number)?));
        }
        let queue = PieceQueue::new(count, threads.saturating_mul(AHEAD), take);
        let worker = || {
            let mut state = state();
            let _stop = queue.stop_on_panic();
            while let Some(number) = queue.claim() {
                queue.complete(number, run(&mut state, number));
            }
        };
        std::thread::scope(|scope| {
            // If no more threads can be started, the existing ones do the work.
            let helpers: Vec<_> = (1..threads).map_while(|_| spawn(scope, worker)).collect();
            worker();
            for helper in helpers {
                helper.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
        queue.finish()
    }

    /// Calls both functions: in parallel if another thread is allowed and available, otherwise one after the
    /// other.
    pub fn join<A: Send, B>(&self, a: impl Fn() -> A + Sync, b: impl FnOnce() -> B) -> (A, B) {
        if !cfg!(all(feature = "parallel", not(target_arch = "wasm32"))) || self.threads <= 1 {
            return (a(), b());
        }
        std::thread::scope(|scope| {
            let helper = spawn(scope, &a);
            let b = b();
            let a =
                helper.map_or_else(&a, |helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
            (a, b)
        })
    }
}

/// Starts a helper thread. Returns `None` if the system refuses, because the user has too many threads or
/// there is no memory for a stack; the work is then done without it.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    let builder = Builder::new();
    #[cfg(test)]
    let builder = if tests::NO_THREADS.get() { builder.stack_size(usize::MAX / 4 * 3) } else { builder };
    builder.spawn_scoped(scope, run).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        /// Makes this thread request stacks so large that no system has the memory, so that starting a thread
        /// fails.
        pub(super) static NO_THREADS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    #[test]
    fn work_is_done_where_there_are_no_more_threads() {
        NO_THREADS.set(true);
        std::thread::scope(|scope| assert!(spawn(scope, || ()).is_none()));
        let work = Execution { threads: 4, progress: None };
        let squares: Result<Vec<u64>, ()> = work.map(1000, || (), |(), n| Ok(n * n));
        assert_eq!(squares.unwrap(), (0..1000).map(|n| n * n).collect::<Vec<_>>());
        let here = std::thread::current().id();
        assert_eq!(work.join(|| std::thread::current().id(), || 7), (here, 7));
        NO_THREADS.set(false);
        assert_ne!(work.join(|| std::thread::current().id(), || 7).0, here);
    }

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        for threads in [1, 2, 7] {
            let work = Execution { threads, progress: None };
            let squares: Result<Vec<u64>, ()> = work.map(1000, || (), |(), n| Ok(n * n));
            assert_eq!(squares.unwrap(), (0..1000).map(|n| n * n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_stops_the_work() {
        let work = Execution { threads: 3, progress: None };
        let result: Result<Vec<u64>, u64> =
            work.map(1000, || (), |(), n| if n == 5 { Err(n) } else { Ok(n) });
        assert_eq!(result, Err(5));
    }
}
