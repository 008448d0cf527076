//! Opens AERO files: what [`modelfmt_core::Reader`] asks of the format, and the reader with what only AERO has.

use std::ops::{Deref, Range};
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

use modelfmt_core::claims::FileClaims;
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::FileSource;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Bytes, Encoding, Execution, Extent, Fetch, FileIndex, Limits, Location, Part, Report, Source,
    TensorTable, TensorView, VerifyLevel, now, parse_source,
};

use crate::chunks::Content;
use crate::error::{Error, Fault, Result};
use crate::index::{Index, Place};
use crate::pages::PageHashes;
use crate::parser::IndexParser;
use crate::verified::read_shard;
use crate::wire::FourCC;

/// How a file is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions(modelfmt_core::OpenOptions<Index>);

impl OpenOptions {
    /// The defaults: the limits of the specification.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Caps on what the file may make the reader do.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self(self.0.limits(limits))
    }

    /// The file is one of so many of a set.
    #[cfg(feature = "set")]
    pub(crate) fn one_in(self, files: u64) -> Self {
        Self(self.0.one_in(files))
    }

    #[cfg(feature = "set")]
    pub(crate) const fn limits_ref(&self) -> &Limits {
        self.0.limits_ref()
    }

    /// Opens a file by its path, with positioned reads.
    ///
    /// # Errors
    /// If it cannot be read, breaks a rule of AERO 0.1, or its tensor index does not match its hash.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Reader<FileSource>> {
        self.0.open(path).map(Reader)
    }

    /// Opens any source of bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_source<S: Source>(&self, source: S) -> Result<Reader<S>> {
        self.0.open_source(source).map(Reader)
    }

    #[cfg(feature = "set")]
    pub(crate) fn index_of<S: Source>(&self, source: &S) -> Result<Arc<Index>> {
        self.0.index_of(source)
    }
}

impl Index {
    /// Parses a whole file in memory.
    ///
    /// # Errors
    /// If it breaks a rule of AERO 0.1, or its tensor index does not match its hash.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        parse_source(IndexParser::new(bytes.len() as u64, Limits::default()), &bytes)
    }
}

impl FileIndex for Index {
    type Fault = Fault;
    type Parser = IndexParser;

    fn parser(file_len: u64, options: &modelfmt_core::OpenOptions<Self>) -> IndexParser {
        IndexParser::new(file_len, options.limits_ref().clone()).one_in(options.set_files())
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    /// The index of a set lists tensors whose shards are elsewhere: these have no place here.
    fn location(&self, position: usize) -> Option<Location> {
        let elsewhere = || Location { file: None, offset: None, stored_nbytes: 0, encoding: Encoding::Raw };
        self.location(position).or_else(|| self.tensors().info(position).map(|_| elsewhere()))
    }

    async fn read<'s, S: Fetch>(
        &self,
        source: &'s S,
        position: usize,
        _: Option<&Execution<'_>>,
    ) -> Result<Bytes<'s>> {
        let place = self.place(position)?;
        read_shard(source, &place.chunk, place.within).await
    }

    async fn read_into<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let place = self.place(position)?;
        let within = place.part(offset, out.len() as u64)?;
        let at = place.chunk.offset.saturating_add(within.offset());
        source.fetch_into(at, out).await.map_err(|source| Error::Io { at, len: within.len(), source })
    }

    async fn claims<S: Fetch>(
        index: &Arc<Self>,
        source: &S,
        positions: &[usize],
        claims: &mut FileClaims<'_>,
    ) -> Result<()> {
        crate::claims::of_tensors(index, source, positions, claims).await
    }

    fn version_text(&self) -> Option<String> {
        Some("0.1".to_owned())
    }

    async fn metadata_tree<S: Fetch>(&self, source: &S) -> Result<Value> {
        self.metadata(source).await.map(Value::Object)
    }

    fn details(&self) -> Object {
        let chunks = self.chunks().map(|chunk| {
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
        details.insert("uuid", hex(&self.uuid()));
        details.insert("chunks", chunks.collect::<Value>());
        details
    }

    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::findings(self, source, level, work).await.report(level)
    }
}

/// An open AERO file: the shared [`Reader`](modelfmt_core::Reader), to whose words it leads, with chunks, metadata and
/// verified reading.
#[derive(Debug)]
pub struct Reader<S>(modelfmt_core::Reader<Index, S>);

impl<S: Clone> Clone for Reader<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

modelfmt_core::container_through_field!(Reader);

impl<S> Deref for Reader<S> {
    type Target = modelfmt_core::Reader<Index, S>;

    fn deref(&self) -> &Self::Target {
        &self.0
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
        modelfmt_core::Reader::with_index(index, source).map(Self)
    }

    /// The source, without the reader.
    #[must_use]
    pub fn into_source(self) -> S {
        self.0.into_source()
    }

    /// What the file holds. Keep it to open the same file again without reading.
    #[must_use]
    pub const fn index(&self) -> &Arc<Index> {
        self.0.index()
    }

    /// Where its bytes come from.
    #[must_use]
    pub const fn source(&self) -> &S {
        self.0.source()
    }

    /// The tensors in file order.
    #[must_use]
    pub fn tensors(&self) -> &TensorTable {
        self.0.tensors()
    }

