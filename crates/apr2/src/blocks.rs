//! LZ4 blocks: their places in the file, and how to decode them (APR2 2.0, "Compression") (docs/formats/apr2.md#compression).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use modelfmt_core::{AlignedBuf, Bytes, Execution, Fetch, author::PIECE};

use crate::error::{Error, Fault, Result, malformed};
use crate::stored::Stored;
use crate::wire;

/// The number of bytes that every block expands to, except for the last one of a tensor.
pub(crate) const BLOCK: u64 = 64 << 10;
/// The length of the stored size before each block.
pub(crate) const BLOCK_HEADER: u64 = 4;
/// The length of the longest block that expands to 65,536 bytes. Literals cost one extra byte in 255, plus a
/// few at the end.
pub(crate) const MAX_BLOCK: u64 = BLOCK + BLOCK / 255 + 16;
/// The number of blocks that a thread decodes at a time. Together they expand to one piece of values. Offsets
/// are remembered once per this many blocks.
pub(crate) const GROUP: u64 = PIECE / BLOCK;
/// The minimum number of bytes per read if the end of a block is not known.
const MIN_READ: u64 = 16 << 10;
/// From this many bytes on, several threads decode blocks.
const PARALLEL: u64 = 1 << 20;

/// A compressed tensor.
#[derive(Clone, Copy)]
pub(crate) struct Compressed<'a> {
    pub(crate) number: usize,
    pub(crate) name: &'a str,
    pub(crate) stored: Stored,
}

