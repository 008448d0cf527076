//! Verifies a set: checks that every file opens, and that the index and the files agree on the file of each
//! tensor.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    FetchFiles, Part, Report, VerifyLevel,
    author::{OpenSet, ShardMap as _, with_causes},
};

use super::SetIndex;
use crate::index::Index;

pub(super) async fn report<F: FetchFiles>(
    index: &SetIndex,
    set: &OpenSet<SetIndex, F>,
    level: VerifyLevel,
) -> Report {
    let mut findings = Vec::new();
    let mut held = vec![0usize; index.files().len()];
    for position in 0..index.names().len() {
        let Some((name, file)) = index.names().name(position).zip(index.shard_of(position)) else { continue };
        let Ok(shard) = set.shard(file).await else { continue }; // reported once, below
        if shard.index().tensors().find(name).is_some() {
            held.get_mut(file).into_iter().for_each(|count| *count = (*count).saturating_add(1));
        } else {
            let part = Part::entry("tensor", position as u64).with_name(name);
            findings.push(format!(
                "{part}: the index says that it is in {:?}, which does not have it",
                path(index, file)
            ));
        }
    }
    for (file, held) in held.into_iter().enumerate() {
        match set.shard(file).await {
            Err(error) => findings.push(with_causes(&error)),
            Ok(shard) if shard.index().tensors().len() == held => {}
            Ok(shard) => unlisted(index, file, shard.index(), &mut findings),
        }
    }
    let mut report = Report::new(level);
    let coverage = format!("{} tensors in {} files", index.names().len(), index.files().len());
    report.add("structure", findings, coverage);
    report
}

/// Finds the tensors of a file that the index does not map to this file.
fn unlisted(index: &SetIndex, file: usize, shard: &Index, findings: &mut Vec<String>) {
    let shard_of = |name| index.find(name).and_then(|position| index.shard_of(position));
    let mut unlisted = shard.tensors().iter().filter(|tensor| shard_of(tensor.name) != Some(file));
    // Many paths may lead to the same file. The cap keeps the number of findings from growing with paths ×
    // tensors.
    for tensor in unlisted.by_ref().take(MAX_UNLISTED) {
        let part = Part::named("tensor", tensor.name);
        findings.push(format!("{part}: is in {:?}, but the index does not say so", path(index, file)));
    }
    let more = unlisted.count();
    if more > 0 {
        let path = path(index, file);
        findings.push(format!("{more} more tensors are in {path:?}, but the index does not say so"));
    }
}

/// The most unlisted tensors of a file that get a finding of their own.
const MAX_UNLISTED: usize = 20;

fn path(index: &SetIndex, file: usize) -> &str {
    index.files().name(file).unwrap_or_default()
}
