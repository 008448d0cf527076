//! Opens sharded models: what [`modelfmt_core::SetReader`] asks of the format.

use modelfmt_core::source::Files;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Execution, Limits, NameTable, Report, ShardMap, VerifyLevel};

use super::SetIndex;
use crate::error::Result;
use crate::index::Index;

/// An open set of safetensors files: its [`SetIndex`] and its files.
pub type SetReader<F> = modelfmt_core::SetReader<SetIndex, F>;

impl ShardMap for SetIndex {
    type Index = Index;

    const SHARD: &'static str = "file";

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
        self.files().len()
    }

    fn path(&self, number: usize) -> Option<&str> {
        self.files().name(number)
    }

    /// The index does not state sizes.
    fn size(&self, _: usize) -> Option<u64> {
        None
    }

    fn version_text(&self) -> Option<String> {
        None
    }

    /// The index's own `metadata`. That of a file is its reader's: `set.shard(0)?.index().metadata()`.
    fn metadata_tree<F: Files>(set: &SetReader<F>) -> Result<Value> {
        Ok(Value::Object(set.index().metadata().clone()))
    }

    fn details<F: Files>(_: &SetReader<F>) -> Result<Object> {
        Ok(Object::new())
    }

    fn verify<F: Files>(set: &SetReader<F>, level: VerifyLevel, _: &Execution<'_>) -> Report {
        crate::verify::set(set, level) // no rule covers the values
    }
}
