//! Finds the groups in which a file differs from the file that was hashed, by the outboards of both.

use std::ops::Range;
use std::sync::Arc;

use blake3::hazmat::ChainingValue;

use crate::page::{Mismatch, Page};
use crate::shape::{Node, PARENT, Shape, split};
use crate::verify::page_of;

/// Compares the tree of a local file with the tree of the file that has a known hash, from the top down.
/// Nothing below equal parents is compared, so a few wrong bytes of a large file take only a few parents.
///
/// The outboard of the known file need not be trusted. This type does no I/O: while it [needs](Self::need)
/// more, read those bytes of both outboards and [feed](Self::feed) them.
///
/// ```
/// use blake3_tree::{Differences, GROUP};
///
/// let file: Vec<u8> = (0..1_000_000u64).map(|i| (i * i >> 3) as u8).collect();
/// let (hash, outboard) = blake3_tree::outboard(&file);
/// let mut damaged = file.clone();
/// damaged[500_000] ^= 1;
/// let (ours, of_damaged) = blake3_tree::outboard(&damaged);
///
/// let mut differences = Differences::new(hash, file.len() as u64, Some(ours));
/// while let Some(need) = differences.need() {
///     let need = need.start as usize..need.end as usize;
///     if let Some(found) = differences.feed(&outboard[need.clone()], Some(&of_damaged[need]))? {
///         assert_eq!(found.ranges, [30 * GROUP..31 * GROUP]);
///         // The right bytes, wherever they come from, are checked before they are used.
///         found.page.check(30 * GROUP, &file[30 * GROUP as usize..31 * GROUP as usize])?;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Differences {
    shape: Shape,
    /// The number of bytes of the file that a page covers.
    page: u64,
    /// Subtrees that differ, with the values that they should have. The first one in the file is last.
    open: Vec<(Node, ChainingValue)>,
}

/// A part of a file with groups that differ.
#[derive(Clone, Debug)]
pub struct Different {
    /// Checks the right bytes of the part.
    pub page: Arc<Page>,
    /// The groups that differ, in ascending order; neighbours are one range.
    pub ranges: Vec<Range<u64>>,
}

impl Differences {
    /// Starts a comparison with the file of this hash and length. `ours` is the hash of the local file,
    /// computed as if it had that length, or `None` if there is no local file, so that all groups differ.
    #[must_use]
    pub fn new(hash: [u8; 32], len: u64, ours: Option<[u8; 32]>) -> Self {
        let shape = Shape::new(len);
        let open = if ours == Some(hash) { Vec::new() } else { vec![(shape.root(), hash)] };
        Self { shape, page: page_of(shape), open }
    }

    /// Returns the range of bytes that is needed next from both outboards, or `None` when the comparison is
    /// complete. The range is empty if the file is one group.
    #[must_use]
    pub fn need(&self) -> Option<Range<u64>> {
        let (node, _) = self.open.last()?;
        let parents = if node.len > self.page { 1 } else { self.shape.parents(node.len) };
        let first = node.number.saturating_mul(PARENT as u64);
        Some(first..first.saturating_add(parents.saturating_mul(PARENT as u64)))
    }

    /// Takes the bytes that are [needed](Self::need) from the outboard of the known file, and from the
    /// outboard of the local file if there is one. Returns the groups of the next part that differ, once they
    /// are known.
    ///
    /// # Errors
    /// [`Mismatch::Parent`] if `theirs` is not from the outboard of a file with that hash,
    /// [`Mismatch::OutboardLen`] if there are too few bytes. The same bytes are then still needed; you can
    /// try another copy.
    pub fn feed(&mut self, theirs: &[u8], ours: Option<&[u8]>) -> Result<Option<Different>, Mismatch> {
        let Some((need, &(node, value))) = self.need().zip(self.open.last()) else { return Ok(None) };
        let len = usize::try_from(need.end - need.start).unwrap_or(usize::MAX);
        let expected = self.shape.outboard_len();
        let short = |found: usize| Mismatch::OutboardLen {
            found: need.start.saturating_add(found as u64).min(expected),
            expected,
        };
        let theirs_here = theirs.get(..len).ok_or_else(|| short(theirs.len()))?;
        let ours = ours.and_then(|ours| ours.get(..len));
        if node.len <= self.page {
            let page = Page::new(self.shape, node, value, theirs_here)?;
            self.open.pop();
            let ranges = self.within(node, theirs_here, ours);
            return Ok(Some(Different { page: Arc::new(page), ranges }));
        }
        let right = split(theirs_here).filter(|(l, r)| self.shape.joined(node, l, r) == value);
        let Some(((first, second), (left, right))) = right.zip(self.shape.halves(node)) else {
            return Err(Mismatch::Parent { at: need.start, over: node.at, len: node.len });
        };
        self.open.pop();
        let ours = ours.and_then(split);
        if ours.is_none_or(|(_, ours)| ours != second) {
            self.open.push((right, *second));
        }
        if ours.is_none_or(|(ours, _)| ours != first) {
            self.open.push((left, *first));
        }
        Ok(None)
    }

