//! Checks a file and reports every finding. The check names are the same as in `modelfmt verify`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod blocks;
mod in_order;
mod pass;
mod plan;
mod seal;

use modelfmt_core::{
    Execution, Fetch, Part, Report, VerifyLevel,
    author::{Extent, finding, overlaps},
};

use crate::index::{Generation, Index};
use crate::stored::Stored;
use crate::wire::{self, Flags};

use seal::Unsealed;

pub use blocks::check_blocks;
pub use pass::Pass;
pub use seal::{Seal, Verified};

/// The findings about one file, before they become a report.
pub struct Findings {
    pub(crate) structure: Vec<String>,
    pub(crate) extents: Vec<String>,
    pub(crate) signature: Vec<String>,
    /// The result of reading every byte; only at [`VerifyLevel::Full`].
    pub pass: Option<Pass>,
}

/// Runs the checks on one file. `seal` is the file's seal, or the reason why none is checked. At
/// [`VerifyLevel::Full`], reading the file also completes the seal's ledger.
pub async fn findings<S: Seal>(
    index: &Index,
    seal: Result<&S, &str>,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Findings {
    let pass = match level >= VerifyLevel::Full {
        true => Some(pass::run(index, seal.ok(), source, work).await),
        false => None,
    };
    Findings {
        structure: structure(index, seal.is_ok()),
        extents: extents(index),
        signature: seal.err().map_or_else(Vec::new, |why| signature(index, why)),
        pass,
    }
}

/// Runs the checks on a file without checking signatures, which only its flags can indicate.
pub(crate) async fn plain(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Findings {
    findings::<Unsealed>(index, Err(NOT_BUILT_IN), source, level, work).await
}

/// Verifies one file. APR2 has no checksum that covers only the structure, so [`VerifyLevel::Control`] checks
/// no more than [`VerifyLevel::Header`].
pub(crate) async fn report(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    plain(index, source, level, work).await.report(index, level, |report, findings| {
        add_signature(index, report, findings);
    })
}

impl Findings {
    /// Makes the report. `signature` adds the check of signatures to it, and is called with the findings
    /// about them.
    #[must_use]
    pub fn report(
        self,
        index: &Index,
        level: VerifyLevel,
        signature: impl FnOnce(&mut Report, Vec<String>),
    ) -> Report {
        let mut report = Report::new(level);
        let tensors = format!("{} tensors", index.tensors().len());
        report.add("structure", self.structure, tensors.clone());
        if let Some(pass) = self.pass {
            report.add("crc", pass.crc, format!("{:08x} over {} bytes", pass.seen.value, pass.seen.len));
            if index.tensors.any_compressed() && !index.flags().contains(Flags::ENCRYPTED) {
                report.add("lz4", pass.lz4, format!("{} blocks", pass.blocks));
            } else {
                report.add_absent("lz4", "no tensor is compressed");
            }
            if index.generation() == Generation::Apr2 {
                report.add("padding", pass.padding, "all gaps are zero");
            }
        }
        report.add("extents", self.extents, tensors);
        signature(&mut report, self.signature);
        report
    }
}

/// Adds the check of signatures for a file whose seal has not been checked.
pub fn add_signature(index: &Index, report: &mut Report, findings: Vec<String>) {
    if index.flags().contains(Flags::SIGNED) {
        report.add("signature", findings, "");
    } else {
        report.add_absent("signature", "the file is not signed");
    }
}

fn structure(index: &Index, is_sealed: bool) -> Vec<String> {
    if index.generation() == Generation::Apr1 {
        return Vec::new(); // what APR1 rules, opening has checked
    }
    let mut found = Vec::new();
    required_keys(index, &mut found);
    reserved(index, &mut found);
    feature_flags(index, &mut found);
    tensor_flags(index, &mut found);
    streaming(index, &mut found);
    if !is_sealed {
        footer_place(index, &mut found); // a seal says where the tensors end, and opening has checked it
    }
    found
}

/// Checks the required keys. A file opens without them (APR2 2.0, "Required Keys")
/// (docs/formats/apr2.md#metadata).
fn required_keys(index: &Index, found: &mut Vec<String>) {
    let at = index.sections().metadata.offset();
    found.extend(index.metadata().missing().map(|error| finding(&Part::new("metadata"), at, error)));
}

/// Checks that the reserved word of the index header is zero.
fn reserved(index: &Index, found: &mut Vec<String>) {
    if index.tensors.reserved != 0 {
        let part = Part::new("tensor index").with_field("reserved");
        let at = index.sections().index.offset().saturating_add(4);
        found.push(finding(&part, at, format!("is {:#x}, not zero", index.tensors.reserved)));
    }
}

/// Checks that QUANTIZED and COMPRESSED match the tensors (docs/formats/apr2.md#flags).
fn feature_flags(index: &Index, found: &mut Vec<String>) {
    let quantized = index.tensors().iter().any(|tensor| tensor.dtype.is_quantized());
    let compressed = index.tensors.any_compressed();
    for (flag, name, is_so) in
        [(Flags::QUANTIZED, "QUANTIZED", quantized), (Flags::COMPRESSED, "COMPRESSED", compressed)]
    {
        let what = match (index.flags().contains(flag), is_so) {
            (true, false) => format!("{name} is set, but no tensor is so"),
            (false, true) => format!("{name} is not set, but a tensor is so"),
            _ => continue,
        };
        found.push(finding(&Part::new("header").with_field("flags"), 8, what));
    }
}

/// Checks the flags of tensors: bit 0 marks a compressed tensor, and no other bit is known.
fn tensor_flags(index: &Index, found: &mut Vec<String>) {
    for (position, stored) in index.tensors.all_stored().enumerate() {
        let expected = if stored.compressed { wire::TENSOR_COMPRESSED } else { 0 };
        if stored.flags == expected {
            continue;
        }
        let unknown = stored.flags & !wire::TENSOR_COMPRESSED;
        let what = if unknown != 0 {
            format!("the bits {unknown:#x} are not known")
        } else if stored.compressed {
            "bit 0 is not set, but raw_size says that the tensor is compressed".to_owned()
        } else {
            "bit 0 is set, but raw_size says that the tensor is not compressed".to_owned()
        };
        found.push(about(index, position, Some("flags"), stored.offset, what));
    }
}

/// Checks that tensors are in the order of the index if the file has the flag STREAMING.
fn streaming(index: &Index, found: &mut Vec<String>) {
    if !index.flags().contains(Flags::STREAMING) {
        return;
    }
    let mut end = 0;
    for (position, stored) in index.tensors.all_stored().enumerate() {
        if stored.offset < end {
            let what = "lies before the end of the tensor before it, but STREAMING promises their order";
            found.push(about(index, position, Some("offset"), stored.offset, what));
        }
        end = end.max(stored.end());
    }
}

/// Checks that the footer follows directly after the last byte of the tensors (docs/formats/apr2.md#footer).
fn footer_place(index: &Index, found: &mut Vec<String>) {
    let data = index.sections().data;
    let last = |with_empty: bool| {
        let ends = index.tensors.all_stored().filter(|stored| with_empty || stored.len > 0);
        ends.map(|stored| stored.end()).max().unwrap_or(data.offset())
    };
    // An empty tensor may be after the last byte. Some writers pad up to it, and some do not.
    if data.end() != last(false) && data.end() != last(true) {
        let what = format!("does not follow the last tensor byte, which is before byte {}", last(false));
        found.push(finding(&Part::new("footer"), data.end(), what));
    }
}

fn extents(index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    alignment(index, &mut found);
    overlapping(index, &mut found);
    found
}

/// Checks that the file keeps its own promise of alignment (docs/formats/apr2.md#flags).
fn alignment(index: &Index, found: &mut Vec<String>) {
    let Some(alignment) = index.alignment() else { return };
    let data = index.sections().data.offset();
    for (position, stored) in index.tensors.all_stored().enumerate() {
        let offset = stored.offset.saturating_sub(data);
        if !offset.is_multiple_of(alignment) {
            let what = format!("{offset} is not a multiple of {alignment}, as ALIGNED_{alignment} promises");
            found.push(about(index, position, Some("offset"), stored.offset, what));
        }
    }
}

/// Checks that no two tensors overlap in part (docs/formats/apr2.md#ties).
fn overlapping(index: &Index, found: &mut Vec<String>) {
    let extent = |stored: Stored| Extent::new(stored.offset, stored.len, u64::MAX);
    let extents: Result<Vec<_>, _> = index.tensors.all_stored().map(extent).collect();
    for overlap in overlaps(&extents.unwrap_or_default()) {
        let other = index
            .tensors()
            .info(overlap.first)
            .map_or_else(String::new, |info| format!("{:?}", modelfmt_core::author::Shortened(info.name)));
        let at = index.tensors.stored(overlap.second).map_or(0, |stored| stored.offset);
        found.push(about(index, overlap.second, None, at, format!("overlaps a part of tensor {other}")));
    }
}

/// The reason why this crate cannot check a signature: it does not read seal sections.
const NOT_BUILT_IN: &str =
    "nothing that could is built in (the crate modelfmt-apr2-seal; in modelfmt its feature `seal`)";

/// Returns a finding if the file has the flag SIGNED and its signature cannot be checked
/// (docs/formats/apr2.md#encrypted-and-signed).
fn signature(index: &Index, why: &str) -> Vec<String> {
    if !index.flags().contains(Flags::SIGNED) {
        return Vec::new();
    }
    let what = format!("SIGNED is set, but the signature cannot be checked: {why}");
    vec![finding(&Part::new("header").with_field("flags"), 8, what)]
}

/// Formats a finding about one tensor, whose values begin at byte `at`.
pub fn about(
    index: &Index,
    position: usize,
    field: Option<&'static str>,
    at: u64,
    what: impl std::fmt::Display,
) -> String {
    let name = index.tensors().info(position).map_or("", |info| info.name);
    finding(&Part { field, ..wire::entry_part(position, name) }, at, what)
}