    /// The tensor of that name with its values: borrowed from a source in memory, else read. No hash is looked at.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`]; [`Fault::MissingShard`] in the index of a set.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.0.tensor(name)
    }

    /// Fills `out` with the values of the tensor at a position, from byte `offset` of them on. No hash is looked at.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`] if the tensor has fewer bytes.
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_into(position, offset, out)
    }

    /// Checks the file, on all cores, and reports every finding.
    pub fn verify(&self, level: VerifyLevel) -> Report {
        self.0.verify(level)
    }

    /// As [`verify`](Self::verify), with the work done as `work` says.
    pub fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.0.verify_with(level, work)
    }

    /// The tensor of that name with its values, verified: by its `hash_b3`, else by the page hashes of its shard.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::NoHash`] if the file has neither, [`Fault::Hash`] if the
    /// values are not what was hashed.
    pub fn tensor_verified(&self, name: &str) -> Result<TensorView<'_>> {
        match self.tensors().find(name) {
            Some(position) => self.tensor_at_verified(position),
            None => Err(self.named(Error::NotFound { name: name.to_owned() })),
        }
    }

    /// The tensor at a position in file order with its values, verified as by [`tensor_verified`](Self::tensor_verified).
    ///
    /// # Errors
    /// As [`tensor_verified`](Self::tensor_verified).
    pub fn tensor_at_verified(&self, position: usize) -> Result<TensorView<'_>> {
        let read = || {
            let place = self.index().place(position)?;
            let bytes = now(self.index().read_verified(self.source(), &place, place.within))?;
            modelfmt_core::view_of_source(place.info, bytes, || place.offset())
        };
        read().map_err(|error| self.named(error))
    }

    /// A range of the bytes of the tensor at a position. No hash is looked at.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor); [`Error::OutOfRange`].
    pub fn read_range(&self, position: usize, range: Range<u64>) -> Result<Bytes<'_>> {
        let read = || {
            let place = self.index().place(position)?;
            now(read_shard(self.source(), &place.chunk, of_range(&place, &range)?))
        };
        read().map_err(|error| self.named(error))
    }

    /// A range of the bytes of the tensor at a position, verified: a whole tensor by its `hash_b3`, a part of it by the
    /// pages that it touches; only those are read.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range) and [`tensor_verified`](Self::tensor_verified).
    pub fn read_range_verified(&self, position: usize, range: Range<u64>) -> Result<Bytes<'_>> {
        let read = || {
            let place = self.index().place(position)?;
            now(self.index().read_verified(self.source(), &place, of_range(&place, &range)?))
        };
        read().map_err(|error| self.named(error))
    }

    /// The content of a chunk: decompressed if it is compressed, and verified by its BLAKE3.
    ///
    /// Reads all of it: for the weights of a shard, ask for tensors instead.
    ///
    /// # Errors
    /// [`Fault::NoChunk`], [`Error::Io`]; [`Fault::Hash`] and others if the chunk is damaged; [`Error::Limit`].
    pub fn chunk(&self, fourcc: FourCC, name: &str) -> Result<Content<'_>> {
        match self.index().find_chunk(fourcc, name) {
            Some(position) => self.chunk_at(position),
            None => Err(self.named(Error::Malformed {
                part: Part::named("chunk", name),
                at: self.index().header.toc_offset,
                fault: Fault::NoChunk,
            })),
        }
    }

    /// The content of the chunk at a position in TOC order, as [`chunk`](Self::chunk) gives it.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub fn chunk_at(&self, position: usize) -> Result<Content<'_>> {
        now(self.index().content(self.source(), position)).map_err(|error| self.named(error))
    }

    /// The file's metadata (MJSN): a JSON object. `None` if the file has none.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk); also if it does not decode.
    pub fn json(&self) -> Result<Option<Object>> {
        now(self.index().json(self.source())).map_err(|error| self.named(error))
    }

    /// The manifest (MMSG). `None` if the file has none.
    ///
    /// # Errors
    /// As [`json`](Self::json).
    pub fn manifest(&self) -> Result<Option<Object>> {
        now(self.index().manifest(self.source())).map_err(|error| self.named(error))
    }

    /// The page hashes of a shard; `None` if the file has none for it.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk); [`Fault::Pages`] and others if they do not fit the shard.
    pub fn page_hashes(&self, shard_id: u64) -> Result<Option<Arc<PageHashes>>> {
        match self.index().shard_chunk(shard_id) {
            Some(shard) => {
                now(self.index().pages_of(self.source(), shard)).map_err(|error| self.named(error))
            }
            None => Ok(None),
        }
    }

    /// What `inspect --json` prints as metadata: `json` the MJSN object or null, `manifest` the MMSG map or null.
    ///
    /// # Errors
    /// As [`json`](Self::json).
    pub fn metadata(&self) -> Result<Object> {
        now(self.index().metadata(self.source())).map_err(|error| self.named(error))
    }
}

fn of_range(place: &Place<'_>, range: &Range<u64>) -> Result<Extent> {
    match range.end.checked_sub(range.start) {
        Some(len) => place.part(range.start, len),
        None => place.part(range.start, u64::MAX), // ends before it begins: out of range
    }
}

/// A hash, identity or digest as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
