//! One pass over every byte of a file: its CRC, its padding and its LZ4 blocks.

use std::ops::Range;

use crc32fast::Hasher;
use modelfmt_core::{
    Bytes, Execution, Fetch, Part,
    author::{Crc, Cursor, Dealt, Parcel, Scan, with_causes},
};

#[cfg(feature = "sign")]
use super::digests::{Digests, Pieces, Seen};
use crate::blocks::{BLOCK, Compressed};
use crate::error::{Error, Fault, Result, SealFault, malformed};
use crate::index::{Generation, Index, Sealing};
use crate::stored::Stored;
use crate::wire::Footer;

/// The bytes that one thread reads at once. They are looked at again (CRC, blocks) and should still be in its cache then.
const PIECE: u64 = 1 << 20;
/// How far before the footer the trailer of a sealed file has its CRC.
const PREFIX_BEFORE_FOOTER: u64 = 8;
/// Blocks that are decoded from one piece.
const GROUP: u64 = PIECE / BLOCK;

/// What reading every byte of a file showed.
#[derive(Default)]
pub(crate) struct Pass {
    pub(crate) crc: Vec<String>,
    pub(crate) lz4: Vec<String>,
    pub(crate) padding: Vec<String>,
    /// The CRC of everything before the footer.
    pub(crate) seen: Crc,
    /// The CRC of everything before the signatures of a sealed file.
    prefix: u32,
    /// The CRC of the whole file, if all of it could be read.
    pub(crate) whole: Option<Crc>,
    /// LZ4 blocks that were decoded.
    pub(crate) blocks: u64,
    /// The digests of the tensors of a sealed file, if the pass has hashed them.
    #[cfg(feature = "sign")]
    pub(super) digests: Option<Digests>,
}

/// Reads the file once, on as many threads as `work` says.
pub(super) async fn run(index: &Index, source: &impl Fetch, work: &Execution<'_>) -> Pass {
    let mut pass = Pass::default();
    let plan = Plan::new(index, source, &mut pass).await;
    let prefix_end = prefix_of(index).map(|(end, _)| end);
    #[cfg(feature = "sign")]
    let (mut digests, hashes_all) = (Digests::default(), plan.pieces.is_some());
    let take = |piece: Piece| {
        pass.seen = pass.seen.then(piece.crc);
        if prefix_end.is_some_and(|end| pass.seen.len <= end) {
            pass.prefix = pass.seen.value; // a unit ends there
        }
        #[cfg(feature = "sign")]
        if let Some(section) = index.seal.as_deref() {
            piece.hashes.into_iter().for_each(|seen| digests.take(section, seen));
        }
        pass.lz4.extend(piece.lz4);
        pass.padding.extend(piece.padding);
    };
    match source.scan(&Dealt(plan), work, take).await {
        Ok(()) => {
            #[cfg(feature = "sign")]
            if hashes_all {
                pass.digests = Some(digests);
            }
            check_prefix(index, &mut pass);
            check_crc(index, source, &mut pass).await;
        }
        Err(error) => pass.crc.push(with_causes(&Error::from(error))),
    }
    pass
}

/// Where the signatures of a sealed file begin, and the CRC of everything before them that its trailer states.
fn prefix_of(index: &Index) -> Option<(u64, u32)> {
    #[cfg(feature = "sign")]
    return index.seal.as_deref().map(|s| (s.trailer.signatures_at(), s.trailer.prefix_crc32));
    #[cfg(not(feature = "sign"))]
    {
        let _ = index; // no file is known to be sealed
        None
    }
}

/// Compares with the CRC in the trailer of a sealed file. The CRC in the footer does not tell whether it is right: it covers the
/// trailer as it stands.
fn check_prefix(index: &Index, pass: &mut Pass) {
    let Some((_, stated)) = prefix_of(index).filter(|(_, stated)| *stated != pass.prefix) else { return };
    let part = Part::new("trailer").with_field("prefix_crc32");
    let fault = Fault::Crc { found: pass.prefix, stated };
    let at = index.footer_at().saturating_sub(PREFIX_BEFORE_FOOTER);
    pass.crc.push(with_causes(&malformed(part, at, SealFault::Crc(fault.to_string()))));
}

