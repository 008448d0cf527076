//! The limit on how long a server may send nothing, over all tries of a request.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Fault;
use crate::min_speed::STEP;

/// The maximum time that counts at once, because the program may have done other things than wait.
const TICK: Duration = Duration::from_secs(1);

/// The limit on waiting for a server, and the time waited so far. Each 4 KiB that arrive reset this time.
#[derive(Debug)]
pub(crate) struct Stall {
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The time spent waiting for the server since the last progress.
    waited: Duration,
    /// The number of bytes that have arrived since then.
    received: u64,
}

impl Stall {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, state: Mutex::new(State { waited: Duration::ZERO, received: 0 }) }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts bytes that have arrived.
    pub(crate) fn count_received(&self, len: u64) {
        self.with(|state| {
            state.received = state.received.saturating_add(len);
            if state.received >= STEP {
                *state = State::default();
            }
        });
    }

    /// Counts time spent waiting for the server, and returns how much is left.
    fn waited(&self, time: Duration) -> Duration {
        self.with(|state| {
            state.waited = state.waited.saturating_add(time);
            self.limit.saturating_sub(state.waited)
        })
    }

    /// Waits for a response, until the limit is reached.
    pub(crate) async fn watch<T>(&self, answer: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut answer = pin!(answer);
        let mut left = self.waited(Duration::ZERO);
        while !left.is_zero() {
            let (begun, tick) = (Instant::now(), left.min(TICK));
            match tokio::time::timeout(tick, &mut answer).await {
                Ok(answer) => {
                    self.waited(begun.elapsed().min(tick));
                    return answer;
                }
                Err(_) => left = self.waited(tick),
            }
        }
        Err(Fault::Silent(self.limit))
    }

    /// Waits before the next try after a fault. If the limit is reached first, returns that as the error.
    pub(crate) async fn pause(&self, time: Duration, fault: Fault) -> Result<(), Fault> {
        if !self.waited(time).is_zero() {
            tokio::time::sleep(time).await;
            return Ok(());
        }
        Err(match fault {
            Fault::NoAnswer(_) | Fault::Stalled(_) => Fault::Silent(self.limit),
            fault => fault,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_renews_the_patience() {
        let s = Duration::from_secs;
        let stall = Stall::new(s(60));
        assert_eq!([stall.waited(s(30)), stall.waited(s(20))], [s(30), s(10)]);
        stall.count_received(STEP - 1);
        assert_eq!(stall.waited(s(5)), s(5), "less than 4 KiB is none");
        stall.count_received(1);
        assert_eq!([stall.waited(s(59)), stall.waited(s(1))], [s(1), s(0)]);
        stall.count_received(u64::MAX);
        assert_eq!(stall.waited(s(1)), s(59));
    }
}
