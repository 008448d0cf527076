//! A part of a file whose groups can be checked: all parents over it are known to be right.

use std::fmt;
use std::ops::Range;

use blake3::hazmat::ChainingValue;

use crate::shape::{Node, PARENT, Shape, split};

/// The most that is hashed at once: where all bytes of a larger subtree are at hand, the parents in it are not needed. Small
/// enough that the bytes are still in a near cache, large enough for all lanes of a processor.
const BLOCK: u64 = 256 << 10;

/// What does not match.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// Bytes of the file are not those that were hashed.
    Bytes {
        /// Where they begin.
        at: u64,
        /// How many they are.
        len: u64,
    },
    /// A parent in the outboard is not one of this file.
    Parent {
        /// Where it is in the outboard, in bytes.
        at: u64,
        /// Where the bytes that it is over begin in the file.
        over: u64,
        /// How many these are.
        len: u64,
    },
    /// The outboard does not have the length for such a file.
    OutboardLen {
        /// Its length in bytes.
        found: u64,
        /// The length of an outboard for such a file.
        expected: u64,
    },
    /// The caller's mistake: these are not whole groups of this part of the file.
    Groups {
        /// Where they begin.
        at: u64,
        /// How many bytes they are.
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

/// The text of `Display`, which is what Rust prints of an error that `main` returns.
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
    /// A whole input whose hash is known and nothing else: it has to be checked at once.
    #[must_use]
    pub fn of_hash(hash: [u8; 32], len: u64) -> Self {
        let shape = Shape::whole(len);
        Self { shape, node: shape.root(), value: hash, parents: Box::default() }
    }

    /// The part that `node` is, whose value is known to be right, if all parents over it are.
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

    /// The bytes of the file that can be checked.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.node.at..self.node.end()
    }

    /// The bytes of a group: what is checked begins and ends at a multiple of it, or at the end of the file.
    #[must_use]
    pub const fn group(&self) -> u64 {
        self.shape.group()
    }

    /// The whole groups of this part that hold bytes of a range.
    #[must_use]
    pub fn around(&self, range: &Range<u64>) -> Range<u64> {
        let (start, end) = (range.start.max(self.node.at), range.end.min(self.node.end()));
        self.shape.around(&(start..end.max(start)))
    }

    /// Whether these are the bytes of the file from `at` on: whole groups, all of them in this part.
    ///
    /// # Errors
    /// [`Mismatch::Bytes`], which says where; [`Mismatch::Groups`].
    pub fn check(&self, at: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        let len = bytes.len() as u64;
        let range = at..at.saturating_add(len);
        if self.around(&range) != range {
            return Err(Mismatch::Groups { at, len });
        }
        // What is empty has nothing to check, except for an empty file.
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
            // Which of its groups it is.
            if let Some(((left, right), (l, r))) = halves.zip(self.parent(node)) {
                self.check_node(left, l, at, bytes)?;
                self.check_node(right, r, at, bytes)?;
            }
            return Err(Mismatch::Bytes { at: node.at, len: node.len });
        }
        // A subtree of several groups has a parent, which was there when the page was made.
        let Some(((left, right), (l, r))) = halves.zip(self.parent(node)) else {
            return Err(Mismatch::Groups { at, len: bytes.len() as u64 });
        };
        self.check_node(left, l, at, bytes)?;
        self.check_node(right, r, at, bytes)
    }
}
