//! Runs a pass over all values, on this thread or on several, from memory or from the caller's reader.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::element::Element;
use super::sum::{Span, fold};

/// The most elements that are read at once.
pub(super) const CHUNK: u64 = 1 << 16;

/// Each read begins at a multiple of this many elements, which is the size of ggml's largest blocks.
const ALIGNMENT: u64 = 256;

/// Threads take pieces of about this share of the tensor. It bounds how many sums of pieces are kept.
const PIECES: u64 = 512;

const MAX_THREADS: usize = 16;

/// Why a pass ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassError {
    Read,
    Changed,
    Unsupported,
}

type Read<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), PassError> + 'a;
type SharedRead<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), PassError> + Sync + 'a;

/// Values that several threads can read.
#[derive(Clone, Copy)]
pub(super) enum Shared<'a> {
    Memory(&'a [u8]),
    #[cfg_attr(not(feature = "parallel"), allow(dead_code))]
    Read(&'a SharedRead<'a>),
}

/// How the values are read.
pub(super) enum Exec<'a> {
    Alone(&'a mut Read<'a>),
    Together(Shared<'a>, usize),
}

/// What one worker has found in the values that it has seen in one pass. Merging workers must not depend on
/// their order.
pub(super) trait Pass<T>: Send {
    /// Processes some values, and returns what they add to the sum that the pass computes, added by
    /// [`pairwise`].
    ///
    /// [`pairwise`]: super::sum::pairwise
    fn chunk(&mut self, values: &[T]) -> f64;
}

impl Exec<'_> {
    /// Passes all values to workers made by `new`. Returns the sum in numpy's order, and the workers.
    pub(super) fn pass<T: Element, P: Pass<T>>(
        &mut self,
        count: u64,
        new: &(dyn Fn() -> P + Sync),
    ) -> Result<(f64, Vec<P>), PassError> {
        let whole = Span { first: 0, len: count };
        match self {
            Self::Alone(read) => {
                let mut worker = Worker::new(Feed::Alone(*read), count, new());
                let sum = worker.run(whole)?;
                Ok((sum, vec![worker.pass]))
            }
            Self::Together(shared, threads) => together(*shared, *threads, whole, new),
        }
    }
}

fn together<T: Element, P: Pass<T>>(
    shared: Shared<'_>,
    threads: usize,
    whole: Span,
    new: &(dyn Fn() -> P + Sync),
) -> Result<(f64, Vec<P>), PassError> {
    let grain = CHUNK.max(whole.len / PIECES);
    let mut spans = Vec::new();
    fold::<PassError>(whole, grain, &mut |span| {
        spans.push(span);
        Ok(0.0)
    })?;
    let shared_pass = SharedPass {
        shared,
        count: whole.len,
        spans,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let threads = threads.clamp(1, MAX_THREADS).min(shared_pass.spans.len());
    let finished = Mutex::new(Vec::new());
    let work = || {
        let outcome = shared_pass.work(new());
        finished.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(outcome);
    };
    run_on_threads(threads, &work);
    let finished = finished.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut sums = vec![0.0; shared_pass.spans.len()];
    let mut passes = Vec::with_capacity(finished.len());
    for outcome in finished {
        let (pass, own) = outcome?;
        passes.push(pass);
        for (index, sum) in own {
            if let Some(slot) = sums.get_mut(index) {
                *slot = sum;
            }
        }
    }
    let mut sums = sums.into_iter();
    let sum = fold(whole, grain, &mut |_| sums.next().ok_or(PassError::Changed))?;
    Ok((sum, passes))
}

/// Runs `work` on this thread and on `threads - 1` others.
#[cfg(feature = "parallel")]
fn run_on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If no more threads can be started, those that have started do the work.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

#[cfg(not(feature = "parallel"))]
fn run_on_threads(_: usize, work: &(dyn Fn() + Sync)) {
    work();
}

/// The state that the workers of one pass share.
struct SharedPass<'a> {
    shared: Shared<'a>,
    count: u64,
    spans: Vec<Span>,
    next: AtomicUsize,
    stop: AtomicBool,
}

