//! Proves ranges of a file by its outboard and its hash.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blake3::hazmat::ChainingValue;

use crate::page::{Mismatch, Page};
use crate::shape::{Node, PARENT, Shape, split};

/// An outboard of up to this length is a single page, which is read as a whole.
const WHOLE: u64 = 1 << 20;
/// The number of bytes of a larger file that a page covers: 64 KiB of the outboard prove 16 MiB.
const PAGE: u64 = 16 << 20;
/// The number of pages that are kept.
const PAGES: usize = 16;
/// The number of parents above pages that are kept: those of a terabyte, which take about 8 MiB.
const TOP: usize = 1 << 16;

/// Proves ranges of a file whose hash and length are known, by an outboard that need not be trusted.
///
/// A verifier needs parts of the outboard, from the top down, and keeps a bounded number of those that it has
/// checked. It does no I/O: for a range of the file, take a [`walk`](Self::walk) to each [`Page`] that holds
/// bytes of the range, and let the page check them.
///
/// The length determines the shape of the tree, and the hash confirms the length only together with the last
/// group. A file to which something was appended has another shape, so none of its bytes pass.
#[derive(Debug)]
pub struct Verifier {
    shape: Shape,
    root: ChainingValue,
    page: u64,
    known: Mutex<Known>,
}

/// Returns the number of bytes of a file that each of its pages covers.
pub(crate) const fn page_of(shape: Shape) -> u64 {
    if shape.outboard_len() <= WHOLE { u64::MAX } else { PAGE }
}

#[derive(Debug, Default)]
struct Known {
    /// The parents above pages, by their number.
    top: BTreeMap<u64, [u8; PARENT]>,
    /// The pages, the most recently used last.
    pages: VecDeque<Arc<Page>>,
}

impl Known {
    fn page(&mut self, at: u64) -> Option<Arc<Page>> {
        let found = self.pages.iter().position(|page| page.range().contains(&at))?;
        let page = self.pages.remove(found)?;
        self.pages.push_back(Arc::clone(&page));
        Some(page)
    }

    fn add_page(&mut self, page: &Arc<Page>) {
        if self.page(page.range().start).is_some() {
            return; // another thread was as quick
        }
        if self.pages.len() >= PAGES {
            self.pages.pop_front();
        }
        self.pages.push_back(Arc::clone(page));
    }

    fn add_parent(&mut self, number: u64, parent: [u8; PARENT]) {
        if self.top.len() >= TOP {
            self.top.clear();
        }
        self.top.insert(number, parent);
    }
}

impl Verifier {
    /// Makes a verifier for a file of `len` bytes with this hash.
    #[must_use]
    pub fn new(hash: [u8; 32], len: u64) -> Self {
        let shape = Shape::new(len);
        Self { shape, root: hash, page: page_of(shape), known: Mutex::default() }
    }

    /// Returns the shape of the tree.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Checks that an outboard of this length can belong to the file.
    ///
    /// # Errors
    /// [`Mismatch::OutboardLen`] if it cannot.
    pub const fn check_len(&self, found: u64) -> Result<(), Mismatch> {
        let expected = self.shape.outboard_len();
        if found == expected { Ok(()) } else { Err(Mismatch::OutboardLen { found, expected }) }
    }

    /// Starts a walk to the page that holds byte `at` of the file, or to the last page if `at` is beyond the
    /// end.
    #[must_use]
    pub fn walk(&self, at: u64) -> Walk<'_> {
        let at = at.min(self.shape.len().saturating_sub(1));
        let mut walk = Walk { verifier: self, at, node: self.shape.root(), value: self.root, page: None };
        let mut known = self.known();
        walk.page = known.page(at);
        if walk.page.is_none() {
            while let Some(parent) = known.top.get(&walk.node.number).filter(|_| walk.is_above()) {
                let parent = *parent;
                walk.descend(&parent);
            }
        }
        drop(known);
        walk.finish_single_group();
        walk
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A walk from the root of a tree down to a [`Page`]. While it [needs](Self::need) a part of the outboard,
/// [feed](Self::feed) that part.
#[derive(Debug)]
pub struct Walk<'v> {
    verifier: &'v Verifier,
    at: u64,
    node: Node,
    /// The value of the node, known to be right.
    value: ChainingValue,
    page: Option<Arc<Page>>,
}

