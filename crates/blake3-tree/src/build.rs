//! Makes the outboard of a file, piece by piece.

use blake3::hazmat::ChainingValue;

use crate::page::Page;
use crate::shape::{Node, PARENT, Shape, split};

/// The part of a tree that belongs to a piece of a file. Pieces can be hashed in any order, by several
/// threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    node: Node,
    value: ChainingValue,
    parents: Vec<u8>,
}

impl Branch {
    /// Hashes the bytes from `at` on. Returns `None` if they are not a subtree. They are one if you cut the
    /// file into pieces of the same length, which is a power of two and at least a [group](Shape::group); the
    /// last piece may be shorter.
    #[must_use]
    pub fn new(shape: Shape, at: u64, bytes: &[u8]) -> Option<Self> {
        let node = shape.find(at, bytes.len() as u64)?;
        let mut parents = Vec::with_capacity(usize::try_from(shape.parents(node.len)).ok()? * PARENT);
        let value = grow(shape, node, bytes, &mut parents);
        Some(Self { node, value, parents })
    }

    /// Like [`new`](Self::new), but without the parents within the piece. Hashing a whole piece at once takes
    /// less time than hashing its groups one by one.
    #[must_use]
    pub fn without_parents(shape: Shape, at: u64, bytes: &[u8]) -> Option<Self> {
        let node = shape.find(at, bytes.len() as u64)?;
        Some(Self { node, value: shape.value(node, bytes), parents: Vec::new() })
    }

    /// Returns the branch of a missing piece. It differs from every piece of a file, and so does every
    /// subtree above it.
    #[must_use]
    pub fn missing(shape: Shape, at: u64, len: u64) -> Option<Self> {
        let node = shape.find(at, len)?;
        let parents = vec![0; usize::try_from(shape.parents(node.len)).ok()? * PARENT];
        Some(Self { node, value: [0; 32], parents })
    }

    /// Returns the position of [`parents`](Self::parents) in the outboard, in bytes.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.node.number * PARENT as u64
    }

    /// Returns the parents within the piece, as they are in the outboard.
    #[must_use]
    pub fn parents(&self) -> &[u8] {
        &self.parents
    }
}

/// Hashes a subtree and adds its parents: upper before lower, left before right.
fn grow(shape: Shape, node: Node, bytes: &[u8], parents: &mut Vec<u8>) -> ChainingValue {
    let halves = shape.halves(node).and_then(|(left, right)| {
        let at = usize::try_from(left.len).ok()?;
        Some((left, right, bytes.split_at_checked(at)?))
    });
    let Some((left, right, (first, second))) = halves else { return shape.value(node, bytes) };
    let here = parents.len();
    parents.resize(here + PARENT, 0);
    let left = grow(shape, left, first, parents);
    let right = grow(shape, right, second, parents);
    if let Some(parent) = parents.get_mut(here..here + PARENT) {
        parent.copy_from_slice(&[left, right].concat());
    }
    shape.joined(node, &left, &right)
}

/// Joins the pieces of a file, in order, to its hash. It keeps one value for each level of the tree.
///
/// ```
/// use blake3_tree::{Branch, Builder, Shape};
///
/// let file: Vec<u8> = (0..100_000u64).map(|i| (i * i >> 3) as u8).collect();
/// let shape = Shape::new(file.len() as u64);
/// let mut outboard = vec![0; shape.outboard_len() as usize]; // or a file that is written at positions
/// let mut write = |at: u64, parents: &[u8]| outboard[at as usize..][..parents.len()].copy_from_slice(parents);
/// let mut builder = Builder::new(shape);
/// for (number, piece) in file.chunks(32 << 10).enumerate() {
///     let branch = Branch::new(shape, number as u64 * (32 << 10), piece).ok_or("a piece is a subtree")?;
///     write(branch.offset(), branch.parents());
///     for (at, parent) in builder.push(&branch) {
///         write(at, &parent);
///     }
/// }
/// assert_eq!(builder.finish(), Some(*blake3::hash(&file).as_bytes()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    shape: Shape,
    /// Subtrees that wait for their right neighbour.
    waiting: Vec<(Node, ChainingValue)>,
    /// The position at which the next piece begins.
    next: u64,
}

