//! Reading that does not depend on where the bytes come from: code requests ranges, and a driver fetches
//! them.
//!
//! Format crates read only through [`Fetch`], in `async` functions. The compiler turns these into state
//! machines that pause where bytes are needed, so the same code has two drivers and no runtime:
//!
//! - over a [`Source`] (memory, a file, a map) a read never waits, and [`now`] runs the function to its end;
//! - over your own `Fetch` (an object store, a web server) your own executor awaits it.

mod shared_scan;

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tensor_core::{AlignedBuf, Bytes};

use crate::error::Error;
use crate::execution::{Execution, PIECE};
use crate::source::{FileId, Files, Share, Source, Unproved, checked_len};

pub use shared_scan::{SharedScan, each_step};

/// Asynchronous random access to a fixed number of bytes.
///
/// Every [`Source`] implements this without waiting. Implement it for an object store or a browser's file
/// handle: only [`size`](Self::size) and [`fetch`](Self::fetch) are required. The contract is that of
/// [`Source`]: a range must be within `0..size`, otherwise the result is an error of kind
/// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
pub trait Fetch {
    /// Returns the number of bytes, which never changes.
    fn size(&self) -> u64;

    /// Returns the bytes of `range`: borrowed if they are in memory, otherwise in an aligned buffer.
    ///
    /// # Errors
    /// If the range is not within the source, or cannot be read.
    fn fetch(&self, range: Range<u64>) -> impl Future<Output = io::Result<Bytes<'_>>>;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// If the range is not within the source, or cannot be read.
    fn fetch_into(&self, offset: u64, out: &mut [u8]) -> impl Future<Output = io::Result<()>> {
        async move {
            let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
            let bytes = self.fetch(offset..end).await?;
            if bytes.len() != out.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            out.copy_from_slice(&bytes);
            Ok(())
        }
    }

    /// Returns all bytes, if they are already in memory.
    fn memory(&self) -> Option<&[u8]> {
        None
    }

    /// Returns the name of the file for errors, if it has one: see [`Source::name`].
    fn label(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// Returns this source if threads may share it and [short reads cost little](Source::is_near).
    fn near(&self) -> Option<&(dyn Source + Sync)> {
        None
    }

    /// Returns the identity of the file, if it is known: see [`Source::id`].
    fn file_id(&self) -> Option<FileId> {
        None
    }

    /// Reads each piece of a [`Scan`] once and passes the results to `take`, in order. If the source is a
    /// [`Source`] that threads may share, as many threads as `work` allows scan it; any other source is
    /// scanned piece by piece.
    ///
    /// # Errors
    /// [`ScanError`] if a piece cannot be read, or the progress callback stops the work.
    fn scan<C: Scan>(
        &self,
        scan: &C,
        work: &Execution<'_>,
        mut take: impl FnMut(C::Seen) + Send,
    ) -> impl Future<Output = Result<(), ScanError>> {
        async move {
            let mut scratch = C::Scratch::default();
            for number in 0..scan.count() {
                let range = scan.piece(number);
                let (at, len) = (range.start, range.end.saturating_sub(range.start));
                let bytes = self.fetch(range).await.map_err(|source| ScanError::Io { at, len, source })?;
                let seen = scan.look(number, &bytes, &mut scratch);
                if work.advance(len).is_break() {
                    return Err(ScanError::Cancelled);
                }
                take(seen);
            }
            Ok(())
        }
    }

    /// Returns the source below the proof, whose bytes are not verified yet: see [`Source::unproved`].
    fn before_proof(&self) -> Option<Unproved<'_>> {
        None
    }

    /// Returns the share of this process, if several processes divide a job over the file: see
    /// [`Source::share`].
    fn part_of_job(&self) -> Option<&Share> {
        None
    }