impl Compressed<'_> {
    /// Returns the number of blocks.
    pub(crate) const fn count(&self) -> u64 {
        self.stored.nbytes.div_ceil(BLOCK)
    }

    /// Returns the number of bytes that a block expands to.
    fn expanded(&self, block: u64) -> u64 {
        BLOCK.min(self.stored.nbytes.saturating_sub(block.saturating_mul(BLOCK)))
    }

    pub(crate) fn fault(&self, at: u64, fault: Fault) -> Error {
        malformed(wire::entry_part(self.number, self.name), at, fault)
    }

    /// Checks what a block header claims, and returns the offset of the next block. `block` begins at `at`.
    fn next(&self, block: u64, at: u64, header: [u8; 4]) -> Result<u64> {
        let len = u64::from(u32::from_le_bytes(header));
        let max = MAX_BLOCK.min(self.stored.end().saturating_sub(at.saturating_add(BLOCK_HEADER)));
        if len == 0 || len > max {
            return Err(self.fault(at, Fault::BlockLen { block, len, max }));
        }
        Ok(at.saturating_add(BLOCK_HEADER).saturating_add(len))
    }

    /// Fails if the header of a block at `at` does not fit in the stored bytes.
    fn room_for_header(&self, block: u64, at: u64) -> Result<()> {
        if at.saturating_add(BLOCK_HEADER) > self.stored.end() {
            return Err(self.fault(at, Fault::MissingBlocks { block, blocks: self.count() }));
        }
        Ok(())
    }

    /// Fails if bytes follow the last block.
    fn check_end(&self, block: u64, at: u64) -> Result<()> {
        if block == self.count() && at != self.stored.end() {
            return Err(self.fault(at, Fault::TrailingBlocks(self.stored.end().saturating_sub(at))));
        }
        Ok(())
    }

    /// Walks over the block headers from `block`, which begins at `at`, up to `until`. Calls `see` with the
    /// offset of each block, and returns the end of the last one.
    pub(crate) async fn walk(
        &self,
        source: &impl Fetch,
        mut block: u64,
        mut at: u64,
        until: u64,
        mut see: impl FnMut(u64, u64),
    ) -> Result<u64> {
        while block < until {
            see(block, at);
            self.room_for_header(block, at)?;
            let mut header = [0; 4];
            source.fetch_into(at, &mut header).await.map_err(|source| Error::Io {
                at,
                len: BLOCK_HEADER,
                source,
            })?;
            at = self.next(block, at, header)?;
            block = block.saturating_add(1);
        }
        self.check_end(block, at)?;
        Ok(at)
    }

    /// Splits bytes into `count` blocks, or fewer if the bytes end earlier. The bytes begin at the header of
    /// block `first`, at byte `at` of the file. Also returns the offset of the block after the split ones.
    fn split<'b>(
        &self,
        bytes: &'b [u8],
        first: u64,
        count: u64,
        mut at: u64,
    ) -> Result<(Vec<Block<'b>>, u64)> {
        // There cannot be more blocks than fit in the bytes.
        let room = count.min(bytes.len() as u64 / (BLOCK_HEADER + 1));
        let mut blocks = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
        let mut rest = bytes;
        for block in first..first.saturating_add(count) {
            self.room_for_header(block, at)?;
            let Some((&header, after)) = rest.split_first_chunk() else { return Ok((blocks, at)) };
            let next = self.next(block, at, header)?;
            let len =
                usize::try_from(next.saturating_sub(at).saturating_sub(BLOCK_HEADER)).unwrap_or(usize::MAX);
            let Some((data, after)) = after.split_at_checked(len) else { return Ok((blocks, at)) };
            blocks.push(Block { at, data });
            (rest, at) = (after, next);
        }
        self.check_end(first.saturating_add(count), at)?;
        Ok((blocks, at))
    }

    /// Decodes blocks that have been read, and returns every fault. The first block has the number `first`
    /// and begins at byte `at`. Calls `done` with the end of each block while its bytes are still in the
    /// cache.
    pub(crate) fn check(
        &self,
        bytes: &[u8],
        (first, count): (u64, u64),
        at: u64,
        scratch: &mut Vec<u8>,
        done: impl FnMut(u64),
    ) -> Vec<Error> {
        let checked = self.check_some(bytes, (first, count), at, scratch, done);
        checked.map_or_else(|error| vec![error], |checked| checked.faults)
    }

    /// Does the same as [`check`](Self::check), but only for the blocks that `bytes` contains completely.
    ///
    /// # Errors
    /// If the header of one of them is broken, because the start of the next block is then unknown.
    pub(crate) fn check_some(
        &self,
        bytes: &[u8],
        (first, count): (u64, u64),
        at: u64,
        scratch: &mut Vec<u8>,
        mut done: impl FnMut(u64),
    ) -> Result<Checked> {
        let (blocks, at) = self.split(bytes, first, count, at)?;
        let mut checked = Checked { faults: Vec::new(), next: first.saturating_add(blocks.len() as u64), at };
        for (number, block) in (first..).zip(&blocks) {
            scratch.resize(usize::try_from(self.expanded(number)).unwrap_or(0), 0);
            checked.faults.extend(self.decode_block(block, number, scratch).err());
            done(block.at.saturating_add(BLOCK_HEADER).saturating_add(block.data.len() as u64));
        }
        Ok(checked)
    }

    /// Reads all values. Allocates memory for them only after checking every block header.
    pub(crate) async fn read(
        &self,
        source: &impl Fetch,
        starts: &BlockStarts,
        work: &Execution<'_>,
    ) -> Result<AlignedBuf> {
        let blocks = 0..self.count();
        let bytes = self.fetch(source, starts, blocks.clone(), self.stored.offset).await?;
        let data = self.blocks(&bytes, blocks, self.stored.offset, starts)?;
        let nbytes = self.stored.nbytes;
        let failed = |source| Error::Io { at: self.stored.offset, len: nbytes, source };
        let size = usize::try_from(nbytes).map_err(|_| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut out = AlignedBuf::zeroed(size).map_err(failed)?;
        self.decode(&data, 0, 0, &mut out, work)?;
        Ok(out)
    }

    /// Fills `out` with the values from byte `offset` on, which must exist. Decodes only the blocks that hold
    /// some of them.
    pub(crate) async fn read_into(
        &self,
        source: &impl Fetch,
        starts: &BlockStarts,
        offset: u64,
        out: &mut [u8],
        work: &Execution<'_>,
    ) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let end = offset.saturating_add(out.len() as u64);
        let blocks = offset / BLOCK..end.div_ceil(BLOCK);
        let first = blocks.start;
        let at = starts.find(self, source, first).await?;
        let bytes = self.fetch(source, starts, blocks.clone(), at).await?;
        let data = self.blocks(&bytes, blocks, at, starts)?;
        self.decode(&data, first, offset, out, work)
    }

    /// Returns the range of the file with the blocks that hold a range of values, which must exist. Reads
    /// only headers.
    pub(crate) async fn blocks_of(
        &self,
        source: &impl Fetch,
        starts: &BlockStarts,
        values: Range<u64>,
    ) -> Result<Range<u64>> {
        if values.is_empty() {
            return Ok(self.stored.offset..self.stored.offset);
        }
        let first = values.start / BLOCK;
        let at = starts.find(self, source, first).await?;
        let until = values.end.div_ceil(BLOCK);
        if until == self.count() {
            return Ok(at..self.stored.end());
        }
        let see = |number, at| starts.remember(self, number, at, false);
        Ok(at..self.walk(source, first, at, until, see).await?)
    }

    /// Reads the stored bytes of some blocks. The first block begins at byte `at`. A single read suffices if
    /// the end is known.
    async fn fetch<'s>(
        &self,
        source: &'s impl Fetch,
        starts: &BlockStarts,
        blocks: Range<u64>,
        at: u64,
    ) -> Result<Bytes<'s>> {
        let end = self.stored.end();
        let in_memory = source.memory().is_some();
        if let Some(end) = if in_memory { Some(end) } else { starts.known(self, blocks.end) } {
            return source.fetch(at..end).await.map_err(|source| Error::Io {
                at,
                len: end.saturating_sub(at),
                source,
            });
        }
        // The end is not known yet: read the average length of this many blocks, and then more until all of
        // them are complete.
        let wanted = blocks.end.saturating_sub(blocks.start);
        let average = self.stored.len.div_ceil(self.count().max(1)).saturating_add(BLOCK_HEADER);
        let mut bytes = AlignedBuf::default();
        loop {
            let have = bytes.as_slice().len() as u64;
            let (found, _) = self.split(&bytes, blocks.start, wanted, at)?;
            let missing = wanted.saturating_sub(found.len() as u64);
            let left = end.saturating_sub(at.saturating_add(have));
            if missing == 0 || left == 0 {
                return Ok(Bytes::Owned(bytes)); // `blocks` finds out if they are not all there
            }
            let more = average.saturating_mul(missing).saturating_add(average / 4).max(MIN_READ).min(left);
            let failed = |source| Error::Io { at: at.saturating_add(have), len: more, source };
            let out_of_memory = || failed(std::io::ErrorKind::OutOfMemory.into());
            let len = usize::try_from(have.saturating_add(more)).map_err(|_| out_of_memory())?;
            let old = bytes.as_slice().len();
            bytes.resize(len).map_err(|_| out_of_memory())?;
            source
                .fetch_into(at.saturating_add(have), bytes.get_mut(old..).unwrap_or_default())
                .await
                .map_err(failed)?;
        }
    }

    /// Splits bytes into these blocks, all of which must be complete, and remembers the offsets of the
    /// blocks.
    fn blocks<'b>(
        &self,
        bytes: &'b [u8],
        blocks: Range<u64>,
        at: u64,
        starts: &BlockStarts,
    ) -> Result<Vec<Block<'b>>> {
        let (data, end) = self.split(bytes, blocks.start, blocks.end.saturating_sub(blocks.start), at)?;
        let missing = blocks.start.saturating_add(data.len() as u64);
        if missing < blocks.end {
            return Err(self.fault(end, Fault::MissingBlocks { block: missing, blocks: self.count() }));
        }
        for (number, block) in blocks.clone().zip(&data) {
            starts.remember(self, number, block.at, number.saturating_add(1) == blocks.end);
        }
        starts.remember(self, blocks.end, end, false);
        Ok(data)
    }

    /// Decodes blocks into `out`, which begins with byte `offset` of the values. The first block has the
    /// number `first`.
    fn decode(
        &self,
        data: &[Block<'_>],
        first: u64,
        offset: u64,
        out: &mut [u8],
        work: &Execution<'_>,
    ) -> Result<()> {
        let group =
            if work.threads > 1 && out.len() as u64 >= PARALLEL { PARALLEL / BLOCK } else { u64::MAX };
        let per_group = usize::try_from(group).unwrap_or(usize::MAX);
        let mut jobs = Vec::new();
        let (mut rest, mut number, mut begin) = (out, first, offset);
        for blocks in data.chunks(per_group) {
            let end = number.saturating_add(blocks.len() as u64).saturating_mul(BLOCK);
            let len = usize::try_from(end.saturating_sub(begin)).unwrap_or(usize::MAX).min(rest.len());
            let (here, after) = rest.split_at_mut(len);
            jobs.push(Mutex::new((blocks, number, begin, here)));
            (rest, number, begin) = (after, number.saturating_add(blocks.len() as u64), end);
        }
        let one = |scratch: &mut Vec<u8>, job: u64| -> Result<()> {
            let Some(job) = usize::try_from(job).ok().and_then(|job| jobs.get(job)) else { return Ok(()) };
            let mut job = job.lock().unwrap_or_else(PoisonError::into_inner);
            let (blocks, number, begin, ref mut out) = *job;
            self.decode_group(blocks, number, begin, out, scratch)
        };
        work.map(jobs.len() as u64, Vec::new, one).map(|_| ())
    }

    /// Decodes blocks one after another, directly into `out`, or through `scratch` if only a part of a block
    /// is wanted.
    fn decode_group(
        &self,
        blocks: &[Block<'_>],
        first: u64,
        begin: u64,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let mut rest = out;
        let mut skip = begin.saturating_sub(first.saturating_mul(BLOCK));
        for (number, block) in (first..).zip(blocks) {
            let expanded = self.expanded(number);
            let len = usize::try_from(expanded.saturating_sub(skip.min(expanded)))
                .unwrap_or(usize::MAX)
                .min(rest.len());
            let (here, after) = rest.split_at_mut(len);
            if here.len() as u64 == expanded {
                self.decode_block(block, number, here)?;
            } else {
                scratch.resize(usize::try_from(expanded).unwrap_or(0), 0);
                self.decode_block(block, number, scratch)?;
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                let part = scratch.get(skip..).and_then(|tail| tail.get(..len)).unwrap_or_default();
                here.copy_from_slice(part); // `expanded - skip` is at least `len`
            }
            (rest, skip) = (after, 0);
        }
        Ok(())
    }

    /// Decodes one block, which must fill `out`.
    #[cfg(feature = "lz4")]
    fn decode_block(&self, block: &Block<'_>, number: u64, out: &mut [u8]) -> Result<()> {
        let expected = out.len() as u64;
        let fault = match lz4_flex::block::decompress_into(block.data, out) {
            Ok(found) if found as u64 == expected => return Ok(()),
            Ok(found) => Fault::BlockSize { block: number, found: found as u64, expected },
            Err(error) => Fault::BlockData { block: number, reason: error.to_string() },
        };
        Err(self.fault(block.at, fault))
    }

    #[cfg(not(feature = "lz4"))]
    fn decode_block(&self, block: &Block<'_>, _: u64, _: &mut [u8]) -> Result<()> {
        let _ = block.data;
        Err(self.fault(block.at, Fault::NoLz4))
    }
}

/// The result of decoding some blocks.
pub(crate) struct Checked {
    pub(crate) faults: Vec<Error>,
    /// The number of the next block, and its offset.
    pub(crate) next: u64,
    pub(crate) at: u64,
}

/// One block: its stored bytes without the header.
struct Block<'b> {
    /// The offset of its header in the file.
    at: u64,
    data: &'b [u8],
}

