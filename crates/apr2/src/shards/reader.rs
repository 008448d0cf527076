//! Opens sharded models: what [`modelfmt_core::SetReader`] asks of the format.

use modelfmt_core::source::Files;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Execution, FileIndex, Limits, NameTable, Report, ShardMap, VerifyLevel, now};

use super::Manifest;
use crate::error::Result;
use crate::index::Index;

/// An open sharded model: its [`Manifest`] and its shards.
pub type SetReader<F> = modelfmt_core::SetReader<Manifest, F>;

impl ShardMap for Manifest {
    type Index = Index;

    const SHARD: &'static str = "shard";

    fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        Self::parse(text, limits)
    }

    fn text_len(&self) -> u64 {
        self.text_len()
    }

    fn names(&self) -> &NameTable {
        self.names()
    }

    fn home(&self, position: usize) -> Option<usize> {
        self.home(position)
    }

    fn shard_count(&self) -> usize {
        self.shards().len()
    }

    fn path(&self, number: usize) -> Option<&str> {
        self.shard(number).map(|shard| shard.file)
    }

    fn size(&self, number: usize) -> Option<u64> {
        self.shard(number).map(|shard| shard.size)
    }

    /// Major and minor of the manifest's `apr_version`.
    fn version_text(&self) -> Option<String> {
        let version = self.apr_version()?;
        let end = version.match_indices('.').nth(1).map_or(version.len(), |(at, _)| at);
        version.get(..end).map(str::to_owned)
    }

    /// The model's metadata: that of its first shard, which is opened if it is not yet.
    fn metadata_tree<F: Files>(set: &SetReader<F>) -> Result<Value> {
        let shard = set.shard(0)?;
        now(shard.index().metadata_tree(shard.source()))
    }

    /// Flags and alignment of the first shard.
    fn details<F: Files>(set: &SetReader<F>) -> Result<Object> {
        Ok(set.shard(0)?.index().details())
    }

    fn verify<F: Files>(set: &SetReader<F>, level: VerifyLevel, work: &Execution<'_>) -> Report {
        super::verify::report(set, level, work)
    }
}