    /// Reads whole sources from the first byte to the last, as SHA-256 requires. `start` creates the state
    /// for a source, and `add` adds the next bytes to it. [`Source`]s that threads may share get one thread
    /// each, as far as `work` allows.
    fn each_whole<H: Send>(
        sources: &[&Self],
        start: impl Fn() -> H + Sync,
        add: impl Fn(&mut H, &[u8]) + Sync,
        work: &Execution<'_>,
    ) -> impl Future<Output = Vec<Result<H, ScanError>>>
    where
        Self: Sized,
    {
        async move {
            let mut all = Vec::with_capacity(sources.len());
            for source in sources {
                all.push(whole(*source, start(), &add, work).await);
            }
            all
        }
    }
}

/// Reads one source from the first byte to the last. The bytes are not counted as progress, because another
/// pass of the verification counts them.
async fn whole<H>(
    source: &(impl Fetch + ?Sized),
    mut state: H,
    add: &impl Fn(&mut H, &[u8]),
    work: &Execution<'_>,
) -> Result<H, ScanError> {
    let mut at = 0;
    while at < source.size() {
        let len = (source.size() - at).min(2 * PIECE);
        let bytes = source.fetch(at..at + len).await.map_err(|source| ScanError::Io { at, len, source })?;
        add(&mut state, &bytes);
        if work.advance(0).is_break() {
            return Err(ScanError::Cancelled);
        }
        at += len;
    }
    Ok(state)
}

/// Asynchronous access to the files of a set. It corresponds to [`Files`] as [`Fetch`] does to [`Source`].
///
/// Every [`Files`] implements this without waiting. Implement it for a bucket or a folder of a web server.
pub trait FetchFiles {
    /// The type of an open file.
    type File: Fetch;

    /// Opens the file at `path`, relative to the folder of the set's index.
    ///
    /// # Errors
    /// If there is no such file, it cannot be opened, or the path breaks
    /// [`check_relative`](crate::source::check_relative).
    fn fetch_file(&self, path: &str) -> impl Future<Output = io::Result<Self::File>>;
}

impl<F: Files + ?Sized> FetchFiles for F {
    type File = F::Source;

    fn fetch_file(&self, path: &str) -> impl Future<Output = io::Result<F::Source>> {
        ready(self.open(path))
    }
}

/// A pass over parts of a file: its pieces, and what to compute from each.
pub trait Scan: Sync {
    /// The result for one piece.
    type Seen: Send;
    /// State that a thread keeps from piece to piece, such as a buffer.
    type Scratch: Default;

    /// Returns the number of pieces in the scan.
    fn count(&self) -> u64;

    /// Returns the range of a piece, for numbers below [`count`](Self::count).
    fn piece(&self, number: u64) -> Range<u64>;

    /// Computes the result for the bytes of a piece.
    fn look(&self, number: u64, bytes: &[u8], scratch: &mut Self::Scratch) -> Self::Seen;

    /// Whether several processes may share the pieces. [`SharedScan`] adds this to a scan.
    const IS_NOTED: bool = false;

    /// Encodes the result for a piece, for another process.
    fn note(&self, seen: &Self::Seen) -> Vec<u8> {
        let _ = seen;
        Vec::new()
    }

    /// Decodes the result for a piece from another process; `None` if the bytes are not valid.
    fn noted(&self, note: &[u8]) -> Option<Self::Seen> {
        let _ = note;
        None
    }
}

/// A scan of one range in pieces of equal length. A function gets the offset and the bytes of each piece.
#[derive(Clone, Debug)]
pub struct ScanRange<L> {
    range: Range<u64>,
    piece: u64,
    look: L,
}

impl<T: Send, L: Fn(u64, &[u8]) -> T + Sync> ScanRange<L> {
    /// Cuts `range` into pieces of `piece` bytes; the last may be shorter.
    pub fn new(range: Range<u64>, piece: u64, look: L) -> Self {
        Self { range, piece: piece.max(1), look }
    }
}

impl<T: Send, L: Fn(u64, &[u8]) -> T + Sync> Scan for ScanRange<L> {
    type Seen = T;
    type Scratch = ();

