//! Flushes a file while more of it is being written.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The number of bytes that are written between two flushes.
const STEP: u64 = 16 << 20;

/// Flushes written bytes on a separate thread while more are being written. Otherwise a system may begin to
/// write to the disk only at the last flush, and the disk's time would add to the program's.
#[derive(Debug, Default)]
pub(super) struct EarlyFlush {
    written: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The flush that was started last.
    thread: Option<JoinHandle<io::Result<()>>>,
    /// The error of the first flush that failed. The system may report it only once.
    error: Option<Arc<io::Error>>,
}

impl EarlyFlush {
    /// Notes that `len` more bytes have been written to `file`.
    pub(super) fn wrote(&self, file: &File, len: u64) {
        let before = self.written.fetch_add(len, Ordering::Relaxed);
        // On other systems, writes to a file may have to wait while it is flushed.
        let is_useful = cfg!(all(feature = "parallel", unix));
        if is_useful && before / STEP < before.saturating_add(len) / STEP {
            self.state().flush(file);
        }
    }

    /// Waits for the running flush.
    ///
    /// # Errors
    /// The error of any of the flushes. Any bytes of the file may then be missing, whatever later flushes
    /// return.
    pub(super) fn finish(&self) -> io::Result<()> {
        let mut state = self.state();
        state.join();
        state.error.as_ref().map_or(Ok(()), |error| Err(io::Error::new(error.kind(), Arc::clone(error))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Starts a flush, unless one is running or has failed.
    fn flush(&mut self, file: &File) {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.join();
        if self.error.is_none()
            && let Ok(file) = file.try_clone()
        {
            // If no thread can be started, the last flush does everything.
            self.thread = Builder::new().spawn(move || file.sync_data()).ok();
        }
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let flushed = thread.join().unwrap_or_else(|_| Err(io::Error::other("the flush panicked")));
            self.error = self.error.take().or(flushed.err().map(Arc::new));
        }
    }
}

#[cfg(all(test, feature = "parallel", unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_flushed_as_it_grows() {
        let file = tempfile::tempfile().unwrap();
        let early = EarlyFlush::default();
        early.wrote(&file, 1);
        assert!(early.state().thread.is_none());
        for _ in 0..3 {
            early.wrote(&file, STEP);
            assert!(early.state().thread.is_some());
        }
        early.finish().unwrap();
        assert!(early.state().thread.is_none());
    }

    // The null device cannot be flushed, so it simulates a disk that fails.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_fails_is_told_and_not_forgotten() {
        let file = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        let early = EarlyFlush::default();
        for _ in 0..3 {
            early.wrote(&file, STEP);
        }
        assert_eq!(early.finish().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(early.finish().unwrap_err().to_string().contains("os error"));
    }
}
