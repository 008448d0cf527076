//! The content of chunks other than weights: metadata, the manifest, page hashes. Each is read when it is needed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::sync::Arc;

use modelfmt_core::value::{Object, ParseOptions, Value, json};
use modelfmt_core::{Bytes, Fetch, Part, author::Extent};

use crate::chunks::{Chunk, Content};
use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::msgpack;
use crate::pages::{PageHashes, Payload};
use crate::parser::max_nodes;
use crate::tidx::metadata_error;
use crate::wire::FourCC;

/// Reads a range of a file.
pub(crate) async fn read<S: Fetch>(source: &S, range: Range<u64>) -> Result<Bytes<'_>> {
    let (at, len) = (range.start, range.end.saturating_sub(range.start));
    source.fetch(range).await.map_err(|source| Error::Io { at, len, source })
}

/// Reads a range of a shard.
pub(crate) async fn read_shard<'s, S: Fetch>(
    source: &'s S,
    shard: &Chunk<'_>,
    within: Extent,
) -> Result<Bytes<'s>> {
    let begin = shard.offset.saturating_add(within.offset());
    read(source, begin..begin.saturating_add(within.len())).await
}

impl Index {
    /// Returns the content of the chunk at a position, decompressed if necessary and verified by its BLAKE3.
    pub(crate) async fn content<'s, S: Fetch>(&self, source: &'s S, position: usize) -> Result<Content<'s>> {
        let chunk = self.chunk(position).ok_or_else(|| Error::Malformed {
            part: Part::entry("chunk", position as u64),
            at: self.header.toc_offset,
            fault: Fault::NoChunk,
        })?;
        chunk.check_readable(&self.limits)?;
        let end = chunk.offset.saturating_add(chunk.length);
        chunk.content(read(source, chunk.offset..end).await?, &self.limits)
    }

    /// Decodes the metadata in the MJSN chunk at a position.
    pub(crate) async fn json_at<S: Fetch>(&self, source: &S, position: usize) -> Result<Object> {
        let decode = |content: &[u8], chunk: &Chunk<'_>| {
            let depth = u32::try_from(self.limits.depth).unwrap_or(u32::MAX);
            let options = ParseOptions::new().with_max_depth(depth).with_max_nodes(max_nodes(chunk));
            json::parse_with(content, options).map_err(|error| error.to_string())
        };
        self.tree(source, position, decode).await
    }

    /// Decodes the manifest in the MMSG chunk at a position.
    pub(crate) async fn manifest_at<S: Fetch>(&self, source: &S, position: usize) -> Result<Object> {
        let decode =
            |content: &[u8], chunk: &Chunk<'_>| msgpack::decode(content, self.limits.depth, max_nodes(chunk));
        self.tree(source, position, decode).await
    }

    async fn tree<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        decode: impl FnOnce(&[u8], &Chunk<'_>) -> Result<Value, String>,
    ) -> Result<Object> {
        let content = self.content(source, position).await?;
        let Some(chunk) = self.chunk(position) else { return Ok(Object::new()) }; // read just now
        match decode(&content, &chunk) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(other) => Err(metadata_error(&chunk, format!("it is {} and not a map", other.kind()))),
            Err(text) => Err(metadata_error(&chunk, text)),
        }
    }

    /// Reads the file's metadata (MJSN), if it has any.
    pub(crate) async fn json<S: Fetch>(&self, source: &S) -> Result<Option<Object>> {
        match self.chunks.first(FourCC::MJSN) {
            Some(position) => self.json_at(source, position).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads the manifest (MMSG), if there is one.
    pub(crate) async fn manifest<S: Fetch>(&self, source: &S) -> Result<Option<Object>> {
        match self.chunks.first(FourCC::MMSG) {
            Some(position) => self.manifest_at(source, position).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns an object with the keys `json` and `manifest`. The value of each is an object or null.
    pub(crate) async fn tree_of_both<S: Fetch>(&self, source: &S) -> Result<Object> {
        let (json, manifest) = (self.json(source).await?, self.manifest(source).await?);
        Ok(Object::from_iter([("json", Value::from(json)), ("manifest", Value::from(manifest))]))
    }

    /// Reads the page hashes of the shard whose chunk is at a position. Returns `None` if the file has none
    /// for it.
    pub(crate) async fn pages_of<S: Fetch>(
        &self,
        source: &S,
        shard: usize,
    ) -> Result<Option<Arc<PageHashes>>> {
        if let Some(known) = self.pages.get(shard) {
            return Ok(Some(known));
        }
        let Some(shard_chunk) = self.chunk(shard) else { return Ok(None) };
        let name = PageHashes::chunk_name(shard_chunk.name);
        let Some(position) = self.find_chunk(FourCC::PHSH, &name) else { return Ok(None) };
        let content = self.content(source, position).await?;
        let Some(chunk) = self.chunk(position) else { return Ok(None) };
        let hashes = Payload::parse(&content)
            .and_then(|payload| PageHashes::new(payload, chunk.name, &shard_chunk))
            .map_err(|fault| chunk.malformed(fault))?;
        let hashes = Arc::new(hashes);
        self.pages.put(shard, &hashes);
        Ok(Some(hashes))
    }
}
