//! The digests of the tensors of a sealed file, from pieces that are hashed in their order.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use apr2::author::Seal;
use modelfmt_core::Part;
use modelfmt_core::author::{PIECE, Scan};

use crate::error::{Error, Fault, SealFault, malformed};
use crate::seal::{Hash, Section, TRAILER_LEN, digest_of_nodes, hash_of, page_node, pages_of};

/// The stored bytes of the tensors, cut into pieces of whole pages.
pub(super) struct Pieces<'a> {
    section: &'a Section,
    /// The tensors whose bytes are hashed: of those that share them, one.
    tensors: Vec<usize>,
    /// The number of the first piece of each.
    firsts: Vec<u64>,
    count: u64,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(section: &'a Section) -> Self {
        let mut order: Vec<usize> = (0..section.body.extents.len()).collect();
        order.sort_by_key(|&n| section.extent(n).map(|e| (e.offset, e.size, n)));
        let (mut tensors, mut end) = (Vec::new(), 0);
        for number in order {
            let Some(extent) = section.extent(number).filter(|extent| extent.size > 0) else { continue };
            // One that begins inside another shares its bytes, or is a finding of its own: no byte is hashed twice.
            if extent.offset >= end {
                tensors.push(number);
                end = extent.offset.saturating_add(extent.size); // within the file, as the section has checked
            }
        }
        tensors.sort_unstable();
        let mut pieces = Self { section, firsts: Vec::with_capacity(tensors.len()), tensors, count: 0 };
        for &number in &pieces.tensors {
            pieces.firsts.push(pieces.count);
            let size = section.extent(number).map_or(0, |extent| extent.size);
            pieces.count = pieces.count.saturating_add(size.div_ceil(pieces.step(size)));
        }
        pieces
    }

    /// A tensor of one page is hashed at once.
    fn step(&self, size: u64) -> u64 {
        let page = self.section.body.page;
        if size <= page { size.max(1) } else { page.max(PIECE) }
    }

    /// The tensor of a piece, and where the piece begins and ends in what is stored of it.
    fn at(&self, number: u64) -> Option<(usize, Range<u64>)> {
        let nth = self.firsts.partition_point(|&first| first <= number).checked_sub(1)?;
        let (&tensor, &first) = self.tensors.get(nth).zip(self.firsts.get(nth))?;
        let size = self.section.extent(tensor)?.size;
        let begin = number.saturating_sub(first).saturating_mul(self.step(size));
        Some((tensor, begin..size.min(begin.saturating_add(self.step(size)))))
    }
}

/// The hashes of a piece: which tensor it is of, and the nodes over its pages, or its digest if it has one page.
pub(super) type Seen = (usize, Vec<Hash>);

impl Scan for Pieces<'_> {
    type Seen = Seen;
    type Scratch = ();

    fn count(&self) -> u64 {
        self.count
    }

    fn piece(&self, number: u64) -> Range<u64> {
        let Some((tensor, range)) = self.at(number) else { return 0..0 };
        let start = self
            .section
            .data_offset
            .saturating_add(self.section.extent(tensor).map_or(0, |extent| extent.offset));
        start.saturating_add(range.start)..start.saturating_add(range.end)
    }

    fn look(&self, number: u64, bytes: &[u8], (): &mut ()) -> Self::Seen {
        self.look_after(number, bytes, |_| ())
    }
}

impl Pieces<'_> {
    /// Hashes a piece. Before each page of it, `before` is called with the place in the piece where that page ends.
    pub(super) fn look_after(&self, number: u64, bytes: &[u8], mut before: impl FnMut(u64)) -> Seen {
        let Some((tensor, range)) = self.at(number) else { return (usize::MAX, Vec::new()) };
        let page = self.section.body.page;
        let size = self.section.extent(tensor).map_or(0, |extent| extent.size);
        if size <= page {
            before(bytes.len() as u64);
            return (tensor, vec![hash_of(bytes)]);
        }
        let len = usize::try_from(page).unwrap_or(usize::MAX).max(1);
        let mut end = 0_u64;
        let nodes =
            (range.start.checked_div(page).unwrap_or_default()..).zip(bytes.chunks(len)).map(|(n, bytes)| {
                end = end.saturating_add(bytes.len() as u64);
                before(end);
                page_node(page, n, bytes)
            });
        (tensor, nodes.collect())
    }

    /// The pieces in the order of the file.
    pub(super) fn in_order(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..self.count).collect();
        numbers.sort_by_cached_key(|&number| self.piece(number).start);
        numbers
    }
}

