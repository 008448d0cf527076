//! Checks that opening does not make. The check names are those of `modelfmt verify`.

use modelfmt_core::{Extent, Part, Report, VerifyLevel, overlaps};

use crate::index::Index;
use crate::wire::{ALIGNMENT, FileHeader};

pub(crate) fn verify(index: &Index, level: VerifyLevel) -> Report {
    let mut report = Report::new(level);
    let held = format!("{} tensors, {} metadata entries", index.tensors().len(), index.metadata().len());
    report.add("structure", Vec::new(), held);
    if level >= VerifyLevel::Control {
        report.add("crc", crc(index), index.checksum().map_or("", |kind| kind.name()));
    }
    if level >= VerifyLevel::Full {
        report.add("extents", extents(index), format!("{} buffers", index.tensors().len()));
    }
    report
}

fn crc(index: &Index) -> Vec<String> {
    let part = Part::new("header").with_field("checksum");
    let finding = |fault| format!("{part} at byte {}: {fault}", FileHeader::CHECKSUM_AT);
    index.checksum_fault().map(finding).into_iter().collect()
}

/// DECISIONS, MAG 1, "offset": a multiple of 64, no partial overlap of buffers, none with the records.
fn extents(index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    let extents: Vec<Extent> = (0..index.tensors().len())
        .filter_map(|position| index.tensors().extent(position, index.file_len()))
        .collect();
    let tensor =
        |position: usize| Part::named("tensor", index.tensors().info(position).map_or("", |info| info.name));
    for (position, extent) in extents.iter().enumerate() {
        let (part, offset) = (|| tensor(position), extent.offset());
        if !offset.is_multiple_of(ALIGNMENT) {
            found.push(format!("{} at byte {offset}: the offset is not a multiple of 64", part()));
        }
        if !extent.is_empty() && offset < index.records_end() {
            let end = index.records_end();
            found
                .push(format!("{} at byte {offset}: lies over the records, which end at byte {end}", part()));
        }
    }
    for overlap in overlaps(&extents) {
        let at = extents.get(overlap.second).map_or(0, |extent| extent.offset());
        let (first, second) = (tensor(overlap.first), tensor(overlap.second));
        found.push(format!("{second} at byte {at}: shares some of its bytes with {first}"));
    }
    found
}
