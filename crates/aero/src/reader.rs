//! Opens AERO files: implements the traits of modelfmt-core's readers for this format, and adds the methods
//! that only AERO has.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use modelfmt_core::claims::{FileClaims, WantedRange};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Bytes, Encoding, Execution, Fetch, Location, OpenFile, Part, Report, Source, TensorTable, VerifyLevel,
    author::{FileIndex, OpenSettings, Opened as _, now},
};

use crate::chunks::Content;
use crate::contents::read_shard;
use crate::error::{Error, Fault, Result};
use crate::hex::hex;
use crate::index::Index;
use crate::pages::PageHashes;
use crate::parser::IndexParser;
use crate::wire::FourCC;

/// Options for opening an AERO file.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open AERO file: its [`Index`] and the source of its bytes. Reads check no hashes of values, except
/// through [`checked`](Self::checked).
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open AERO file whose source is asynchronous, such as an object store.
pub type AsyncReader<S> = modelfmt_core::AsyncReader<OpenFile<Index, S>>;

impl Index {
    /// Parses the index from the bytes of a file, with the default options.
    ///
    /// # Errors
    /// If the bytes end early, break a rule of the format, or exceed a limit.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::parse_bytes(bytes)
    }
}

impl FileIndex for Index {
    type Fault = Fault;
    type Parser = IndexParser;
    type Metadata<'a> = Object;

    fn parser(file_len: u64, settings: &OpenSettings) -> IndexParser {
        IndexParser::new(file_len, settings.limits_ref().clone()).one_in(settings.set_files())
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    /// Returns the location of a tensor. In the index of a set, tensors whose shards are in other files have
    /// no offset.
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
        wanted: &[WantedRange],
        claims: &mut FileClaims<'_>,
    ) -> Result<()> {
        crate::claims::of_tensors(index, source, wanted, claims).await
    }

    /// Checks the control hashes.
    async fn check_index<S: Fetch>(&self, source: &S, claims: &mut FileClaims<'_>) -> Result<()> {
        crate::control::check_all(self, source, claims).await
    }

    fn version_text(&self) -> Option<String> {
        Some("0.1".to_owned())
    }

    /// Returns the JSON of the MJSN chunk, or an empty object if the file has none.
    async fn metadata<S: Fetch>(&self, source: &S) -> Result<Object> {
        self.json(source).await.map(Option::unwrap_or_default)
    }

    async fn metadata_tree<S: Fetch>(&self, source: &S) -> Result<Value> {
        self.tree_of_both(source).await.map(Value::Object)
    }

    /// Returns the JSON, plus what only the manifest has: the name and architecture if the JSON lacks them,
    /// and, under `manifest.`, all other keys that do not describe the file itself.
    async fn flat_metadata<S: Fetch>(&self, source: &S) -> Result<Object> {
        let (json, manifest) = (self.json(source).await?, self.manifest(source).await?);
        Ok(crate::manifest::flatten(json.unwrap_or_default(), manifest.unwrap_or_default()))
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
        // The hash of its chunk checks each byte. If a pin has proved these hashes, the bytes need no other
        // proof.
        let found = match source.before_proof() {
            Some(source) => crate::verify::findings(self, &source, level, work).await,
            None => crate::verify::findings(self, source, level, work).await,
        };
        found.report(level)
    }
}

/// Methods that only AERO has: for chunks, the manifest and page hashes.
pub trait ReaderExt {
    /// Returns the content of a chunk, decompressed if necessary and verified by its BLAKE3.
    ///
    /// This reads the whole chunk. To read weights, request tensors instead.
    ///
    /// # Errors
    /// [`Fault::NoChunk`], [`Error::Io`]; [`Fault::Hash`] and others if the chunk is damaged; [`Error::Limit`].
    fn chunk(&self, fourcc: FourCC, name: &str) -> Result<Content<'_>>;

    /// Returns the content of the chunk at a position in TOC order.
    ///
    /// # Errors
    /// If there is no such chunk, if it cannot be read or decompressed, or if it does not match its hash.
    fn chunk_at(&self, position: usize) -> Result<Content<'_>>;

    /// Returns the BLAKE3 of the file's bytes before its payloads: the header, the TOC with the hashes of all
    /// chunks, and the names. Returns `None` if these are not before the payloads.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn pin(&self) -> Result<Option<[u8; 32]>>;

    /// Returns the manifest (MMSG), or `None` if the file has none.
    ///
    /// # Errors
    /// If it cannot be read, decompressed or decoded, or does not match its hash.
    fn manifest(&self) -> Result<Option<Object>>;

    /// Returns the page hashes of a shard, or `None` if the file has none for it.
    ///
    /// # Errors
    /// If the chunk cannot be read or does not match its hash; [`Fault::Pages`] and others if the page hashes
    /// do not fit the shard.
    fn page_hashes(&self, shard_id: u64) -> Result<Option<Arc<PageHashes>>>;
}

impl<S: Source> ReaderExt for Reader<S> {
    fn chunk(&self, fourcc: FourCC, name: &str) -> Result<Content<'_>> {
        match self.index().find_chunk(fourcc, name) {
            Some(position) => self.chunk_at(position),
            None => Err(self.named(Error::Malformed {
                part: Part::named("chunk", name),
                at: self.index().header.toc_offset,
                fault: Fault::NoChunk,
            })),
        }
    }

    fn chunk_at(&self, position: usize) -> Result<Content<'_>> {
        now(self.index().content(self.source(), position)).map_err(|error| self.named(error))
    }

    fn pin(&self) -> Result<Option<[u8; 32]>> {
        let Some(end) = self.index().payloads_start() else { return Ok(None) };
        let head = now(crate::contents::read(self.source(), 0..end)).map_err(|error| self.named(error))?;
        Ok(Some(*blake3::hash(&head).as_bytes()))
    }

    fn manifest(&self) -> Result<Option<Object>> {
        now(self.index().manifest(self.source())).map_err(|error| self.named(error))
    }

    fn page_hashes(&self, shard_id: u64) -> Result<Option<Arc<PageHashes>>> {
        match self.index().shard_chunk(shard_id) {
            Some(shard) => {
                now(self.index().pages_of(self.source(), shard)).map_err(|error| self.named(error))
            }
            None => Ok(None),
        }
    }
}
