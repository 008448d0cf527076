//! Checks a file and reports every finding. The check names are the same as in `modelfmt verify`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashSet;
use std::ops::Range;

use modelfmt_core::{
    Execution, Fetch, Part, Report, VerifyLevel,
    author::{Extent, ScanRange, align_up, overlaps},
};

use crate::error::Error;
use crate::index::Index;
use crate::wire;

/// Verifies an open file.
pub(crate) async fn verify(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let mut report = Report::new(level);
    for Found { check, findings, coverage, is_partial } in checks(index, source, level, work).await {
        match is_partial {
            true => report.add_partial(check, findings, coverage),
            false => report.add(check, findings, coverage),
        }
    }
    report
}

/// The findings of a check, and how much it covered.
pub(crate) struct Found {
    pub(crate) check: &'static str,
    pub(crate) findings: Vec<String>,
    coverage: String,
    /// Whether there are bytes that the check does not cover.
    is_partial: bool,
}

/// Runs the checks on a file.
pub(crate) async fn checks(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Vec<Found> {
    let mut all = Vec::new();
    let mut add =
        |check, findings, coverage| all.push(Found { check, findings, coverage, is_partial: false });
    let coverage = format!("{} tensors, {} metadata entries", index.tensors().len(), index.metadata().len());
    add("structure", structure(index), coverage);
    add("extents", extents(index), format!("{} tensors", index.tensors().len()));
    if level >= VerifyLevel::Control {
        let coverage = format!("{} metadata entries", index.metadata().len());
        add("values", values(index), coverage);
    }
    if level >= VerifyLevel::Full {
        let (findings, nbytes) = padding(index, source, work).await;
        let (behind, mut coverage) = (behind(index), format!("{nbytes} bytes of padding"));
        if behind > 0 {
            let why = "are behind the last tensor, belong to nothing, and are not looked at";
            coverage = format!("{coverage}; {behind} bytes {why}");
        }
        all.push(Found { check: "padding", findings, coverage, is_partial: behind > 0 });
    }
    all
}

/// Checks keys and names. Keys are ASCII (GGUF, `gguf_metadata_kv_t` and `gguf_tensor_info_t`), and ggml only
/// reads names of less than 64 bytes (docs/formats/gguf.md#names-and-keys).
fn structure(index: &Index) -> Vec<String> {
    let keys = index.metadata().keys().enumerate().filter(|(_, key)| !key.is_ascii());
    let keys = keys.map(|(number, key)| {
        let part = Part::entry("metadata", number as u64).with_name(key);
        format!("{part}: the key is not ASCII")
    });
    let names =
        index.tensors().iter().enumerate().filter(|(_, tensor)| tensor.name.len() > wire::MAX_NAME_LEN);
    let names = names.map(|(number, tensor)| {
        let (part, len) = (part(number, tensor.name), tensor.name.len());
        format!("{part}: the name has {len} bytes, {} are allowed", wire::MAX_NAME_LEN)
    });
    keys.chain(names).collect()
}

/// Checks that offsets are multiples of the alignment (GGUF, `gguf_tensor_info_t`), and that tensors do not overlap unless they
/// have the same bytes.
fn extents(index: &Index) -> Vec<String> {
    let alignment = u64::from(index.alignment());
    let mut findings = Vec::new();
    let mut all = Vec::with_capacity(index.tensors().len());
    for (number, tensor) in index.tensors().iter().enumerate() {
        let Some(extent) = index.tensors().extent(number, index.file_len()) else { continue }; // there is one for each tensor
        if !extent.offset().saturating_sub(index.data_start()).is_multiple_of(alignment) {
            let part = part(number, tensor.name);
            let at = extent.offset();
            findings.push(format!(
                "{part} at byte {at}: does not begin at a multiple of {alignment} of the data"
            ));
        }
        all.push(extent);
    }
    let name = |number| index.tensors().info(number).map_or("", |tensor| tensor.name);
    for overlap in overlaps(&all) {
        let (first, second) = (overlap.first, overlap.second);
        let at = all.get(second).map_or(0, |extent: &Extent| extent.offset());
        findings.push(format!(
            "{} at byte {at}: overlaps {}",
            part(second, name(second)),
            part(first, name(first))
        ));
    }
    if findings.is_empty() {
        let wrong = out_of_order(index, &all).into_iter();
        findings.extend(wrong.map(|(number, expected)| {
            let at = all.get(number).map_or(0, |extent: &Extent| extent.offset());
            let part = part(number, name(number));
            format!("{part} at byte {at}: the tensor before it ends, with its padding, at byte {expected}")
        }));
    }
    findings
}

/// Finds tensors that are not where ggml's reader expects them: after the padding of the previous tensor.
/// Returns their positions and the expected offsets. Skips a tensor that begins where an earlier one does
/// (docs/formats/gguf.md#offsets).
fn out_of_order(index: &Index, all: &[Extent]) -> Vec<(usize, u64)> {
    let (mut wrong, mut seen) = (Vec::new(), HashSet::new());
    let mut expected = Some(index.data_start());
    for (number, extent) in all.iter().enumerate() {
        if !extent.is_empty() && !seen.insert(extent.offset()) {
            continue;
        }
        // One gap gives one finding: the next tensor is expected relative to the actual place of this one.
        wrong.extend(expected.filter(|&expected| expected != extent.offset()).map(|at| (number, at)));
        expected = padded_end(index, extent.end());
    }
    wrong
}

/// Returns the end of the padding after byte `end`.
fn padded_end(index: &Index, end: u64) -> Option<u64> {
    let relative = end.checked_sub(index.data_start())?;
    align_up(relative, u64::from(index.alignment()))?.checked_add(index.data_start())
}

/// Checks that booleans are 0 or 1, and that text is UTF-8 (GGUF, `gguf_metadata_value_type`).
fn values(index: &Index) -> Vec<String> {
    let (odd, replaced) = (index.metadata().odd_booleans(), index.metadata().replaced_text());
    let odd = odd.map(|key| (key, "a boolean is neither 0 nor 1"));
    let replaced = replaced.map(|key| (key, "text is not UTF-8; what is not is read as U+FFFD"));
    odd.chain(replaced).map(|(key, why)| format!("{}: {why}", Part::named("metadata", key))).collect()
}

/// Checks that padding is zero: before the data, and after each tensor up to the next multiple of the alignment (GGUF, "File
/// Structure"). Also returns the number of padding bytes.
async fn padding(index: &Index, source: &impl Fetch, work: &Execution<'_>) -> (Vec<String>, u64) {
    let (mut findings, mut checked) = (Vec::new(), 0_u64);
    for Gap { range, after } in gaps(index) {
        checked = checked.saturating_add(range.end.saturating_sub(range.start));
        // Padding is shorter than the alignment, but an alignment may be gigabytes.
        let filled = |at: u64, bytes: &[u8]| {
            bytes.iter().position(|&byte| byte != 0).map(|offset| at.saturating_add(offset as u64))
        };
        let mut first = None;
        let scan = ScanRange::new(range, modelfmt_core::author::PIECE, filled);
        if let Err(error) = source.scan(&scan, work, |at| first = first.or(at)).await {
            findings.push(Error::from(error).to_string());
            break;
        }
        if let Some(at) = first {
            let after = after.and_then(|number| Some((number, index.tensors().info(number)?.name)));
            let after = after
                .map_or("the tensors' records".to_owned(), |(number, name)| part(number, name).to_string());
            findings.push(format!("padding after {after} at byte {at}: is not zero"));
        }
    }
    (findings, checked)
}

/// Returns the number of bytes after the last tensor and its padding. The document does not say whether there
/// may be any (docs/formats/gguf.md#padding).
fn behind(index: &Index) -> u64 {
    let ends = (0..index.tensors().len())
        .filter_map(|number| Some(index.tensors().extent(number, index.file_len())?.end()));
    let end = ends.fold(index.data_start(), u64::max);
    index.file_len().saturating_sub(padded_end(index, end).unwrap_or(u64::MAX))
}

/// A range of padding, and the position of the tensor before it. `None` before the data.
struct Gap {
    range: Range<u64>,
    after: Option<usize>,
}

fn gaps(index: &Index) -> Vec<Gap> {
    let mut order: Vec<(Extent, usize)> = (0..index.tensors().len())
        .filter_map(|number| Some((index.tensors().extent(number, index.file_len())?, number)))
        .collect();
    order.sort_unstable();
    let data_start = index.data_start().min(index.file_len());
    let mut gaps = vec![Gap { range: index.listing_end()..data_start, after: None }];
    let mut reach = index.data_start();
    for (at, (extent, number)) in order.iter().enumerate() {
        reach = reach.max(extent.end());
        let aligned = padded_end(index, reach);
        let next = order.get(at.saturating_add(1)).map(|(next, _)| next.offset());
        let end = aligned.unwrap_or(u64::MAX).min(next.unwrap_or(u64::MAX));
        gaps.push(Gap { range: reach..end.min(index.file_len()), after: Some(*number) });
    }
    gaps.retain(|gap| gap.range.start < gap.range.end);
    gaps
}

fn part(number: usize, name: &str) -> Part {
    Part::entry("tensor", number as u64).with_name(name)
}
