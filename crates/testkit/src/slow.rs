//! Files whose reads have to be awaited, and an executor for futures that read them.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use modelfmt_core::source::{Files as _, MemoryFiles};
use modelfmt_core::{Bytes, Fetch, FetchFiles, Report};

/// Bytes whose reads have to be awaited, once for each range.
#[derive(Clone, Debug)]
pub struct SlowSource(pub Arc<[u8]>);

/// Files that have to be awaited when they are opened and when they are read.
#[derive(Debug)]
pub struct SlowFiles<'a>(pub &'a MemoryFiles);

impl FetchFiles for SlowFiles<'_> {
    type File = SlowSource;

    async fn fetch_file(&self, path: &str) -> io::Result<SlowSource> {
        wait().await;
        self.0.open(path).map(SlowSource)
    }
}

impl Fetch for SlowSource {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        wait().await;
        self.0.fetch(range).await
    }
}

/// Returns a future that is ready when it is polled for the second time.
pub async fn wait() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Runs one future, polling it without a pause.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}

/// Returns the text of an error with its causes.
pub fn error_text(error: impl Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns the lines of a verification report, without the duration.
pub fn report_lines(report: &Report) -> Vec<String> {
    let checks = report.checks.iter().map(|check| format!("{check:?}"));
    checks.chain(report.errors.iter().cloned()).collect()
}
