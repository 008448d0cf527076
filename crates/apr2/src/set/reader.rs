//! Opens sharded models: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{Error, Execution, FetchFiles, Limits, OpenSet, Report, VerifyLevel, author::ShardMap};

use super::SetIndex;
use crate::error::Result;
use crate::index::Index;
use crate::metadata::Metadata;

/// An open sharded model: its [`SetIndex`] and its shards.
pub type SetReader<F> = modelfmt_core::Reader<OpenSet<SetIndex, F>>;

/// An open sharded model whose files are asynchronous, such as in an object store.
pub type AsyncSetReader<F> = modelfmt_core::AsyncReader<OpenSet<SetIndex, F>>;

impl ShardMap for SetIndex {
    type Index = Index;
    type Metadata<'a> = &'a Metadata;

    const SHARD: &'static str = "shard";

    fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        Self::parse(text, limits)
    }

    fn text_len(&self) -> u64 {
        self.text_len()
    }

    fn tensor_count(&self) -> usize {
        self.names().len()
    }

    fn name(&self, position: usize) -> Option<&str> {
        self.names().name(position)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.names().find(name)
    }

    fn shard_of(&self, position: usize) -> Result<usize> {
        self.shard_of(position).ok_or_else(|| Error::no_such_position(position))
    }

    fn shard_count(&self) -> usize {
        self.shards().len()
    }

    fn path(&self, number: usize) -> Option<&str> {
        self.shard(number).map(|shard| shard.path)
    }

    fn stated_size(&self, number: usize) -> Option<u64> {
        self.shard(number).map(|shard| shard.size)
    }

    /// Returns the major and minor version in the manifest's `apr_version`.
    fn version_text(&self) -> Option<String> {
        let version = self.apr_version()?;
        let end = version.match_indices('.').nth(1).map_or(version.len(), |(at, _)| at);
        version.get(..end).map(str::to_owned)
    }

    /// Returns the metadata of the first shard.
    async fn metadata<F: FetchFiles>(set: &OpenSet<Self, F>) -> Result<&Metadata> {
        set.metadata_of(0).await
    }

    /// Returns the first shard. It provides the metadata, the flags and the alignment.
    fn described_by(&self) -> Option<usize> {
        Some(0)
    }

    async fn verify<F: FetchFiles>(
        &self,
        set: &OpenSet<Self, F>,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> Report {
        super::verify::report(self, set, level, work).await
    }
}
