//! Checks a file and reports every finding. The check names are the same as in `modelfmt verify`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    Fetch, Part, Report, VerifyLevel,
    author::{Extent, overlaps},
};

use crate::index::Index;
use crate::v0_1;
use crate::v1::wire::{ALIGNMENT, FileHeader};
use crate::version::{PAGE, Version};

pub(crate) async fn verify(index: &Index, source: &impl Fetch, level: VerifyLevel) -> Report {
    let mut report = Report::new(level);
    let entries = index.metadata_len();
    let held = format!("{} tensors, {entries} metadata entries", index.tensors().len());
    report.add("structure", Vec::new(), held);
    if level >= VerifyLevel::Control {
        match index.version() {
            Version::V0_3 => report.add_absent("crc", "version 0.3 has no checksum"),
            _ => report.add("crc", crc(index), index.checksum().map_or("", |kind| kind.name())),
        }
    }
    if level >= VerifyLevel::Full {
        let layout = Layout::of(index);
        let mut findings = layout.extents();
        let held = format!("{} buffers", index.tensors().len());
        if index.version() == Version::V1 {
            report.add("extents", findings, held);
        } else {
            findings.extend(layout.trailing());
            report.add("extents", findings, held);
            report.add("padding", layout.padding(source).await, "bytes between the parts");
        }
    }
    report
}

fn crc(index: &Index) -> Vec<String> {
    let part = Part::new("header").with_field("checksum");
    let at = match index.version() {
        Version::V1 => FileHeader::CHECKSUM_AT as u64,
        _ => v0_1::CHECKSUM_AT,
    };
    let finding = |fault| format!("{part} at byte {at}: {fault}");
    index.checksum_fault.as_ref().map(finding).into_iter().collect()
}

/// The extents of a file's values.
struct Layout<'a> {
    index: &'a Index,
    /// The extents of tensors, by position.
    extents: Vec<Extent>,
    /// The positions of tensors, in the order of their offsets.
    order: Vec<usize>,
}

impl<'a> Layout<'a> {
    fn of(index: &'a Index) -> Self {
        let extent = |position| index.tensors().extent(position, index.file_len());
        let extents: Vec<Extent> = (0..index.tensors().len()).filter_map(extent).collect();
        let mut order: Vec<usize> = (0..extents.len()).collect();
        order.sort_by_key(|&position| extents.get(position).copied());
        Self { index, extents, order }
    }

    fn part(&self, position: usize) -> Part {
        Part::named("tensor", self.index.tensors().info(position).map_or("", |info| info.name))
    }

    /// Returns the alignment of tensors that have bytes, counted from `data`.
    const fn alignment(&self) -> u64 {
        match self.index.version() {
            Version::V1 => ALIGNMENT,
            Version::V0_1 => 1,
            Version::V0_2 => v0_1::ALIGNMENT,
            Version::V0_3 => PAGE,
        }
    }

    /// Checks that every tensor is aligned, and that none overlaps the index or a part of another tensor.
    /// Tied tensors are allowed (docs/formats/mag.md#offsets).
    fn extents(&self) -> Vec<String> {
        let (mut found, alignment) = (Vec::new(), self.alignment());
        let is_v1 = self.index.version() == Version::V1;
        for (position, extent) in self.extents.iter().enumerate() {
            let (part, offset) = (|| self.part(position), extent.offset());
            // From version 0.1 on, an empty tensor is at the end of the previous tensor
            // (docs/formats/mag.md#places-of-tensors).
            if !offset.is_multiple_of(alignment) && (is_v1 || !extent.is_empty()) {
                found.push(format!(
                    "{} at byte {offset}: the offset is not a multiple of {alignment}",
                    part()
                ));
            }
            if !extent.is_empty() && offset < self.index.index_end {
                let end = self.index.index_end;
                found.push(format!(
                    "{} at byte {offset}: lies over the records, which end at byte {end}",
                    part()
                ));
            }
        }
        for overlap in overlaps(&self.extents) {
            let at = self.extents.get(overlap.second).map_or(0, |extent| extent.offset());
            let (first, second) = (self.part(overlap.first), self.part(overlap.second));
            found.push(format!("{second} at byte {at}: shares some of its bytes with {first}"));
        }
        found.extend(self.gaps().filter(|gap| gap.is_too_long(alignment)).map(|gap| {
            let len = gap.end.saturating_sub(gap.begin);
            let part = self.part(gap.before);
            format!("{part} at byte {}: {len} bytes before it belong to no tensor", gap.end)
        }));
        found
    }

    /// Returns the gaps before tensors, from the start of the values on.
    fn gaps(&self) -> impl Iterator<Item = Gap> {
        let is_v1 = self.index.version() == Version::V1;
        let mut end = self.index.data.offset();
        let order = self.order.iter().copied().filter(move |_| !is_v1);
        order.filter_map(move |before| {
            let extent = self.extents.get(before)?;
            let gap = Gap { begin: end, end: extent.offset(), before };
            end = end.max(extent.end());
            (gap.begin < gap.end).then_some(gap)
        })
    }

    /// Returns the end of the last tensor.
    fn end(&self) -> u64 {
        let ends = self.extents.iter().map(|extent| extent.end());
        ends.max().unwrap_or_default().max(self.index.data.offset())
    }

    /// Returns a finding if more bytes follow the values than padding can have.
    fn trailing(&self) -> Option<String> {
        let (end, data) = (self.end(), self.index.data);
        let more = data.end().saturating_sub(end);
        // Readers of version 0.3 allow padding after the last tensor.
        let allowed = if self.index.version() == Version::V0_3 { PAGE } else { 1 };
        (more >= allowed)
            .then(|| format!("values at byte {end}: {more} bytes after the last tensor belong to no tensor"))
    }

    /// Checks that the bytes between parts are zero.
    async fn padding(&self, source: &impl Fetch) -> Vec<String> {
        let mut found = Vec::new();
        let (index, alignment) = (self.index, self.alignment());
        // A gap that is too long for padding is reported elsewhere.
        let mut places: Vec<(Part, u64, u64)> = vec![(
            Part::new("padding before the values"),
            index.index_end,
            index.data.offset().min(index.index_end.saturating_add(PAGE)),
        )];
        places.extend(
            self.gaps()
                .filter(|gap| !gap.is_too_long(alignment))
                .map(|gap| (self.part(gap.before).with_field("padding before it"), gap.begin, gap.end)),
        );
        if self.trailing().is_none() && self.index.version() == Version::V0_3 {
            places.push((Part::new("padding after the values"), self.end(), index.data.end()));
        }
        for (part, begin, end) in places {
            if begin >= end {
                continue;
            }
            match source.fetch(begin..end).await {
                Ok(bytes) => {
                    if let Some((at, byte)) = (begin..).zip(bytes.iter()).find(|(_, byte)| **byte != 0) {
                        found.push(format!("{part} at byte {at}: is {byte:#04x} and not zero"));
                    }
                }
                Err(error) => found.push(format!("{part} at byte {begin}: {error}")),
            }
        }
        found
    }
}

/// The bytes between a tensor and the part before it.
struct Gap {
    begin: u64,
    end: u64,
    /// The position of the tensor after the gap.
    before: usize,
}

impl Gap {
    const fn is_too_long(&self, alignment: u64) -> bool {
        self.end.saturating_sub(self.begin) >= alignment
    }
}
