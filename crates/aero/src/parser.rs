//! Parses bytes into an [`Index`], without I/O.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Bytes, Limits, Part,
    author::{Cursor, Extent, Parser},
};

use crate::chunks::{Chunk, ChunkTable, Content, Expansion, malformed};
use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::manifest::Descriptors;
use crate::msgpack;
use crate::origin::Origin;
use crate::pages::PageCache;
use crate::tidx::{self, Context, Parsed, Tensors};
use crate::wire::{FourCC, Header, MAX_ENTRY_COUNT, MAX_STRING_TABLE, TocEntry, TocHeader};

/// A string table that begins this close to the end of the TOC is read together with it.
const MERGE_GAP: u64 = 16 << 10;

/// Parses an [`Index`] from the byte ranges that it asks for; see [`Parser`].
///
/// It asks for the header, for the TOC and the string table (together, if they are adjacent), for the
/// metadata (MJSN), which can change how the tensor index is read, and for the tensor index. It asks for the
/// manifest only if a packed tensor refers to it, and never for a weight.
#[derive(Debug)]
pub struct IndexParser {
    limits: Limits,
    file_len: u64,
    /// How much compressed chunks may still expand.
    expansion: Expansion,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// The header is needed.
    Head,
    /// The TOC is needed, and the string table if it is close.
    Toc(Head),
    /// The string table is needed.
    Strings(Head, Toc),
    /// The metadata in the chunk at this position are needed.
    Json(Control, usize),
    /// The tensor index is needed.
    Tidx(Control, usize, Origin),
    /// The manifest in the chunk at this position is needed before the content of the tensor index can be
    /// parsed.
    Manifest(Control, usize, Waiting),
    Done(Control, Box<Tensors>),
    /// An error has been returned.
    Failed,
}

#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) header: Header,
    pub(crate) toc: Extent,
    pub(crate) strings: Extent,
}

/// What has been read of the tensor index while the manifest is fetched.
#[derive(Debug)]
struct Waiting {
    /// The content of the tensor index.
    tidx: Vec<u8>,
    origin: Origin,
}

#[derive(Debug)]
struct Toc {
    reserved_zero: bool,
    entries: Vec<TocEntry>,
}

#[derive(Debug)]
struct Control {
    header: Header,
    toc_reserved_zero: bool,
    chunks: ChunkTable,
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes.
    #[must_use]
    pub const fn new(file_len: u64, limits: Limits) -> Self {
        Self { limits, file_len, expansion: Expansion::of_one_in(1), step: Step::Head }
    }

    /// Makes this the parser for one of `count` files in a set.
    pub(crate) const fn one_in(mut self, count: u64) -> Self {
        self.expansion = Expansion::of_one_in(count);
        self
    }

    /// Returns the bytes that the current step takes. The range is empty only if that part of the file is
    /// empty.
    fn wanted(&self) -> Option<Range<u64>> {
        let range = match &self.step {
            Step::Head => 0..Header::LEN.min(self.file_len),
            Step::Toc(head) => head.toc.offset()..head.toc_and_strings_end(),
            Step::Strings(head, _) => head.strings.range(),
            Step::Json(control, chunk)
            | Step::Tidx(control, chunk, _)
            | Step::Manifest(control, chunk, _) => {
                let chunk = control.chunks.chunk(*chunk)?;
                chunk.offset..chunk.offset.saturating_add(chunk.length)
            }
            Step::Done(..) | Step::Failed => return None,
        };
        Some(range)
    }

