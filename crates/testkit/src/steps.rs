//! Drives a reading task by hand: the task names the ranges that it needs, and its driver feeds their bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use modelfmt_core::source::checked_len;
use modelfmt_core::{AlignedBuf, Bytes, Fetch};

/// The state of a task after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// The task needs the bytes of these ranges, in any order and in pieces of any length.
    Need(Vec<Range<u64>>),
    /// The task is done.
    Done(T),
}

/// A task over [`Fetch`] that you drive by hand: while [`step`](Self::step) returns [`Step::Need`],
/// [`feed`](Self::feed) the bytes.
///
/// ```
/// use modelfmt_core::Fetch;
/// use testkit::{Step, Steps};
///
/// let file = b"\x03\0\0\0abc";
/// let mut steps = Steps::new(file.len() as u64, async |bytes| {
///     let head = bytes.fetch(0..4).await?;
///     let len = u64::from(head[0]);
///     std::io::Result::Ok(bytes.fetch(4..4 + len).await?.to_vec())
/// });
/// let text = loop {
///     match steps.step() {
///         Step::Need(ranges) => {
///             for range in ranges {
///                 let (at, end) = (range.start as usize, range.end as usize);
///                 steps.feed(range.start, &file[at..end]); // from wherever they come
///             }
///         }
///         Step::Done(text) => break text?,
///     }
/// };
/// assert_eq!(text, b"abc");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Steps<'a, T> {
    task: Option<Pin<Box<dyn Future<Output = T> + 'a>>>,
    needs: Arc<Mutex<Needs>>,
}

impl<T> fmt::Debug for Steps<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Steps {{ needs: {:?} }}", lock(&self.needs).missing())
    }
}

impl<'a, T> Steps<'a, T> {
    /// Makes a task over a file of `size` bytes.
    pub fn new<F: AsyncFnOnce(SteppedSource) -> T + 'a>(size: u64, task: F) -> Self
    where
        T: 'a,
    {
        let needs = Arc::default();
        let fed = SteppedSource { size, needs: Arc::clone(&needs) };
        Self { task: Some(Box::pin(async move { task(fed).await })), needs }
    }

    /// Runs the task as far as the fed bytes allow. Do not call it after [`Step::Done`]: it would return an
    /// empty [`Step::Need`].
    pub fn step(&mut self) -> Step<T> {
        if let Some(task) = &mut self.task
            && let Poll::Ready(value) = task.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            self.task = None;
            return Step::Done(value);
        }
        Step::Need(lock(&self.needs).missing())
    }

    /// Supplies the bytes of the file from `at` on. Bytes that are not needed now are ignored.
    pub fn feed(&mut self, at: u64, bytes: &[u8]) {
        lock(&self.needs).feed(at, bytes);
    }

    /// Reports that the needed bytes are not available: each waiting read fails with this error.
    pub fn fail(&mut self, kind: io::ErrorKind) {
        for need in &mut lock(&self.needs).0 {
            need.failed = Some(kind);
        }
    }
}

/// The source from which a task of [`Steps`] reads.
#[derive(Clone)]
pub struct SteppedSource {
    size: u64,
    needs: Arc<Mutex<Needs>>,
}

impl fmt::Debug for SteppedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SteppedSource({} bytes)", self.size)
    }
}

impl Fetch for SteppedSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn fetch(&self, range: Range<u64>) -> impl Future<Output = io::Result<Bytes<'_>>> {
        let mut ticket = None;
        poll_fn(move |_| {
            let mut needs = lock(&self.needs);
            let number = match ticket {
                Some(number) => number,
                None => match needs.ask(range.clone(), self.size) {
                    Ok(number) => *ticket.insert(number),
                    Err(error) => return Poll::Ready(Err(error)),
                },
            };
            needs.take(number).map(|result| result.map(Bytes::Owned))
        })
    }
}

/// The reads that wait for bytes.
#[derive(Debug, Default)]
struct Needs(Vec<Need>, u64);

#[derive(Debug)]
struct Need {
    number: u64,
    start: u64,
    buffer: AlignedBuf,
    /// The parts of the buffer that have not been fed, in ascending order.
    missing: Vec<Range<usize>>,
    failed: Option<io::ErrorKind>,
}

impl Needs {
    fn ask(&mut self, range: Range<u64>, size: u64) -> io::Result<u64> {
        let len = checked_len(&range, size)?;
        let missing = Some(0..len).filter(|all| !all.is_empty()).into_iter().collect();
        self.1 = self.1.saturating_add(1);
        let buffer = AlignedBuf::zeroed(len)?;
        self.0.push(Need { number: self.1, start: range.start, buffer, missing, failed: None });
        Ok(self.1)
    }

