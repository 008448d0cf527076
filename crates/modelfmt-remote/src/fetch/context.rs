//! What all files of a fetch share: the store, the options, notes and progress.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::{FetchError, Result};
use super::options::FetchOptions;
use super::report::FetchProgress;
use crate::store::Store;
use crate::url::Location;

pub(super) struct Context<'a> {
    pub(super) store: Store,
    pub(super) options: &'a FetchOptions<'a>,
    notes: Mutex<Vec<String>>,
    done: AtomicU64,
    kept: AtomicU64,
    total: AtomicU64,
    /// The number of bytes of local files that were checked.
    checked: AtomicU64,
    has_stopped: AtomicBool,
}

impl<'a> Context<'a> {
    pub(super) fn new(store: &Store, options: &'a FetchOptions<'a>) -> Self {
        Self {
            store: store.uncached(),
            options,
            notes: Mutex::default(),
            done: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            total: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            has_stopped: AtomicBool::new(false),
        }
    }

    /// Fails if the policy refuses one of these URLs. Returns the hash that the policy has for the file.
    #[cfg(feature = "policy")]
    pub(super) fn judge(&self, places: &[Location]) -> Result<Option<[u8; 32]>> {
        let Some(policy) = &self.options.policy else { return Ok(None) };
        let mut hash = None;
        for place in places {
            let pin = policy
                .check_fetch(&place.whole())
                .map_err(|error| FetchError::Policy(error.to_string().into()))?;
            if let Some(modelfmt::Pin::B3(found)) = pin {
                hash = self.pin(Some(found), hash, places)?;
            }
        }
        Ok(hash)
    }

    /// Returns `None`: without the feature, there is no policy.
    #[cfg(not(feature = "policy"))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "as with the feature")]
    pub(super) const fn judge(&self, _: &[Location]) -> Result<Option<[u8; 32]>> {
        Ok(None)
    }

    /// Returns the hash that a file must have, according to the policy or the caller. If both have one, the
    /// hashes must be the same.
    #[allow(clippy::unused_self, reason = "it is a question about this fetch")]
    pub(super) fn pin(
        &self,
        of_policy: Option<[u8; 32]>,
        given: Option<[u8; 32]>,
        places: &[Location],
    ) -> Result<Option<[u8; 32]>> {
        if of_policy.zip(given).is_some_and(|(one, other)| one != other) {
            let url = places.first().map(ToString::to_string).unwrap_or_default();
            let text = format!("{url}: the policy has another pin for this file than the one that was given");
            return Err(FetchError::Policy(text.into()));
        }
        Ok(of_policy.or(given))
    }

    /// Reports a note to the user, once.
    pub(super) fn note(&self, text: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.contains(&text) {
            return;
        }
        if let Some(note) = self.options.note {
            note(&text);
        }
        notes.push(text);
    }

    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds the size of a file to the total.
    pub(super) fn add_to_total(&self, size: u64) {
        self.total.fetch_add(size, Ordering::Relaxed);
    }

    /// Subtracts the bytes that were counted for a file that is started again.
    pub(super) fn uncount(&self, done: u64) {
        for count in [&self.done, &self.kept] {
            let less = |now: u64| Some(now.saturating_sub(done));
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Counts bytes that have been written to their place.
    pub(super) fn count_written(&self, nbytes: u64) -> Result<()> {
        self.count_safe(nbytes);
        self.count_received(nbytes)
    }

    /// Counts bytes that arrived but would be lost by a stop.
    pub(super) fn count_received(&self, nbytes: u64) -> Result<()> {
        let done = self.done.fetch_add(nbytes, Ordering::Relaxed).saturating_add(nbytes);
        if self.tell(done, false) { Ok(()) } else { Err(FetchError::Stopped) }
    }

    /// Counts bytes that [`count_received`](Self::count_received) has counted and that a stop no longer
    /// loses.
    pub(super) fn count_safe(&self, nbytes: u64) {
        self.kept.fetch_add(nbytes, Ordering::Relaxed);
    }

    /// Counts bytes of a local file that were checked. Returns whether to continue.
    pub(super) fn count_checked(&self, nbytes: u64) -> bool {
        let checked = self.checked.fetch_add(nbytes, Ordering::Relaxed).saturating_add(nbytes);
        self.tell(checked, true)
    }

    fn tell(&self, done: u64, is_checking: bool) -> bool {
        let (kept, total) = (self.kept.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        if let Some(progress) = self.options.progress
            && progress(FetchProgress { done, kept, total, is_checking }) == ControlFlow::Break(())
        {
            self.has_stopped.store(true, Ordering::Relaxed);
        }
        !self.has_stopped.load(Ordering::Relaxed)
    }
}
