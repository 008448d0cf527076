//! Local files: their bytes as a source, their trees and hashes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use blake3_tree::{Branch, Builder, Shape};
use modelfmt::Execution;
use modelfmt_core::Source;
use modelfmt_core::author::{PIECE, ScanError};
use modelfmt_core::source::{checked_len, folder_of, read_exact_at};
use modelfmt_write::{FileSink, Sink as _};
use tensor_core::{AlignedBuf, Bytes};

use super::context::Context;
use super::error::{FetchError, Result};

/// An open file as if it had another length: it is cut, or followed by zeros.
#[derive(Debug)]
pub(super) struct Local<'a> {
    file: &'a File,
    /// The real length of the file in bytes.
    real: u64,
    len: u64,
}

impl<'a> Local<'a> {
    pub(super) fn new(file: &'a File, len: u64) -> io::Result<Self> {
        Ok(Self { file, real: file.metadata()?.len(), len })
    }
}

impl Source for Local<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        checked_len(&(offset..end), self.len)?;
        let here = usize::try_from(self.real.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (bytes, zeros) = out.split_at_mut(here);
        zeros.fill(0);
        if bytes.is_empty() { Ok(()) } else { read_exact_at(self.file, offset, bytes) }
    }

    fn read(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let mut buffer = AlignedBuf::zeroed(checked_len(&range, self.len)?)?;
        self.read_into(range.start, &mut buffer)?;
        Ok(Bytes::Owned(buffer))
    }

    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}

/// The tree of a local file. At first, only the parents above its pieces are known, because hashing each
/// group takes longer. This is done only where the file differs. The parents are in a temporary file: for a
/// file of 100 GB, they take 390 MB.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: [u8; 32],
    parents: File,
    file: File,
    len: u64,
    /// The ranges of pieces that exist. The parents within missing pieces are zeros.
    there: Vec<Range<u64>>,
    /// The numbers of the pieces within which the parents are known.
    known: RefCell<BTreeSet<u64>>,
}

impl Tree {
    /// Computes the tree of a file as if it had this length. With `arrived`, only these ranges count, and
    /// everything else differs from any file.
    pub(super) fn of(
        cx: &Context<'_>,
        path: &Path,
        file: &File,
        len: u64,
        arrived: Option<&[Range<u64>]>,
    ) -> Result<Self> {
        let local = |error| FetchError::local(path)(error);
        let parents = tempfile::tempfile_in(folder_of(path)).map_err(local)?;
        let sink = FileSink(parents.try_clone().map_err(local)?);
        let shape = Shape::new(len);
        // Parents that are not written are zeros, which no real parent equals.
        parents.set_len(shape.outboard_len()).map_err(local)?;
        let mut builder = Builder::new(shape);
        let source = Local::new(file, len).map_err(local)?;
        let look = |at: u64, bytes: &[u8]| Branch::without_parents(shape, at, bytes);
        let mut failure = None;
        let mut push = |branch: Option<Branch>| {
            let above = branch.iter().flat_map(|branch| builder.push(branch));
            if let Err(error) = above.into_iter().try_for_each(|(at, parent)| sink.write_at(at, &parent)) {
                failure.get_or_insert(error);
            }
        };
        let there = arrived.map_or_else(|| std::iter::once(0..len).collect(), |arrived| around(arrived, len));
        let mut at = 0;
        for range in &there {
            while at < range.start {
                let end = (at + PIECE).min(range.start);
                push(Branch::missing(shape, at, end - at));
                at = end;
            }
            scan(cx, &source, range.clone(), look, &mut push).map_err(|error| scan_error(path, error))?;
            at = range.end;
        }
        while at < len {
            let end = (at + PIECE).min(len);
            push(Branch::missing(shape, at, end - at));
            at = end;
        }
        if let Some(error) = failure {
            return Err(local(error));
        }
        // Never fails: a scan returns all pieces in order.
        let root = builder.finish().ok_or_else(|| local(io::ErrorKind::UnexpectedEof.into()))?;
        let file = file.try_clone().map_err(local)?;
        Ok(Self { root, parents, file, len, there, known: RefCell::default() })
    }

