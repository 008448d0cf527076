//! Opens sharded models: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Error, Execution, FetchFiles, Limits, OpenSet, Report, VerifyLevel, author::ShardMap};

use super::SetIndex;
use crate::error::Result;
use crate::index::Index;

/// An open set of checkpoints: its [`SetIndex`] and its files.
pub type SetReader<F> = modelfmt_core::Reader<OpenSet<SetIndex, F>>;

/// An open set of checkpoints that are asynchronous, such as in an object store.
pub type AsyncSetReader<F> = modelfmt_core::AsyncReader<OpenSet<SetIndex, F>>;

impl ShardMap for SetIndex {
    type Index = Index;
    type Metadata<'a> = &'a Object;

    const SHARD: &'static str = "file";
    const HAS_DETAILS_OF_FILES: bool = true;

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
        self.files().len()
    }

    fn path(&self, number: usize) -> Option<&str> {
        self.files().name(number)
    }

    /// Returns `None`, because the index does not state sizes.
    fn stated_size(&self, _: usize) -> Option<u64> {
        None
    }

    fn version_text(&self) -> Option<String> {
        None
    }

    /// Returns the `metadata` of the index. For the metadata of a file, ask the file's reader:
    /// `set.shard(0)?.metadata()`.
    async fn metadata<F: FetchFiles>(set: &OpenSet<Self, F>) -> Result<&Object> {
        Ok(Self::metadata(set.index()))
    }

    fn metadata_tree(&self) -> Value {
        Value::Object(self.metadata().clone())
    }

    /// Removes `total_size`, which counts the bytes of this layout.
    fn flatten(&self, mut keys: Object) -> Object {
        keys.retain(|key, value| key != "total_size" || !matches!(value, Value::Int(_)));
        keys
    }

    /// Adds the highest protocol and the globals of all files.
    fn describe_file(index: &Index, details: &mut Object) {
        index.describe(details);
    }

    /// Adds the findings of each file's own checks, with the name of the file.
    async fn verify<F: FetchFiles>(
        &self,
        set: &OpenSet<Self, F>,
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> Report {
        super::verify::report(self, set, level, work).await
    }
}