    fn count(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start).div_ceil(self.piece)
    }

    fn piece(&self, number: u64) -> Range<u64> {
        let at = self.range.start + number * self.piece;
        at..at.saturating_add(self.piece).min(self.range.end)
    }

    fn look(&self, number: u64, bytes: &[u8], (): &mut ()) -> T {
        (self.look)(self.range.start + number * self.piece, bytes)
    }
}

impl<S: Source + ?Sized> Fetch for S {
    fn size(&self) -> u64 {
        self.len()
    }

    fn fetch(&self, range: Range<u64>) -> impl Future<Output = io::Result<Bytes<'_>>> {
        ready(self.read(range))
    }

    fn fetch_into(&self, offset: u64, out: &mut [u8]) -> impl Future<Output = io::Result<()>> {
        ready(self.read_into(offset, out))
    }

    fn memory(&self) -> Option<&[u8]> {
        self.as_slice()
    }

    fn label(&self) -> Option<Cow<'_, str>> {
        self.name()
    }

    fn near(&self) -> Option<&(dyn Source + Sync)> {
        self.shared().filter(|source| source.is_near())
    }

    fn file_id(&self) -> Option<FileId> {
        self.id()
    }

    fn scan<C: Scan>(
        &self,
        scan: &C,
        work: &Execution<'_>,
        take: impl FnMut(C::Seen) + Send,
    ) -> impl Future<Output = Result<(), ScanError>> {
        ready(match (self.share(), self.shared()) {
            (Some(share), _) => shared_scan::scan(self, share, scan, work, take),
            (None, Some(shared)) => on_threads(shared, scan, work, take),
            (None, None) => in_order(self, scan, work, take),
        })
    }

    fn before_proof(&self) -> Option<Unproved<'_>> {
        self.unproved()
    }

    fn part_of_job(&self) -> Option<&Share> {
        self.share()
    }

    fn each_whole<H: Send>(
        sources: &[&Self],
        start: impl Fn() -> H + Sync,
        add: impl Fn(&mut H, &[u8]) + Sync,
        work: &Execution<'_>,
    ) -> impl Future<Output = Vec<Result<H, ScanError>>>
    where
        Self: Sized,
    {
        let shared: Option<Vec<_>> = sources.iter().map(|source| source.shared()).collect();
        let Some(shared) = shared else {
            return ready(sources.iter().map(|source| whole_now(*source, &start, &add, work)).collect());
        };
        let one = |(): &mut (), number: u64| {
            let source = usize::try_from(number).ok().and_then(|number| shared.get(number));
            Ok::<_, Infallible>(source.map(|source| whole_now(*source, &start, &add, work)))
        };
        let all = work.map(shared.len() as u64, || (), one).unwrap_or_default();
        ready(all.into_iter().flatten().collect())
    }
}

fn whole_now<H>(
    source: &(impl Source + ?Sized),
    start: &impl Fn() -> H,
    add: &impl Fn(&mut H, &[u8]),
    work: &Execution<'_>,
) -> Result<H, ScanError> {
    let waits = || Err(ScanError::Io { at: 0, len: 0, source: io::ErrorKind::WouldBlock.into() });
    now_or_never(whole(source, start(), add, work)).unwrap_or_else(waits)
}

fn on_threads<C: Scan>(
    source: &(dyn Source + Sync),
    scan: &C,
    work: &Execution<'_>,
    mut take: impl FnMut(C::Seen) + Send,
) -> Result<(), ScanError> {
    let one = |state: &mut _, number| one_piece(source, scan, work, state, number);
    work.each(scan.count(), Default::default, one, |seen| {
        take(seen);
        Ok(())
    })
}

fn in_order<C: Scan>(
    source: &(impl Source + ?Sized),
    scan: &C,
    work: &Execution<'_>,
    mut take: impl FnMut(C::Seen),
) -> Result<(), ScanError> {
    let mut state = Default::default();
    (0..scan.count()).try_for_each(|number| one_piece(source, scan, work, &mut state, number).map(&mut take))
}