/// Compares with the CRC in the footer, which is read again: the index may be older than the file.
async fn check_crc(index: &Index, source: &impl Fetch, pass: &mut Pass) {
    let (at, end) = (index.footer_at(), source.size());
    let footer = match read(source, at..end).await {
        Ok(footer) => footer,
        Err(error) => return pass.crc.push(with_causes(&error)),
    };
    let mut c = Cursor::new(&footer, at);
    let stated = match index.generation() {
        Generation::Apr2 => Footer::decode(&mut c, end).map(|footer| footer.crc32),
        Generation::Apr1 => c.u32("crc32").map_err(Error::from),
    };
    pass.whole = Some(pass.seen.then(Crc::of(&footer)));
    match stated {
        Ok(stated) if stated == pass.seen.value => {}
        Ok(stated) => {
            let part = Part::new("footer").with_field("crc32");
            let fault = Fault::Crc { found: pass.seen.value, stated };
            pass.crc.push(with_causes(&match index.is_sealed() {
                true => malformed(part, at, SealFault::Crc(fault.to_string())),
                false => malformed(part, at, fault),
            }));
        }
        Err(error) => pass.crc.push(with_causes(&error)),
    }
}

/// Some blocks of a compressed tensor, which are read together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    tensor: usize,
    pub(super) first: u64,
    pub(super) count: u64,
    /// Where they lie in the file, headers included.
    pub(super) range: Range<u64>,
}

/// A stretch of the file that one thread reads.
#[derive(Clone, Debug)]
struct Unit {
    range: Range<u64>,
    /// The groups of blocks within.
    groups: Range<usize>,
    /// The piece of a tensor that it is, where the tensors are hashed too.
    #[cfg(feature = "sign")]
    hashed: Option<u64>,
}

impl Unit {
    /// One that begins there, and is empty yet.
    const fn at(start: u64, next_group: usize) -> Self {
        Self {
            range: start..start,
            groups: next_group..next_group,
            #[cfg(feature = "sign")]
            hashed: None,
        }
    }
}

/// What one unit showed.
struct Piece {
    crc: Crc,
    lz4: Vec<String>,
    padding: Vec<String>,
    /// Of the tensor that it is a part of, if tensors are hashed in this pass: one or none.
    #[cfg(feature = "sign")]
    hashes: Vec<Seen>,
}

impl Parcel for Piece {
    fn put(&self, out: &mut Vec<u8>) {
        self.crc.put(out);
        self.lz4.put(out);
        self.padding.put(out);
        #[cfg(feature = "sign")]
        self.hashes.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self {
            crc: Parcel::take(from)?,
            lz4: Parcel::take(from)?,
            padding: Parcel::take(from)?,
            #[cfg(feature = "sign")]
            hashes: Parcel::take(from)?,
        })
    }
}

/// The file, cut into units.
struct Plan<'a> {
    index: &'a Index,
    units: Vec<Unit>,
    groups: Vec<Group>,
    /// Ascending ranges that must be zero.
    gaps: Vec<Range<u64>>,
    /// The tensors of a sealed file, where one pass sees all of it: none has blocks of LZ4, which are cut elsewhere.
    #[cfg(feature = "sign")]
    pieces: Option<Pieces<'a>>,
}

impl<'a> Plan<'a> {
    /// Cuts the file; walking over the block headers may show faults already.
    async fn new(index: &'a Index, source: &impl Fetch, pass: &mut Pass) -> Self {
        let groups = groups(index, source, pass).await;
        pass.blocks = groups.iter().map(|group| group.count).sum();
        let gaps = gaps(index);
        #[cfg(feature = "sign")]
        let pieces = index.seal.as_deref().filter(|_| groups.is_empty()).map(Pieces::new);
        let mut plan = Self {
            index,
            units: Vec::new(),
            groups,
            gaps,
            #[cfg(feature = "sign")]
            pieces,
        };
        plan.cut(index.footer_at());
        plan
    }