/// How far before the footer the trailer has its CRC.
const PREFIX_BEFORE_FOOTER: u64 = 8;

/// The seal of a file in the pass over every byte of it, which hashes the tensors.
pub(super) struct Hashed<'a> {
    section: &'a Section,
    /// The pieces, and their numbers in the order of the file.
    pieces: OnceLock<(Pieces<'a>, Vec<u64>)>,
}

impl<'a> Hashed<'a> {
    pub(super) const fn new(section: &'a Section) -> Self {
        Self { section, pieces: OnceLock::new() }
    }

    fn pieces(&self) -> &(Pieces<'a>, Vec<u64>) {
        self.pieces.get_or_init(|| {
            let pieces = Pieces::new(self.section);
            let order = pieces.in_order();
            (pieces, order)
        })
    }
}

impl Seal for Hashed<'_> {
    type Seen = Seen;

    fn stretches(&self) -> Vec<Range<u64>> {
        let (pieces, order) = self.pieces();
        order.iter().map(|&number| pieces.piece(number)).collect()
    }

    fn look(&self, stretch: usize, bytes: &[u8], before: impl FnMut(u64)) -> Seen {
        let (pieces, order) = self.pieces();
        pieces.look_after(order.get(stretch).copied().unwrap_or(u64::MAX), bytes, before)
    }

    /// The index may be sealed too.
    fn filled(&self) -> Vec<Range<u64>> {
        let start = |offset: u64| self.section.data_offset.saturating_add(offset);
        let extents = self.section.body.extents.iter();
        extents.map(|e| start(e.offset)..start(e.offset).saturating_add(e.size)).collect()
    }

    fn crc_end(&self) -> u64 {
        self.section.trailer.signatures_at()
    }

    /// The CRC in the trailer. That in the footer does not tell whether it is right: it covers the trailer as it stands.
    fn crc_fault(&self, found: u32) -> Option<Error> {
        let trailer = &self.section.trailer;
        let stated = trailer.prefix_crc32;
        let part = Part::new("trailer").with_field("prefix_crc32");
        let at = trailer.end().saturating_add(TRAILER_LEN).saturating_sub(PREFIX_BEFORE_FOOTER);
        let fault = SealFault::Crc(Fault::Crc { found, stated }.to_string());
        (found != stated).then(|| malformed(part, at, fault))
    }
}

/// What is known of the digests of the tensors.
#[derive(Default)]
pub(super) struct Digests {
    /// The nodes of tensors that are not complete yet.
    nodes: HashMap<usize, Vec<Hash>>,
    /// By offset and size.
    digests: HashMap<(u64, u64), Option<Hash>>,
}

impl Digests {
    /// Takes the next piece; those of a tensor come in their order.
    pub(super) fn take(&mut self, section: &Section, (tensor, more): Seen) {
        let Some(extent) = section.extent(tensor) else { return };
        let all = self.nodes.entry(tensor).or_default();
        all.extend(more);
        let expected = pages_of(extent.size, section.body.page).max(1);
        if all.len() as u64 == expected {
            let digest = if expected == 1 { all.first().copied() } else { digest_of_nodes(all) };
            self.digests.insert((extent.offset, extent.size), digest);
            self.nodes.remove(&tensor);
        }
    }

    /// The digest of the bytes at a place; `None` if they were not hashed.
    pub(super) fn of(&self, (offset, size): (u64, u64)) -> Option<Option<Hash>> {
        if size == 0 { Some(Some(hash_of(&[]))) } else { self.digests.get(&(offset, size)).copied() }
    }
}