impl Walk<'_> {
    /// Checks whether the walk is still above the pages.
    const fn is_above(&self) -> bool {
        self.node.len > self.verifier.page
    }

    /// Returns the half that holds the byte, and whether it is the left one.
    fn half(&self, node: Node) -> Option<(Node, bool)> {
        let (left, right) = self.verifier.shape.halves(node)?;
        Some(if self.at < right.at { (left, true) } else { (right, false) })
    }

    /// Descends below a parent that is known to be right.
    fn descend(&mut self, parent: &[u8; PARENT]) {
        if let (Some((node, is_left)), Some((left, right))) = (self.half(self.node), split(parent)) {
            (self.node, self.value) = (node, if is_left { *left } else { *right });
        }
    }

    /// Completes the walk if the page is a single group, which has no parents.
    fn finish_single_group(&mut self) {
        if self.page.is_none() && !self.is_above() && self.verifier.shape.parents(self.node.len) == 0 {
            self.page = Page::new(self.verifier.shape, self.node, self.value, &[]).ok().map(Arc::new);
        }
    }

    /// Returns the bytes of the outboard that are needed next: the contiguous part of the way to the page.
    /// Returns `None` once the page is known.
    #[must_use]
    pub fn need(&self) -> Option<Range<u64>> {
        if self.page.is_some() {
            return None;
        }
        let (shape, mut node) = (self.verifier.shape, self.node);
        let first = node.number;
        while node.len > self.verifier.page {
            match self.half(node)? {
                (left, true) => node = left, // it stands behind its parent
                (_, false) => return Some(in_bytes(first..node.number + 1)),
            }
        }
        Some(in_bytes(first..node.number + shape.parents(node.len)))
    }

    /// Takes the bytes that are [needed](Self::need), or the first of them, at least 64.
    ///
    /// # Errors
    /// [`Mismatch::Parent`] if they are not from the outboard of a file with that hash;
    /// [`Mismatch::OutboardLen`] if there are too few.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Mismatch> {
        let Some(need) = self.need() else { return Ok(()) };
        let expected = self.verifier.shape.outboard_len();
        let short = |found: usize| Mismatch::OutboardLen {
            found: need.start.saturating_add(found as u64).min(expected),
            expected,
        };
        let fed = bytes.len();
        let mut first = need.start;
        while self.is_above() && in_bytes(self.node.number..self.node.number).start == first {
            let Some((parent, rest)) = bytes.split_first_chunk::<PARENT>() else {
                return if first == need.start { Err(short(fed)) } else { Ok(()) };
            };
            self.take(parent)?;
            bytes = rest;
            first += PARENT as u64;
        }
        self.finish_single_group();
        if self.is_above() || self.page.is_some() || self.node.number * PARENT as u64 != first {
            return Ok(());
        }
        let shape = self.verifier.shape;
        let len = usize::try_from(shape.parents(self.node.len)).unwrap_or(usize::MAX).saturating_mul(PARENT);
        let Some(parents) = bytes.get(..len) else {
            return if first == need.start { Err(short(fed)) } else { Ok(()) };
        };
        let page = Arc::new(Page::new(shape, self.node, self.value, parents)?);
        self.verifier.known().add_page(&page);
        self.page = Some(page);
        Ok(())
    }

    /// Checks a parent above the pages and descends below it.
    fn take(&mut self, parent: &[u8; PARENT]) -> Result<(), Mismatch> {
        let is_right = split(parent)
            .is_some_and(|(left, right)| self.verifier.shape.joined(self.node, left, right) == self.value);
        if !is_right {
            let at = self.node.number.saturating_mul(PARENT as u64);
            return Err(Mismatch::Parent { at, over: self.node.at, len: self.node.len });
        }
        self.verifier.known().add_parent(self.node.number, *parent);
        self.descend(parent);
        Ok(())
    }

    /// Returns the page, once nothing more is [needed](Self::need).
    #[must_use]
    pub fn finish(self) -> Option<Arc<Page>> {
        self.page
    }
}

