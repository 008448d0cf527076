//! Writes sealed sets.

use apr2::author::manifest;
use apr2::{Plan, SetPlan};
use modelfmt_core::{Execution, Part};
use modelfmt_write::{DataFrom, NewFiles, NewSet, TensorData};

use super::seal::SetSeal;
use crate::error::{SealFault, WriteError, unfit};
use crate::seal::SealOptions;

impl SealOptions {
    /// Writes the shards and the manifest of a plan. Each shard is sealed by itself, and all of them are
    /// signed as one. If the index is hidden, the manifest lists no tensors.
    ///
    /// # Errors
    /// If a value cannot be read, a file cannot be written, or the options cannot be fulfilled.
    pub fn write_set(
        &self,
        plan: &SetPlan,
        data: &dyn TensorData,
        files: &impl NewFiles,
        work: &Execution<'_>,
    ) -> Result<(), WriteError> {
        let refused = |fault: SealFault| unfit(Part::new("manifest"), fault);
        let options = &self.clone().for_set();
        let shards: Vec<(&str, &Plan)> = plan.shards().collect();
        let names: Vec<&str> = shards.iter().map(|&(name, _)| name).collect();
        let mut set = NewSet::begin(files, plan.manifest_name(), &names)?;
        let (mut crcs, mut statements) = (Vec::new(), Vec::new());
        let mut first = 0;
        for (name, shard) in &shards {
            let output = set.create(name)?;
            let written = options.write(shard, &DataFrom { data, first }, &output, work)?;
            first += shard.tensors().len();
            crcs.push(written.crc);
            statements.push(written.statement);
            set.done(name, output)?;
        }
        let mut map = Vec::new();
        // The manifest does not list what the shards hide.
        for ((_, shard), number) in shards.iter().zip(0u32..).filter(|_| !options.hides_index) {
            map.extend(shard.tensors().iter().map(|tensor| (tensor.name, number)));
        }
        let seal = SetSeal::new(options, statements, &names, &map).map_err(refused)?;
        let manifest = manifest(plan, &crcs, Some(seal.to_object()), options.hides_index)?;
        set.commit(manifest.as_bytes())
    }
}
