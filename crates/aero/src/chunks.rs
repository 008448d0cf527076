//! The chunks of a file: the table of contents with the chunks' names, and their verified content.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::ops::Deref;

use modelfmt_core::{
    Bytes, CommonFault, Limits, Part,
    author::{Cursor, Extent},
};

use crate::compress;
use crate::error::{Error, Fault, Hex, Result};
use crate::wire::{ChunkFlags, FourCC, MAX_METADATA_ULEN, TocEntry, shard_of};

/// A chunk of a file, as the TOC lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chunk<'a> {
    /// Its type.
    pub fourcc: FourCC,
    /// Its name.
    pub name: &'a str,
    /// Its flags.
    pub flags: ChunkFlags,
    /// Where its payload begins in the file.
    pub offset: u64,
    /// The number of bytes that its payload takes in the file, compressed or not.
    pub length: u64,
    /// The number of bytes of its content, uncompressed.
    pub ulen: u64,
    /// BLAKE3-256 of its content, uncompressed.
    pub blake3: [u8; 32],
}

impl Chunk<'_> {
    /// Returns whether the chunk has the name of the control hash (IHSH) but another type. `verify` reports
    /// this as damage, because nothing else would notice that the type of a control hash has changed. Writers
    /// refuse such a chunk (docs/formats/aero.md#control-hash).
    #[must_use]
    pub fn is_misnamed(&self) -> bool {
        self.fourcc.is_misnamed(self.name)
    }

    /// Returns the chunk as a `Part` for errors.
    pub(crate) fn part(&self) -> Part {
        Part::named(what(self.fourcc), self.name)
    }

    pub(crate) fn malformed(&self, fault: impl Into<Fault>) -> Error {
        Error::Malformed { part: self.part(), at: self.offset, fault: fault.into() }
    }

    /// Checks whether the content can be read, before any of it is read. Returns its length.
    pub(crate) fn check_readable(&self, limits: &Limits) -> Result<usize> {
        self.check_budget(limits, &mut Expansion::default())
    }

    /// Does what [`check_readable`](Self::check_readable) does, counting what other chunks have used of
    /// `expansion`.
    pub(crate) fn check_budget(&self, limits: &Limits, expansion: &mut Expansion) -> Result<usize> {
        if self.fourcc != FourCC::WTSH {
            let max = limits.metadata_len.min(MAX_METADATA_ULEN);
            Limits::check("the uncompressed size of a metadata chunk", self.ulen, max)?;
        }
        self.check_lengths()?;
        if self.flags.is_compressed() {
            expansion.add(self, limits)?;
        }
        Ok(Limits::check("the size of a chunk", self.ulen, u64::MAX)?)
    }

    /// Checks the flags and lengths (docs/formats/aero.md#chunk-lengths).
    pub(crate) fn check_lengths(&self) -> Result<()> {
        let compressed = self.flags.is_compressed();
        if compressed && self.fourcc.is_never_compressed() {
            return Err(self.malformed(Fault::Compressed(self.fourcc)));
        }
        if !compressed && self.length != self.ulen {
            return Err(self.malformed(Fault::PlainLength { stored: self.length, ulen: self.ulen }));
        }
        Ok(())
    }

    /// Turns the stored bytes into the content: decompresses them if necessary, and checks the hash in the
    /// TOC.
    pub(crate) fn content<'b>(&self, stored: Bytes<'b>, limits: &Limits) -> Result<Content<'b>> {
        let ulen = self.check_readable(limits)?;
        let content = if self.flags.is_compressed() {
            Content::Decompressed(compress::decompress(&stored, ulen).map_err(|fault| self.malformed(fault))?)
        } else {
            Content::Stored(stored)
        };
        if self.has_hash() {
            self.check_hash(*blake3::hash(&content).as_bytes())?;
        }
        Ok(content)
    }

    /// Returns whether the TOC has a hash of the content. A published writer leaves the hash of the first
    /// chunk, which is metadata, zero. For weights, zeros are a wrong hash: no writer writes them there, and
    /// they could hide damage (docs/formats/aero.md#hash-not-recorded).
    pub(crate) fn has_hash(&self) -> bool {
        self.fourcc == FourCC::WTSH || self.blake3 != [0; 32]
    }

    pub(crate) fn check_hash(&self, found: [u8; 32]) -> Result<()> {
        if found == self.blake3 {
            return Ok(());
        }
        Err(self.malformed(Fault::Hash {
            stated: "TOC",
            found: Hex::new(found),
            expected: Hex::new(self.blake3),
        }))
    }
}

