//! The combined index of the files of a split.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use modelfmt_core::CommonFault;
use modelfmt_core::{
    Error, Fetch, FetchFiles, Limits, Part,
    author::{FileIndex as _, NameTable, OpenSettings, parse_fetched},
};

use super::name::SplitName;
use crate::error::{Fault, Result};
use crate::index::Index;
use crate::metadata::Metadata;
use crate::wire;

/// The combined index of the files of a split: the files, and the tensors of all of them, in order.
///
/// A split has no index of its own. This one is made from the records of all files, which must agree about
/// the split.
#[derive(Clone, Debug, Default)]
pub struct SetIndex {
    paths: Vec<String>,
    shards: Vec<Arc<Index>>,
    /// The position in the whole model of each file's first tensor.
    starts: Vec<usize>,
    names: NameTable,
    metadata: Metadata,
}

impl SetIndex {
    /// Reads the records of all files of a split. `source` is one of them: the file `name` in `files`
    /// (docs/formats/gguf.md#opening-a-split).
    ///
    /// # Errors
    /// If a file is missing, cannot be read, breaks a rule, or contradicts its name or the other files.
    pub async fn read<F: FetchFiles>(
        source: &(impl Fetch + ?Sized),
        name: &str,
        files: &F,
        settings: &OpenSettings,
    ) -> Result<Self> {
        let opened = parse_fetched(Index::parser(source.size(), settings), source).await?;
        Self::read_others(opened, name, files, settings).await
    }

    /// Does the same as [`read`](Self::read) for a file that is already open.
    ///
    /// # Errors
    /// If a file is missing, breaks a rule, or contradicts the others.
    pub async fn read_others<F: FetchFiles>(
        opened: Index,
        name: &str,
        files: &F,
        settings: &OpenSettings,
    ) -> Result<Self> {
        let (part, at, count) = opened.split_key(1);
        let malformed = |fault| Error::Malformed { part: part.clone(), at, fault };
        let count = count.ok_or_else(|| malformed(Fault::NoSplit))?;
        let named = SplitName::parse(name).filter(|name| name.count == count);
        let named = named.ok_or_else(|| malformed(Fault::SplitName { count }))?;
        let mut opened = Some(opened);
        let mut index = Self::default();
        for number in 0..count {
            let path = named.sibling(number);
            let known = opened.take_if(|_| number.saturating_add(1) == named.number);
            let shard = match known {
                Some(shard) => shard,
                None => fetch(number, count, &path, files, settings).await?,
            };
            check(&shard, number, count).map_err(|error| error.in_file(&part_of(number, &path)))?;
            index.push(&path, shard, settings.limits_ref())?;
        }
        index.check_sums()?;
        let first = index.shards.first().map(|first| first.metadata().without(&wire::SPLIT));
        index.metadata = first.unwrap_or_default();
        Ok(index)
    }

    fn push(&mut self, path: &str, shard: Index, limits: &Limits) -> Result<()> {
        let sum = (self.names.len() as u64).saturating_add(shard.tensors().len() as u64);
        Limits::check("the number of tensors", sum, limits.tensors)?;
        self.starts.push(self.names.len());
        for (number, tensor) in shard.tensors().iter().enumerate() {
            self.names.push(tensor.name).map_err(|error| {
                let part = Part::entry("tensor", number as u64).with_name(tensor.name);
                let at = shard.tensors().offset(number).unwrap_or_default();
                let error = Error::Malformed { part, at, fault: CommonFault::from(error).into() };
                error.in_file(&part_of(self.shards.len() as u64, path))
            })?;
        }
        // All files are in the folder of the opened file, so only the last component of the path is kept.
        self.paths.push(path.rsplit('/').next().unwrap_or(path).to_owned());
        self.shards.push(Arc::new(shard));
        Ok(())
    }

    /// Checks the total number of tensors that each file states.
    fn check_sums(&self) -> Result<()> {
        let expected = self.names.len() as u64;
        let mut all = self.shards.iter().zip(&self.paths).enumerate();
        all.try_for_each(|(number, (shard, path))| {
            expect(shard, 2, expected).map_err(|error| error.in_file(&part_of(number as u64, path)))
        })
    }

    /// Returns the names of the files, in order.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Returns the index of each file, in order.
    #[must_use]
    pub fn shards(&self) -> &[Arc<Index>] {
        &self.shards
    }

    /// Returns the names of the tensors, in order.
    #[must_use]
    pub const fn names(&self) -> &NameTable {
        &self.names
    }

    /// Returns the metadata of the model: the metadata of the first file, without its keys about the split.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the number of the file that holds the tensor at a position, and the tensor's position in that
    /// file.
    #[must_use]
    pub fn locate(&self, position: usize) -> Option<(usize, usize)> {
        let number = self.starts.partition_point(|&start| start <= position).checked_sub(1)?;
        let there = position.checked_sub(*self.starts.get(number)?)?;
        (there < self.shards.get(number)?.tensors().len()).then_some((number, there))
    }

    /// Returns whether a key describes one file of a split instead of the model.
    #[must_use]
    pub fn is_of_file(key: &str) -> bool {
        wire::SPLIT.contains(&key)
    }

    /// Returns the model's keys in files after the first, each with the number of its file. Leaves out keys
    /// that have the same value in the first file (docs/formats/gguf.md#keys-of-later-files).
    pub fn foreign_keys(&self) -> impl Iterator<Item = (usize, &str)> {
        let first = self.shards.first().map(|first| first.metadata());
        self.shards.iter().enumerate().skip(1).flat_map(move |(number, shard)| {
            let keys = shard.metadata().iter().filter(move |(key, value)| {
                let is_needed = Self::is_of_file(key) || *key == wire::ALIGNMENT;
                !is_needed && first.and_then(|first| first.get(key)) != Some(*value)
            });
            keys.map(move |(key, _)| (number, key))
        })
    }
}

/// Reads the records of another file of the split.
async fn fetch<F: FetchFiles>(
    number: u64,
    count: u64,
    path: &str,
    files: &F,
    settings: &OpenSettings,
) -> Result<Index> {
    let failed = |source| Error::Open { path: path.to_owned(), source };
    let file = files.fetch_file(path).await.map_err(failed)?;
    // The files share the limits of a single file.
    let settings = settings.clone().one_in(count);
    let parsed = parse_fetched(Index::parser(file.size(), &settings), &file).await;
    parsed.map_err(|error| error.in_file(&part_of(number, path)))
}

fn part_of(number: u64, path: &str) -> Part {
    Part::entry("file", number).with_name(path)
}

/// Checks the number of files, and the file's own number, that a file states.
fn check(shard: &Index, number: u64, count: u64) -> Result<()> {
    expect(shard, 1, count)?;
    expect(shard, 0, number)
}

/// Checks that one of the keys of a split has this number.
fn expect(shard: &Index, which: usize, expected: u64) -> Result<()> {
    let (part, at, found) = shard.split_key(which);
    let key = wire::SPLIT.get(which).copied().unwrap_or_default();
    match found {
        Some(found) if found == expected => Ok(()),
        Some(found) => Err(Error::Malformed { part, at, fault: Fault::SplitDisagrees { found, expected } }),
        None => Err(Error::Malformed { part, at, fault: Fault::SplitKey(key) }),
    }
}
