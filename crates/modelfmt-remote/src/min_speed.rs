//! Response bodies that must arrive at a minimum speed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use object_store::client::{HttpError, HttpErrorKind};
use tokio::time::Sleep;

use crate::error::Fault;

/// The number of bytes that must arrive for a body to count as making progress.
pub(crate) const STEP: u64 = 4 << 10;

/// The body of a response. It fails with [`Fault::Stalled`] if the next bytes take too long, and with
/// [`Fault::Broken`] if the connection breaks off. Time during which the reader does not ask for bytes does
/// not count.
#[derive(Debug)]
pub(crate) struct Paced {
    inner: Incoming,
    limit: Duration,
    /// The number of further bytes of the body that are returned.
    left: u64,
    /// The fault if there are more; `None` if the rest is dropped.
    longer: Option<Fault>,
    /// The number of bytes that have arrived.
    done: u64,
    /// The number of bytes that have arrived since the wait was last reset.
    step: u64,
    waited: Duration,
    since: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl Paced {
    pub(crate) fn new(inner: Incoming, limit: Duration, most: u64) -> Self {
        let sleep = Box::pin(tokio::time::sleep(limit));
        let (done, step, waited) = (0, 0, Duration::ZERO);
        Self { inner, limit, left: most, longer: None, done, step, waited, since: None, sleep }
    }

    /// Makes the body fail with `fault` if it has more than `most` bytes.
    pub(crate) fn refusing_more(self, most: u64, fault: Fault) -> Self {
        Self { left: most, longer: Some(fault), ..self }
    }

    fn count_received(&mut self, len: u64) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
        self.done += len;
        self.step += len;
        if self.step >= STEP {
            (self.step, self.waited) = (0, Duration::ZERO);
        }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        if this.left == 0 && this.longer.is_none() {
            return Poll::Ready(None);
        }
        match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(data) = frame.data_mut() {
                    if let Some(fault) = this.longer.take_if(|_| data.len() as u64 > this.left) {
                        this.left = 0;
                        return Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Unknown, fault))));
                    }
                    data.truncate(usize::try_from(this.left).unwrap_or(usize::MAX));
                    let len = data.len() as u64;
                    this.left -= len;
                    this.count_received(len);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Some(Err(broken(Fault::Broken(this.done))))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                if this.since.is_none() {
                    let now = Instant::now();
                    this.since = Some(now);
                    let deadline = now + this.limit.saturating_sub(this.waited);
                    this.sleep.as_mut().reset(deadline.into());
                }
                match this.sleep.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(Some(Err(broken(Fault::Stalled(this.limit))))),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

fn broken(fault: Fault) -> HttpError {
    HttpError::new(HttpErrorKind::Interrupted, fault)
}