/// How much compressed chunks have claimed to expand so far. Each chunk may claim in proportion to its stored
/// bytes. The constant `FREE` is granted only once; otherwise many small chunks, each claiming a megabyte,
/// could ask for any amount of work (docs/formats/aero.md#zstandard).
#[derive(Clone, Debug, Default)]
pub(crate) struct Expansion {
    stored: u64,
    claimed: u64,
}

impl Expansion {
    /// The number of bytes that may be claimed beyond the stored bytes times [`Limits::expansion`].
    const FREE: u64 = 1 << 20;

    /// Returns the share of one of `count` files in a set. The files share the constant.
    pub(crate) const fn of_one_in(count: u64) -> Self {
        let own = match Self::FREE.checked_div(count) {
            Some(own) => own,
            None => Self::FREE,
        };
        Self { stored: 0, claimed: Self::FREE.saturating_sub(own) }
    }

    fn add(&mut self, chunk: &Chunk<'_>, limits: &Limits) -> Result<()> {
        let stored = self.stored.saturating_add(chunk.length);
        let claimed = self.claimed.saturating_add(chunk.ulen);
        let max = stored.saturating_mul(limits.expansion).saturating_add(Self::FREE);
        Limits::check("the size that the compressed chunks claim", claimed, max)?;
        *self = Self { stored, claimed };
        Ok(())
    }
}

const fn what(fourcc: FourCC) -> &'static str {
    match fourcc {
        FourCC::IHSH => "IHSH chunk",
        FourCC::MJSN => "MJSN chunk",
        FourCC::MMSG => "MMSG chunk",
        FourCC::PHSH => "PHSH chunk",
        FourCC::TIDX => "TIDX chunk",
        FourCC::WTSH => "WTSH chunk",
        _ => "chunk",
    }
}

/// The verified content of a chunk.
#[derive(Clone, Debug)]
pub enum Content<'a> {
    /// The bytes as they are in the file.
    Stored(Bytes<'a>),
    /// The decompressed bytes.
    Decompressed(Vec<u8>),
}

impl Deref for Content<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes,
            Self::Decompressed(bytes) => bytes,
        }
    }
}

/// The table of contents, with the names of the string table.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkTable {
    entries: Vec<TocEntry>,
    /// The string table as it is in the file.
    strings: Box<[u8]>,
    /// Hash of type and name → entry, sorted. The hash is seeded, because names may be hostile.
    lookup: Vec<(u64, u32)>,
    hasher: RandomState,
    /// Shard number → entry, sorted.
    shards: Vec<(u64, u32)>,
    tidx: Option<u32>,
}

impl ChunkTable {
    /// Decodes the entries, without their names.
    pub(crate) fn decode_entries(c: &mut Cursor<'_>, count: u32) -> Result<Vec<TocEntry>> {
        let have = c.remaining() as u64;
        let part = Part::new("TOC").with_field("entry_count");
        let count = Limits::fits(part, c.offset(), u64::from(count), TocEntry::LEN, have)?;
        let mut entries = Vec::with_capacity(count);
        for entry in 0..count as u64 {
            entries.push(TocEntry::decode(c, entry)?);
        }
        Ok(entries)
    }

    /// Checks every entry against the string table and the file's length. `toc` and `strings_at` are the
    /// offsets of the TOC and the string table.
    pub(crate) fn new(
        entries: Vec<TocEntry>,
        strings: &[u8],
        toc: u64,
        strings_at: u64,
        file_len: u64,
        limits: &Limits,
    ) -> Result<Self> {
        let mut table = Self { entries, strings: strings.into(), ..Self::default() };
        table.check_names(toc, strings_at, limits)?;
        table.check_extents(toc, file_len)?;
        table.build_lookup(toc)?;
        Ok(table)
    }