    fn take(&mut self, number: u64) -> Poll<io::Result<AlignedBuf>> {
        let Some(position) = self.0.iter().position(|need| need.number == number) else {
            return Poll::Ready(Err(io::ErrorKind::Other.into())); // polled after it was ready
        };
        match self.0.get(position) {
            Some(need) if need.failed.is_none() && !need.missing.is_empty() => Poll::Pending,
            _ => {
                let need = self.0.remove(position);
                Poll::Ready(need.failed.map_or(Ok(need.buffer), |kind| Err(kind.into())))
            }
        }
    }

    fn missing(&self) -> Vec<Range<u64>> {
        let of = |need: &Need| {
            let start = need.start;
            need.missing.clone().into_iter().map(move |part| {
                start.saturating_add(part.start as u64)..start.saturating_add(part.end as u64)
            })
        };
        self.0.iter().flat_map(of).collect()
    }

    fn feed(&mut self, at: u64, bytes: &[u8]) {
        for need in &mut self.0 {
            need.feed(at, bytes);
        }
    }
}

impl Need {
    /// Copies the bytes that are missing, and keeps track of those that remain missing.
    fn feed(&mut self, at: u64, bytes: &[u8]) {
        let end = at.saturating_add(bytes.len() as u64);
        let within = |n: u64| usize::try_from(n.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let (from, to) = (within(at), within(end));
        let skipped = usize::try_from(self.start.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut left = Vec::new();
        for part in std::mem::take(&mut self.missing) {
            let (begin, stop) = (part.start.max(from), part.end.min(to));
            if begin >= stop {
                left.push(part);
                continue;
            }
            // `bytes` begins at `from` in the buffer, or `skipped` bytes before it.
            let source = bytes
                .get(skipped.saturating_add(begin.saturating_sub(from))..)
                .and_then(|rest| rest.get(..stop.saturating_sub(begin)));
            if let Some((out, source)) = self.buffer.get_mut(begin..stop).zip(source) {
                out.copy_from_slice(source);
            }
            left.extend([part.start..begin, stop..part.end].into_iter().filter(|part| part.start < part.end));
        }
        self.missing = left;
    }
}

fn lock(needs: &Mutex<Needs>) -> MutexGuard<'_, Needs> {
    needs.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file() -> Vec<u8> {
        (0..=255).cycle().take(1000).collect()
    }

    /// Reads two ranges, the second of which depends on the first, and an empty one.
    fn task() -> Steps<'static, io::Result<Vec<u8>>> {
        Steps::new(1000, async |bytes: SteppedSource| {
            let head = bytes.fetch(3..7).await?.to_vec();
            assert!(bytes.fetch(1000..1000).await?.is_empty());
            let tail = bytes.fetch(u64::from(head[0])..500).await?;
            Ok([&head[..], &tail].concat())
        })
    }

    proptest! {
        #[test]
        fn bytes_come_in_any_pieces_and_order(cuts in prop::collection::vec((0u64..1000, 1u64..400), 0..60)) {
            let (file, mut steps) = (file(), task());
            let mut cuts = cuts.into_iter();
            loop {
                match steps.step() {
                    Step::Done(found) => {
                        prop_assert_eq!(found.unwrap(), [&file[3..7], &file[3..500]].concat());
                        break;
                    }
                    Step::Need(ranges) => {
                        prop_assert!(!ranges.is_empty());
                        // Feed what the cuts say first, then what is needed.
                        let (at, end) = match cuts.next() {
                            Some((at, len)) => (at, (at + len).min(1000)),
                            None => (ranges[0].start, ranges[0].end),
                        };
                        steps.feed(at, &file[index(at)..index(end)]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_range_beyond_the_end_and_a_failure_are_errors() {
        let mut steps =
            Steps::new(10, async |bytes: SteppedSource| bytes.fetch(5..11).await.map(|b| b.len()));
        match steps.step() {
            Step::Done(Err(error)) => assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof),
            other => panic!("{other:?}"),
        }
        let mut steps = task();
        assert_eq!(need(&mut steps), vec![(3, 7)]);
        steps.feed(5, &[0; 100]);
        assert_eq!(need(&mut steps), vec![(3, 5)]);
        steps.fail(io::ErrorKind::TimedOut);
        match steps.step() {
            Step::Done(Err(error)) => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
            other => panic!("{other:?}"),
        }
        assert!(need(&mut steps).is_empty());
    }

    fn index(at: u64) -> usize {
        usize::try_from(at).unwrap()
    }

    fn need(steps: &mut Steps<'_, io::Result<Vec<u8>>>) -> Vec<(u64, u64)> {
        match steps.step() {
            Step::Need(ranges) => ranges.into_iter().map(|range| (range.start, range.end)).collect(),
            Step::Done(done) => panic!("{done:?}"),
        }
    }
}