    /// Takes one step with the bytes that it wants.
    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.step = match std::mem::replace(&mut self.step, Step::Failed) {
            Step::Head => Step::Toc(self.head(bytes)?),
            Step::Toc(head) => self.toc(head, bytes)?,
            Step::Strings(head, toc) => self.control(head, toc, bytes)?,
            Step::Json(control, chunk) => self.json(control, chunk, bytes)?,
            Step::Tidx(control, chunk, origin) => self.tidx(control, chunk, origin, bytes)?,
            Step::Manifest(control, chunk, waiting) => self.manifest(control, chunk, &waiting, bytes)?,
            done @ (Step::Done(..) | Step::Failed) => done,
        };
        Ok(())
    }

    pub(crate) fn head(&self, bytes: &[u8]) -> Result<Head> {
        let mut c = Cursor::new(bytes, 0);
        let header = Header::decode(&mut c)?;
        let part = |field| Part::new("header").with_field(field);
        // Refuses a TOC or string table that is outside the file, or overlaps the header or the other one
        // (docs/formats/aero.md#header-and-toc).
        let toc = Extent::new(header.toc_offset, header.toc_length, self.file_len)
            .map_err(|fault| malformed(part("toc_offset"), 12, fault))?;
        let strings = Extent::new(header.strings_offset, header.strings_length, self.file_len)
            .map_err(|fault| malformed(part("string_table_offset"), 28, fault))?;
        if toc.offset() < Header::LEN {
            return Err(malformed(part("toc_offset"), 12, Fault::Overlaps("header")));
        }
        if !strings.is_empty() && strings.offset() < Header::LEN {
            return Err(malformed(part("string_table_offset"), 28, Fault::Overlaps("header")));
        }
        if !strings.is_empty() && strings.offset() < toc.end() && toc.offset() < strings.end() {
            return Err(malformed(part("string_table_offset"), 28, Fault::Overlaps("TOC")));
        }
        let entries = toc.len().saturating_sub(TocHeader::LEN) / TocEntry::LEN;
        Limits::check("the number of chunks", entries, self.limits.entries.min(MAX_ENTRY_COUNT))?;
        let max = self.limits.index_len.min(MAX_STRING_TABLE);
        Limits::check("the length of the string table", strings.len(), max)?;
        Limits::check("the length of the TOC", toc.len(), self.limits.index_len)?;
        Ok(Head { header, toc, strings })
    }

    fn toc(&self, head: Head, bytes: &[u8]) -> Result<Step> {
        let len = usize::try_from(head.toc.len()).unwrap_or(usize::MAX);
        let mut c = Cursor::new(bytes.get(..len).unwrap_or(bytes), head.toc.offset());
        let TocHeader { entry_count, reserved_zero } = TocHeader::decode(&mut c)?;
        let expected = TocHeader::LEN.saturating_add(u64::from(entry_count).saturating_mul(TocEntry::LEN));
        if head.toc.len() != expected {
            let fault = Fault::TocLength { found: head.toc.len(), entries: entry_count, expected };
            return Err(malformed(Part::new("header").with_field("toc_length"), 20, fault));
        }
        let toc = Toc { reserved_zero, entries: ChunkTable::decode_entries(&mut c, entry_count)? };
        if head.strings.is_empty() {
            return self.control(head, toc, &[]);
        }
        if head.is_near() {
            let skip = usize::try_from(head.strings.offset().saturating_sub(head.toc.offset()));
            let strings = bytes.get(skip.unwrap_or(usize::MAX)..).unwrap_or_default();
            return self.control(head, toc, strings);
        }
        Ok(Step::Strings(head, toc))
    }

    fn control(&self, head: Head, toc: Toc, bytes: &[u8]) -> Result<Step> {
        let len = usize::try_from(head.strings.len()).unwrap_or(usize::MAX);
        let strings = bytes.get(..len).unwrap_or(bytes);
        let (at, strings_at) = (head.toc.offset(), head.strings.offset());
        let chunks = ChunkTable::new(toc.entries, strings, at, strings_at, self.file_len, &self.limits)?;
        let control = Control { header: head.header, toc_reserved_zero: toc.reserved_zero, chunks };
        if control.chunks.tidx().is_none() {
            return Ok(Step::Done(control, Box::default()));
        }
        // A file with unreadable metadata opens without them. Requesting them is an error.
        let readable =
            |&position: &usize| self.budget(&control, &[Some(position)]).is_some_and(|len| len > 0);
        match control.chunks.first(FourCC::MJSN).filter(readable) {
            Some(json) => Ok(Step::Json(control, json)),
            None => self.begin_tidx(control, Origin::default()),
        }
    }

    /// Returns the uncompressed length of the last of these chunks, if all of them can be read.
    fn budget(&self, control: &Control, positions: &[Option<usize>]) -> Option<usize> {
        let mut expansion = self.expansion.clone();
        let chunks = positions.iter().filter_map(|&position| control.chunks.chunk(position?));
        let lens = chunks.map(|chunk| chunk.check_budget(&self.limits, &mut expansion).ok());
        lens.collect::<Option<Vec<_>>>()?.pop()
    }

    fn json(&self, control: Control, chunk: usize, bytes: &[u8]) -> Result<Step> {
        let origin = control.chunks.chunk(chunk).and_then(|chunk| {
            let content = chunk.content(stored(&chunk, bytes), &self.limits).ok()?;
            Some(Origin::of(&content))
        });
        self.begin_tidx(control, origin.unwrap_or_default())
    }

    fn begin_tidx(&self, control: Control, origin: Origin) -> Result<Step> {
        let Some(position) = control.chunks.tidx() else { return Ok(Step::Failed) };
        let mut expansion = self.expansion.clone();
        if let Some(json) = control.chunks.first(FourCC::MJSN).and_then(|at| control.chunks.chunk(at)) {
            let _ = json.check_budget(&self.limits, &mut expansion); // one that is too large was not read
        }
        if let Some(chunk) = control.chunks.chunk(position) {
            chunk.check_budget(&self.limits, &mut expansion)?;
        }
        Ok(Step::Tidx(control, position, origin))
    }

    fn tidx(&self, control: Control, chunk: usize, mut origin: Origin, bytes: &[u8]) -> Result<Step> {
        let Some(chunk) = control.chunks.chunk(chunk) else { return Ok(Step::Failed) };
        let content = chunk.content(stored(&chunk, bytes), &self.limits)?;
        // Without a manifest there are no descriptors, unless the file comes from GGUF and has them in MJSN.
        let manifest = control.chunks.first(FourCC::MMSG);
        let none = manifest.is_none().then(Descriptors::default);
        let own = origin.descriptors.take();
        let context = Context {
            chunk,
            chunks: &control.chunks,
            limits: &self.limits,
            origin: &origin,
            descriptors: own.as_ref().or(none.as_ref()),
        };
        match (tidx::parse(&content, &context)?, manifest) {
            (Parsed::Done(tensors), _) => Ok(Step::Done(control, tensors)),
            (Parsed::NeedsManifest, Some(manifest)) => {
                let tidx = match content {
                    Content::Decompressed(content) => content,
                    Content::Stored(content) => content.to_vec(),
                };
                self.begin_manifest(control, manifest, Waiting { tidx, origin })
            }
            (Parsed::NeedsManifest, None) => Ok(Step::Failed), // never asked for without one
        }
    }

    fn begin_manifest(&self, control: Control, manifest: usize, waiting: Waiting) -> Result<Step> {
        // Both chunks are decompressed in memory at the same time.
        let chunks = [control.chunks.tidx(), Some(manifest)];
        if self.budget(&control, &chunks).is_some_and(|len| len > 0) {
            return Ok(Step::Manifest(control, manifest, waiting));
        }
        self.with_descriptors(control, &Descriptors::default(), &waiting)
    }

    fn manifest(&self, control: Control, chunk: usize, waiting: &Waiting, bytes: &[u8]) -> Result<Step> {
        // A file opens even if its manifest does not decode; `verify` reports it
        // (docs/formats/aero.md#broken-metadata).
        let descriptors = control.chunks.chunk(chunk).and_then(|chunk| {
            let content = chunk.content(stored(&chunk, bytes), &self.limits).ok()?;
            msgpack::check(&content, self.limits.depth).ok()?;
            Some(Descriptors::of(&content))
        });
        let descriptors = descriptors.unwrap_or_default();
        self.with_descriptors(control, &descriptors, waiting)
    }

    fn with_descriptors(
        &self,
        control: Control,
        descriptors: &Descriptors,
        waiting: &Waiting,
    ) -> Result<Step> {
        let Some(chunk) = control.chunks.tidx().and_then(|at| control.chunks.chunk(at)) else {
            return Ok(Step::Failed);
        };
        let context = Context {
            chunk,
            chunks: &control.chunks,
            limits: &self.limits,
            origin: &waiting.origin,
            descriptors: Some(descriptors),
        };
        match tidx::parse(&waiting.tidx, &context)? {
            Parsed::Done(tensors) => Ok(Step::Done(control, tensors)),
            Parsed::NeedsManifest => Ok(Step::Failed), // never asked for when there is one
        }
    }
}

