//! Opens AERO files and reads their tensors and chunks.

use std::collections::BTreeMap;
use std::ops::Range;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use modelfmt_core::claims::{Claims, Watched};
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::FileSource;
use modelfmt_core::value::{Object, ParseOptions, Value, json};
use modelfmt_core::{
    AlignedBuf, AnyError, Bytes, Container, Encoding, Extent, Level, Limits, Location, Report, Source,
    TensorInfo, TensorTable, TensorView, Work,
};

use crate::chunks::{Chunk, Content};
use crate::error::{Error, Fault, Hex, Result};
use crate::index::{Index, Place};
use crate::msgpack;
use crate::pages::{PageHashes, Payload};
use crate::parser::{IndexParser, max_nodes};
use crate::tidx::metadata_error;
use crate::wire::FourCC;

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    limits: Limits,
    /// How many files the set has of which one is opened; 0 for a file by itself.
    set_files: u64,
}

impl OpenOptions {
    /// The defaults: the limits of the specification.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Caps on what the file may make the reader do.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    #[cfg(feature = "set")]
    pub(crate) const fn one_in(mut self, files: u64) -> Self {
        self.set_files = files;
        self
    }

    #[cfg(feature = "set")]
    pub(crate) const fn limits_ref(&self) -> &Limits {
        &self.limits
    }

    /// Opens a file by its path, with positioned reads.
    ///
    /// # Errors
    /// If it cannot be read, breaks a rule of AERO 0.1, or its tensor index does not match its hash.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader<FileSource>> {
        let open = |source| Error::Open { path: path.as_ref().display().to_string(), source };
        self.open_source(FileSource::open(path.as_ref()).map_err(open)?)
    }

    /// Opens any source of bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_source<S: Source>(&self, source: S) -> Result<Reader<S>> {
        Ok(Reader::new(self.index_of(&source)?, source))
    }

    pub(crate) fn index_of(&self, source: &impl Source) -> Result<Arc<Index>> {
        let parser = IndexParser::new(source.len(), self.limits.clone()).one_in(self.set_files);
        modelfmt_core::parse_source(parser, source).map(Arc::new)
    }
}

/// An open AERO file: its [`Index`] and the source of its bytes.
#[derive(Debug)]
pub struct Reader<S> {
    index: Arc<Index>,
    source: S,
    /// Page hashes that verified reads have needed, by the position of the shard's chunk.
    pages: Mutex<BTreeMap<usize, Arc<PageHashes>>>,
}

impl<S: Clone> Clone for Reader<S> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.index), self.source.clone())
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Reader<FileSource> {
    /// Opens a file by its path, with positioned reads.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }
}

impl<S> Reader<S> {
    const fn new(index: Arc<Index>, source: S) -> Self {
        Self { index, source, pages: Mutex::new(BTreeMap::new()) }
    }

    /// What the file holds.
    #[must_use]
    pub const fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Where its bytes come from.
    pub const fn source(&self) -> &S {
        &self.source
    }
}