/// Reads a piece, into the thread's own buffer unless it is in memory, and computes its result.
fn one_piece<C: Scan>(
    source: &(impl Source + ?Sized),
    scan: &C,
    work: &Execution<'_>,
    (buffer, scratch): &mut (AlignedBuf, C::Scratch),
    number: u64,
) -> Result<C::Seen, ScanError> {
    let range = scan.piece(number);
    let (at, len) = (range.start, range.end.saturating_sub(range.start));
    let failed = |source| ScanError::Io { at, len, source };
    let seen = if source.as_slice().is_some() {
        scan.look(number, &source.read(range).map_err(failed)?, scratch)
    } else {
        let size = checked_len(&range, source.len()).map_err(failed)?;
        buffer.resize(size).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        source.read_into(at, buffer).map_err(failed)?;
        scan.look(number, buffer, scratch)
    };
    if work.advance(len).is_break() { Err(ScanError::Cancelled) } else { Ok(seen) }
}

/// Runs a future that never waits, such as any future over a [`Source`].
///
/// # Errors
/// The errors of the future; [`Error::Io`] of kind [`WouldBlock`](io::ErrorKind::WouldBlock) if it waits anyway.
pub fn now<T, F>(future: impl Future<Output = Result<T, Error<F>>>) -> Result<T, Error<F>> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => {
            let text = "the source has to be waited for; read it with an async driver";
            Err(Error::Io { at: 0, len: 0, source: io::Error::new(io::ErrorKind::WouldBlock, text) })
        }
    }
}

/// Returns the output of a future that is ready immediately; otherwise `None`.
pub fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl Execution<'_> {
    /// Reads `range` of a source once, in pieces of `piece` bytes, and passes the result of `look` for each
    /// piece to `take`, in order. `look` gets the offset of the piece in the source, and its bytes.
    ///
    /// # Errors
    /// [`ScanError`] if the source cannot be read or the progress callback stops the work.
    pub fn scan<T: Send>(
        &self,
        source: &dyn Source,
        range: Range<u64>,
        piece: u64,
        look: impl Fn(u64, &[u8]) -> T + Sync,
        take: impl FnMut(T) + Send,
    ) -> Result<(), ScanError> {
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        let waits = || Err(ScanError::Io { at, len, source: io::ErrorKind::WouldBlock.into() });
        now_or_never(source.scan(&ScanRange::new(range, piece, look), self, take)).unwrap_or_else(waits)
    }
}

/// The error of [`Execution::scan`].
#[derive(thiserror::Error)]
pub enum ScanError {
    /// The source cannot be read.
    #[error("cannot read {len} bytes at byte {at}")]
    Io {
        /// The offset of the piece.
        at: u64,
        /// Its length in bytes.
        len: u64,
        /// The cause.
        source: io::Error,
    },
    /// The progress callback asked to stop.
    #[error("stopped on request")]
    Cancelled,
}

tensor_core::debug_as_sentence!(ScanError);

impl<F> From<ScanError> for Error<F> {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Io { at, len, source } => Self::Io { at, len, source },
            ScanError::Cancelled => Self::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    #[test]
    fn a_scan_reads_everything_once_and_can_be_stopped() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let sum = |_, piece: &[u8]| piece.iter().map(|&b| u64::from(b)).sum::<u64>();
        let mut total = 0;
        Execution::default().scan(&bytes, 3..9_999, 64, sum, |sum| total += sum).unwrap();
        assert_eq!(total, bytes[3..9_999].iter().map(|&b| u64::from(b)).sum::<u64>());
        let stop = |_| ControlFlow::Break(());
        let work = Execution { threads: 2, progress: Some(&stop) };
        assert!(matches!(work.scan(&bytes, 0..10_000, 64, sum, drop), Err(ScanError::Cancelled)));
        assert!(matches!(
            Execution::default().scan(&bytes, 0..10_001, 64, sum, drop),
            Err(ScanError::Io { at: 9984, .. })
        ));
    }
}
