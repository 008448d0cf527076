//! The servers that have a file, and how well each of them works.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use modelfmt_core::source::folder_of;

use super::context::Context;
use super::error::{FetchError, Result};
use super::part::check_room;
use super::report::FetchSource;
use crate::error::{Error, Fault};
use crate::object::Object;
use crate::url::Location;

/// A server on which the file has been opened.
pub(super) struct Mirror {
    /// The URL, without secrets.
    pub(super) name: String,
    pub(super) place: Location,
    pub(super) object: Object,
    pub(super) bytes: Cell<u64>,
    pub(super) refused: Cell<u64>,
    /// The number of requests in progress.
    pub(super) active: Cell<usize>,
    /// Whether it has sent wrong bytes.
    pub(super) sent_wrong_bytes: Cell<bool>,
    /// Set when it no longer responds, or has another file now.
    pub(super) fault: std::cell::RefCell<Option<Fault>>,
    since: Cell<Option<Instant>>,
}

impl Mirror {
    pub(super) fn is_alive(&self) -> bool {
        self.fault.borrow().is_none()
    }

    pub(super) const fn size(&self) -> u64 {
        self.object.version().size
    }

    /// Returns what uniquely identifies the version of the file; `None` if the server states nothing.
    pub(super) fn tag(&self) -> Option<String> {
        let version = self.object.version();
        let id = version.id.as_ref().map(|id| format!("id {id}"));
        id.or_else(|| version.strong().map(|etag| format!("etag {etag}")))
    }

    pub(super) fn begins(&self) {
        self.active.set(self.active.get() + 1);
        if self.since.get().is_none() {
            self.since.set(Some(Instant::now()));
        }
    }

    pub(super) fn ends(&self) {
        self.active.set(self.active.get().saturating_sub(1));
    }

    pub(super) fn count_received(&self, len: u64) {
        self.bytes.set(self.bytes.get().saturating_add(len));
    }

    /// Estimates how long `len` bytes from this server take, from its speed so far; `None` before anything
    /// has arrived.
    pub(super) fn time_for(&self, len: u64) -> Option<Duration> {
        let (since, received) = (self.since.get()?, self.bytes.get());
        let seconds = since.elapsed().as_secs_f64() * (len as f64) / (received as f64);
        (received > 0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    fn report(&self) -> FetchSource {
        FetchSource { url: self.name.clone(), bytes: self.bytes.get(), refused: self.refused.get() }
    }
}

/// All servers of one file.
#[derive(Default)]
pub(super) struct Mirrors {
    pub(super) all: Vec<Mirror>,
    /// The servers that do not support requests for ranges.
    pub(super) without_ranges: Vec<Location>,
    /// The error of the first server on which the file cannot be opened.
    pub(super) error: Option<Error>,
}

impl Mirrors {
    /// Requests the first bytes of the file from all servers at the same time.
    pub(super) async fn open(cx: &Context<'_>, places: &[Location], front: u32) -> Result<Self> {
        cx.judge(places)?;
        let opened =
            join_all(places.iter().map(|place| Object::open(cx.store.clone(), place.clone(), front)));
        let mut mirrors = Self::default();
        for (place, opened) in places.iter().zip(opened.await) {
            match opened {
                Ok(object) => {
                    let name = place.to_string();
                    mirrors.all.push(Mirror {
                        bytes: Cell::new(0),
                        name,
                        place: place.clone(),
                        object,
                        refused: Cell::new(0),
                        active: Cell::new(0),
                        sent_wrong_bytes: Cell::new(false),
                        fault: Default::default(),
                        since: Cell::new(None),
                    });
                }
                Err(error) if *error.fault() == Fault::NoRanges => mirrors.without_ranges.push(place.clone()),
                Err(error) => {
                    if places.len() > 1 {
                        cx.note(format!("{error}; it is not used"));
                    }
                    mirrors.error.get_or_insert(error);
                }
            }
        }
        Ok(mirrors)
    }

    /// Leaves out the servers whose file does not fit on the disk, where `there` bytes of it may be already.
    ///
    /// # Errors
    /// If no server remains.
    pub(super) fn expect_room(&mut self, cx: &Context<'_>, target: &Path, there: u64) -> Result<()> {
        let (count, mut failure) = (self.all.len(), None);
        self.all.retain(|mirror| {
            let missing = mirror.size().saturating_sub(there);
            let Err(error) = check_room(folder_of(target), mirror.size(), missing) else { return true };
            if count > 1 {
                cx.note(format!("{}: {error}; it is not used", mirror.name));
            }
            failure.get_or_insert(error);
            false
        });
        match failure {
            Some(error) if self.all.is_empty() && self.without_ranges.is_empty() => {
                Err(FetchError::local(target)(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the lengths that servers state, in the order of the servers, each once.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut sizes = Vec::new();
        for size in self.all.iter().map(Mirror::size) {
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        sizes
    }

    pub(super) fn reports(&self) -> Vec<FetchSource> {
        self.all.iter().map(Mirror::report).collect()
    }
}
