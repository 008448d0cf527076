//! Request bodies that count how much of them has been sent.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpRequestBody};

/// The number of bytes that are passed on at once. A connection takes as many of them as it has room for.
const FRAME: usize = 64 << 10;

/// A request body that counts the bytes that the connection has taken from it.
#[derive(Debug)]
pub(crate) struct Sending {
    inner: HttpRequestBody,
    /// Bytes that were taken from `inner` and not passed on yet.
    rest: Bytes,
    sent: Arc<AtomicU64>,
}

impl Sending {
    pub(crate) fn new(inner: HttpRequestBody, sent: Arc<AtomicU64>) -> Self {
        Self { inner, rest: Bytes::new(), sent }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match Pin::new(&mut this.inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => this.rest = bytes,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        }
        let frame = this.rest.split_to(FRAME.min(this.rest.len()));
        this.sent.fetch_add(frame.len() as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        match self.inner.size_hint().exact() {
            Some(inner) => SizeHint::with_exact(inner.saturating_add(rest)),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use modelfmt_core::author::now_or_never;

    use super::*;

    #[test]
    fn a_body_leaves_in_frames_and_says_how_much_is_left() {
        let bytes = Bytes::from((0..=250).cycle().take(FRAME * 2 + 5).collect::<Vec<u8>>());
        let sent = Arc::new(AtomicU64::new(0));
        let mut body = Sending::new(HttpRequestBody::from(bytes.clone()), Arc::clone(&sent));
        let mut all = Vec::new();
        assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
        while let Some(frame) =
            now_or_never(poll_fn(|context| Pin::new(&mut body).poll_frame(context))).unwrap()
        {
            let data = frame.unwrap().into_data().unwrap();
            assert!(data.len() <= FRAME);
            all.extend_from_slice(&data);
            assert_eq!(sent.load(Ordering::Relaxed), all.len() as u64);
            assert_eq!(body.size_hint().exact(), Some((bytes.len() - all.len()) as u64));
            assert_eq!(body.is_end_stream(), all.len() == bytes.len());
        }
        assert!(all == bytes);
    }
}
