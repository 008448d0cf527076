//! Opens split models: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    Error, Execution, Fetch, FetchFiles, Limits, OpenSet, Part, Report, TensorInfo, VerifyLevel,
    author::{FileIndex as _, OpenSettings, Place, ShardMap},
};

use super::SetIndex;
use crate::error::{Fault, Result};
use crate::index::Index;
use crate::metadata::Metadata;

/// An open split model: its [`SetIndex`] and its files. Any file of the split opens all of them.
pub type SetReader<F> = modelfmt_core::Reader<OpenSet<SetIndex, F>>;

/// An open split model whose files are asynchronous, such as in an object store.
pub type AsyncSetReader<F> = modelfmt_core::AsyncReader<OpenSet<SetIndex, F>>;

impl ShardMap for SetIndex {
    type Index = Index;
    type Metadata<'a> = &'a Metadata;

    const SHARD: &'static str = "file";

    /// Always fails: one file does not say what the other files hold, so its bytes are not enough.
    fn parse(_: &[u8], _: &Limits) -> Result<Self> {
        Err(Error::Malformed { part: Part::new("header"), at: 0, fault: Fault::NoSplit })
    }

    async fn read<F: FetchFiles>(
        source: &(impl Fetch + ?Sized),
        name: &str,
        files: &F,
        settings: &OpenSettings,
    ) -> Result<Self> {
        Self::read(source, name, files, settings).await
    }

    /// Returns zero, because a split has no index file.
    fn text_len(&self) -> u64 {
        0
    }

    fn shard_count(&self) -> usize {
        self.shards().len()
    }

    fn path(&self, number: usize) -> Option<&str> {
        self.paths().get(number).map(String::as_str)
    }

    fn stated_size(&self, number: usize) -> Option<u64> {
        self.shards().get(number).map(|shard| shard.file_len())
    }

    fn shard_index(&self, number: usize, _: &OpenSettings) -> Option<Arc<Index>> {
        self.shards().get(number).map(Arc::clone)
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

    fn info(&self, position: usize) -> Option<TensorInfo<'_>> {
        let (number, there) = self.locate(position)?;
        self.shards().get(number)?.tensors().info(there)
    }

    fn shard_of(&self, position: usize) -> Result<usize> {
        self.locate(position).map(|(number, _)| number).ok_or_else(|| Error::no_such_position(position))
    }

    fn place(&self, position: usize, _: &Index) -> Result<Place> {
        let place = self.locate(position).ok_or_else(|| Error::no_such_position(position))?;
        Ok(Place::Listed(place.1))
    }

    fn version_text(&self) -> Option<String> {
        self.shards().first()?.version_text()
    }

    /// Returns the metadata of the first file, without the keys of the split.
    async fn metadata<F: FetchFiles>(set: &OpenSet<Self, F>) -> Result<&Metadata> {
        Ok(set.index().metadata())
    }

    fn metadata_tree(&self) -> Value {
        Value::Object(self.metadata().to_object())
    }

    /// Returns the `alignment` of the first file, in bytes.
    fn details(&self) -> Object {
        self.shards().first().map_or_else(Object::new, |first| first.details())
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
