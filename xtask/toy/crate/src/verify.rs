//! Checks that opening does not make.

use modelfmt_core::author::{Extent, overlaps};
use modelfmt_core::{Part, Report, VerifyLevel};

use crate::index::Index;

pub(crate) fn verify(index: &Index, level: VerifyLevel) -> Report {
    let mut report = Report::new(level);
    report.add("structure", Vec::new(), format!("{} tensors", index.tensors().len()));
    if level >= VerifyLevel::Full {
        report.add("extents", extents(index), format!("{} tensors", index.tensors().len()));
    }
    report
}

/// No tensor shares some of its bytes with another.
fn extents(index: &Index) -> Vec<String> {
    let extents: Vec<Extent> = (0..index.tensors().len())
        .filter_map(|position| index.tensors().extent(position, index.file_len()))
        .collect();
    let tensor = |at| Part::named("tensor", index.tensors().info(at).map_or("", |info| info.name));
    let finding = |at, other| format!("{} shares some of its bytes with {}", tensor(at), tensor(other));
    overlaps(&extents).iter().map(|overlap| finding(overlap.second, overlap.first)).collect()
}