    fn cut(&mut self, end: u64) {
        let mut unit = Unit::at(0, 0);
        for (number, Group { range, .. }) in self.groups.iter().enumerate() {
            stretch(&mut self.units, &mut unit, range.start, number);
            if range.end - unit.range.start > PIECE {
                flush(&mut self.units, &mut unit, number);
            }
            unit.range.end = range.end;
            unit.groups.end = number + 1;
        }
        #[cfg(feature = "sign")]
        if let Some(pieces) = &self.pieces {
            for number in pieces.in_order() {
                let range = pieces.piece(number);
                stretch(&mut self.units, &mut unit, range.start, 0);
                flush(&mut self.units, &mut unit, 0);
                self.units.push(Unit { range: range.clone(), groups: 0..0, hashed: Some(number) });
                unit = Unit::at(range.end, 0);
            }
        }
        if let Some((prefix_end, _)) = prefix_of(self.index) {
            stretch(&mut self.units, &mut unit, prefix_end.min(end), self.groups.len());
            flush(&mut self.units, &mut unit, self.groups.len());
        }
        stretch(&mut self.units, &mut unit, end, self.groups.len());
        flush(&mut self.units, &mut unit, self.groups.len());
    }

    fn unit(&self, number: u64) -> Option<&Unit> {
        self.units.get(usize::try_from(number).ok()?)
    }

    /// Gaps are zero.
    fn check_gaps(&self, start: u64, bytes: &[u8], found: &mut Vec<String>) {
        let end = start + bytes.len() as u64;
        let first = self.gaps.partition_point(|gap| gap.end <= start);
        for gap in self.gaps.get(first..).unwrap_or_default() {
            if gap.start >= end {
                break;
            }
            let here = gap.start.max(start)..gap.end.min(end);
            let filled = part(bytes, start, &here).iter().position(|&byte| byte != 0);
            if let Some(at) = filled {
                let at = here.start + at as u64;
                found.push(match self.index.is_sealed() {
                    true => format!("padding at byte {at}: {}", SealFault::Gap(at)),
                    false => format!("padding at byte {at}: is not zero"),
                });
            }
        }
    }
}

impl Scan for Plan<'_> {
    type Seen = Piece;
    /// Where blocks are decoded to.
    type Scratch = Vec<u8>;

    fn count(&self) -> u64 {
        self.units.len() as u64
    }

    fn piece(&self, number: u64) -> Range<u64> {
        self.unit(number).map_or(0..0, |unit| unit.range.clone())
    }

    fn look(&self, number: u64, bytes: &[u8], scratch: &mut Vec<u8>) -> Piece {
        let mut piece = Piece {
            #[cfg(feature = "sign")]
            hashes: Vec::new(),
            crc: Crc::default(),
            lz4: Vec::new(),
            padding: Vec::new(),
        };
        let Some(Unit { range: Range { start, end }, groups, .. }) = self.unit(number).cloned() else {
            return piece;
        };
        #[cfg(feature = "sign")]
        if let Some((pieces, number)) =
            self.pieces.as_ref().zip(self.unit(number).and_then(|unit| unit.hashed))
        {
            piece.hashes.push(pieces.look(number, bytes, &mut ()));
        }
        self.check_gaps(start, bytes, &mut piece.padding);
        let mut crc = Running { bytes, start, seen: start, hasher: Hasher::new() };
        for group in self.groups.get(groups).unwrap_or_default() {
            let Some(tensor) = compressed(self.index, group.tensor) else { continue };
            let blocks = part(bytes, start, &group.range);
            let count = (group.first, group.count);
            let faults = tensor.check(blocks, count, group.range.start, scratch, |end| crc.go_on(end));
            piece.lz4.extend(faults.iter().map(|error| with_causes(error)));
        }
        crc.go_on(end);
        piece.crc = Crc { value: crc.hasher.finalize(), len: end - start };
        piece
    }
}

/// The CRC of a unit, as far as it has been computed.
struct Running<'b> {
    bytes: &'b [u8],
    /// Where they begin in the file.
    start: u64,
    /// Where what has been seen of them ends.
    seen: u64,
    hasher: Hasher,
}

impl Running<'_> {
    fn go_on(&mut self, to: u64) {
        self.hasher.update(part(self.bytes, self.start, &(self.seen..to.max(self.seen))));
        self.seen = to.max(self.seen);
    }
}

/// Goes on to byte `to`, in units of at most a piece.
fn stretch(units: &mut Vec<Unit>, unit: &mut Unit, to: u64, next_group: usize) {
    while to > unit.range.end {
        let room = PIECE.saturating_sub(unit.range.end - unit.range.start);
        unit.range.end = to.min(unit.range.end + room);
        if room == 0 || to > unit.range.end {
            flush(units, unit, next_group);
        }
    }
}

