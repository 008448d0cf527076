//! Reads a file that is pinned by the hash of its head. The head has the hashes of all chunks, which prove
//! the rest of the file.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use modelfmt_core::proof::{
    AsyncVerifiedSource, HashProof, Page, Part as Proved, Proof, ProofError, VerifiedSource,
};
use modelfmt_core::{
    Fetch, Limits, Part, Source,
    author::{Cursor, FileIndex as _, now, parse_fetched},
};

use crate::chunks::{ChunkTable, malformed};
use crate::contents::read;
use crate::error::{Error, Fault, Result};
use crate::hex::hex;
use crate::index::Index;
use crate::parser::IndexParser;
use crate::reader::{AsyncReader, OpenOptions, Reader};
use crate::wire::{FourCC, Header, TocEntry, TocHeader};

/// How many proofs of ranges are kept, because sequential reads need the same one repeatedly.
const MAX_KEPT_PROOFS: usize = 32;
/// The most groups into which a proof divides its range.
const GROUPS: u64 = 1 << 12;
/// The longest page or tensor that is proved by its own hash instead of by the hash of its shard.
const MAX_HASHED_RANGE: u64 = 64 << 20;

/// Proves an AERO file by the BLAKE3 of its head (the bytes before its payloads) and the hashes in the head.
///
/// A range of a shard is proved by the hash of its tensor or its page, whichever is shorter. If there is
/// neither, it is proved by the hash of the whole shard, and the first read goes over the whole shard.
/// Compressed chunks are proved when they are decompressed, because their hash is of the content. Bytes
/// between chunks are not part of the model and are not proved.
#[derive(Debug)]
pub struct HeadProof {
    head: Proved,
    /// The chunks in the order of the file.
    regions: Vec<Region>,
    file_len: u64,
    root: Arc<str>,
    /// The index, once it is known.
    index: OnceLock<Arc<Index>>,
    /// The tensors that have a hash, in the order of the file.
    tensors: OnceLock<Vec<(u64, u64, [u8; 32])>>,
    kept: Mutex<VecDeque<Arc<HashProof>>>,
}

/// A chunk.
#[derive(Clone, Debug)]
struct Region {
    range: Range<u64>,
    /// The position of the chunk in the TOC.
    chunk: usize,
    hash: [u8; 32],
    is_compressed: bool,
}

/// Opens the AERO file in `source` if the BLAKE3 of the bytes before its payloads is `hash`, as returned by
/// [`pin`](crate::ReaderExt::pin). The reader returns only those bytes of the index and the values that this
/// hash proves.
///
/// ```
/// use aero::{OpenOptions, Reader, ReaderExt, open_pinned};
///
/// # let path = "../../testdata/aero/hashes.aero";
/// let bytes = std::fs::read(path)?;
/// let pin = Reader::from_source(&bytes)?.pin()?.ok_or("its head is not in front")?; // keep it where it is safe
///
/// let model = open_pinned(bytes.clone(), pin, &OpenOptions::new())?;
/// assert!(model.tensor("t.f32").is_ok());
/// let mut other = bytes;
/// if let Some(byte) = other.get_mut(60) {
///     *byte ^= 1; // of the identity
/// }
/// assert!(open_pinned(other, pin, &OpenOptions::new()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file cannot be read, breaks a rule of the format, or exceeds a limit; if its head has another hash;
/// [`Fault::Unpinnable`] if the head does not have hashes of everything.
pub fn open_pinned<S: Source + Sync>(
    source: S,
    hash: [u8; 32],
    options: &OpenOptions,
) -> Result<Reader<VerifiedSource<S, HeadProof>>> {
    let name = source.name().map(std::borrow::Cow::into_owned);
    let settings = options.settings();
    let opened = now(async {
        let proof = HeadProof::new(&source, hash, settings.limits_ref()).await?;
        let source = VerifiedSource::new(source, proof);
        let index = Arc::new(parse_fetched(Index::parser(source.len(), settings), &source).await?);
        source.proof().set_index(&index);
        Ok((index, source))
    });
    let (index, source) = opened.map_err(|error: Error| error.in_source(name.map(Into::into)))?;
    Reader::with_index(index, source)
}

