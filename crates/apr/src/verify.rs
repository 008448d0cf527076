//! Checks a file and reports every finding. The check names are the same as in `modelfmt verify`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Execution, Fetch, Part, Report, VerifyLevel,
    author::{Crc, Extent, ScanRange, SharedScan, finding, overlaps, with_causes},
};

use crate::claims;
use crate::error::{Fault, Result};
use crate::index::Index;
use crate::wire::{self, ALIGNMENT, Flags, HEADER_LEN, Header};

/// The number of bytes that a thread reads at once. They are scanned twice (CRC, padding) and should still be
/// in the cache for the second scan.
const PIECE: u64 = 1 << 20;

/// Runs the checks on one file. Only the header has a checksum of its own, which belongs to the structure, so
/// [`VerifyLevel::Control`] checks no more than [`VerifyLevel::Header`].
pub(crate) async fn report(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let mut report = Report::new(level);
    let tensors = format!("{} tensors", index.tensors().len());
    report.add("structure", structure(index), tensors.clone());
    if level >= VerifyLevel::Full {
        let mut padding = Vec::new();
        match crc(index, source, work, &mut padding).await {
            Ok(Some(crc)) => {
                report.add("crc", Vec::new(), format!("{:08x} over {} bytes", crc.value, crc.len));
            }
            Ok(None) => report.add_absent("crc", "the file has no footer, where the checksum would stand"),
            Err(error) => report.add("crc", vec![with_causes(&error)], ""),
        }
        report.add("padding", padding, "all gaps are zero");
    }
    report.add("extents", extents(index), tensors);
    let flags = index.flags();
    if flags.contains(Flags::SIGNED) {
        report.add_absent("signature", "SIGNED is set, but the format does not say where a signature stands");
    }
    if flags.contains(Flags::ENCRYPTED) {
        report.add_absent("encryption", "ENCRYPTED is set, but the content is in the clear");
    }
    report
}

fn structure(index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    let header = |field| Part::new("header").with_field(field);
    let Header { crc: stated, reserved, .. } = index.header;
    let crc = wire::header_crc(&index.header.encode());
    if crc != stated {
        let fault = Fault::HeaderCrc { found: crc, stated };
        found.push(finding(&header("crc32"), Header::CRC_AT as u64, fault));
    }
    if reserved != [0; 20] {
        found.push(finding(&header("reserved"), 44, "is not zero"));
    }
    if let Err(error) = index.metadata().model_type() {
        found.push(finding(&Part::new("metadata"), HEADER_LEN, error));
    }
    sections(index, &mut found);
    if let Some(position) = index.tensors.unsorted {
        let name = index.tensors().info(position).map_or("", |info| info.name);
        let what =
            "does not follow the name before it, and aprender's tools refuse an index that is not sorted";
        let at = index.sections().index.offset();
        found.push(finding(&wire::entry_part(position, name).with_field("name"), at, what));
    }
    end(index, &mut found);
    found
}

/// Checks that each section begins at the first multiple of 64 after the previous one
/// (docs/formats/apr.md#alignment-and-sections).
fn sections(index: &Index, found: &mut Vec<String>) {
    let sections = index.sections();
    for (field, at, begin, end) in [
        ("index_offset", 24, sections.index.offset(), sections.metadata.end()),
        ("data_offset", 32, sections.data.offset(), index.tensors.index_end),
    ] {
        let expected = end.next_multiple_of(ALIGNMENT); // within the file
        if begin != expected {
            let what =
                format!("is {begin}, but the section before it ends at byte {end}: {expected} is right");
            found.push(finding(&Part::new("header").with_field(field), at, what));
        }
    }
}

/// Checks that the file ends after the padding of its last tensor, or after a footer that follows this
/// padding (docs/formats/apr.md#footer).
fn end(index: &Index, found: &mut Vec<String>) {
    let (len, end) = (index.len(), index.tensors.end);
    if index.sections().footer.is_some() || len == end {
        return;
    }
    let what = match len.checked_sub(end) {
        Some(more) => format!("{more} bytes follow the padding of the last tensor, and a footer has 4"),
        None => {
            format!("the padding of the last tensor ends at byte {end}, after the end: the file is cut short")
        }
    };
    found.push(finding(&Part::new("file"), len.min(end), what));
}

