//! A part of a file whose groups can be checked, because all parents that cover it are known to be right.

use std::fmt;
use std::ops::Range;

use blake3::hazmat::ChainingValue;

use crate::shape::{Node, PARENT, Shape, split};

/// The largest subtree that is hashed at once. If all bytes of a subtree up to this size are available, the
/// parents within it are not needed. Small enough that the bytes are still in a near cache, large enough for
/// all lanes of a processor.
const BLOCK: u64 = 256 << 10;

/// A mismatch between a file, its outboard and its hash.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// Bytes of the file are not those that were hashed.
    Bytes {
        /// The position at which they begin.
        at: u64,
        /// The number of bytes.
        len: u64,
    },
    /// A parent in the outboard does not belong to this file.
    Parent {
        /// The position of the parent in the outboard, in bytes.
        at: u64,
        /// The position in the file at which the bytes under this parent begin.
        over: u64,
        /// The number of bytes under this parent.
        len: u64,
    },
    /// The outboard does not have the right length for such a file.
    OutboardLen {
        /// Its length in bytes.
        found: u64,
        /// The length of an outboard for such a file.
        expected: u64,
    },
    /// The caller passed bytes that are not whole groups of this part of the file.
    Groups {
        /// The position at which they begin.
        at: u64,
        /// The number of bytes.
        len: u64,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes { at, len } => {
                write!(f, "bytes {at} to {} are not those that were hashed", at.saturating_add(len))
            }
            Self::Parent { at, over, len } => {
                let end = over.saturating_add(len);
                write!(
                    f,
                    "the outboard's bytes {at} to {} do not belong to ",
                    at.saturating_add(PARENT as u64)
                )?;
                write!(f, "bytes {over} to {end} of a file with that hash")
            }
            Self::OutboardLen { found, expected } => {
                write!(f, "the outboard has {found} bytes, and that of such a file has {expected}")
            }
            Self::Groups { at, len } => {
                write!(f, "bytes {at} to {} are not whole groups", at.saturating_add(len))
            }
        }
    }
}

/// Prints the text of `Display`, because Rust prints an error that `main` returns with `Debug`.
impl fmt::Debug for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Mismatch {}

/// A part of a file whose groups can be checked, in any order and by several threads.
#[derive(Clone, PartialEq, Eq)]
pub struct Page {
    shape: Shape,
    node: Node,
    value: ChainingValue,
    parents: Box<[u8]>,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({:?})", self.range())
    }
}

impl Page {
    /// Makes a page for a whole input of which only the hash is known. It has to be checked at once.
    #[must_use]
    pub fn of_hash(hash: [u8; 32], len: u64) -> Self {
        let shape = Shape::whole(len);
        Self { shape, node: shape.root(), value: hash, parents: Box::default() }
    }

    /// Makes the page of `node`, whose value is known to be right, if all parents in it are right.
    pub(crate) fn new(
        shape: Shape,
        node: Node,
        value: ChainingValue,
        parents: &[u8],
    ) -> Result<Self, Mismatch> {
        let page = Self { shape, node, value, parents: parents.into() };
        page.check_parents(node, &value)?;
        Ok(page)
    }

    fn check_parents(&self, node: Node, value: &ChainingValue) -> Result<(), Mismatch> {
        let Some((left, right)) = self.shape.halves(node) else { return Ok(()) };
        let stated = self.parent(node).filter(|(l, r)| self.shape.joined(node, l, r) == *value);
        let Some((left_value, right_value)) = stated else {
            let at = node.number.saturating_mul(PARENT as u64);
            return Err(Mismatch::Parent { at, over: node.at, len: node.len });
        };
        self.check_parents(left, left_value)?;
        self.check_parents(right, right_value)
    }

    fn parent(&self, node: Node) -> Option<(&ChainingValue, &ChainingValue)> {
        let at = usize::try_from(node.number.checked_sub(self.node.number)?).ok()?.checked_mul(PARENT)?;
        split(self.parents.get(at..)?)
    }

    /// Returns the range of the file that can be checked.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.node.at..self.node.end()
    }

    /// Returns the size of a group in bytes. Checked ranges begin and end at a multiple of it, or at the end
    /// of the file.
    #[must_use]
    pub const fn group(&self) -> u64 {
        self.shape.group()
    }

    /// Returns the range of whole groups of this part that hold the bytes of a range.
    #[must_use]
    pub fn around(&self, range: &Range<u64>) -> Range<u64> {
        let (start, end) = (range.start.max(self.node.at), range.end.min(self.node.end()));
        self.shape.around(&(start..end.max(start)))
    }

    /// Checks that these are the bytes of the file from `at` on. They must be whole groups within this part.
    ///
    /// # Errors
    /// [`Mismatch::Bytes`] with the position of the first mismatch; [`Mismatch::Groups`] if they are not such
    /// groups.
    pub fn check(&self, at: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        let len = bytes.len() as u64;
        let range = at..at.saturating_add(len);
        if self.around(&range) != range {
            return Err(Mismatch::Groups { at, len });
        }
        // An empty range has nothing to check, except in an empty file.
        if bytes.is_empty() && !self.shape.is_empty() {
            return Ok(());
        }
        self.check_node(self.node, &self.value, at, bytes)
    }

    fn check_node(&self, node: Node, value: &ChainingValue, at: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        let end = at + bytes.len() as u64;
        if node.len > 0 && (node.end() <= at || end <= node.at) {
            return Ok(());
        }
        let halves = self.shape.halves(node);
        let is_here = at <= node.at && node.end() <= end;
        if is_here && (node.len <= BLOCK || halves.is_none()) {
            let within = |place: u64| usize::try_from(place - at).unwrap_or(usize::MAX);
            let own = bytes.get(within(node.at)..within(node.end()));
            if own.is_some_and(|own| self.shape.value(node, own) == *value) {
                return Ok(());
            }
            // Find out which of the subtree's groups is wrong.
            if let Some(((left, right), (l, r))) = halves.zip(self.parent(node)) {
                self.check_node(left, l, at, bytes)?;
                self.check_node(right, r, at, bytes)?;
            }
            return Err(Mismatch::Bytes { at: node.at, len: node.len });
        }
        // A subtree of several groups has a parent; it was there when the page was made.
        let Some(((left, right), (l, r))) = halves.zip(self.parent(node)) else {
            return Err(Mismatch::Groups { at, len: bytes.len() as u64 });
        };
        self.check_node(left, l, at, bytes)?;
        self.check_node(right, r, at, bytes)
    }
}
