//! Loads from the files of a set, many requests under way at once.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use tensor_core::{Bytes, TensorInfo};

use super::{AsyncSetReader, MapError, OpenSet, ShardMap};
use crate::claims::{Claims, Wanted};
use crate::error::Error;
use crate::execution::Execution;
use crate::fetch::{Fetch, FetchFiles};
use crate::file_index::FileIndex;
use crate::load::{Awaited, LoadOptions, Loaded, load_awaited};
use crate::plan::Pick;
use crate::table::Stored;

impl<M: ShardMap, F: FetchFiles> AsyncSetReader<M, F> {
    /// Fills buffers of your own with tensors or parts of them, with several requests under way at once: as
    /// [`AsyncReader::load_into`](crate::AsyncReader::load_into).
    ///
    /// # Errors
    /// As [`AsyncReader::load_into`](crate::AsyncReader::load_into); if a file of the set is missing or broken.
    pub async fn load_into(
        &self,
        picks: &[Pick],
        buffers: &mut [&mut [u8]],
        options: &LoadOptions,
        work: &Execution<'_>,
    ) -> Result<Loaded, MapError<M>> {
        let loaded = load_awaited(&self.0, picks, buffers, options, work).await;
        loaded.map_err(|error| self.0.named(error))
    }
}

impl<M: ShardMap, F: FetchFiles> Awaited for OpenSet<M, F> {
    type Fault = <M::Index as FileIndex>::Fault;

    async fn about(&self, position: usize) -> Result<(TensorInfo<'_>, Stored), MapError<M>> {
        Ok((self.info(position).await?, self.stored(position).await?))
    }

    async fn claims(&self, wanted: &[Wanted]) -> Result<Claims, MapError<M>> {
        self.claims(wanted).await
    }

    async fn values(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: &Claims,
    ) -> Result<(), MapError<M>> {
        self.read_into_watched(position, at, out, claims).await
    }

    async fn bytes_into(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), MapError<M>> {
        self.read_file(file, at, out).await
    }

    async fn bytes(&self, file: usize, range: Range<u64>) -> Result<Bytes<'_>, MapError<M>> {
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        let shard = self.shard(file).await?.as_ref();
        let bytes = shard.source().fetch(range).await;
        bytes.map_err(|source| Error::Io { at, len, source }.in_file(&self.index().part(file)))
    }
}