/// Opens a pinned file from an asynchronous source. Otherwise this does the same as [`open_pinned`].
///
/// # Errors
/// The errors of [`open_pinned`].
pub async fn open_pinned_async<S: Fetch>(
    source: S,
    hash: [u8; 32],
    options: &OpenOptions,
) -> Result<AsyncReader<AsyncVerifiedSource<S, HeadProof>>> {
    let settings = options.settings();
    let proof = HeadProof::new(&source, hash, settings.limits_ref()).await?;
    let source = AsyncVerifiedSource::new(source, proof);
    let index = Arc::new(parse_fetched(Index::parser(source.size(), settings), &source).await?);
    source.proof().set_index(&index);
    AsyncReader::with_index(index, source)
}

impl HeadProof {
    /// Reads and checks the head of a file.
    ///
    /// # Errors
    /// The errors of [`open_pinned`].
    pub async fn new<S: Fetch>(source: &S, hash: [u8; 32], limits: &Limits) -> Result<Self> {
        let file_len = source.size();
        // Until the hash is checked, the header is trusted only for the number of bytes to hash.
        let first = read(source, 0..Header::LEN.min(file_len)).await?;
        let parts = IndexParser::new(file_len, limits.clone()).head(&first)?;
        let unpinnable = |why: &'static str| malformed(Part::new("header"), 0, Fault::Unpinnable(why));
        let end = parts.header.payloads_start(file_len);
        let end = end.ok_or_else(|| unpinnable("header and TOC are not before the names of the chunks"))?;
        Limits::check("the length of the head", end, limits.index_len)?;
        let bytes = read(source, 0..end).await?;
        let root: Arc<str> = format!("aero:{}", hex(&hash)).into();
        let head = Proved::new(0, Arc::new(Page::of_hash(hash, end)), Arc::clone(&root));
        head.check(0, &bytes).map_err(|error| Error::Io {
            at: 0,
            len: end,
            source: ProofError::into(error),
        })?;
        let within = |range: Range<u64>| -> Option<&[u8]> {
            bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
        };
        let (toc, strings) = within(parts.toc.range()).zip(within(parts.strings.range())).unwrap_or_default();
        let mut c = Cursor::new(toc, parts.toc.offset());
        let TocHeader { entry_count, .. } = TocHeader::decode(&mut c)?;
        let entries = ChunkTable::decode_entries(&mut c, entry_count)?;
        let regions = regions(&entries, end).map_err(unpinnable)?;
        // Checks names and places, like opening the file does.
        ChunkTable::new(entries, strings, parts.toc.offset(), parts.strings.offset(), file_len, limits)?;
        let (index, tensors, kept) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Ok(Self { head, regions, file_len, root, index, tensors, kept })
    }

    /// Takes the file's index, which must have been read through this proof. From now on, tensors and pages
    /// are proved by their own hashes.
    pub fn set_index(&self, index: &Arc<Index>) {
        self.index.get_or_init(|| Arc::clone(index));
    }

    fn region(&self, at: u64) -> Option<&Region> {
        let behind = self.regions.partition_point(|region| region.range.end <= at);
        self.regions.get(behind).filter(|region| region.range.start <= at)
    }

    /// Returns the bytes between two chunks that contain an offset.
    fn gap(&self, at: u64) -> Range<u64> {
        let behind = self.regions.partition_point(|region| region.range.end <= at);
        let before = behind.checked_sub(1).and_then(|before| self.regions.get(before));
        let start = before.map_or(self.head.range().end, |region| region.range.end);
        let end = self.regions.get(behind).map_or(self.file_len, |region| region.range.start);
        start..end
    }

    /// Returns the tensor that has its own hash and whose bytes contain an offset.
    fn tensor(&self, at: u64) -> Option<(Range<u64>, [u8; 32])> {
        let tensors =
            self.tensors.get_or_init(|| self.index.get().map_or_else(Vec::new, |index| hashed(index)));
        let behind = tensors.partition_point(|&(start, ..)| start <= at);
        let &(start, end, hash) = tensors.get(behind.checked_sub(1)?)?;
        (at < end && end.saturating_sub(start) <= MAX_HASHED_RANGE).then_some((start..end, hash))
    }

    /// Returns the page of a shard that contains an offset.
    async fn page<S: Fetch>(
        &self,
        source: &S,
        at: u64,
        region: &Region,
    ) -> io::Result<Option<(Range<u64>, [u8; 32])>> {
        let Some(index) = self.index.get() else { return Ok(None) };
        // The chunk of page hashes is not compressed, and its hash is in the head.
        let pages = index.pages_of(source, region.chunk).await.map_err(io::Error::other)?;
        let Some(pages) = pages.filter(|pages| pages.page_size() <= MAX_HASHED_RANGE) else {
            return Ok(None);
        };
        let number = at.saturating_sub(region.range.start).checked_div(pages.page_size()).unwrap_or_default();
        let start = region.range.start.saturating_add(number.saturating_mul(pages.page_size()));
        let end = start.saturating_add(pages.page_size()).min(region.range.end);
        Ok(pages.digest(number).map(|hash| (start..end, hash)))
    }

