//! Verifies a set: checks every file, and that the index and the files agree on the file of each tensor.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::author::{FileIndex as _, OpenSet, with_causes};
use modelfmt_core::{Execution, FetchFiles, Part, Report, Status, VerifyLevel};

use super::SetIndex;

pub(super) async fn report<F: FetchFiles>(
    index: &SetIndex,
    set: &OpenSet<SetIndex, F>,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let mut findings = Vec::new();
    for position in 0..index.names().len() {
        let Some((name, file)) = index.names().name(position).zip(index.shard_of(position)) else { continue };
        let Ok(shard) = set.shard(file).await else { continue }; // reported once, below
        if shard.index().tensors().find(name).is_none() {
            let part = Part::entry("tensor", position as u64).with_name(name);
            let path = index.files().name(file).unwrap_or_default();
            findings.push(format!("{part}: the index says that it is in {path:?}, which does not have it"));
        }
    }
    let (mut crcs, mut checked) = (Vec::new(), 0_usize);
    for file in 0..index.files().len() {
        let path = index.files().name(file).unwrap_or_default();
        match set.shard(file).await {
            Err(error) => findings.push(with_causes(&error)),
            Ok(shard) => {
                let found = shard.index().verify(shard.source(), level, work).await;
                let has_crc = found.check("crc").is_some_and(|check| check.status != Status::Absent);
                checked = checked.saturating_add(usize::from(has_crc));
                crcs.extend(found.errors.into_iter().map(|error| format!("{path}: {error}")));
            }
        }
    }
    let mut report = Report::new(level);
    let coverage = format!("{} tensors in {} files", index.names().len(), index.files().len());
    report.add("structure", findings, coverage);
    if checked > 0 || !crcs.is_empty() {
        report.add("crc", crcs, format!("the CRC-32s of {checked} files"));
    } else {
        report.add_absent("crc", "was not asked for, or the files have none");
    }
    report
}