    fn check_names(&self, toc: u64, strings_at: u64, limits: &Limits) -> Result<()> {
        let mut total = 0u64;
        let records = TocEntry::LEN.saturating_mul(self.entries.len() as u64);
        let max =
            records.saturating_add(self.strings.len() as u64).saturating_mul(4).saturating_add(16 << 10);
        for (entry, record) in self.entries.iter().enumerate() {
            let part = || Part::entry("TOC entry", entry as u64).with_field("name");
            let (offset, len) = (u64::from(record.name_off), u64::from(record.name_len));
            Limits::check("the length of a chunk name", len, limits.name_len)?;
            // Names may share bytes. Even so, all names together must not be longer than the bytes that
            // exist.
            total = total.saturating_add(len);
            Limits::check("the length of all chunk names", total, max)?;
            let at = entry_at(toc, entry).saturating_add(32);
            Extent::new(offset, len, self.strings.len() as u64)
                .map_err(|fault| malformed(part(), at, fault))?;
            let name = self.name_bytes(record);
            let at = strings_at.saturating_add(offset);
            if name.contains(&0) {
                return Err(malformed(part(), at, Fault::Nul));
            }
            std::str::from_utf8(name).map_err(|_| malformed(part(), at, CommonFault::Utf8))?;
        }
        Ok(())
    }

    fn check_extents(&self, toc: u64, file_len: u64) -> Result<()> {
        for (entry, record) in self.entries.iter().enumerate() {
            Extent::new(record.offset, record.length, file_len).map_err(|fault| {
                let part = Part::entry("TOC entry", entry as u64).with_name(self.name(record));
                malformed(part.with_field("chunk_offset"), entry_at(toc, entry).saturating_add(8), fault)
            })?;
        }
        Ok(())
    }

    /// Builds the lookup tables, and refuses duplicates that would make a tensor ambiguous
    /// (docs/formats/aero.md#duplicate-chunks).
    fn build_lookup(&mut self, toc: u64) -> Result<()> {
        let mut lookup = Vec::with_capacity(self.entries.len());
        let mut shards = Vec::new();
        for (number, record) in (0u32..).zip(&self.entries) {
            lookup.push((self.hasher.hash_one((record.fourcc.0, self.name_bytes(record))), number));
            if record.fourcc == FourCC::WTSH
                && let Some(shard) = shard_of(self.name(record))
            {
                shards.push((shard, number));
            }
            if record.fourcc == FourCC::TIDX && self.tidx.replace(number).is_some() {
                let part = Part::entry("TOC entry", u64::from(number)).with_name(self.name(record));
                return Err(malformed(part, entry_at(toc, number as usize), Fault::SecondIndex));
            }
        }
        lookup.sort_unstable();
        shards.sort_unstable();
        (self.lookup, self.shards) = (lookup, shards);
        for duplicate in self.duplicates() {
            let Some(record) = self.entries.get(duplicate) else { continue };
            if record.fourcc == FourCC::WTSH {
                let part = Part::entry("TOC entry", duplicate as u64).with_name(self.name(record));
                return Err(malformed(part, entry_at(toc, duplicate), Fault::DuplicateChunk(record.fourcc)));
            }
        }
        Ok(())
    }