    fn known(&self, at: u64) -> Option<Arc<HashProof>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // If two ranges contain the offset, the shorter one belongs to a tensor or page.
        let holds = |known: &&(usize, &Arc<HashProof>)| known.1.range().contains(&at);
        let len =
            |known: &(usize, &Arc<HashProof>)| known.1.range().end.saturating_sub(known.1.range().start);
        let (found, _) = kept.iter().enumerate().filter(|known| holds(&known)).min_by_key(len)?;
        let proof = kept.remove(found)?;
        kept.push_back(Arc::clone(&proof));
        Some(proof)
    }

    fn keep(&self, range: Range<u64>, hash: [u8; 32]) -> Arc<HashProof> {
        let proof = Arc::new(HashProof::for_range(range, hash, Arc::clone(&self.root)).groups(GROUPS));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT_PROOFS {
            kept.pop_front();
        }
        kept.push_back(Arc::clone(&proof));
        proof
    }
}

/// Returns the chunks in file order. Fails if a chunk has no hash to prove it.
fn regions(entries: &[TocEntry], head: u64) -> std::result::Result<Vec<Region>, &'static str> {
    let mut regions = Vec::new();
    for (chunk, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.length > 0) {
        let range = entry.offset..entry.offset.saturating_add(entry.length);
        if entry.fourcc != FourCC::WTSH && entry.blake3 == [0; 32] {
            return Err("the hash of a chunk is not recorded");
        }
        let is_compressed = entry.flags.is_compressed();
        regions.push(Region { range, chunk, hash: entry.blake3, is_compressed });
    }
    regions.sort_unstable_by_key(|region| (region.range.start, region.range.end));
    let mut end = head;
    for region in &regions {
        if region.range.start < end {
            return Err("chunks lie over each other, or over the head");
        }
        end = region.range.end;
    }
    Ok(regions)
}

/// Returns the start, end and hash of each tensor that has a hash.
fn hashed(index: &Index) -> Vec<(u64, u64, [u8; 32])> {
    if !index.tensors.has_hashes() {
        return Vec::new();
    }
    let of = |position| {
        let place = index.place(position).ok()?;
        let start = place.chunk.offset.checked_add(place.stored.offset())?;
        let hash = place.hash.ok().flatten()?;
        Some((start, start.checked_add(place.stored.len())?, hash))
    };
    let mut all: Vec<_> = (0..index.tensors().len()).filter_map(of).collect();
    all.sort_unstable();
    all
}

impl Proof for HeadProof {
    async fn part<S: Fetch>(&self, source: &S, at: u64) -> io::Result<Proved> {
        if at < self.head.range().end {
            return Ok(self.head.clone());
        }
        let Some(region) = self.region(at) else { return Ok(Proved::unchecked(self.gap(at))) };
        if region.is_compressed {
            return Ok(Proved::unchecked(region.range.clone()));
        }
        if let Some(known) = self.known(at) {
            return known.part(source, at).await;
        }
        let is_shard = is_shard(self.index.get(), region);
        let page = if is_shard { self.page(source, at, region).await? } else { None };
        let tensor = if is_shard { self.tensor(at) } else { None };
        let len = |(range, _): &(Range<u64>, [u8; 32])| range.end.saturating_sub(range.start);
        let shortest = [page, tensor].into_iter().flatten().min_by_key(len);
        let (range, hash) = shortest.unwrap_or_else(|| (region.range.clone(), region.hash));
        self.keep(range, hash).part(source, at).await
    }

    fn has_all_hashes(&self) -> bool {
        // Every other chunk has a hash, or opening fails.
        self.regions.iter().all(|region| region.hash != [0; 32])
    }

    fn is_slow(&self, range: &Range<u64>) -> bool {
        let is_here = self.region(range.start).is_some_and(|region| !region.is_compressed);
        is_here
            && range.start >= self.head.range().end
            && self.known(range.start).is_none_or(|known| known.is_slow(range))
    }
}

fn is_shard(index: Option<&Arc<Index>>, region: &Region) -> bool {
    index.and_then(|index| index.chunk(region.chunk)).is_some_and(|chunk| chunk.fourcc == FourCC::WTSH)
}
