//! Sets whose shards encrypt the names of their tensors. Their manifest lists no tensors, so the names come
//! from the shards.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use apr2::author::add_tensor;
use modelfmt_core::{
    Error, Fetch as _, FetchFiles, Limits, Part,
    author::{FileIndex as _, OpenSettings, ShardMap, parse_fetched},
};

use super::SetIndex;
use crate::error::{Fault, Result, malformed};
use crate::index::Index;
use crate::seal::Access;

impl SetIndex {
    /// Opens all shards of a sealed set whose manifest lists no tensors, and takes the names from them. A
    /// shard that hides its names and that no key opens contributes none.
    pub(super) async fn open_shards<F: FetchFiles>(
        &mut self,
        name: &str,
        files: &F,
        settings: &OpenSettings,
    ) -> Result<()> {
        if self.seal().is_none() || !self.names().is_empty() {
            return Ok(());
        }
        let folder = name.rfind('/').and_then(|at| name.get(..=at)).unwrap_or_default();
        let paths: Vec<String> = self.shards().map(|shard| shard.path.to_owned()).collect();
        let mut opened = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            let failed = |source| Error::Open { path: path.clone(), source };
            let file = files.fetch_file(&format!("{folder}{path}")).await.map_err(failed)?;
            let settings = self.shard_settings(number, settings.clone().one_in(paths.len() as u64));
            let index = parse_fetched(Index::parser(file.size(), &settings), &file).await;
            let taken = index.and_then(|index| {
                self.take_names(number, &index, settings.limits_ref())?;
                Ok(Arc::new(index))
            });
            opened.push(taken.map_err(|error| error.in_file(&self.part(number)))?);
        }
        self.opened = opened;
        Ok(())
    }

    fn take_names(&mut self, number: usize, index: &Index, limits: &Limits) -> Result<()> {
        let sum = (self.names().len() as u64).saturating_add(index.tensors().len() as u64);
        Limits::check("the number of tensors", sum, limits.tensors)?;
        let shard = u32::try_from(number).unwrap_or(u32::MAX);
        for (position, tensor) in index.tensors().iter().enumerate() {
            let at = index.tensors().offset(position).unwrap_or_default();
            let part = Part::entry("tensor", position as u64).with_name(tensor.name);
            let found = add_tensor(&mut self.plain, tensor.name, shard);
            found.map_err(|fault| malformed(part, at, Fault::from(fault)))?;
        }
        Ok(())
    }

    /// Returns whether the names of the tensors are encrypted and no given key opens them.
    #[must_use]
    pub fn hides_names(&self) -> bool {
        let is_hidden =
            |index: &Arc<Index>| index.seal().is_some_and(|seal| seal.has_sealed_index() && seal.is_locked());
        self.opened.iter().any(is_hidden)
    }

    /// Returns the number of tensors, listed or hidden.
    pub(super) fn sealed_count(&self) -> u64 {
        let hidden =
            self.opened.iter().filter_map(|index| index.seal()).map(|seal| seal.tensor_count() as u64);
        if self.opened.is_empty() { self.names().len() as u64 } else { hidden.sum() }
    }

    /// Returns whether the manifest has been checked against the demands in these settings.
    pub(super) fn is_checked(&self, settings: &OpenSettings) -> bool {
        match (settings.extension::<Access>(), &self.checked) {
            (Some(access), Some(checked)) => Arc::ptr_eq(&access, checked),
            (None, _) => true,
            (Some(_), None) => false,
        }
    }
}
