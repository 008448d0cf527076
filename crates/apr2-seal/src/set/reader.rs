//! Opens sharded models, sealed or not: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use apr2::Metadata;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Error, Execution, Fetch, FetchFiles, Limits, OpenSet, Part, Report, VerifyLevel,
    author::{OpenSettings, ShardMap},
};

use super::SetIndex;
use crate::error::{Result, malformed};
use crate::index::Index;
use crate::seal::Access;

/// An open sharded model: its [`SetIndex`] and its shards.
pub type SetReader<F> = modelfmt_core::Reader<OpenSet<SetIndex, F>>;

/// An open sharded model whose files are asynchronous, such as in an object store.
pub type AsyncSetReader<F> = modelfmt_core::AsyncReader<OpenSet<SetIndex, F>>;

impl ShardMap for SetIndex {
    type Index = Index;
    type Metadata<'a> = &'a Metadata;

    const SHARD: &'static str = apr2::SetIndex::SHARD;

    fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        Self::parse(text, limits)
    }

    /// Reads a manifest. A sealed manifest is checked before it is used.
    async fn read<F: FetchFiles>(
        source: &(impl Fetch + ?Sized),
        name: &str,
        files: &F,
        settings: &OpenSettings,
    ) -> Result<Self> {
        let (len, limits) = (source.size(), settings.limits_ref());
        Limits::check("the length of the index of the set", len, limits.index_len)?;
        let text = source.fetch(0..len).await.map_err(|source| Error::Io { at: 0, len, source })?;
        let mut set = Self::parse(&text, limits)?;
        let access = settings.extension::<Access>();
        let checked = set.check_seal(access.as_deref().unwrap_or(&Access::new()));
        checked.map_err(|fault| malformed(Part::new("manifest").with_field("seal"), 0, fault))?;
        set.checked = access;
        set.open_shards(name, files, settings).await?;
        Ok(set)
    }

    fn shard_settings(&self, number: usize, settings: OpenSettings) -> OpenSettings {
        let Some(&statement) = self.seal().and_then(|seal| seal.statements.get(number)) else {
            return settings;
        };
        let access = settings.extension::<Access>().as_deref().cloned().unwrap_or_default();
        // If the manifest was checked against other demands, each shard must also meet the current ones.
        let access =
            if self.is_checked(&settings) { access.of_shard(statement) } else { access.statement(statement) };
        settings.with_extension(Arc::new(access))
    }

    fn shard_index(&self, number: usize, settings: &OpenSettings) -> Option<Arc<Index>> {
        self.opened.get(number).filter(|_| self.is_checked(settings)).map(Arc::clone)
    }

    fn binds_content(&self) -> bool {
        self.seal().is_some()
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

    fn version_text(&self) -> Option<String> {
        self.plain.version_text()
    }

    /// Returns the metadata of the first shard.
    async fn metadata<F: FetchFiles>(set: &OpenSet<Self, F>) -> Result<&Metadata> {
        set.metadata_of(0).await
    }

    /// Returns the first shard. It provides the metadata, the flags and the alignment.
    fn described_by(&self) -> Option<usize> {
        Some(0)
    }

    /// Replaces what the first shard says about signatures with what the manifest says about the whole set.
    fn describe(&self, details: &mut Object) {
        if let (Some(seal), Some(statement)) = (self.seal(), self.statement()) {
            crate::sealed::signed(&statement, seal.revision(), self.signatures(), details);
        }
        if let Some(Value::Object(encryption)) = details.get_mut("encryption") {
            encryption.insert("tensors", self.sealed_count());
        }
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