    /// Returns the chunks that have the type and name of an earlier chunk, in order.
    pub(crate) fn duplicates(&self) -> Vec<usize> {
        // Equal chunks have equal hashes, and are sorted by their positions.
        let same = |a: u32, b: u32| {
            let pair = self.entries.get(a as usize).zip(self.entries.get(b as usize));
            pair.is_some_and(|(a, b)| a.fourcc == b.fourcc && self.name_bytes(a) == self.name_bytes(b))
        };
        let neighbours = self.lookup.iter().zip(self.lookup.iter().skip(1));
        let duplicate = |(&(hash, a), &(next, b)): (&(_, u32), &(_, u32))| {
            (hash == next && same(a, b)).then_some(b as usize)
        };
        let mut duplicates: Vec<usize> = neighbours.filter_map(duplicate).collect();
        duplicates.sort_unstable(); // the hashes have a seed, other in each reader
        duplicates
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn chunk(&self, position: usize) -> Option<Chunk<'_>> {
        self.entries.get(position).map(|record| Chunk {
            fourcc: record.fourcc,
            name: self.name(record),
            flags: record.flags,
            offset: record.offset,
            length: record.length,
            ulen: record.ulen,
            blake3: record.blake3,
        })
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Chunk<'_>> + DoubleEndedIterator + Clone {
        // Every position below `len` has a chunk, so the fallback is never used.
        let nothing = Chunk {
            fourcc: FourCC([0; 4]),
            name: "",
            flags: ChunkFlags(0),
            offset: 0,
            length: 0,
            ulen: 0,
            blake3: [0; 32],
        };
        (0..self.len()).map(move |position| {
            #[cfg(test)]
            count_scan();
            self.chunk(position).unwrap_or(nothing)
        })
    }

    pub(crate) fn find(&self, fourcc: FourCC, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one((fourcc.0, name.as_bytes()));
        let first = self.lookup.partition_point(|&(other, _)| other < hash);
        let same = self.lookup.get(first..)?.iter().take_while(|&&(other, _)| other == hash);
        let is_it = |number: usize| {
            let record = self.entries.get(number);
            record.is_some_and(|r| r.fourcc == fourcc && self.name_bytes(r) == name.as_bytes())
        };
        same.map(|&(_, number)| number as usize).find(|&number| is_it(number))
    }

    /// Returns the first chunk of a type.
    pub(crate) fn first(&self, fourcc: FourCC) -> Option<usize> {
        self.entries.iter().position(|record| {
            #[cfg(test)]
            count_scan();
            record.fourcc == fourcc
        })
    }

    pub(crate) fn tidx(&self) -> Option<usize> {
        self.tidx.map(|number| number as usize)
    }

    /// Returns the chunk of a shard.
    #[inline]
    pub(crate) fn shard(&self, shard: u64) -> Option<usize> {
        let found = self.shards.binary_search_by_key(&shard, |&(id, _)| id).ok()?;
        self.shards.get(found).map(|&(_, number)| number as usize)
    }

    /// Returns the entries whose reserved field is not zero.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = (usize, u64)> {
        let used = |(entry, record): (usize, &TocEntry)| {
            (record.reserved0 != 0).then_some((entry, record.reserved0))
        };
        self.entries.iter().enumerate().filter_map(used)
    }

    pub(crate) fn heap_size(&self) -> usize {
        self.entries
            .capacity()
            .saturating_mul(size_of::<TocEntry>())
            .saturating_add(self.strings.len())
            .saturating_add(
                self.lookup.capacity().saturating_add(self.shards.capacity()).saturating_mul(size_of::<(
                    u64,
                    u32,
                )>(
                )),
            )
    }

    fn name_bytes(&self, record: &TocEntry) -> &[u8] {
        let rest = self.strings.get(record.name_off as usize..);
        rest.and_then(|rest| rest.get(..record.name_len as usize)).unwrap_or_default()
    }

    fn name(&self, record: &TocEntry) -> &str {
        std::str::from_utf8(self.name_bytes(record)).unwrap_or_default() // checked when the table was made
    }
}

/// Returns the offset of a TOC entry in the file.
pub(crate) const fn entry_at(toc: u64, entry: usize) -> u64 {
    toc.saturating_add(16).saturating_add(TocEntry::LEN.saturating_mul(entry as u64))
}

pub(crate) fn malformed(part: Part, at: u64, fault: impl Into<Fault>) -> Error {
    Error::Malformed { part, at, fault: fault.into() }
}

