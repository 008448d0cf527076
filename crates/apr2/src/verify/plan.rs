//! Cuts a file into units for the pass over every byte, and computes the result of each unit.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use crc32fast::Hasher;
use modelfmt_core::{
    Fetch,
    author::{self, Crc, Parcel, Scan, with_causes},
    ledger::{self, DigestKind, PieceDigests},
};

use super::seal::Seal;
use crate::blocks::{BLOCK, Compressed};
use crate::error::{Fault, Result, SealFault};
use crate::index::{Generation, Index};
use crate::stored::Stored;

/// The number of bytes that a thread reads at once. They are scanned twice (CRC, blocks) and should still be
/// in the cache for the second scan.
pub(super) const PIECE: u64 = 1 << 20;
/// The same number for a sealed file, whose bytes are scanned once more.
const SEALED_PIECE: u64 = author::PIECE;
/// The number of blocks that one piece decodes to.
const GROUP: u64 = PIECE / BLOCK;

/// Some blocks of a compressed tensor that are read together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    tensor: usize,
    pub(super) first: u64,
    pub(super) count: u64,
    /// Their range in the file, with their headers.
    pub(super) range: Range<u64>,
}

impl Group {
    /// Creates a group of all blocks of a tensor.
    fn whole(tensor: &Compressed<'_>) -> Self {
        let range = tensor.stored.offset..tensor.stored.end();
        Self { tensor: tensor.number, first: 0, count: tensor.count(), range }
    }
}

/// A range of the file that one thread reads.
#[derive(Clone, Debug)]
struct Unit {
    range: Range<u64>,
    /// The groups of blocks in the range.
    groups: Range<usize>,
}

impl Unit {
    /// Creates an empty unit that begins at `start`.
    const fn at(start: u64, next_group: usize) -> Self {
        Self { range: start..start, groups: next_group..next_group }
    }
}

/// The result of one unit.
pub(super) struct Piece<K: DigestKind> {
    pub(super) crc: Crc,
    /// Faults in block headers, unless these were checked before.
    pub(super) walk: Vec<String>,
    /// Faults in the data of blocks.
    pub(super) lz4: Vec<String>,
    pub(super) padding: Vec<String>,
    /// The number of blocks that were decoded.
    pub(super) blocks: u64,
    /// The digests of the seal, to the extent that this unit determines them.
    pub(super) hashed: PieceDigests<K>,
}

impl<K: DigestKind> Default for Piece<K> {
    fn default() -> Self {
        Self {
            crc: Crc::default(),
            walk: Vec::new(),
            lz4: Vec::new(),
            padding: Vec::new(),
            blocks: 0,
            hashed: PieceDigests::default(),
        }
    }
}

impl<K: DigestKind<Digest: Parcel, Run: Parcel>> Parcel for Piece<K> {
    fn put(&self, out: &mut Vec<u8>) {
        self.crc.put(out);
        self.walk.put(out);
        self.lz4.put(out);
        self.padding.put(out);
        self.blocks.put(out);
        self.hashed.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self {
            crc: Parcel::take(from)?,
            walk: Parcel::take(from)?,
            lz4: Parcel::take(from)?,
            padding: Parcel::take(from)?,
            blocks: Parcel::take(from)?,
            hashed: Parcel::take(from)?,
        })
    }
}

/// A file, cut into units.
pub(super) struct Plan<'a, S: Seal> {
    index: &'a Index,
    seal: Option<&'a S>,
    /// Faults in LZ4 blocks that were found while cutting.
    pub(super) found: Vec<String>,
    units: Vec<Unit>,
    pub(super) groups: Vec<Group>,
    /// The ranges that must be zero, ascending.
    gaps: Vec<Range<u64>>,
    /// The greatest length of a unit, unless it is a single group of blocks.
    most: u64,
}

impl<'a, S: Seal> Plan<'a, S> {
    /// Cuts the file into units. Walking over the block headers may already find faults. If several processes
    /// share the file, each takes whole tensors.
    pub(super) async fn new(index: &'a Index, seal: Option<&'a S>, source: &impl Fetch) -> Self {
        let mut found = Vec::new();
        let tensors = compressed_tensors(index, &mut found);
        let groups = match source.part_of_job() {
            Some(_) => tensors.iter().map(Group::whole).collect(),
            None => groups(&tensors, source, &mut found).await,
        };
        let gaps = gaps(index, seal.map(Seal::filled).unwrap_or_default());
        let most = if seal.is_some() { SEALED_PIECE } else { PIECE };
        let mut plan = Self { index, seal, found, units: Vec::new(), groups, gaps, most };
        plan.divide(index.footer_at());
        plan
    }

    fn divide(&mut self, end: u64) {
        let (mut units, mut unit) = (Vec::new(), Unit::at(0, 0));
        for (range, group) in self.kept_whole() {
            self.stretch(&mut units, &mut unit, range.start);
            if range.end.saturating_sub(unit.range.start) > self.most {
                flush(&mut units, &mut unit);
            }
            if let Some(group) = group {
                unit.range.end = range.end;
                unit.groups.end = group.saturating_add(1);
            }
        }
        if let Some(seal) = self.seal {
            self.stretch(&mut units, &mut unit, seal.crc_end().min(end));
            flush(&mut units, &mut unit);
        }
        self.stretch(&mut units, &mut unit, end);
        flush(&mut units, &mut unit);
        self.units = units;
    }