fn extents(index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    let table = index.tensors();
    let name = |position: usize| table.info(position).map_or("", |info| info.name);
    let mut about = |position: usize, what: String| {
        let at = table.offset(position).unwrap_or(0); // every tensor here has one
        found.push(finding(&wire::entry_part(position, name(position)), at, what));
    };
    let extents: Vec<Extent> = (0..table.len()).filter_map(|n| table.extent(n, index.len())).collect();
    for (position, extent) in extents.iter().enumerate() {
        if !extent.offset().is_multiple_of(ALIGNMENT) {
            about(position, "the offset is not a multiple of 64".to_owned());
        }
    }
    for overlap in overlaps(&extents) {
        let other = modelfmt_core::author::Shortened(name(overlap.first));
        about(overlap.second, format!("overlaps a part of tensor {other:?}"));
    }
    found
}

/// Checks the CRC of everything before the footer, if there is one. Adds nonzero bytes between tensors to
/// `padding`.
async fn crc(
    index: &Index,
    source: &impl Fetch,
    work: &Execution<'_>,
    padding: &mut Vec<String>,
) -> Result<Option<Crc>> {
    let gaps = gaps(index);
    if let Some(image) = &index.image {
        check_gaps(&gaps, 0, image.bytes(), padding);
        return claims::check_image(index);
    }
    let mut seen = Crc::default();
    let look = |at, bytes: &[u8]| {
        let mut found = Vec::new();
        check_gaps(&gaps, at, bytes, &mut found);
        (Crc::of(bytes), found)
    };
    let take = |(crc, found): (Crc, Vec<String>)| {
        seen = seen.then(crc);
        padding.extend(found);
    };
    let scan = SharedScan(ScanRange::new(0..index.sections().data.end(), PIECE, look));
    source.scan(&scan, work, take).await?;
    let Some(footer) = index.sections().footer else { return Ok(None) };
    let stated = claims::stated(footer, source).await?;
    if stated == seen.value { Ok(Some(seen)) } else { Err(claims::differs(footer, seen.value, stated)) }
}

/// Returns the ranges between sections and between tensors, in ascending order.
fn gaps(index: &Index) -> Vec<Range<u64>> {
    let sections = index.sections();
    let mut gaps = vec![
        sections.metadata.end()..sections.index.offset(),
        index.tensors.index_end..sections.data.offset(),
    ];
    let table = index.tensors();
    let mut extents: Vec<Extent> = (0..table.len()).filter_map(|n| table.extent(n, index.len())).collect();
    extents.sort_unstable();
    let mut end = sections.data.offset();
    for extent in extents.into_iter().filter(|extent| !extent.is_empty()) {
        if extent.offset() > end {
            gaps.push(end..extent.offset());
        }
        end = end.max(extent.end());
    }
    gaps.push(end..sections.data.end());
    gaps.retain(|gap| gap.start < gap.end);
    gaps
}

/// Looks for nonzero bytes in the gaps. `bytes` begin at byte `start` of the file.
fn check_gaps(gaps: &[Range<u64>], start: u64, bytes: &[u8], found: &mut Vec<String>) {
    let end = start.saturating_add(bytes.len() as u64);
    let within = |n: u64| usize::try_from(n.saturating_sub(start)).unwrap_or(usize::MAX);
    let first = gaps.partition_point(|gap| gap.end <= start);
    for gap in gaps.get(first..).unwrap_or_default().iter().take_while(|gap| gap.start < end) {
        let here = gap.start.max(start)..gap.end.min(end);
        let part = bytes.get(within(here.start)..within(here.end)).unwrap_or_default();
        if let Some(at) = part.iter().position(|&byte| byte != 0) {
            found.push(format!("padding at byte {}: is not zero", here.start.saturating_add(at as u64)));
        }
    }
}