#[cfg(test)]
std::thread_local! {
    /// The number of TOC entries that this thread has scanned, not counting lookups by position.
    static SCANNED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn count_scan() {
    SCANNED.set(SCANNED.get() + 1);
}

#[cfg(all(test, feature = "zstd"))]
#[cfg(not(target_arch = "wasm32"))]
#[allow(clippy::unwrap_used, reason = "a test that fails may panic")]
mod tests {
    use modelfmt_core::value::{Object, Value};
    use modelfmt_core::{Execution, VerifyLevel};

    use super::*;

    #[test]
    fn the_files_of_a_set_share_what_may_be_claimed_beyond_their_bytes() {
        let chunk = |ulen: u64| Chunk {
            fourcc: FourCC::TIDX,
            name: "tensors",
            flags: ChunkFlags::COMPRESSED_ZSTD,
            offset: 0,
            length: 10,
            ulen,
            blake3: [0; 32],
        };
        let limits = Limits::default();
        let fits = |files: u64, ulen: u64| {
            chunk(ulen).check_budget(&limits, &mut Expansion::of_one_in(files)).is_ok()
        };
        let own = 10 * limits.expansion;
        assert!(fits(1, own + (1 << 20)) && !fits(1, own + (1 << 20) + 1));
        assert!(fits(1024, own + (1 << 10)) && !fits(1024, own + (1 << 10) + 1));
        assert!(fits(0, own + (1 << 20)) && fits(u64::MAX, own) && !fits(u64::MAX, own + 1));
        let mut both = Expansion::default();
        assert!(chunk(own + (1 << 20)).check_budget(&limits, &mut both).is_ok());
        assert!(chunk(own).check_budget(&limits, &mut both).is_ok());
        assert!(chunk(own + 1).check_budget(&limits, &mut both).is_err());
    }

    /// Returns a file with this many chunks, half of them manifests, all compressed.
    fn many(chunks: usize) -> Vec<u8> {
        use crate::{ChunkWriter, NewChunk};
        let new = |number: usize| {
            let fourcc = if number.is_multiple_of(2) { FourCC::MMSG } else { FourCC(*b"DATA") };
            NewChunk::new(fourcc, format!("{number}")).with_flags(ChunkFlags::COMPRESSED_ZSTD)
        };
        // The manifests list shards that the file does not have, which makes the reader look for them.
        let shard = Object::from_iter([("shard_id", Value::from(0u64))]);
        let shards: Value = [Value::from(shard)].into_iter().collect();
        let manifest = crate::msgpack::encode(&Object::from_iter([("shards", shards)])).unwrap();
        let file = modelfmt_write::MemoryFile::new();
        let mut writer = ChunkWriter::new(&file, [1; 16], (0..chunks).map(new).collect()).unwrap();
        for number in 0..chunks {
            writer.put(number, manifest.clone()).unwrap();
        }
        writer.finish().unwrap();
        file.into_bytes()
    }

    /// Counts the TOC entries that are scanned and the zstd contexts that are made when the file is opened
    /// and verified.
    fn cost(chunks: usize) -> (u64, u64) {
        let bytes = many(chunks);
        let verify = || {
            let before = (SCANNED.get(), compress::MADE.get());
            let reader = crate::Reader::from_source(bytes.as_slice()).unwrap();
            let report = reader.verify_with(VerifyLevel::Full, &Execution::sequential());
            assert_eq!(
                report.errors.len(),
                chunks.div_ceil(2),
                "each manifest lists a shard that is not there"
            );
            (SCANNED.get() - before.0, compress::MADE.get() - before.1)
        };
        // A new thread has no context yet.
        std::thread::scope(|scope| scope.spawn(verify).join().unwrap())
    }

    #[test]
    fn work_is_linear_in_the_chunks_of_a_file() {
        let [one, two] = [300, 600].map(cost);
        println!("{one:?} {two:?}");
        assert!(one.0 > 300 && two.0 <= 21 * one.0 / 10, "entries looked at: {one:?} {two:?}");
        assert!(one.0 <= 30 * 300, "{one:?}");
        assert_eq!((one.1, two.1), (1, 1), "contexts of zstd");
    }
}