impl<S: Source> Reader<S> {
    /// Opens any source of bytes: a slice, a map, a buffer, or one of your own.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn from_source(source: S) -> Result<Self> {
        OpenOptions::new().open_source(source)
    }

    /// Puts a source under an index that was made of the same bytes before; reads nothing.
    ///
    /// # Errors
    /// If the source is not as long as the file that the index was made of.
    pub fn with_index(index: Arc<Index>, source: S) -> Result<Self> {
        modelfmt_core::require_len(source.len(), index.file_len())?;
        Ok(Self::new(index, source))
    }

    /// The tensors in file order.
    #[must_use]
    pub fn tensors(&self) -> &TensorTable {
        self.index.tensors()
    }

    /// The tensor of that name with its values: borrowed from a source in memory, else read. No hash is looked at.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`]; [`Fault::MissingShard`] in the index of a set.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.tensor_at(self.position(name)?)
    }

    /// The tensor at a position in file order with its values. No hash is looked at.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn tensor_at(&self, position: usize) -> Result<TensorView<'_>> {
        let place = self.index.place(position)?;
        modelfmt_core::view_of_source(place.info, self.read_shard(&place.chunk, place.within)?, || {
            place.offset()
        })
    }

    /// The tensor of that name with its values, verified: by its `hash_b3`, else by the page hashes of its shard.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::NoHash`] if the file has neither, [`Fault::Hash`] if the values are not
    /// what was hashed.
    pub fn tensor_verified(&self, name: &str) -> Result<TensorView<'_>> {
        self.tensor_at_verified(self.position(name)?)
    }

    /// The tensor at a position in file order with its values, verified as by [`tensor_verified`](Self::tensor_verified).
    ///
    /// # Errors
    /// As [`tensor_verified`](Self::tensor_verified).
    pub fn tensor_at_verified(&self, position: usize) -> Result<TensorView<'_>> {
        let place = self.index.place(position)?;
        let bytes = self.read_place_verified(&place, place.within)?;
        modelfmt_core::view_of_source(place.info, bytes, || place.offset())
    }

    /// A range of the bytes of the tensor at a position. No hash is looked at.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`].
    pub fn read_range(&self, position: usize, range: Range<u64>) -> Result<Bytes<'_>> {
        let place = self.index.place(position)?;
        self.read_shard(&place.chunk, of_range(&place, &range)?)
    }

    /// A range of the bytes of the tensor at a position, verified: a whole tensor by its `hash_b3`, a part of it by the
    /// pages that it touches; only those are read.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range) and [`tensor_verified`](Self::tensor_verified).
    pub fn read_range_verified(&self, position: usize, range: Range<u64>) -> Result<Bytes<'_>> {
        let place = self.index.place(position)?;
        self.read_place_verified(&place, of_range(&place, &range)?)
    }

    /// Fills `out` with the values of the tensor at a position, from byte `offset` of them on. No hash is looked at.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range).
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_from(&self.source, position, offset, out)
    }

    /// The same from another source of the same bytes.
    pub(crate) fn read_from(
        &self,
        source: &impl Source,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let place = self.index.place(position)?;
        let within = place.part(offset, out.len() as u64)?;
        let at = place.chunk.offset.saturating_add(within.offset());
        source.read_into(at, out).map_err(|source| Error::Io { at, len: within.len(), source })
    }

    /// The content of a chunk: decompressed if it is compressed, and verified by its BLAKE3.
    ///
    /// Reads all of it: for the weights of a shard, ask for tensors instead.
    ///
    /// # Errors
    /// [`Fault::NoChunk`], [`Error::Io`]; [`Fault::Hash`] and others if the chunk is damaged; [`Error::Limit`].
    pub fn chunk(&self, fourcc: FourCC, name: &str) -> Result<Content<'_>> {
        let position = self.index.find_chunk(fourcc, name).ok_or_else(|| Error::Malformed {
            part: modelfmt_core::Part::named("chunk", name),
            at: self.index.header.toc_offset,
            fault: Fault::NoChunk,
        })?;
        self.chunk_at(position)
    }

    /// The content of the chunk at a position in TOC order, as [`chunk`](Self::chunk) gives it.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub fn chunk_at(&self, position: usize) -> Result<Content<'_>> {
        let chunk = self.index.chunk(position).ok_or_else(|| Error::Malformed {
            part: modelfmt_core::Part::entry("chunk", position as u64),
            at: self.index.header.toc_offset,
            fault: Fault::NoChunk,
        })?;
        chunk.check_readable(&self.index.limits)?;
        let end = chunk.offset.saturating_add(chunk.length);
        chunk.content(self.read(chunk.offset..end)?, &self.index.limits)
    }

    /// The file's metadata (MJSN): a JSON object. `None` if the file has none.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk); also if it does not decode.
    pub fn json(&self) -> Result<Option<Object>> {
        self.index.chunks.first(FourCC::MJSN).map(|position| self.json_at(position)).transpose()
    }

    pub(crate) fn json_at(&self, position: usize) -> Result<Object> {
        self.tree(position, |content, chunk| {
            let depth = u32::try_from(self.index.limits.depth).unwrap_or(u32::MAX);
            let options = ParseOptions::new().with_max_depth(depth).with_max_nodes(max_nodes(chunk));
            json::parse_with(content, options).map_err(|error| error.to_string())
        })
    }

    /// The manifest (MMSG). `None` if the file has none.
    ///
    /// # Errors
    /// As [`json`](Self::json).
    pub fn manifest(&self) -> Result<Option<Object>> {
        self.index.chunks.first(FourCC::MMSG).map(|position| self.manifest_at(position)).transpose()
    }

    pub(crate) fn manifest_at(&self, position: usize) -> Result<Object> {
        self.tree(position, |content, chunk| {
            msgpack::decode(content, self.index.limits.depth, max_nodes(chunk))
        })
    }

    fn tree(
        &self,
        position: usize,
        decode: impl FnOnce(&[u8], &Chunk<'_>) -> Result<Value, String>,
    ) -> Result<Object> {
        let content = self.chunk_at(position)?;
        let Some(chunk) = self.index.chunk(position) else { return Ok(Object::new()) }; // read just now
        match decode(&content, &chunk) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(other) => Err(metadata_error(&chunk, format!("it is {} and not a map", other.kind()))),
            Err(text) => Err(metadata_error(&chunk, text)),
        }
    }

    /// The page hashes of a shard; `None` if the file has none for it.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk); [`Fault::Pages`] and others if they do not fit the shard.
    pub fn page_hashes(&self, shard_id: u64) -> Result<Option<Arc<PageHashes>>> {
        match self.index.shard_chunk(shard_id) {
            Some(shard) => self.pages_of(shard),
            None => Ok(None),
        }
    }

    pub(crate) fn pages_of(&self, shard: usize) -> Result<Option<Arc<PageHashes>>> {
        if let Some(known) = self.pages.lock().unwrap_or_else(PoisonError::into_inner).get(&shard) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(shard_chunk) = self.index.chunk(shard) else { return Ok(None) };
        let name = PageHashes::chunk_name(shard_chunk.name);
        let Some(position) = self.index.find_chunk(FourCC::PHSH, &name) else { return Ok(None) };
        let content = self.chunk_at(position)?;
        let Some(chunk) = self.index.chunk(position) else { return Ok(None) };
        let hashes = Payload::parse(&content)
            .and_then(|payload| PageHashes::new(payload, chunk.name, &shard_chunk))
            .map_err(|fault| chunk.malformed(fault))?;
        let hashes = Arc::new(hashes);
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).insert(shard, Arc::clone(&hashes));
        Ok(Some(hashes))
    }

    /// What `inspect --json` prints as metadata: `json` the MJSN object or null, `manifest` the MMSG map or null.
    ///
    /// # Errors
    /// As [`json`](Self::json).
    pub fn metadata(&self) -> Result<Object> {
        let (json, manifest) = (self.json()?, self.manifest()?);
        Ok(Object::from_iter([("json", Value::from(json)), ("manifest", Value::from(manifest))]))
    }

    /// Checks the file and reports every finding.
    pub fn verify(&self, level: Level) -> Report {
        self.verify_with(level, &Work::default())
    }

    /// As [`verify`](Self::verify), with the work done as `work` says.
    pub fn verify_with(&self, level: Level, work: &Work<'_>) -> Report {
        crate::verify::verify(self, level, work)
    }

    pub(crate) fn read(&self, range: Range<u64>) -> Result<Bytes<'_>> {
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        self.source.read(range).map_err(|source| Error::Io { at, len, source })
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.index.tensors().find(name).ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    /// Bytes of a shard.
    fn read_shard(&self, shard: &Chunk<'_>, within: Extent) -> Result<Bytes<'_>> {
        let begin = shard.offset.saturating_add(within.offset());
        self.read(begin..begin.saturating_add(within.len()))
    }

    fn read_place_verified(&self, place: &Place<'_>, within: Extent) -> Result<Bytes<'_>> {
        let tensor = || modelfmt_core::Part::named("tensor", place.info.name);
        let at = place.chunk.offset.saturating_add(within.offset());
        let hash = place.hash.clone().map_err(|fault| Error::Malformed {
            part: tensor().with_field("hash_b3"),
            at,
            fault,
        })?;
        if let Some(expected) = hash.filter(|_| within == place.within) {
            let bytes = self.read_shard(&place.chunk, within)?;
            let found = *blake3::hash(&bytes).as_bytes();
            if found == expected {
                return Ok(bytes);
            }
            let fault =
                Fault::Hash { stated: "hash_b3", found: Hex::new(found), expected: Hex::new(expected) };
            return Err(Error::Malformed { part: tensor(), at, fault });
        }
        match self.pages_of(place.shard)? {
            Some(pages) => self.read_pages(&place.chunk, within, &pages),
            None => Err(Error::NoHash { name: place.info.name.to_owned() }),
        }
    }

    /// Bytes of a shard, with every page that they touch read and hashed.
    fn read_pages(&self, shard: &Chunk<'_>, within: Extent, pages: &PageHashes) -> Result<Bytes<'_>> {
        let first = within.offset() / pages.page_size();
        let touched =
            if within.is_empty() { first..first } else { first..within.end().div_ceil(pages.page_size()) };
        if let Some(all) = self.source.as_slice() {
            for page in touched {
                let extent = pages.extent(page, shard)?;
                check_page(shard, pages, page, range_of(all, shard, extent))?;
            }
            return Ok(Bytes::Borrowed(range_of(all, shard, within)));
        }
        let memory = |source| Error::Io { at: shard.offset, len: within.len(), source };
        let len =
            usize::try_from(within.len()).map_err(|_| memory(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut out = AlignedBuf::zeroed(len).map_err(memory)?;
        for page in touched {
            let extent = pages.extent(page, shard)?;
            let bytes = self.read_shard(shard, extent)?;
            check_page(shard, pages, page, &bytes)?;
            copy_overlap(&bytes, extent, &mut out, within);
        }
        Ok(Bytes::Owned(out))
    }
}

fn of_range(place: &Place<'_>, range: &Range<u64>) -> Result<Extent> {
    match range.end.checked_sub(range.start) {
        Some(len) => place.part(range.start, len),
        None => place.part(range.start, u64::MAX), // ends before it begins: out of range
    }
}

fn check_page(shard: &Chunk<'_>, pages: &PageHashes, page: u64, bytes: &[u8]) -> Result<()> {
    let found = *blake3::hash(bytes).as_bytes();
    let expected = pages.digest(page).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    Err(Error::Malformed {
        part: modelfmt_core::Part::entry("page", page).with_name(shard.name),
        at: shard.offset.saturating_add(page.saturating_mul(pages.page_size())),
        fault: Fault::Hash { stated: "PHSH chunk", found: Hex::new(found), expected: Hex::new(expected) },
    })
}

/// A range of a shard in a source that is in memory.
fn range_of<'a>(all: &'a [u8], shard: &Chunk<'_>, within: Extent) -> &'a [u8] {
    let start = usize::try_from(shard.offset.saturating_add(within.offset())).unwrap_or(usize::MAX);
    let len = usize::try_from(within.len()).unwrap_or(usize::MAX);
    all.get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default()
}

/// Copies what a page and the wanted bytes share.
fn copy_overlap(page: &[u8], page_at: Extent, out: &mut [u8], wanted: Extent) {
    let (from, to) = (page_at.offset().max(wanted.offset()), page_at.end().min(wanted.end()));
    let slice = |origin: u64| {
        let from = usize::try_from(from.saturating_sub(origin)).ok()?;
        Some(from..usize::try_from(to.saturating_sub(origin)).ok()?)
    };
    let source = slice(page_at.offset()).and_then(|range| page.get(range));
    let target = slice(wanted.offset()).and_then(|range| out.get_mut(range));
    if let Some((source, target)) = source.zip(target)
        && source.len() == target.len()
    {
        target.copy_from_slice(source);
    }
}

/// A hash, identity or digest as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl<S: Source> Container for Reader<S> {
    fn version(&self) -> Option<String> {
        Some("0.1".to_owned())
    }

    fn file_size(&self) -> u64 {
        self.index.file_len()
    }

    fn tensor_count(&self) -> usize {
        self.index.tensors().len()
    }

    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        self.index.tensors().info(tensor)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.index.tensors().find(name)
    }

    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        if let Some(location) = self.index.location(tensor) {
            return Ok(location);
        }
        // The index of a set lists tensors whose shards are elsewhere.
        match self.index.tensors().info(tensor) {
            Some(_) => Ok(Location { file: None, offset: None, stored_nbytes: 0, encoding: Encoding::Raw }),
            None => Err(AnyError::NotFound { name: format!("number {tensor}") }),
        }
    }

    fn read(&self, tensor: usize) -> Result<Bytes<'_>, AnyError> {
        self.tensor_at(tensor).map(TensorView::into_bytes).map_err(Error::erase)
    }

    fn read_into(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), AnyError> {
        Self::read_into(self, tensor, offset, out).map_err(Error::erase)
    }

    fn read_into_checked(
        &self,
        tensor: usize,
        offset: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), AnyError> {
        let source = Watched::new(&self.source, 0, claims);
        self.read_from(&source, tensor, offset, out).map_err(Error::erase)
    }

    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        let len = out.len() as u64;
        match file {
            0 => self.source.read_into(at, out).map_err(|source| AnyError::Io { at, len, source }),
            other => Err(AnyError::NotFound { name: format!("file number {other}") }),
        }
    }

    fn claims(&self, tensors: &[usize]) -> Result<Claims, AnyError> {
        let mut claims = Claims::new();
        self.claims_of(tensors, &mut claims.of_file())?;
        Ok(claims)
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        Self::metadata(self).map(Value::Object).map_err(Error::erase)
    }

    fn details(&self) -> Result<Value, AnyError> {
        let chunks = self.index.chunks().map(|chunk| {
            let flags: Value = chunk.flags.names().collect();
            Object::from_iter([
                ("fourcc", Value::from(chunk.fourcc.to_string())),
                ("name", chunk.name.into()),
                ("flags", flags),
                ("offset", chunk.offset.into()),
                ("length", chunk.length.into()),
                ("ulen", chunk.ulen.into()),
                ("blake3", hex(&chunk.blake3).into()),
            ])
        });
        let mut details = Object::new();
        details.insert("uuid", hex(&self.index.uuid()));
        details.insert("chunks", chunks.collect::<Value>());
        Ok(details.into())
    }

    fn verify(&self, level: Level, work: &Work<'_>) -> Report {
        self.verify_with(level, work)
    }
}
