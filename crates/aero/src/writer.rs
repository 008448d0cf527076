//! Streams a [`Plan`] into a sink, hashing in the same pass.

use std::ops::Range;

use modelfmt_core::{Execution, Part, author::Extent};
use modelfmt_write::{FillError, Region, Segment, Sink, TensorData};

use crate::chunk_writer::{ChunkWriter, Stored};
use crate::error::WriteError;
use crate::hashes::{Hashes, pass};
use crate::layout::{Plan, Shard};
use crate::pages::PageHashes;
use crate::wire::shard_name;

/// The result of writing a file, used for a set's index.
#[cfg_attr(not(feature = "set"), allow(dead_code))]
pub(crate) struct Written {
    pub(crate) file_len: u64,
    /// The hash of each tensor, if tensor hashes were requested.
    pub(crate) hashes: Vec<[u8; 32]>,
}

impl Plan {
    /// Writes the file. Reads each tensor's values once, in pieces, and hashes them in the same pass.
    ///
    /// Memory use does not depend on the model's size, except for the index and 32 bytes per hashed page.
    /// Each thread has a buffer of 4 MiB.
    ///
    /// # Errors
    /// [`WriteError::Data`] if values cannot be read, [`WriteError::Write`] if the sink fails, [`WriteError::Cancelled`].
    pub fn write(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        self.run(data, sink, work).map(|_| ())
    }

    pub(crate) fn run(
        &self,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<Written, WriteError> {
        let mut writer = ChunkWriter::resume(sink, self.layout.clone(), self.level);
        for (chunk, stored) in &self.payloads {
            writer.put_placed(*chunk, stored)?;
        }
        let mut hashes = Vec::new();
        for shard in self.shards.iter().filter(|_| self.holds_shards) {
            let found = self.shard(shard, data, sink, work)?;
            writer.seal(shard.chunk, found.whole)?;
            self.pages(shard, &found.pages, &mut writer)?;
            self.all_hashes(shard, &found.tensors, &mut hashes);
        }
        if let Some(tidx) = self.hashed_tidx {
            writer.put(tidx, self.index_bytes(Some(&hashes)))?;
        }
        Ok(Written { file_len: writer.finish()?, hashes })
    }

    /// Writes a shard and returns its hashes.
    fn shard(
        &self,
        shard: &Shard,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result<Hashes, WriteError> {
        let begin = self.layout.offset(shard.chunk);
        let unfit = |fault| WriteError::Unsupported {
            part: Part::named("chunk", &shard_name(shard.id)),
            fault: crate::Fault::Common(fault),
        };
        let extent = Extent::new(begin, shard.len, u64::MAX).map_err(unfit)?;
        let mut segments = Vec::with_capacity(shard.tensors.len());
        for (position, span) in self.spans(shard) {
            let extent = extent.part(span.start, span.end.saturating_sub(span.start)).map_err(unfit)?;
            segments.push(Segment { tensor: self.first_tensor.saturating_add(position), extent });
        }
        let tensors = match self.hashed_tidx {
            Some(_) => self.spans(shard).map(|(_, span)| span).collect(),
            None => Vec::new(),
        };
        let pass = pass(shard.len, tensors, self.page_size);
        let region = Region { extent, fill: 0, segments: &segments };
        region
            .write(data, sink, work, |at, bytes| pass.observe(at.saturating_sub(begin), bytes), drop)
            .map_err(|error| self.named(error))?;
        Ok(pass.into())
    }

    /// Returns the tensors of a shard that have their own bytes, with their ranges in the shard.
    fn spans(&self, shard: &Shard) -> impl Iterator<Item = (usize, Range<u64>)> {
        shard.tensors.clone().filter_map(|position| {
            let (info, start) = (self.tensors.info(position)?, self.tensors.offset(position)?);
            let is_own = info.nbytes > 0 && self.ties.tied_to(position).is_none();
            is_own.then(|| (position, start..start.saturating_add(info.nbytes)))
        })
    }

    /// Appends the hash of every tensor of a shard to those of earlier shards. `found` has the hashes of the
    /// tensors that have their own bytes.
    fn all_hashes(&self, shard: &Shard, found: &[[u8; 32]], all: &mut Vec<[u8; 32]>) {
        let empty = *blake3::hash(&[]).as_bytes();
        let mut found = found.iter();
        for position in shard.tensors.clone().filter(|_| self.hashed_tidx.is_some()) {
            let has_bytes = self.tensors.info(position).is_some_and(|info| info.nbytes > 0);
            all.push(match self.ties.tied_to(position) {
                Some(other) => all.get(other).copied().unwrap_or(empty),
                None if has_bytes => found.next().copied().unwrap_or(empty),
                None => empty,
            });
        }
    }

    fn pages(
        &self,
        shard: &Shard,
        digests: &[[u8; 32]],
        writer: &mut ChunkWriter<'_>,
    ) -> Result<(), WriteError> {
        let Some((chunk, page_size)) = shard.pages.zip(self.page_size) else { return Ok(()) };
        let bytes = PageHashes::encode(&shard_name(shard.id), page_size, digests);
        let hash = *blake3::hash(&bytes).as_bytes();
        writer.put_placed(chunk, &Stored { ulen: bytes.len() as u64, bytes, hash })
    }

    fn named(&self, error: FillError) -> WriteError {
        match error {
            FillError::Data { tensor, source } => {
                FillError::Data { tensor: tensor.saturating_sub(self.first_tensor), source }
                    .named(&self.tensors)
            }
            other => other.named(&self.tensors),
        }
    }
}
