//! The thread that runs uploads, whichever threads write.

use std::future::{Future, pending};
use std::io;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

static RUNTIME: OnceLock<Option<Handle>> = OnceLock::new();

/// Returns the runtime for uploads.
///
/// # Errors
/// If its thread cannot be started.
pub(super) fn handle() -> io::Result<&'static Handle> {
    let start = || {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        let run = move || runtime.block_on(pending::<()>());
        thread::Builder::new().name("modelfmt uploads".to_owned()).spawn(run).ok()?;
        Some(handle)
    };
    RUNTIME
        .get_or_init(start)
        .as_ref()
        .ok_or_else(|| io::Error::other("no thread for uploads can be started"))
}

/// Runs a request and waits for its response. This blocks, and may be called within another runtime.
///
/// # Errors
/// If there is no runtime, or the response takes longer than `at_most`.
pub(super) fn wait<T: Send + 'static>(
    request: impl Future<Output = T> + Send + 'static,
    at_most: Option<Duration>,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle()?.spawn(async move {
        let _ = sender.send(request.await); // nobody waits any more
    });
    let ended = |()| io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time");
    match at_most {
        Some(at_most) => receiver.recv_timeout(at_most).map_err(|_| ended(())),
        None => receiver.recv().map_err(|_| ended(())),
    }
}
