//! Hands out numbered pieces to threads, and puts their results back in order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The pieces of one job.
pub(super) struct PieceQueue<T, E, F> {
    count: u64,
    /// How many pieces may be handed out ahead of the piece that `take` waits for.
    ahead: u64,
    state: Mutex<State<T, E, F>>,
    moved: Condvar,
}

struct State<T, E, F> {
    /// The piece that is handed out next.
    claimed: u64,
    /// The piece whose result is taken next.
    next: u64,
    /// Results that wait for an earlier one.
    early: BTreeMap<u64, T>,
    take: F,
    /// Whether handing out pieces has stopped.
    is_stopped: bool,
    /// The error of the smallest piece number so far.
    error: Option<(u64, E)>,
}

impl<T, E, F: FnMut(T) -> Result<(), E>> PieceQueue<T, E, F> {
    pub(super) const fn new(count: u64, ahead: u64, take: F) -> Self {
        let state =
            State { claimed: 0, next: 0, early: BTreeMap::new(), take, is_stopped: false, error: None };
        Self { count, ahead, state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Returns the number of the next piece. Waits while that piece is too far ahead. Returns `None` when no
    /// piece is left.
    pub(super) fn claim(&self) -> Option<u64> {
        let is_too_far = |state: &mut State<T, E, F>| {
            !state.is_stopped
                && state.claimed < self.count
                && state.claimed.saturating_sub(state.next) >= self.ahead
        };
        let waited = self.moved.wait_while(self.lock(), is_too_far);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped || state.claimed >= self.count {
            return None;
        }
        state.claimed += 1;
        Some(state.claimed - 1)
    }

    /// Takes the result of a piece, and the results that waited for it.
    pub(super) fn complete(&self, number: u64, result: Result<T, E>) {
        let mut state = self.lock();
        match result {
            Ok(result) => {
                state.early.insert(number, result);
                state.take_ready();
            }
            Err(error) => state.fail(number, error),
        }
        drop(state);
        self.moved.notify_all();
    }

    /// Returns a guard: if its thread panics, it stops the other threads, which would otherwise wait for its
    /// piece forever.
    pub(super) const fn stop_on_panic(&self) -> StopOnPanic<'_, T, E, F> {
        StopOnPanic(self)
    }

    pub(super) fn finish(self) -> Result<(), E> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.error.map_or(Ok(()), |(_, error)| Err(error))
    }
}

impl<T, E, F> PieceQueue<T, E, F> {
    fn lock(&self) -> MutexGuard<'_, State<T, E, F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, E, F: FnMut(T) -> Result<(), E>> State<T, E, F> {
    fn take_ready(&mut self) {
        while self.error.as_ref().is_none_or(|&(number, _)| self.next < number)
            && let Some(result) = self.early.remove(&self.next)
        {
            match (self.take)(result) {
                Ok(()) => self.next += 1,
                Err(error) => self.fail(self.next, error),
            }
        }
    }

    fn fail(&mut self, number: u64, error: E) {
        self.is_stopped = true;
        if self.error.as_ref().is_none_or(|&(first, _)| number < first) {
            self.error = Some((number, error));
        }
    }
}

pub(super) struct StopOnPanic<'a, T, E, F>(&'a PieceQueue<T, E, F>);

impl<T, E, F> Drop for StopOnPanic<'_, T, E, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_stopped = true;
            self.0.moved.notify_all();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "this is test code")]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::execution::{AHEAD, Execution};

    #[test]
    fn results_are_taken_in_order_and_nobody_runs_far_ahead() {
        for threads in [1, 2, 5] {
            let work = Execution { threads, progress: None };
            let taken = AtomicU64::new(0);
            let run = |(): &mut (), number: u64| {
                let ahead = number - taken.load(Ordering::SeqCst).min(number);
                assert!(ahead <= threads as u64 * AHEAD, "{number} is {ahead} ahead");
                if number.is_multiple_of(7) {
                    std::thread::yield_now();
                }
                Ok::<_, ()>(number)
            };
            let mut all = Vec::new();
            let take = |number| {
                all.push(number);
                taken.store(all.len() as u64, Ordering::SeqCst);
                Ok(())
            };
            work.each(500, || (), run, take).unwrap();
            assert!(all.into_iter().eq(0..500));
        }
    }

    #[test]
    fn nothing_is_taken_from_the_first_error_on() {
        for threads in [1, 3] {
            let work = Execution { threads, progress: None };
            let mut taken = 0;
            let run = |(): &mut (), number| if number == 20 { Err(number) } else { Ok(number) };
            let failed = work.each(
                100,
                || (),
                run,
                |_| {
                    taken += 1;
                    Ok(())
                },
            );
            assert_eq!((failed, taken), (Err(20), 20));
            let failed = work.each(
                100,
                || (),
                |(), n| Ok(n),
                |number| if number == 30 { Err(number) } else { Ok(()) },
            );
            assert_eq!(failed, Err(30));
        }
    }

    #[test]
    fn a_panic_of_one_thread_ends_all() {
        let work = Execution { threads: 3, progress: None };
        let run = |(): &mut (), number: u64| -> Result<(), ()> {
            assert_ne!(number, 11, "on purpose");
            Ok(())
        };
        let job = || work.each(1000, || (), run, |()| Ok(()));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err());
    }
}