    /// Returns the groups below `top` that differ, given all parents there.
    fn within(&self, top: Node, theirs: &[u8], ours: Option<&[u8]>) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut open = vec![top];
        let values = |parents: &[u8], node: Node| {
            let at = usize::try_from(node.number.checked_sub(top.number)?).ok()?.checked_mul(PARENT)?;
            split(parents.get(at..)?).map(|(left, right)| (*left, *right))
        };
        while let Some(node) = open.pop() {
            let Some((left, right)) = self.shape.halves(node) else {
                match ranges.last_mut() {
                    Some(last) if last.end == node.at => last.end = node.end(),
                    _ => ranges.push(node.at..node.end()),
                }
                continue;
            };
            let both = values(theirs, node).zip(ours.and_then(|ours| values(ours, node)));
            if both.is_none_or(|((_, theirs), (_, ours))| theirs != ours) {
                open.push(right);
            }
            if both.is_none_or(|((theirs, _), (ours, _))| theirs != ours) {
                open.push(left);
            }
        }
        ranges
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are compared")]
mod tests {
    use super::*;
    use crate::build::outboard;
    use crate::shape::GROUP;

    fn bytes(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
    }

    fn index(at: u64) -> usize {
        usize::try_from(at).unwrap()
    }

    /// Returns the groups that differ, and how many bytes of the outboard were read to find them.
    fn differing(file: &[u8], damaged: Option<&[u8]>, page: Option<u64>) -> (Vec<Range<u64>>, u64) {
        let (hash, theirs) = outboard(file);
        let ours = damaged.map(outboard);
        let mut all = Differences::new(hash, file.len() as u64, ours.as_ref().map(|(hash, _)| *hash));
        all.page = page.unwrap_or(all.page);
        let (mut found, mut asked) = (Vec::new(), 0);
        while let Some(need) = all.need() {
            asked += need.end - need.start;
            let need = index(need.start)..index(need.end);
            let ours = ours.as_ref().map(|(_, ours)| &ours[need.clone()]);
            let mut wrong = theirs[need.clone()].to_vec();
            if let Some(first) = wrong.first_mut() {
                *first ^= 1;
                assert!(matches!(all.feed(&wrong, ours), Err(Mismatch::Parent { .. })));
                assert!(matches!(all.feed(&wrong[1..], ours), Err(Mismatch::OutboardLen { .. })));
            }
            if let Some(Different { page, ranges }) = all.feed(&theirs[need], ours).unwrap() {
                for range in &ranges {
                    page.check(range.start, &file[index(range.start)..index(range.end)]).unwrap();
                }
                found.extend(ranges);
            }
        }
        (found, asked)
    }

    #[test]
    fn exactly_the_groups_that_differ_are_found() {
        for len in [1, GROUP, GROUP + 1, 23 * GROUP + 9, 64 * GROUP] {
            let file = bytes(len);
            let groups = len.div_ceil(GROUP);
            for page in [None, Some(2 * GROUP), Some(4 * GROUP)] {
                assert_eq!(differing(&file, Some(&file), page), (vec![], 0));
                let all = differing(&file, None, page).0;
                assert_eq!((all[0].start, all[all.len() - 1].end), (0, len));
                assert_eq!(all.iter().map(|range| range.end - range.start).sum::<u64>(), len);
                for group in 0..groups {
                    let mut damaged = file.clone();
                    let at = (group * GROUP + 77).min(len - 1);
                    damaged[index(at)] ^= 1;
                    let expected = group * GROUP..((group + 1) * GROUP).min(len);
                    let (found, asked) = differing(&file, Some(&damaged), page);
                    assert_eq!(found, [expected], "{len} {page:?}");
                    if page == Some(2 * GROUP) {
                        assert!(asked <= 64 * 7, "{asked}");
                    }
                }
            }
        }
    }

    #[test]
    fn neighbours_are_one_range() {
        let file = bytes(40 * GROUP);
        let mut damaged = file.clone();
        for group in [3, 4, 5, 9, 39] {
            damaged[index(group * GROUP)] ^= 1;
        }
        let (found, _) = differing(&file, Some(&damaged), None);
        let groups: Vec<_> = found.iter().map(|range| range.start / GROUP..range.end / GROUP).collect();
        assert_eq!(groups, [3..6, 9..10, 39..40]);
    }

    #[test]
    fn a_missing_piece_differs_as_a_whole() {
        use crate::build::{Branch, Builder};
        let file = bytes(23 * GROUP + 9);
        let (hash, theirs) = outboard(&file);
        let shape = Shape::new(file.len() as u64);
        let (mut ours, mut builder) = (vec![0; theirs.len()], Builder::new(shape));
        for (number, piece) in file.chunks(index(4 * GROUP)).enumerate() {
            let at = number as u64 * 4 * GROUP;
            let branch = match number {
                2 => Branch::missing(shape, at, piece.len() as u64).unwrap(),
                _ => Branch::new(shape, at, piece).unwrap(),
            };
            let above = builder.push(&branch);
            let parents = [(branch.offset(), branch.parents().to_vec())].into_iter();
            for (at, parents) in parents.chain(above.into_iter().map(|(at, parent)| (at, parent.to_vec()))) {
                ours[index(at)..][..parents.len()].copy_from_slice(&parents);
            }
        }
        let mut all = Differences::new(hash, shape.len(), builder.finish());
        let mut found = Vec::new();
        while let Some(need) = all.need() {
            let need = index(need.start)..index(need.end);
            found.extend(all.feed(&theirs[need.clone()], Some(&ours[need])).unwrap());
        }
        let ranges: Vec<_> = found.into_iter().flat_map(|found| found.ranges).collect();
        assert_eq!(ranges, [8 * GROUP..12 * GROUP]);
        assert!(Branch::missing(shape, 1, GROUP).is_none());
    }
}