    /// Returns parents in the layout of an outboard. Pieces that contain some of them are hashed again, group
    /// by group.
    pub(super) fn parents(&self, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(io::Error::other)?;
        // The parents of pieces are in the order of the pieces.
        let pieces = self.len.div_ceil(PIECE);
        let (mut first, mut last) = (0, pieces);
        while first < last {
            let middle = u64::midpoint(first, last);
            if self.within(middle).end <= range.start { first = middle + 1 } else { last = middle }
        }
        while first < pieces && self.within(first).start < range.end {
            self.hash_groups(first)?;
            first += 1;
        }
        let mut bytes = vec![0; len];
        read_exact_at(&self.parents, range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the range of a piece of the file.
    fn piece(&self, number: u64) -> Range<u64> {
        let at = number.saturating_mul(PIECE);
        at..at.saturating_add(PIECE).min(self.len)
    }

    /// Returns the range of the parents within a piece.
    fn within(&self, number: u64) -> Range<u64> {
        let piece = self.piece(number);
        let len = piece.end.saturating_sub(piece.start);
        Shape::new(self.len).parents_within(piece.start, len).unwrap_or_default()
    }

    /// Computes and writes the parents within a piece, if they are not known.
    fn hash_groups(&self, number: u64) -> io::Result<()> {
        let piece = self.piece(number);
        let is_there = self.there.iter().any(|range| range.contains(&piece.start));
        if !is_there || self.within(number).is_empty() || !self.known.borrow_mut().insert(number) {
            return Ok(());
        }
        let source = Local::new(&self.file, self.len)?;
        let branch = Branch::new(Shape::new(self.len), piece.start, &source.read(piece.clone())?);
        let sink = FileSink(self.parents.try_clone()?);
        branch.iter().try_for_each(|branch| sink.write_at(branch.offset(), branch.parents()))
    }
}

/// Extends ranges to whole pieces.
fn around(arrived: &[Range<u64>], len: u64) -> Vec<Range<u64>> {
    let whole = |range: &Range<u64>| {
        let end = range.end.div_ceil(PIECE).saturating_mul(PIECE).min(len);
        range.start - range.start % PIECE..end
    };
    modelfmt_core::claims::merged(arrived.iter().map(whole).collect())
}

/// Reads a range in pieces, on several threads, with progress.
pub(super) fn scan<T: Send>(
    cx: &Context<'_>,
    source: &dyn Source,
    range: Range<u64>,
    look: impl Fn(u64, &[u8]) -> T + Sync,
    take: impl FnMut(T) + Send,
) -> std::result::Result<(), ScanError> {
    let progress =
        |nbytes| if cx.count_checked(nbytes) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let work = Execution { threads: cx.options.threads, progress: Some(&progress) };
    work.scan(source, range, PIECE, look, take)
}

/// Returns the error of a pass over a local file.
pub(super) fn scan_error(path: &Path, error: ScanError) -> FetchError {
    match error {
        ScanError::Io { source, .. } => FetchError::Local { path: path.to_owned(), source },
        ScanError::Cancelled => FetchError::Stopped,
    }
}

/// Computes the BLAKE3 hash of a local file.
pub(super) fn blake3(cx: &Context<'_>, path: &Path, file: &File) -> Result<[u8; 32]> {
    let len = file.metadata().map_err(FetchError::local(path))?.len();
    let source = Local::new(file, len).map_err(FetchError::local(path))?;
    let shape = Shape::new(len);
    let mut builder = Builder::new(shape);
    let look = |at: u64, bytes: &[u8]| Branch::new(shape, at, bytes);
    let push = |branch: Option<Branch>| {
        branch.iter().for_each(|branch| drop(builder.push(branch)));
    };
    scan(cx, &source, 0..len, look, push).map_err(|error| scan_error(path, error))?;
    builder.finish().ok_or_else(|| FetchError::local(path)(io::ErrorKind::UnexpectedEof.into()))
}

/// Computes the SHA-256 of a local file.
pub(super) fn sha256(cx: &Context<'_>, path: &Path, file: &File) -> Result<[u8; 32]> {
    use sha2::Digest as _;
    let len = file.metadata().map_err(FetchError::local(path))?.len();
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < len {
        let here = usize::try_from(len - at).unwrap_or(usize::MAX).min(buffer.len());
        let bytes = buffer.get_mut(..here).unwrap_or_default();
        read_exact_at(file, at, bytes).map_err(FetchError::local(path))?;
        hasher.update(&*bytes);
        at += here as u64;
        if !cx.count_checked(here as u64) {
            return Err(FetchError::Stopped);
        }
    }
    Ok(hasher.finalize().into())
}
