//! The uploads of this process, so that a program can abort them when a signal ends it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static PENDING: Mutex<Vec<Arc<dyn Unfinished>>> = Mutex::new(Vec::new());

/// An upload that can be aborted.
pub(super) trait Unfinished: Send + Sync {
    /// Aborts the upload, and refuses every later write.
    fn abort(self: Arc<Self>, at_most: Duration);
}

fn pending() -> MutexGuard<'static, Vec<Arc<dyn Unfinished>>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn begin(upload: Arc<dyn Unfinished>) {
    pending().push(upload);
}

pub(super) fn end<U>(upload: &Arc<U>) {
    pending().retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(upload)));
}

/// Aborts the upload of every object that this process has not completed. Use this if the program is about to
/// end without unwinding, for example because of a signal. It takes at most `at_most`. Writers that continue
/// afterwards get an error. If a provider does not respond in time, it keeps parts that cannot be read; a
/// rule of the bucket for unfinished uploads removes them.
pub fn abort_uploads(at_most: Duration) {
    let begun = Instant::now();
    let uploads = pending().clone();
    std::thread::scope(|scope| {
        for upload in uploads {
            scope.spawn(move || upload.abort(at_most.saturating_sub(begun.elapsed())));
        }
    });
}
