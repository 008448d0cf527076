//! The shape of a tree: which parents there are for a file of some length, and their positions in an
//! outboard.

use std::ops::Range;

use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// The smallest unit that an outboard proves, in bytes: 16 chunks of BLAKE3.
pub const GROUP: u64 = 16 << 10;

/// The length of a parent in bytes: the values of its left and its right half.
pub(crate) const PARENT: usize = 64;

/// The tree over a file of some length, down to groups of some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    len: u64,
    group: u64,
}

impl Shape {
    /// Returns the shape of an outboard as other tools write it, with groups of [`GROUP`] bytes.
    #[must_use]
    pub const fn new(len: u64) -> Self {
        Self { len, group: GROUP }
    }

    /// Returns a coarser shape with at most `groups` groups (at least 2), whose size is a power of two, for
    /// an outboard in memory.
    #[must_use]
    pub const fn at_most(len: u64, groups: u64) -> Self {
        let mut group = GROUP;
        let most = if groups < 2 { 2 } else { groups };
        while len.div_ceil(group) > most {
            group *= 2;
        }
        Self { len, group }
    }

    /// Returns a shape with a single group, however long it is.
    pub(crate) const fn whole(len: u64) -> Self {
        let group = match len.checked_next_power_of_two() {
            Some(group) if group > GROUP => group,
            Some(_) => GROUP,
            None => 1 << 63, // beyond every file: then there are two, and none of them passes
        };
        Self { len, group }
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Checks whether the file is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size of a group in bytes; the last group of the file may be shorter.
    #[must_use]
    pub const fn group(&self) -> u64 {
        self.group
    }

    /// Returns the length of the outboard in bytes: 64 for each parent. A file of one group has no parents.
    #[must_use]
    pub const fn outboard_len(&self) -> u64 {
        self.parents(self.len) * PARENT as u64
    }

    /// Returns the range of the outboard that holds the parents within a piece; it is empty for a piece of
    /// one group. Returns `None` if the piece is not a subtree as [`Branch::new`](crate::Branch::new) takes
    /// it.
    #[must_use]
    pub fn parents_within(&self, at: u64, len: u64) -> Option<Range<u64>> {
        let first = self.find(at, len)?.number * PARENT as u64;
        Some(first..first + self.parents(len) * PARENT as u64)
    }

    /// Returns the whole groups that hold a range of the file, cut off at the end of the file.
    #[must_use]
    pub fn around(&self, range: &Range<u64>) -> Range<u64> {
        let (start, end) = (range.start.min(self.len), range.end.min(self.len));
        let first = start - start % self.group;
        if start >= end {
            return first..first;
        }
        first..end.div_ceil(self.group).saturating_mul(self.group).min(self.len)
    }

    /// Returns the number of parents over `len` bytes.
    pub(crate) const fn parents(&self, len: u64) -> u64 {
        len.div_ceil(self.group).saturating_sub(1)
    }

    /// Returns the whole file as a subtree.
    pub(crate) const fn root(self) -> Node {
        Node { at: 0, len: self.len, number: 0 }
    }

    pub(crate) const fn is_root(&self, node: Node) -> bool {
        node.at == 0 && node.len == self.len
    }

    /// Returns the two halves of a subtree, or `None` for a group. The left half has the largest power of two
    /// of groups that leaves something for the right half.
    pub(crate) const fn halves(&self, node: Node) -> Option<(Node, Node)> {
        if node.len <= self.group {
            return None;
        }
        // `node.len` is longer than a group, so the argument of the logarithm is not 0.
        let left = self.group << ((node.len - 1) / self.group).ilog2();
        let number = node.number + 1;
        Some((
            Node { at: node.at, len: left, number },
            Node { at: node.at + left, len: node.len - left, number: number + self.parents(left) },
        ))
    }

    /// Returns the subtree with exactly these bytes, if there is one.
    pub(crate) fn find(&self, at: u64, len: u64) -> Option<Node> {
        let mut node = self.root();
        while (node.at, node.len) != (at, len) {
            let (left, right) = self.halves(node)?;
            node = if at < right.at { left } else { right };
        }
        Some(node)
    }

    /// Returns the value of a subtree with these bytes. For the whole file this is its hash.
    ///
    /// A subtree begins at a multiple of its length rounded up to a power of two chunks, and only the root
    /// can be empty. So none of the assertions of `set_input_offset`, `update` and `finalize_non_root` can
    /// fail.
    pub(crate) fn value(&self, node: Node, bytes: &[u8]) -> ChainingValue {
        if self.is_root(node) {
            return *blake3::hash(bytes).as_bytes();
        }
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(node.at).update(bytes);
        hasher.finalize_non_root()
    }

    /// Returns the value of a subtree whose halves have these values.
    pub(crate) fn joined(&self, node: Node, left: &ChainingValue, right: &ChainingValue) -> ChainingValue {
        if self.is_root(node) {
            *merge_subtrees_root(left, right, Mode::Hash).as_bytes()
        } else {
            merge_subtrees_non_root(left, right, Mode::Hash)
        }
    }
}

/// A subtree: its bytes in the file, and the position of its parents in the outboard, counted in parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) number: u64,
}

impl Node {
    pub(crate) const fn end(&self) -> u64 {
        self.at + self.len
    }
}

/// Splits a parent into the values of both halves.
pub(crate) fn split(parent: &[u8]) -> Option<(&ChainingValue, &ChainingValue)> {
    Some((parent.first_chunk()?, parent.get(PARENT / 2..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_outboards() {
        for (len, parents) in [(0, 0), (1, 0), (GROUP, 0), (GROUP + 1, 1), (100_000, 6), (100 * GROUP, 99)] {
            assert_eq!(Shape::new(len).outboard_len(), parents * 64, "{len}");
        }
        let huge = Shape::new(u64::MAX);
        assert_eq!(huge.outboard_len(), ((1 << 50) - 1) * 64);
        assert!(
            Shape::at_most(u64::MAX, 0).parents(u64::MAX) == 1 && Shape::at_most(100, 0).group() == GROUP
        );
        assert_eq!(Shape::at_most(100 * GROUP, 50).group(), 2 * GROUP);
    }

    #[test]
    fn groups_around_a_range() {
        let shape = Shape::new(100_000);
        for (range, around) in [
            (0..1, 0..GROUP),
            (GROUP - 1..GROUP + 1, 0..2 * GROUP),
            (99_999..100_000, 98_304..100_000),
            (5..5, 0..0),
            (200_000..200_001, 98_304..98_304),
        ] {
            assert_eq!(shape.around(&range), around, "{range:?}");
        }
    }

    #[test]
    fn subtrees_are_found_by_their_bytes() {
        let shape = Shape::new(7 * GROUP + 5);
        assert_eq!(shape.find(0, shape.len()), Some(shape.root()));
        assert_eq!(shape.find(4 * GROUP, 3 * GROUP + 5).unwrap().number, 4);
        assert_eq!(shape.find(7 * GROUP, 5).unwrap().number, 7);
        for (at, len) in [(0, 5), (GROUP, 2 * GROUP), (7 * GROUP, 6), (8 * GROUP, 1), (4 * GROUP, 3 * GROUP)]
        {
            assert_eq!(shape.find(at, len), None, "{at} {len}");
        }
        let huge = Shape::new(u64::MAX);
        assert!(huge.find(u64::MAX - 1, 1).is_none() && huge.find(u64::MAX / 2 + 1, u64::MAX / 2).is_some());
    }
}
