//! Verifies a split: checks each file by itself, and that only the first file has metadata of the model.
//! Opening has checked that the files agree about the split.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    Execution, FetchFiles, Report, VerifyLevel,
    author::{OpenSet, with_causes},
};

use super::SetIndex;
use crate::verify::checks;

pub(super) async fn report<F: FetchFiles>(
    index: &SetIndex,
    set: &OpenSet<SetIndex, F>,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let foreign_keys = index.foreign_keys().map(|(number, key)| {
        let path = index.paths().get(number).map_or("", String::as_str);
        format!("{path:?}: metadata {key:?}: only the first file of a split has metadata of the model")
    });
    // The checks come in the same order as for a single file.
    let mut all = vec![("structure", foreign_keys.collect::<Vec<_>>())];
    for (number, path) in index.paths().iter().enumerate() {
        match set.shard(number).await {
            Ok(shard) => {
                for found in checks(shard.index(), shard.source(), level, work).await {
                    let findings = found.findings.into_iter().map(|text| format!("{path:?}: {text}"));
                    match all.iter_mut().find(|(check, _)| *check == found.check) {
                        Some((_, known)) => known.extend(findings),
                        None => all.push((found.check, findings.collect())),
                    }
                }
            }
            Err(error) => all.iter_mut().take(1).for_each(|(_, known)| known.push(with_causes(&error))),
        }
    }
    let coverage = format!("{} tensors in {} files", index.names().len(), index.paths().len());
    let mut report = Report::new(level);
    all.into_iter().for_each(|(check, findings)| report.add(check, findings, coverage.clone()));
    report
}