const fn in_bytes(parents: Range<u64>) -> Range<u64> {
    parents.start * PARENT as u64..parents.end * PARENT as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::build::outboard;
    use crate::shape::GROUP;

    fn bytes(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
    }

    fn index(at: u64) -> usize {
        usize::try_from(at).unwrap()
    }

    /// Proves a range of a file. Returns its bytes, and how many bytes of the outboard were needed.
    fn proved(
        verifier: &Verifier,
        file: &[u8],
        outboard: &[u8],
        range: Range<u64>,
    ) -> Result<(Vec<u8>, u64), Mismatch> {
        verifier.check_len(outboard.len() as u64)?;
        let (mut out, mut asked, mut at) = (Vec::new(), 0, range.start);
        while at < range.end {
            let mut walk = verifier.walk(at);
            while let Some(need) = walk.need() {
                asked += need.end - need.start;
                walk.feed(&outboard[index(need.start)..index(need.end)])?;
            }
            let page = walk.finish().unwrap();
            assert!(page.range().contains(&at));
            let end = range.end.min(page.range().end);
            let around = page.around(&(at..end));
            let found = &file[index(around.start)..index(around.end)];
            page.check(around.start, found)?;
            out.extend(&found[index(at - around.start)..index(end - around.start)]);
            at = end;
        }
        Ok((out, asked))
    }

    /// Makes a verifier with small pages, so that a small file has parents above them.
    fn small(hash: [u8; 32], len: u64) -> Verifier {
        Verifier { page: 4 * GROUP, ..Verifier::new(hash, len) }
    }

    #[test]
    fn every_range_of_every_length() {
        for len in [0, 1, GROUP, GROUP + 1, 4 * GROUP, 4 * GROUP + 1, 23 * GROUP + 9, 64 * GROUP] {
            let file = bytes(len);
            let (hash, outboard) = outboard(&file);
            for make in [Verifier::new, small] {
                let verifier = make(hash, len);
                for start in (0..len).step_by(9999) {
                    for end in [start, start + 1, start + GROUP, len] {
                        let range = start..end.min(len);
                        let (found, _) = proved(&verifier, &file, &outboard, range.clone()).unwrap();
                        assert_eq!(found, &file[index(range.start)..index(range.end)], "{len} {range:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_empty_file_has_a_hash_too() {
        let page = |hash| Verifier::new(hash, 0).walk(0).finish().unwrap();
        assert_eq!(page(outboard(&[]).0).check(0, &[]), Ok(()));
        assert_eq!(page([0; 32]).check(0, &[]), Err(Mismatch::Bytes { at: 0, len: 0 }));
    }

    #[test]
    fn the_way_down_is_asked_for_once() {
        let file = bytes(64 * GROUP);
        let (hash, outboard) = outboard(&file);
        let verifier = small(hash, 64 * GROUP);
        let asked = |at: u64| proved(&verifier, &file, &outboard, at..at + 1).unwrap().1;
        // Four parents above pages, and three within the page.
        assert_eq!(asked(0), 7 * 64);
        assert_eq!(asked(5), 0);
        assert_eq!(asked(4 * GROUP), 3 * 64);
        assert_eq!(asked(63 * GROUP), (3 + 3) * 64);
        for page in 0..16 {
            asked(page * 4 * GROUP);
        }
        assert!(verifier.known().pages.len() <= PAGES && verifier.known().top.len() == 15);
    }

    #[test]
    fn a_flipped_bit_is_seen_where_it_counts() {
        let len = 23 * GROUP + 9;
        let file = bytes(len);
        let (hash, outboard) = outboard(&file);
        for make in [Verifier::new, small] {
            for at in (0..len).step_by(7777) {
                let mut damaged = file.clone();
                damaged[index(at)] ^= 4;
                let verifier = make(hash, len);
                let error = proved(&verifier, &damaged, &outboard, at..at + 1).unwrap_err();
                let group = at - at % GROUP;
                assert_eq!(error, Mismatch::Bytes { at: group, len: GROUP.min(len - group) });
                let error = proved(&verifier, &damaged, &outboard, 0..len).unwrap_err();
                assert_eq!(error, Mismatch::Bytes { at: group, len: GROUP.min(len - group) });
                let other = if group == 0 { GROUP } else { 0 };
                assert!(proved(&verifier, &damaged, &outboard, other..other + 1).is_ok());
            }
            for at in 0..outboard.len() {
                let mut damaged = outboard.clone();
                damaged[at] ^= 1;
                let error = proved(&make(hash, len), &file, &damaged, 0..len).unwrap_err();
                let parent = (at - at % 64) as u64;
                assert!(matches!(error, Mismatch::Parent { at, .. } if at == parent), "{at}: {error}");
            }
        }
    }

    #[test]
    fn what_was_wrong_is_not_kept() {
        let file = bytes(64 * GROUP);
        let (hash, outboard) = outboard(&file);
        let verifier = small(hash, 64 * GROUP);
        let zeros = vec![0; outboard.len()];
        assert!(proved(&verifier, &file, &zeros, 0..5).is_err());
        assert!(proved(&verifier, &file, &outboard, 0..64 * GROUP).is_ok());
        assert!(
            proved(&verifier, &file, &zeros, 63 * GROUP..64 * GROUP).is_ok(),
            "nothing more is asked for"
        );
    }

    #[test]
    fn another_length_does_not_pass() {
        let file = bytes(9 * GROUP);
        let (hash, good) = outboard(&file);
        for len in [0, 1, 8 * GROUP, 9 * GROUP - 1] {
            let verifier = Verifier::new(hash, len);
            let cut = &good[..index(verifier.shape().outboard_len())];
            let range = len.saturating_sub(1)..len;
            if len > 0 {
                assert!(proved(&verifier, &file[..index(len)], cut, range).is_err(), "{len}");
            }
        }
        let error = Verifier::new(hash, 9 * GROUP + 1).check_len(good.len() as u64).unwrap_err();
        assert_eq!(error, Mismatch::OutboardLen { found: 8 * 64, expected: 9 * 64 });
        // The walk also works with a length that no file has, and needs bytes that the outboard does not
        // have.
        let verifier = Verifier::new(hash, u64::MAX);
        let mut walk = verifier.walk(u64::MAX - 1);
        let need = walk.need().unwrap();
        assert!(need.end - need.start <= 64 * 64);
        assert!(walk.feed(&[0; 64]).is_err() && walk.feed(&[]).is_err());
    }

    #[test]
    fn groups_are_whole() {
        let file = bytes(9 * GROUP + 5);
        let (hash, outboard) = outboard(&file);
        let verifier = small(hash, 9 * GROUP + 5);
        let mut walk = verifier.walk(5 * GROUP);
        while let Some(need) = walk.need() {
            walk.feed(&outboard[index(need.start)..index(need.end)]).unwrap();
        }
        let page = walk.finish().unwrap();
        assert_eq!((page.range(), page.group()), (4 * GROUP..8 * GROUP, GROUP));
        for (at, len) in
            [(0, GROUP), (4 * GROUP, 5), (4 * GROUP + 1, GROUP), (7 * GROUP, 2 * GROUP), (u64::MAX, 1)]
        {
            let bytes = vec![0; index(len)];
            assert_eq!(page.check(at, &bytes), Err(Mismatch::Groups { at, len }), "{at} {len}");
        }
        assert_eq!(page.check(5 * GROUP, &[]), Ok(()));
    }

    #[test]
    fn a_hash_alone_proves_the_whole() {
        for len in [0, 5, GROUP, 3 * GROUP + 1] {
            let file = bytes(len);
            let page = Page::of_hash(outboard(&file).0, len);
            assert_eq!(page.check(0, &file), Ok(()));
            assert_eq!(page.around(&(0..1)), 0..len);
            let other = Page::of_hash([3; 32], len);
            assert_eq!(other.check(0, &file), Err(Mismatch::Bytes { at: 0, len }));
        }
        assert!(Page::of_hash([0; 32], u64::MAX).check(0, &[1]).is_err());
    }

    proptest! {
        #[test]
        fn a_walk_takes_any_number_of_parents_at_once(
            groups in 1u64..70, at in any::<prop::sample::Index>(), cut in 1usize..9
        ) {
            let len = groups * GROUP - 3;
            let file = bytes(len);
            let (hash, outboard) = outboard(&file);
            let verifier = small(hash, len);
            let at = at.index(index(len)) as u64;
            let mut walk = verifier.walk(at);
            let mut rounds = 0;
            while let Some(need) = walk.need() {
                // A page is fed as a whole; parents above it may be fed one by one.
                let is_page = need.end - need.start <= 3 * 64;
                let most = if is_page && rounds > 50 { 3 * 64 } else { 64 * cut };
                let end = need.end.min(need.start + most as u64);
                if walk.feed(&outboard[index(need.start)..index(end)]).is_err() {
                    walk.feed(&outboard[index(need.start)..index(need.end)]).unwrap();
                }
                rounds += 1;
            }
            let page = walk.finish().unwrap();
            let around = page.around(&(at..at + 1));
            prop_assert_eq!(page.check(around.start, &file[index(around.start)..index(around.end)]), Ok(()));
        }
    }
}