/// Known offsets of blocks. For each compressed tensor these are one offset per group of blocks that reading
/// has reached, and the offset of the last block that was read. They make sequential reading take linear
/// time.
#[derive(Debug, Default)]
pub(crate) struct BlockStarts(Mutex<HashMap<usize, Known>>);

/// A clone starts empty.
impl Clone for BlockStarts {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[derive(Debug, Default)]
struct Known {
    /// The offsets of the blocks `GROUP`, 2 × `GROUP`, and so on.
    groups: Vec<u64>,
    /// The last block that was read, and its offset.
    last: Option<(u64, u64)>,
}

impl BlockStarts {
    /// Returns the offset of a block. Walks over the headers from the nearest known block.
    async fn find(&self, tensor: &Compressed<'_>, source: &impl Fetch, block: u64) -> Result<u64> {
        let (from, at) = self.nearest(tensor, block);
        tensor.walk(source, from, at, block, |number, at| self.remember(tensor, number, at, false)).await
    }

    /// Returns the nearest block at or before `block` whose offset is known.
    fn nearest(&self, tensor: &Compressed<'_>, block: u64) -> (u64, u64) {
        let start = (0, tensor.stored.offset);
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = all.get(&tensor.number) else { return start };
        let group = (block / GROUP).min(known.groups.len() as u64);
        let of_group = usize::try_from(group).ok().and_then(|g| known.groups.get(g.checked_sub(1)?));
        let of_group = of_group.map_or(start, |&at| (group.saturating_mul(GROUP), at));
        match known.last {
            Some((last, at)) if last <= block && last > of_group.0 => (last, at),
            _ => of_group,
        }
    }

    /// Returns the offset of a block if it is known without a walk.
    fn known(&self, tensor: &Compressed<'_>, block: u64) -> Option<u64> {
        if block == tensor.count() {
            return Some(tensor.stored.end());
        }
        let (nearest, at) = self.nearest(tensor, block);
        (nearest == block).then_some(at)
    }

    fn remember(&self, tensor: &Compressed<'_>, block: u64, at: u64, is_last: bool) {
        let opens_group = block > 0 && block.is_multiple_of(GROUP);
        if !opens_group && !is_last {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(tensor.number).or_default();
        if opens_group && known.groups.len() as u64 == (block / GROUP).saturating_sub(1) {
            known.groups.push(at);
        }
        if is_last {
            known.last = Some((block, at));
        }
    }
}
