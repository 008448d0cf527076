//! Runs heavy work in pieces: on several threads if allowed, with progress, and cancellable.

mod order;

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use self::order::Order;

/// The number of bytes that are read, hashed or written at a time: large enough for every hash to run at full speed, and small enough
/// to stay in a core's own cache from being read to being written.
pub const PIECE: u64 = 512 << 10;

/// How many pieces per thread may be done ahead of the piece whose result is taken next.
const AHEAD: u64 = 4;

/// Called with the number of bytes done since the last call; [`ControlFlow::Break`] stops the work.
pub type Progress<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// How work is done: on how many threads, and with which progress callback.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// Threads to use; 1 without the feature `parallel` and on wasm32. The result never depends on it.
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
    /// On the calling thread, no progress callback.
    #[must_use]
    pub const fn sequential() -> Self {
        Self { threads: 1, progress: None }
    }

    /// Reports that `nbytes` are done; says whether to go on.
    pub fn advance(&self, nbytes: u64) -> ControlFlow<()> {
        self.progress.map_or(ControlFlow::Continue(()), |tell| tell(nbytes))
    }

    /// Runs `run` for every number below `count` and returns the results in order. Each thread has its own state, such as a
    /// buffer. After an error no new piece begins; the error of the smallest number is returned.
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

    /// Runs `run` for each number, and gives the results to `take`, in order and as soon as all before them are there. No thread
    /// is ever more than a few pieces ahead, so memory does not grow with `count`.
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
        let order = Order::new(count, threads.saturating_mul(AHEAD), take);
        let worker = || {
            let mut state = state();
            let _stop = order.stop_on_panic();
            while let Some(number) = order.claim() {
                order.put(number, run(&mut state, number));
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
        order.finish()
    }

    /// Runs both functions: in parallel if another thread is allowed and available, else one after the other.
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

/// Starts a helper thread. `None` if the system refuses, because the user has too many threads or there is no memory for a stack;
/// the work is then done without it.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    let builder = Builder::new();
    #[cfg(test)]
    let builder = if tests::NO_THREADS.get() { builder.stack_size(usize::MAX / 4) } else { builder };
    builder.spawn_scoped(scope, run).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        /// Makes this thread ask for stacks so large that no system has them, so that starting a thread fails.
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