    /// Returns the ranges that should not be split between units: groups of blocks, each with its number, and
    /// the ranges of the seal's digests. A range that is too long for one unit begins a unit of its own,
    /// because BLAKE3 is fastest over pieces that match its subtrees.
    fn kept_whole(&self) -> Vec<(Range<u64>, Option<usize>)> {
        let groups =
            self.groups.iter().enumerate().map(|(number, group)| (group.range.clone(), Some(number)));
        let mut all: Vec<_> = groups.collect();
        if let Some(seal) = self.seal {
            all.extend(seal.ledger().ranges(0).map(|range| (range, None)));
            all.sort_unstable_by_key(|(range, group)| (range.start, *group));
        }
        all
    }

    /// Extends the unit to byte `to`, and starts new units so that no unit is longer than `most`.
    fn stretch(&self, units: &mut Vec<Unit>, unit: &mut Unit, to: u64) {
        while to > unit.range.end {
            let room = self.most.saturating_sub(unit.range.end.saturating_sub(unit.range.start));
            unit.range.end = to.min(unit.range.end.saturating_add(room));
            if room == 0 || to > unit.range.end {
                flush(units, unit);
            }
        }
    }

    /// Returns a hasher for the seal's digests from byte `at` on, if there is a seal.
    pub(super) fn digests(&self, at: u64) -> Option<ledger::Hasher<'a, S::Kind, 1>> {
        self.seal.map(|seal| seal.ledger().hasher(at))
    }

    /// Returns the compressed tensors in a unit, in order. Groups must be whole tensors.
    pub(super) fn tensors_in(&self, unit: usize) -> impl Iterator<Item = Compressed<'a>> {
        let groups = self.units.get(unit).and_then(|unit| self.groups.get(unit.groups.clone()));
        groups.unwrap_or_default().iter().filter_map(|group| compressed(self.index, group.tensor))
    }

    fn unit(&self, number: u64) -> Option<&Unit> {
        self.units.get(usize::try_from(number).ok()?)
    }

    /// Checks that the gaps are zero. `bytes` begin at byte `start` of the file.
    pub(super) fn check_gaps(&self, start: u64, bytes: &[u8], found: &mut Vec<String>) {
        let end = start.saturating_add(bytes.len() as u64);
        let first = self.gaps.partition_point(|gap| gap.end <= start);
        for gap in self.gaps.get(first..).unwrap_or_default() {
            if gap.start >= end {
                break;
            }
            let here = gap.start.max(start)..gap.end.min(end);
            let filled = part(bytes, start, &here).iter().position(|&byte| byte != 0);
            if let Some(at) = filled {
                let at = here.start.saturating_add(at as u64);
                found.push(match self.seal.is_some() {
                    true => format!("padding at byte {at}: {}", SealFault::Gap(at)),
                    false => format!("padding at byte {at}: is not zero"),
                });
            }
        }
    }
}

impl<S: Seal> Scan for Plan<'_, S> {
    type Seen = Piece<S::Kind>;
    /// The buffer that blocks are decoded into.
    type Scratch = Vec<u8>;

    fn count(&self) -> u64 {
        self.units.len() as u64
    }

    fn piece(&self, number: u64) -> Range<u64> {
        self.unit(number).map_or(0..0, |unit| unit.range.clone())
    }

    fn look(&self, number: u64, bytes: &[u8], scratch: &mut Vec<u8>) -> Piece<S::Kind> {
        let mut piece = Piece::default();
        let Some(Unit { range: Range { start, end }, groups }) = self.unit(number).cloned() else {
            return piece;
        };
        self.check_gaps(start, bytes, &mut piece.padding);
        let mut crc = Running { bytes, start, seen: start, hasher: Hasher::new() };
        if let Some(mut digests) = self.digests(start) {
            // The CRC reads the bytes sequentially, so the processor can prefetch them. BLAKE3 reads several
            // places at once, so it runs second, when the bytes are in the cache.
            digests.update_after(bytes, |end| crc.go_on(end));
            piece.hashed = digests.finish();
        }
        for group in self.groups.get(groups).unwrap_or_default() {
            let Some(tensor) = compressed(self.index, group.tensor) else { continue };
            let blocks = part(bytes, start, &group.range);
            let count = (group.first, group.count);
            let faults = tensor.check(blocks, count, group.range.start, scratch, |end| crc.go_on(end));
            piece.lz4.extend(faults.iter().map(|error| with_causes(error)));
            piece.blocks = piece.blocks.saturating_add(group.count);
        }
        crc.go_on(end);
        piece.crc = Crc { value: crc.hasher.finalize(), len: end.saturating_sub(start) };
        piece
    }
}