impl Builder {
    /// Makes a builder without pieces.
    #[must_use]
    pub const fn new(shape: Shape) -> Self {
        Self { shape, waiting: Vec::new(), next: 0 }
    }

    /// Adds the next piece. Returns the parents above pieces that this completes, each with its position in
    /// the outboard. A piece that is not the next one is ignored; then `finish` returns no hash.
    pub fn push(&mut self, branch: &Branch) -> Vec<(u64, [u8; PARENT])> {
        let mut known = Vec::new();
        if branch.node.at != self.next {
            return known;
        }
        self.next = branch.node.end();
        let (mut node, mut value) = (branch.node, branch.value);
        while let Some(&(left, left_value)) = self.waiting.last()
            && let Some(both) = self.shape.find(left.at, node.end() - left.at)
        {
            let mut parent = [0; PARENT];
            let (first, second) = parent.split_at_mut(PARENT / 2);
            first.copy_from_slice(&left_value);
            second.copy_from_slice(&value);
            known.push((both.number * PARENT as u64, parent));
            value = self.shape.joined(both, &left_value, &value);
            node = both;
            self.waiting.pop();
        }
        self.waiting.push((node, value));
        known
    }

    /// Returns the hash of the file, if all its pieces were added.
    #[must_use]
    pub fn finish(self) -> Option<[u8; 32]> {
        if self.shape.is_empty() {
            return Some(*blake3::hash(&[]).as_bytes());
        }
        match self.waiting.as_slice() {
            [(node, value)] if self.shape.is_root(*node) => Some(*value),
            _ => None,
        }
    }
}

/// Returns the hash of a file in memory, and its outboard.
///
/// ```
/// let (hash, outboard) = blake3_tree::outboard(&[7; 100_000]);
/// assert_eq!(hash, *blake3::hash(&[7; 100_000]).as_bytes());
/// assert_eq!(outboard.len(), 6 * 64);
/// ```
#[must_use]
pub fn outboard(bytes: &[u8]) -> ([u8; 32], Vec<u8>) {
    let shape = Shape::new(bytes.len() as u64);
    let mut parents = Vec::new();
    let root = grow(shape, shape.root(), bytes, &mut parents);
    (root, parents)
}

/// Computes the hash of a file from the first parent of its outboard.
///
/// ```
/// let (hash, outboard) = blake3_tree::outboard(&[7; 100_000]);
/// assert_eq!(outboard.first_chunk().map(blake3_tree::root_of), Some(hash));
/// ```
#[must_use]
pub fn root_of(first: &[u8; PARENT]) -> [u8; 32] {
    let shape = Shape::new(crate::GROUP + 1); // whatever the length, the first parent is the root
    match split(first) {
        Some((left, right)) => shape.joined(shape.root(), left, right),
        None => [0; 32],
    }
}

/// Makes an outboard in memory, from pieces in order.
#[derive(Clone, Debug)]
pub struct Recorder {
    builder: Builder,
    parents: Vec<u8>,
}

impl Recorder {
    /// Makes a recorder without pieces. It will take as much memory as the [outboard](Shape::outboard_len).
    #[must_use]
    pub const fn new(shape: Shape) -> Self {
        Self { builder: Builder::new(shape), parents: Vec::new() }
    }