/// Ends a unit, and begins the next where it ends.
fn flush(units: &mut Vec<Unit>, unit: &mut Unit, next_group: usize) {
    let end = unit.range.end;
    let next = Unit::at(end, next_group);
    let done = std::mem::replace(unit, next);
    if done.range.start < done.range.end {
        units.push(done);
    }
}

/// The groups of blocks of the compressed tensors, ascending. A tensor whose headers are broken is a finding and has none.
///
/// Every byte belongs to one of them at most: tied tensors are decoded once, and one that begins inside another is a finding of
/// its own (`extents`). So a hostile index cannot have the same bytes decoded a million times.
async fn groups(index: &Index, source: &impl Fetch, pass: &mut Pass) -> Vec<Group> {
    // What is encrypted has no blocks to look at before it is decrypted.
    let is_clear = !matches!(index.tensors.sealing, Sealing::Encrypted(_));
    let compressed_only = |(_, stored): &(usize, Stored)| stored.compressed && is_clear;
    let mut tensors: Vec<_> = index.tensors.all_stored().enumerate().filter(compressed_only).collect();
    tensors.sort_by_key(|(_, stored)| (stored.offset, stored.len));
    let mut all = Vec::new();
    let mut last: Option<Stored> = None;
    for (number, stored) in tensors {
        if let Some(last) = last.filter(|last| stored.offset < last.end()) {
            if (stored.offset, stored.len) == (last.offset, last.len) && stored.nbytes != last.nbytes {
                let fault = Fault::TiedSize { found: stored.nbytes, expected: last.nbytes };
                pass.lz4
                    .extend(compressed(index, number).map(|t| with_causes(&t.fault(stored.offset, fault))));
            }
            continue;
        }
        last = Some(stored);
        if let Some(tensor) = compressed(index, number) {
            match groups_of(&tensor, source).await {
                Ok(groups) => all.extend(groups),
                Err(error) => pass.lz4.push(with_causes(&error)),
            }
        }
    }
    all
}

/// The groups of one tensor, from a walk over its block headers.
pub(super) async fn groups_of(tensor: &Compressed<'_>, source: &impl Fetch) -> Result<Vec<Group>> {
    let (mut groups, count) = (Vec::new(), tensor.count());
    let see = |block: u64, at| {
        if block.is_multiple_of(GROUP) {
            let count = GROUP.min(count - block);
            groups.push(Group { tensor: tensor.number, first: block, count, range: at..at });
        }
    };
    let mut next = tensor.walk(source, 0, tensor.stored.offset, count, see).await?;
    // Each ends where the next one begins.
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

/// The bytes between sections and between tensors, in ascending order.
fn gaps(index: &Index) -> Vec<Range<u64>> {
    if index.generation() == Generation::Apr1 {
        return Vec::new();
    }
    let sections = index.sections();
    let mut gaps =
        vec![sections.metadata.end()..sections.index.offset(), sections.index.end()..sections.data.offset()];
    let within = |offset: u64, end: u64| offset.min(sections.data.end())..end.min(sections.data.end());
    let ranges = index.tensors.all_stored().map(|stored| within(stored.offset, stored.end()));
    let mut ranges: Vec<_> = ranges.collect();
    #[cfg(feature = "sign")]
    if let Some(section) = &index.seal {
        // The index may be sealed too.
        let start = |offset: u64| sections.data.offset().saturating_add(offset);
        let extents = section.body.extents.iter();
        ranges.extend(extents.map(|e| within(start(e.offset), start(e.offset).saturating_add(e.size))));
    }
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

/// The bytes of `range` out of those that begin at byte `start`.
fn part<'b>(bytes: &'b [u8], start: u64, range: &Range<u64>) -> &'b [u8] {
    let cut = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let skip = cut(range.start.saturating_sub(start));
    bytes.get(skip..).and_then(|rest| rest.get(..cut(range.end - range.start))).unwrap_or_default()
}

async fn read<S: Fetch>(source: &S, range: Range<u64>) -> Result<Bytes<'_>> {
    let (at, len) = (range.start, range.end.saturating_sub(range.start));
    source.fetch(range).await.map_err(|source| Error::Io { at, len, source })
}