/// The result of a worker's pass, and the sums of the spans that it took, by the number of the span.
type Outcome<P> = Result<(P, Vec<(usize, f64)>), PassError>;

impl SharedPass<'_> {
    fn work<T: Element, P: Pass<T>>(&self, pass: P) -> Outcome<P> {
        let feed = match self.shared {
            Shared::Memory(bytes) => Feed::Memory(bytes),
            Shared::Read(read) => Feed::Shared(read),
        };
        let mut worker = Worker::<T, P>::new(feed, self.count, pass);
        let mut sums = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&span) = self.spans.get(index) else { break };
            match worker.run(span) {
                Ok(sum) => sums.push((index, sum)),
                Err(error) => {
                    self.stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok((worker.pass, sums))
    }
}

struct Worker<'a, T, P> {
    window: Window<'a, T>,
    pass: P,
}

impl<'a, T: Element, P: Pass<T>> Worker<'a, T, P> {
    fn new(feed: Feed<'a>, count: u64, pass: P) -> Self {
        Self { window: Window { feed, count, buffer: Vec::new() }, pass }
    }

    fn run(&mut self, span: Span) -> Result<f64, PassError> {
        let Self { window, pass } = self;
        fold(span, CHUNK, &mut |span| Ok(pass.chunk(window.view(span)?)))
    }
}

enum Feed<'a> {
    Memory(&'a [u8]),
    Alone(&'a mut Read<'a>),
    Shared(&'a SharedRead<'a>),
}

/// A typed view of a part of the tensor, in this machine's byte order.
struct Window<'a, T> {
    feed: Feed<'a>,
    count: u64,
    buffer: Vec<T>,
}

impl<T: Element> Window<'_, T> {
    fn view(&mut self, span: Span) -> Result<&[T], PassError> {
        let Span { first, len } = span;
        if let Feed::Memory(bytes) = self.feed {
            let bytes = part(bytes, size_of::<T>(), span).ok_or(PassError::Changed)?;
            if cfg!(target_endian = "little")
                && let Ok(values) = bytemuck::try_cast_slice(bytes)
            {
                return Ok(values);
            }
            self.buffer.resize(bytes.len() / size_of::<T>(), T::zeroed());
            bytemuck::cast_slice_mut::<T, u8>(&mut self.buffer).copy_from_slice(bytes);
            return Ok(native(&mut self.buffer));
        }
        let start = first - first % ALIGNMENT;
        let end = first
            .saturating_add(len)
            .checked_next_multiple_of(ALIGNMENT)
            .map_or(self.count, |end| end.min(self.count));
        // A chunk and fewer than 256 elements on both sides fit any `usize`.
        let total = usize::try_from(end - start).map_err(|_| PassError::Changed)?;
        self.buffer.resize(total, T::zeroed());
        let bytes = bytemuck::cast_slice_mut::<T, u8>(&mut self.buffer);
        match &mut self.feed {
            Feed::Memory(_) => {}
            Feed::Alone(read) => read(start, bytes)?,
            Feed::Shared(read) => read(start, bytes)?,
        }
        let inner = Span { first: first - start, len };
        part(native(&mut self.buffer), 1, inner).ok_or(PassError::Changed)
    }
}

/// Returns the elements `span`, each of which takes `size` of the `items`.
fn part<I>(items: &[I], size: usize, span: Span) -> Option<&[I]> {
    let first = usize::try_from(span.first).ok()?.checked_mul(size)?;
    let len = usize::try_from(span.len).ok()?.checked_mul(size)?;
    items.get(first..first.checked_add(len)?)
}

fn native<T: Element>(buffer: &mut [T]) -> &[T] {
    if cfg!(target_endian = "big") {
        for value in buffer.iter_mut() {
            *value = value.swapped();
        }
    }
    buffer
}
