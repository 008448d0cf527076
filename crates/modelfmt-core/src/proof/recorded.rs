//! Keeps hashes from a pass over a file, to check later reads of it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::io;
use std::sync::Arc;

use blake3_tree::{Branch, Page, Recorder, Shape};

use super::{Part, Proof, ProofError};
use crate::execution::PIECE;
use crate::fetch::Fetch;

/// Records the hashes of bytes while other code reads them, such as for a digest of another kind. It keeps 64
/// bytes for each group of 16 KiB, or for larger groups if there would be too many.
///
/// ```
/// use modelfmt_core::Source;
/// use modelfmt_core::proof::{RecordedProof, Recording, VerifiedSource};
///
/// let mut file = vec![7; 100_000];
/// let mut recording = Recording::new(file.len() as u64, 1 << 16);
/// file.chunks(1000).for_each(|piece| recording.update(piece));
/// let page = recording.finish().ok_or("all bytes came")?;
/// let proof = RecordedProof::new([(0, page)], "what was signed".into());
///
/// assert!(VerifiedSource::new(&file, &proof).read(50_000..50_009).is_ok());
/// file[50_000] ^= 1;
/// assert!(VerifiedSource::new(&file, &proof).read(50_000..50_009).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recording {
    shape: Shape,
    recorder: Recorder,
    /// The offset of the first byte that is held.
    at: u64,
    held: Vec<u8>,
    /// The number of bytes that are hashed at once.
    piece: usize,
    is_whole: bool,
}

impl Recording {
    /// Creates a recording of `len` bytes in at most `groups` groups.
    #[must_use]
    pub fn new(len: u64, groups: u64) -> Self {
        let shape = Shape::at_most(len, groups);
        let piece = usize::try_from(shape.group().max(PIECE)).unwrap_or(usize::MAX);
        Self { shape, recorder: Recorder::new(shape), at: 0, held: Vec::new(), piece, is_whole: true }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.held.is_empty()
                && let Some((piece, rest)) = bytes.split_at_checked(self.piece)
            {
                self.push(piece);
                bytes = rest;
                continue;
            }
            let (taken, rest) = bytes.split_at(bytes.len().min(self.piece.saturating_sub(self.held.len())));
            self.held.extend_from_slice(taken);
            bytes = rest;
            if self.held.len() == self.piece {
                self.push_held();
            }
        }
    }

    fn push_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        self.push(&held);
        held.clear();
        self.held = held;
    }

    fn push(&mut self, piece: &[u8]) {
        match Branch::new(self.shape, self.at, piece) {
            Some(branch) => self.recorder.push(&branch),
            None => self.is_whole = false,
        }
        self.at = self.at.saturating_add(piece.len() as u64);
    }

    /// Returns the hashes that prove the bytes; `None` unless there were exactly `len` bytes.
    #[must_use]
    pub fn finish(mut self) -> Option<Page> {
        if !self.held.is_empty() || self.shape.is_empty() {
            self.push_held();
        }
        let (_, page) = self.recorder.finish().filter(|_| self.is_whole && self.at == self.shape.len())?;
        Some(page)
    }
}

/// The proof of a file that was read before, with one [`Recording`] or several for consecutive ranges.
#[derive(Clone, Debug)]
pub struct RecordedProof {
    /// The offset and the hashes of each range, in ascending order.
    pages: Arc<[(u64, Arc<Page>)]>,
    root: Arc<str>,
}

impl RecordedProof {
    /// Creates the proof of recorded ranges, each with its offset in the file, in ascending order. Errors say
    /// that bytes do not match `root`.
    #[must_use]
    pub fn new(pages: impl IntoIterator<Item = (u64, Page)>, root: Arc<str>) -> Self {
        Self { pages: pages.into_iter().map(|(at, page)| (at, Arc::new(page))).collect(), root }
    }

    /// Returns the number of bytes that are proved, from the start of the file on.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pages.last().map_or(0, |(at, page)| at.saturating_add(page.range().end))
    }

    /// Returns whether no bytes are proved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Proof for RecordedProof {
    async fn part<S: Fetch>(&self, _: &S, at: u64) -> io::Result<Part> {
        let after = self.pages.partition_point(|(start, _)| *start <= at);
        let found = after.checked_sub(1).and_then(|number| self.pages.get(number));
        let found = found.filter(|(start, page)| at.saturating_sub(*start) < page.range().end);
        let (start, page) = found.ok_or_else(|| ProofError::Bytes {
            start: at,
            end: at.saturating_add(1),
            root: Arc::clone(&self.root),
        })?;
        Ok(Part::new(*start, Arc::clone(page), Arc::clone(&self.root)))
    }
}

impl<P: Proof> Proof for &P {
    async fn part<S: Fetch>(&self, source: &S, at: u64) -> io::Result<Part> {
        (**self).part(source, at).await
    }

    fn is_slow(&self, range: &std::ops::Range<u64>) -> bool {
        (**self).is_slow(range)
    }
}