/// The CRC of the part of a unit that has been read.
struct Running<'b> {
    bytes: &'b [u8],
    /// The offset of the bytes in the file.
    start: u64,
    /// The end of the bytes that the CRC covers so far.
    seen: u64,
    hasher: Hasher,
}

impl Running<'_> {
    fn go_on(&mut self, to: u64) {
        self.hasher.update(part(self.bytes, self.start, &(self.seen..to.max(self.seen))));
        self.seen = to.max(self.seen);
    }
}

/// Ends a unit and begins the next one at its end.
fn flush(units: &mut Vec<Unit>, unit: &mut Unit) {
    let next = Unit::at(unit.range.end, unit.groups.end);
    let done = std::mem::replace(unit, next);
    if done.range.start < done.range.end {
        units.push(done);
    }
}

/// Returns the compressed tensors, in file order.
///
/// Every byte belongs to at most one of them: tied tensors are decoded once, and `extents` reports a tensor
/// that begins inside another one. So a hostile index cannot have the same bytes decoded a million times.
fn compressed_tensors<'a>(index: &'a Index, found: &mut Vec<String>) -> Vec<Compressed<'a>> {
    // The blocks of encrypted tensors cannot be checked before decryption.
    let is_clear = !index.is_encrypted();
    let compressed_only = |(_, stored): &(usize, Stored)| stored.compressed && is_clear;
    let mut tensors: Vec<_> = index.tensors.all_stored().enumerate().filter(compressed_only).collect();
    tensors.sort_by_key(|(_, stored)| (stored.offset, stored.len));
    let mut all = Vec::new();
    let mut last: Option<Stored> = None;
    for (number, stored) in tensors {
        let Some(tensor) = compressed(index, number) else { continue };
        if let Some(last) = last.filter(|last| stored.offset < last.end()) {
            if (stored.offset, stored.len) == (last.offset, last.len) && stored.nbytes != last.nbytes {
                let fault = Fault::TiedSize { found: stored.nbytes, expected: last.nbytes };
                found.push(with_causes(&tensor.fault(stored.offset, fault)));
            }
            continue;
        }
        last = Some(stored);
        all.push(tensor);
    }
    all
}

/// Returns the groups of blocks of the tensors. A tensor with broken block headers adds a finding and no
/// groups.
async fn groups(tensors: &[Compressed<'_>], source: &impl Fetch, found: &mut Vec<String>) -> Vec<Group> {
    let mut all = Vec::new();
    for tensor in tensors {
        match groups_of(tensor, source).await {
            Ok(groups) => all.extend(groups),
            Err(error) => found.push(with_causes(&error)),
        }
    }
    all
}

/// Returns the groups of one tensor, from a walk over its block headers.
pub(super) async fn groups_of(tensor: &Compressed<'_>, source: &impl Fetch) -> Result<Vec<Group>> {
    let (mut groups, count) = (Vec::new(), tensor.count());
    let see = |block: u64, at| {
        if block.is_multiple_of(GROUP) {
            let count = GROUP.min(count.saturating_sub(block));
            groups.push(Group { tensor: tensor.number, first: block, count, range: at..at });
        }
    };
    let mut next = tensor.walk(source, 0, tensor.stored.offset, count, see).await?;
    // Each group ends where the next one begins.
    for group in groups.iter_mut().rev() {
        group.range.end = next;
        next = group.range.start;
    }
    Ok(groups)
}

fn compressed(index: &Index, number: usize) -> Option<Compressed<'_>> {
    let (info, stored) = index.tensors().info(number).zip(index.tensors.stored(number))?;
    Some(Compressed { number, name: info.name, stored })
}

/// Returns the ranges between sections and between tensors, in ascending order.
fn gaps(index: &Index, filled: Vec<Range<u64>>) -> Vec<Range<u64>> {
    if index.generation() == Generation::Apr1 {
        return Vec::new();
    }
    let sections = index.sections();
    let mut gaps =
        vec![sections.metadata.end()..sections.index.offset(), sections.index.end()..sections.data.offset()];
    let within = |offset: u64, end: u64| offset.min(sections.data.end())..end.min(sections.data.end());
    let ranges = index.tensors.all_stored().map(|stored| within(stored.offset, stored.end()));
    let mut ranges: Vec<_> = ranges.collect();
    ranges.extend(filled.into_iter().map(|range| within(range.start, range.end)));
    ranges.sort_unstable_by_key(|range| range.start);
    let mut end = sections.data.offset();
    for range in ranges {
        if range.start > end {
            gaps.push(end..range.start);
        }
        end = end.max(range.end);
    }
    gaps.push(end..sections.data.end());
    gaps.retain(|gap| gap.start < gap.end);
    gaps
}

/// Returns the bytes of `range` from bytes that begin at byte `start` of the file.
fn part<'b>(bytes: &'b [u8], start: u64, range: &Range<u64>) -> &'b [u8] {
    let to_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let skip = to_usize(range.start.saturating_sub(start));
    bytes
        .get(skip..)
        .and_then(|rest| rest.get(..to_usize(range.end.saturating_sub(range.start))))
        .unwrap_or_default()
}
