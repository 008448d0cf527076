//! Checks a file and reports every finding. The check names are the same as in `modelfmt verify`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::author::{Crc, ScanRange, SharedScan, finding, with_causes};
use modelfmt_core::{Execution, Fetch, Part, Report, VerifyLevel};

use super::index::Index;
use super::wire::{Flags, Header, MAX_UNCOMPRESSED};
use crate::claims;
use crate::error::Result;

/// The number of bytes that a thread reads at once.
const PIECE: u64 = 1 << 20;

pub(super) async fn report(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let mut report = Report::new(level);
    report.add("structure", structure(index), "header and metadata; the payload is not taken apart");
    if level >= VerifyLevel::Full {
        match crc(index, source, work).await {
            Ok(crc) => report.add("crc", Vec::new(), format!("{:08x} over {} bytes", crc.value, crc.len)),
            Err(error) => report.add("crc", vec![with_causes(&error)], ""),
        }
    }
    if index.flags().contains(Flags::SIGNED) {
        report.add_absent(
            "signature",
            "it is not checked: its key is in the file too, and so proves nothing about the signer",
        );
    }
    if index.flags().contains(Flags::ENCRYPTED) {
        report.add_absent("encryption", "the payload is encrypted, and is not opened");
    }
    report
}

fn structure(index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    let header = |field| Part::new("header").with_field(field);
    let Header { compression, uncompressed_size, payload_size, quality, reserved, .. } = index.header;
    if index.model_type().name().is_none() {
        let what = format!("{} is no kind of model that aprender knows", index.model_type().0);
        found.push(finding(&header("model type"), 6, what));
    }
    if uncompressed_size > MAX_UNCOMPRESSED {
        let what = format!("is {uncompressed_size}, and aprender's tools refuse more than 1 GiB");
        found.push(finding(&header("uncompressed size"), 16, what));
    }
    let is_plain = compression.0 == 0 && !index.flags().contains(Flags::ENCRYPTED);
    if is_plain && uncompressed_size != payload_size {
        let what = format!("is {uncompressed_size}, but {payload_size} bytes are stored, uncompressed");
        found.push(finding(&header("uncompressed size"), 16, what));
    }
    if compression.name().is_none() {
        let what = format!("{} is no compression that aprender knows", compression.0);
        found.push(finding(&header("compression"), 20, what));
    }
    if index.flags().bits() >> 7 != 0 {
        found.push(finding(&header("flags"), 21, "bit 7 is set, which means nothing"));
    }
    if quality > 100 {
        found.push(finding(&header("quality"), 22, format!("is {quality}, beyond 100")));
    }
    if reserved != [0; 9] {
        found.push(finding(&header("reserved"), 23, "is not zero"));
    }
    keys(index, &mut found);
    let (end, footer) = (index.sections.end(), index.sections.footer.offset());
    if end != footer {
        let what = format!("{} bytes before the footer belong to nothing", footer.saturating_sub(end));
        found.push(finding(&Part::new("file"), end, what));
    }
    found
}

/// Checks for the keys that aprender always writes.
fn keys(index: &Index, found: &mut Vec<String>) {
    let at = index.sections.metadata.offset();
    let part = Part::new("metadata");
    match index.metadata() {
        Ok(metadata) => {
            for key in ["created_at", "aprender_version"] {
                if let Err(error) = metadata.required_str(key) {
                    found.push(finding(&part, at, error));
                }
            }
        }
        Err(error) => found.push(with_causes(&error)),
    }
}

/// Checks the CRC of everything before the footer.
async fn crc(index: &Index, source: &impl Fetch, work: &Execution<'_>) -> Result<Crc> {
    let footer = index.sections.footer;
    let mut seen = Crc::default();
    let look = |_, bytes: &[u8]| Crc::of(bytes);
    let scan = SharedScan(ScanRange::new(0..footer.offset(), PIECE, look));
    source.scan(&scan, work, |crc| seen = seen.then(crc)).await?;
    let stated = claims::stated(footer, source).await?;
    if stated == seen.value { Ok(seen) } else { Err(claims::differs(footer, seen.value, stated)) }
}