/// Returns the most values in a tree of metadata. Without a limit, a compressed chunk could claim billions of
/// them.
pub(crate) const fn max_nodes(chunk: &Chunk<'_>) -> u64 {
    chunk.length.saturating_mul(4).saturating_add(1_000_000)
}

/// Returns the payload of a chunk, which is at the beginning of `bytes`.
fn stored<'b>(chunk: &Chunk<'_>, bytes: &'b [u8]) -> Bytes<'b> {
    let len = usize::try_from(chunk.length).unwrap_or(usize::MAX);
    Bytes::Borrowed(bytes.get(..len).unwrap_or(bytes))
}

impl Head {
    fn is_near(&self) -> bool {
        self.strings.offset().checked_sub(self.toc.end()).is_some_and(|gap| gap <= MERGE_GAP)
    }

    fn toc_and_strings_end(&self) -> u64 {
        if self.is_near() { self.strings.end() } else { self.toc.end() }
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        self.wanted().filter(|range| !range.is_empty())
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.take(bytes)
    }

    fn finish(mut self) -> Result<Index> {
        // A step that needs no bytes, such as for an empty file or chunk, has not been taken yet.
        while self.wanted().is_some_and(|range| range.is_empty()) {
            self.take(&[])?;
        }
        match self.step {
            Step::Done(control, tensors) => Ok(Index {
                header: control.header,
                toc_reserved_zero: control.toc_reserved_zero,
                chunks: control.chunks,
                tensors: *tensors,
                file_len: self.file_len,
                limits: self.limits,
                pages: PageCache::default(),
            }),
            _ => Err(Error::Truncated {
                part: Part::new("file"),
                at: 0,
                need: Header::LEN,
                have: self.file_len,
            }),
        }
    }
}
