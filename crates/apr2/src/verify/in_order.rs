//! The pass over a file with LZ4 blocks that several processes share, such as the workers of a web page.
//!
//! The threads of one process find the offsets of all blocks before they decode them. If several processes
//! share a file, each of them would have to find all these offsets, and each block header may be a slow read.
//! So each process takes whole tensors and reads them once, in order.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use crc32fast::Hasher;
use modelfmt_core::{
    AlignedBuf, Execution, Fetch,
    author::{Crc, Scan as _, ScanError, each_step, with_causes},
    ledger,
    source::Share,
};

use super::plan::{PIECE, Piece, Plan};
use super::seal::Seal;
use crate::blocks::Compressed;
use crate::error::{Error, Fault};

/// Scans the units of a plan whose groups are whole tensors, and passes the result of each to `take`, in order.
pub(super) async fn scan<L: Seal>(
    plan: &Plan<'_, L>,
    share: &Share,
    source: &impl Fetch,
    work: &Execution<'_>,
    mut take: impl FnMut(Piece<L::Kind>),
) -> Result<(), ScanError> {
    let sizes: Vec<u64> = (0..plan.count()).map(|unit| len_of(&plan.piece(unit))).collect();
    let mut window = Window {
        source,
        work,
        plan,
        bytes: AlignedBuf::default(),
        seen: Seen::default(),
        digests: None,
        end: 0,
    };
    let (mut scratch, mut has_failed) = (Vec::new(), false);
    let one = async |number: usize| {
        // Only the first error is reported.
        if has_failed {
            return Err(ScanError::Cancelled);
        }
        let piece = look(&mut window, number, &mut scratch).await;
        has_failed = piece.is_err();
        piece
    };
    for piece in each_step(Some(share), &sizes, one).await.into_iter().flatten() {
        take(piece?);
    }
    Ok(())
}

/// Scans one unit.
async fn look<L: Seal>(
    window: &mut Window<'_, impl Fetch, L>,
    number: usize,
    scratch: &mut Vec<u8>,
) -> Result<Piece<L::Kind>, ScanError> {
    let range = window.plan.piece(number as u64);
    let len = len_of(&range);
    window.begin(range);
    let mut piece = Piece::default();
    for tensor in window.plan.tensors_in(number) {
        while window.read_end() < tensor.stored.offset {
            window.more(window.read_end(), &mut piece).await?;
        }
        check(window, &tensor, scratch, &mut piece).await?;
    }
    while window.more(window.read_end(), &mut piece).await? {}
    piece.crc = Crc { value: std::mem::take(&mut window.seen.crc).finalize(), len };
    piece.hashed = window.digests.take().map(ledger::Hasher::finish).unwrap_or_default();
    Ok(piece)
}

const fn len_of(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Decodes the blocks of a tensor in order. If a block header is broken, the tensor has no other findings.
async fn check<L: Seal>(
    window: &mut Window<'_, impl Fetch, L>,
    tensor: &Compressed<'_>,
    scratch: &mut Vec<u8>,
    piece: &mut Piece<L::Kind>,
) -> Result<(), ScanError> {
    let (mut at, mut block, mut faults) = (tensor.stored.offset, 0, Vec::new());
    let walked: Result<(), Error> = loop {
        let Window { bytes, seen, .. } = &mut *window;
        let here = bytes.get(seen.index(at)..).unwrap_or_default();
        let left = (block, tensor.count().saturating_sub(block));
        match tensor.check_some(here, left, at, scratch, |end| seen.go_on(bytes, end)) {
            Ok(checked) => {
                faults.extend(checked.faults.iter().map(|error| with_causes(error)));
                (at, block) = (checked.at, checked.next);
            }
            Err(error) => break Err(error),
        }
        if block == tensor.count() {
            break Ok(());
        }
        if !window.more(at, piece).await? {
            break Err(tensor.fault(at, Fault::MissingBlocks { block, blocks: tensor.count() }));
        }
    };
    match walked {
        Ok(()) => {
            piece.blocks = piece.blocks.saturating_add(block);
            piece.lz4.append(&mut faults);
        }
        Err(error) => piece.walk.push(with_causes(&error)),
    }
    Ok(())
}

/// A part of a unit's bytes, which moves forward through the unit.
struct Window<'a, S, L: Seal> {
    source: &'a S,
    work: &'a Execution<'a>,
    plan: &'a Plan<'a, L>,
    bytes: AlignedBuf,
    seen: Seen,
    /// Computes the digests that the seal needs, if there is a seal.
    digests: Option<ledger::Hasher<'a, L::Kind, 1>>,
    /// The end of the unit.
    end: u64,
}

/// The CRC of the part of a unit that has been read.
#[derive(Default)]
struct Seen {
    /// The offset in the file of the first byte in memory.
    start: u64,
    /// The end of the bytes that the CRC covers so far.
    to: u64,
    crc: Hasher,
}

impl Seen {
    fn index(&self, at: u64) -> usize {
        usize::try_from(at.saturating_sub(self.start)).unwrap_or(usize::MAX)
    }

    fn go_on(&mut self, bytes: &[u8], to: u64) {
        let new = self.index(self.to)..self.index(to.max(self.to));
        self.crc.update(bytes.get(new).unwrap_or_default());
        self.to = to.max(self.to);
    }
}

impl<S: Fetch, L: Seal> Window<'_, S, L> {
    fn begin(&mut self, unit: Range<u64>) {
        self.digests = self.plan.digests(unit.start);
        self.seen = Seen { start: unit.start, to: unit.start, crc: Hasher::new() };
        self.end = unit.end;
        // This only shrinks the buffer, so it cannot fail for lack of memory.
        let _ = self.bytes.resize(0);
    }

    /// Returns the end of the bytes in memory.
    fn read_end(&self) -> u64 {
        self.seen.start.saturating_add(self.bytes.as_slice().len() as u64)
    }

    /// Drops the bytes before `from` and reads more. Returns false at the end of the unit.
    async fn more(&mut self, from: u64, piece: &mut Piece<L::Kind>) -> Result<bool, ScanError> {
        self.seen.go_on(&self.bytes, from);
        let (at, kept) = (self.read_end(), self.seen.index(from)..self.bytes.as_slice().len());
        let len = PIECE.min(self.end.saturating_sub(at));
        if len == 0 {
            return Ok(false);
        }
        let old = kept.len();
        self.bytes.copy_within(kept, 0);
        self.seen.start = from;
        let failed = |source| ScanError::Io { at, len, source };
        let out_of_memory = |_| failed(std::io::ErrorKind::OutOfMemory.into());
        self.bytes
            .resize(old.saturating_add(usize::try_from(len).unwrap_or(usize::MAX)))
            .map_err(out_of_memory)?;
        let new = self.bytes.get_mut(old..).unwrap_or_default();
        self.source.fetch_into(at, new).await.map_err(failed)?;
        let new = self.bytes.get(old..).unwrap_or_default();
        self.plan.check_gaps(at, new, &mut piece.padding);
        if let Some(digests) = &mut self.digests {
            digests.update(new);
        }
        if self.work.advance(len).is_break() { Err(ScanError::Cancelled) } else { Ok(true) }
    }
}
