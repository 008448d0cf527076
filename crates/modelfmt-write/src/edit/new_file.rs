//! The new content of a file, described as data.

use std::io;
use std::ops::Range;

use modelfmt_core::Source;

/// The new content of a file: a sequence of new bytes and of ranges of the old file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewFile {
    /// The offset and content of each piece. No piece is empty.
    pieces: Vec<(u64, Piece)>,
    len: u64,
}

/// New bytes, and their offset in the file.
pub type Patch<'a> = (u64, &'a [u8]);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    Kept(Range<u64>),
}

impl Piece {
    const fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Kept(range) => range.end.saturating_sub(range.start),
        }
    }
}

/// A part of a [`NewFile`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// New bytes.
    Bytes(&'a [u8]),
    /// A range of the old file.
    Kept(Range<u64>),
}

impl NewFile {
    /// Creates an empty file.
    #[must_use]
    pub const fn new() -> Self {
        Self { pieces: Vec::new(), len: 0 }
    }

    /// Appends new bytes.
    pub fn push(&mut self, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        if let Some((_, Piece::Bytes(last))) = self.pieces.last_mut() {
            self.len = self.len.saturating_add(bytes.len() as u64);
            last.extend(bytes);
            return;
        }
        self.add(Piece::Bytes(bytes));
    }

    /// Appends a range of the old file.
    pub fn keep(&mut self, range: Range<u64>) {
        if let Some((_, Piece::Kept(last))) = self.pieces.last_mut()
            && last.end == range.start
            && range.start <= range.end
        {
            self.len = self.len.saturating_add(range.end - range.start);
            last.end = range.end;
            return;
        }
        self.add(Piece::Kept(range));
    }

    fn add(&mut self, piece: Piece) {
        let len = piece.len();
        if len > 0 {
            self.pieces.push((self.len, piece));
            self.len = self.len.saturating_add(len);
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the file has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether every kept byte stays at its offset, so that the old file can be changed in place.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.pieces.iter().all(|(start, piece)| match piece {
            Piece::Bytes(_) => true,
            Piece::Kept(range) => range.start == *start,
        })
    }

    /// Returns the number of new bytes, which are not kept from the old file.
    #[must_use]
    pub fn new_nbytes(&self) -> u64 {
        let new = self.pieces.iter().filter(|(_, piece)| matches!(piece, Piece::Bytes(_)));
        new.map(|(_, piece)| piece.len()).fold(0, u64::saturating_add)
    }

    /// Returns the offset that a kept byte had in the old file; `None` for a new byte.
    #[must_use]
    pub fn origin(&self, at: u64) -> Option<u64> {
        let after = self.pieces.partition_point(|(start, _)| *start <= at);
        match self.pieces.get(after.checked_sub(1)?)? {
            (start, Piece::Kept(range)) => {
                let within = at - start;
                range.start.checked_add(within).filter(|at| *at < range.end)
            }
            (_, Piece::Bytes(_)) => None,
        }
    }

    /// Combines two changes. This one refers to the file that `before` produces; the result refers to the old
    /// file.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        let mut file = Self::new();
        for (_, piece) in self.pieces {
            let range = match piece {
                Piece::Bytes(bytes) => {
                    file.push(bytes);
                    continue;
                }
                Piece::Kept(range) => range,
            };
            let first = before
                .pieces
                .partition_point(|(start, piece)| start.saturating_add(piece.len()) <= range.start);
            for (start, piece) in before.pieces.get(first..).unwrap_or_default() {
                let within =
                    range.start.saturating_sub(*start)..range.end.saturating_sub(*start).min(piece.len());
                if within.start >= within.end {
                    break;
                }
                match piece {
                    Piece::Bytes(bytes) => {
                        let cut = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                        file.push(bytes.get(cut(within.start)..cut(within.end)).unwrap_or_default());
                    }
                    Piece::Kept(old) => {
                        file.keep(
                            old.start.saturating_add(within.start)..old.start.saturating_add(within.end),
                        );
                    }
                }
            }
        }
        file
    }

    /// Returns whether any bytes of the old file are kept.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn keeps(&self) -> bool {
        self.pieces.iter().any(|(_, piece)| matches!(piece, Piece::Kept(_)))
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, Part<'_>)> {
        self.pieces.iter().map(|(start, piece)| match piece {
            Piece::Bytes(bytes) => (*start, Part::Bytes(bytes)),
            Piece::Kept(range) => (*start, Part::Kept(range.clone())),
        })
    }

    /// Returns the patches that change the file in place. They omit new bytes at both ends of a piece that
    /// the old file already has. `None` if kept bytes would move.
    ///
    /// # Errors
    /// If the old file cannot be read.
    pub fn patches(&self, old: &impl Source) -> io::Result<Option<Vec<Patch<'_>>>> {
        if !self.is_in_place() {
            return Ok(None);
        }
        let mut patches = Vec::new();
        for (start, part) in self.parts() {
            let Part::Bytes(bytes) = part else { continue };
            let end = start.saturating_add(bytes.len() as u64).min(old.len());
            let before = if start < end { old.read(start..end)?.to_vec() } else { Vec::new() };
            let same = |pair: &(&u8, &u8)| pair.0 == pair.1;
            let front = bytes.iter().zip(&before).take_while(same).count();
            let rest = bytes.get(front..).unwrap_or_default();
            let back = match before.get(front..) {
                Some(left) if left.len() == rest.len() => {
                    rest.iter().rev().zip(left.iter().rev()).take_while(same).count()
                }
                _ => 0,
            };
            let changed = rest.get(..rest.len().saturating_sub(back)).unwrap_or_default();
            if !changed.is_empty() {
                patches.push((start.saturating_add(front as u64), changed));
            }
        }
        Ok(Some(patches))
    }
}