    /// Adds the next piece.
    pub fn push(&mut self, branch: &Branch) {
        self.put(branch.offset(), &branch.parents);
        for (at, parent) in self.builder.push(branch) {
            self.put(at, &parent);
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let Ok(at) = usize::try_from(at) else { return };
        let end = at.saturating_add(bytes.len());
        if self.parents.len() < end {
            self.parents.resize(end, 0);
        }
        if let Some(out) = self.parents.get_mut(at..end) {
            out.copy_from_slice(bytes);
        }
    }

    /// Returns the hash of the file, and the page that checks its groups, if all pieces were added.
    #[must_use]
    pub fn finish(self) -> Option<([u8; 32], Page)> {
        let shape = self.builder.shape;
        let root = self.builder.finish()?;
        Page::new(shape, shape.root(), root, &self.parents).ok().map(|page| (root, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::GROUP;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| (((i * i) >> 3) % 251) as u8).collect()
    }

    /// Makes the outboard in pieces.
    fn by_pieces(file: &[u8], shape: Shape, piece: usize) -> ([u8; 32], Vec<u8>) {
        let mut outboard = vec![0xee; usize::try_from(shape.outboard_len()).unwrap()];
        let mut builder = Builder::new(shape);
        let mut put = |at: u64, bytes: &[u8]| {
            let at = usize::try_from(at).unwrap();
            outboard[at..at + bytes.len()].copy_from_slice(bytes);
        };
        for (number, bytes) in file.chunks(piece).enumerate() {
            let branch = Branch::new(shape, (number * piece) as u64, bytes).unwrap();
            put(branch.offset(), branch.parents());
            builder.push(&branch).into_iter().for_each(|(at, parent)| put(at, &parent));
        }
        (builder.finish().unwrap(), outboard)
    }

    /// Made by `bao-tree` 0.17: the parents of a file of 100,000 bytes whose byte i is ((i·i) >> 3) mod 251.
    const KNOWN: &str = "\
        5b43185aca285ce875b1be106714f13bd34e43db56da903011c73b4e3ad9d5928fcbff6572a1a9c8b6f14d6378582c1bb8c4af1eb6e6df61ee56d2ea66b4dd8e\
        30c895238051db159ed09a25009c294054b591386d01364abdbb859a158091c1022493fa6eacb35801eab05b0800c7e49a5e636c4307b65cc61ffe4befc89ff1\
        6f870c098f0e6581f5bdb42a3734b1e6a66e524e79409ee5b548dbefb95a07ce1157b9b70890cb3ccda769968423f26ad768b9ad098a80fc48494177bcb5e53e\
        0e4cf207f147de771e075834a1fd7dfa039e5da8bf9c8a64b029060ea1085d641aee1cc3565d0732f54e0deaf57872201479303430bf7f92ca1b9e33ae4679a8\
        135214cd5977555698b1b21ddcf5ee5a5cebfdaad97a596eb62e9c138c6c0435c5a97f1863ab98f70e3c2d121a0549345f52ab51c2f8b4ff8ae76b85bd2b917e\
        65fcbba1f9c9af87306efd794003c8513ce29e868fd56433379498f1be3f19c147f9b30c3d9cc6ea0a4801661bd7ba5ff171c4f29b43545387b23d5a931b3241";

    #[test]
    fn the_outboard_is_that_of_other_tools() {
        let (root, outboard) = outboard(&bytes(100_000));
        let hex: String = outboard.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, KNOWN);
        let root: String = root.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(root, "4edc522f55b8e611e8db6fff0202dbc399d687bba3f4629006260ff035877bdd");
    }

    #[test]
    fn pieces_of_any_length_make_the_same_outboard() {
        let group = usize::try_from(GROUP).unwrap();
        for len in [0, 1, 1024, group, group + 1, 5 * group - 1, 8 * group, 100_000, 21 * group + 77] {
            let file = bytes(len);
            let expected = outboard(&file);
            assert_eq!(expected.0, *blake3::hash(&file).as_bytes(), "{len}");
            for piece in [1, 2, 8, 64] {
                assert_eq!(
                    by_pieces(&file, Shape::new(len as u64), piece * group),
                    expected,
                    "{len} {piece}"
                );
            }
            let coarse = Shape::at_most(len as u64, 3);
            let (root, parents) = by_pieces(&file, coarse, 8 * group);
            assert_eq!((root, parents.len() as u64), (expected.0, coarse.outboard_len()));
        }
    }

    #[test]
    fn pieces_that_are_none_or_come_out_of_order() {
        let file = bytes(100_000);
        let shape = Shape::new(100_000);
        for (at, len) in [(0, 5), (1, 16_384), (0, 3 * 16_384), (16_384, 32_768), (98_304, 1)] {
            assert!(Branch::new(shape, at, &file[..len]).is_none(), "{at} {len}");
        }
        let mut builder = Builder::new(shape);
        let second = Branch::new(shape, 65_536, &file[65_536..]).unwrap();
        assert!(builder.push(&second).is_empty() && builder.clone().finish().is_none());
        builder.push(&Branch::new(shape, 0, &file[..65_536]).unwrap());
        assert!(builder.clone().finish().is_none());
        builder.push(&second);
        assert!(builder.finish().is_some());
    }
}
