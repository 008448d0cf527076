//! The digests of a sealed file's tensors, computed in the pass over all of its bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::sync::OnceLock;

use apr2::author::Seal;
use modelfmt_core::Part;
use modelfmt_core::ledger::{Blake3, Ledger, Spans};

use crate::error::{Error, Fault, SealFault, malformed};
use crate::seal::{Hash, Section, TRAILER_LEN, hash_of};

/// The number of bytes from the start of the CRC in the trailer to the footer.
const PREFIX_BEFORE_FOOTER: u64 = 8;

/// The seal's part in the pass over all bytes of a file: hashes the tensors.
pub(super) struct Hashed<'a> {
    section: &'a Section,
    ledger: OnceLock<Ledger<Blake3, 1>>,
}

impl<'a> Hashed<'a> {
    pub(super) const fn new(section: &'a Section) -> Self {
        Self { section, ledger: OnceLock::new() }
    }

    pub(super) const fn section(&self) -> &'a Section {
        self.section
    }

    /// Returns the digest of a tensor after the pass, or `None` if its bytes were not hashed because it
    /// overlaps another tensor.
    pub(super) fn digest(&self, position: usize) -> Option<Hash> {
        let range = self.stored(position);
        if range.is_empty() { Some(hash_of(&[])) } else { self.ledger().digest(0, &range) }
    }

    /// Returns the range of a tensor's stored bytes. The section has checked that it is inside the file.
    fn stored(&self, position: usize) -> Range<u64> {
        let Some(extent) = self.section.extent(position) else { return 0..0 };
        let start = self.section.data_offset.saturating_add(extent.offset);
        start..start.saturating_add(extent.size)
    }

    fn all_stored(&self) -> impl Iterator<Item = Range<u64>> {
        (0..self.section.body.extents.len()).map(|position| self.stored(position))
    }
}

/// Returns the ranges that are not empty and do not begin inside an earlier one, in ascending order, so that
/// no byte is hashed twice. A range that is left out shares the bytes of another tensor, or is a finding of
/// its own.
fn without_overlaps(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut end = 0;
    ranges.retain(|range| {
        let is_apart = range.start >= end;
        if is_apart {
            end = range.end;
        }
        is_apart
    });
    ranges
}

impl Seal for Hashed<'_> {
    type Kind = Blake3;

    fn ledger(&self) -> &Ledger<Blake3, 1> {
        self.ledger.get_or_init(|| Ledger::new([Spans::Listed(without_overlaps(self.all_stored()))]))
    }

    /// Returns the ranges in the section, because the index may be sealed.
    fn filled(&self) -> Vec<Range<u64>> {
        self.all_stored().collect()
    }

    fn crc_end(&self) -> u64 {
        self.section.trailer.signatures_at()
    }

    /// Checks the CRC in the trailer. The CRC in the footer does not show whether it is right, because it
    /// covers the trailer as it is.
    fn crc_fault(&self, found: u32) -> Option<Error> {
        let trailer = &self.section.trailer;
        let stated = trailer.prefix_crc32;
        let part = Part::new("trailer").with_field("prefix_crc32");
        let at = trailer.end().saturating_add(TRAILER_LEN).saturating_sub(PREFIX_BEFORE_FOOTER);
        let fault = SealFault::Crc(Fault::Crc { found, stated }.to_string());
        (found != stated).then(|| malformed(part, at, fault))
    }
}