/// The new file as a source, computed from the old one. Nothing is written.
#[derive(Clone, Debug)]
pub struct Preview<S> {
    new: NewFile,
    old: S,
}

impl<S: Source> Preview<S> {
    /// Creates a preview of the file that `old` would become.
    pub const fn new(new: NewFile, old: S) -> Self {
        Self { new, old }
    }

    /// Returns the new content and the old file.
    pub fn into_parts(self) -> (NewFile, S) {
        (self.new, self.old)
    }
}

impl<S: Source> Source for Preview<S> {
    fn len(&self) -> u64 {
        self.new.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|&end| end <= self.new.len);
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let pieces = &self.new.pieces;
        let first = pieces.partition_point(|(start, piece)| start.saturating_add(piece.len()) <= offset);
        let (mut at, mut out) = (offset, out);
        for (start, piece) in pieces.get(first..).unwrap_or_default() {
            if out.is_empty() {
                break;
            }
            let within = at.saturating_sub(*start);
            let left = piece.len().saturating_sub(within);
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
            let (now, later) = out.split_at_mut(len);
            match piece {
                Piece::Bytes(bytes) => {
                    let from = usize::try_from(within).unwrap_or(usize::MAX);
                    let bytes = bytes.get(from..).and_then(|bytes| bytes.get(..len));
                    now.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                }
                Piece::Kept(range) => self.old.read_into(range.start.saturating_add(within), now)?,
            }
            (at, out) = (at.saturating_add(len as u64), later);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_moves_is_not_in_place() {
        let old = b"0123456789".to_vec();
        let mut new = NewFile::new();
        new.push(*b"xx");
        new.keep(2..5);
        new.keep(5..10);
        assert_eq!(new.pieces.len(), 2);
        assert_eq!(new.patches(&old).unwrap(), Some(vec![(0, &b"xx"[..])]));
        let mut moved = NewFile::new();
        moved.push(*b"xxx");
        moved.keep(2..10);
        assert_eq!((moved.patches(&old).unwrap(), moved.len(), moved.new_nbytes()), (None, 11, 3));
    }

    #[test]
    fn what_is_kept_has_an_origin() {
        let mut new = NewFile::new();
        new.push(*b"ab");
        new.keep(7..9);
        assert_eq!([0, 1, 2, 3, 4].map(|at| new.origin(at)), [None, None, Some(7), Some(8), None]);
        assert_eq!(NewFile::new().origin(0), None);
    }

    #[test]
    fn only_what_differs_is_written() {
        let old = b"head----values".to_vec();
        for (head, expected) in [
            (&b"head----"[..], None),
            (b"hexd----", Some((2, &b"x"[..]))),
            (b"xead---x", Some((0, b"xead---x"))),
        ] {
            let mut new = NewFile::new();
            new.push(head);
            new.keep(8..14);
            assert_eq!(new.patches(&old).unwrap(), Some(expected.into_iter().collect()));
        }
        let mut longer = NewFile::new();
        longer.keep(0..14);
        longer.push(*b"tail");
        assert_eq!(longer.patches(&old).unwrap(), Some(vec![(14, &b"tail"[..])]));
    }

    fn of_pieces(pieces: &[(bool, usize, usize)], len: usize, fill: u8) -> NewFile {
        let mut new = NewFile::new();
        for &(is_kept, a, b) in pieces {
            match is_kept {
                true => new.keep(a.min(len) as u64..(a + b).min(len) as u64),
                false => new.push(vec![fill; a]),
            }
        }
        new
    }

    fn bytes_of(new: &NewFile, old: &[u8]) -> Vec<u8> {
        Preview::new(new.clone(), old.to_vec()).read(0..new.len()).unwrap().to_vec()
    }

    proptest! {
        #[test]
        fn a_change_of_a_change_is_one(
            first in proptest::collection::vec((any::<bool>(), 0usize..9, 0usize..20), 0..6),
            second in proptest::collection::vec((any::<bool>(), 0usize..40, 0usize..30), 0..6),
        ) {
            let old: Vec<u8> = (0..40).collect();
            let first = of_pieces(&first, old.len(), 200);
            let between = bytes_of(&first, &old);
            let second = of_pieces(&second, between.len(), 201);
            prop_assert_eq!(bytes_of(&second.clone().after(&first), &old), bytes_of(&second, &between));
        }

        #[test]
        fn a_preview_reads_what_would_be_written(
            pieces in proptest::collection::vec((any::<bool>(), 0usize..9, 0usize..20), 0..6),
            from in 0usize..60,
            len in 0usize..60,
        ) {
            let old: Vec<u8> = (0..40).collect();
            let (mut new, mut expected) = (NewFile::new(), Vec::new());
            for (is_kept, a, b) in pieces {
                if is_kept {
                    new.keep(a as u64..(a + b) as u64);
                    expected.extend(&old[a..a + b]);
                } else {
                    new.push(vec![200; a]);
                    expected.extend(vec![200; a]);
                }
            }
            let preview = Preview::new(new, old);
            prop_assert_eq!(preview.len(), expected.len() as u64);
            let mut out = vec![0; len];
            match expected.get(from..from + len) {
                Some(expected) => {
                    preview.read_into(from as u64, &mut out).unwrap();
                    prop_assert_eq!(&out[..], expected);
                }
                None => prop_assert!(preview.read_into(from as u64, &mut out).is_err()),
            }
        }
    }
}
