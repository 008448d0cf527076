//! Checks the CRC-32s of an archive. A single array has no checksum.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{Execution, Fetch, Report, VerifyLevel};

use crate::error::Fault;
use crate::index::Index;

pub(crate) async fn report(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let mut report = Report::new(level);
    report.add("structure", Vec::new(), format!("{} arrays", index.tensors().len()));
    if level >= VerifyLevel::Full {
        if index.is_archive() {
            let (findings, nbytes) = index.arrays.check_crcs::<Fault>(source, work, |_| true).await;
            report.add("crc", findings, format!("the CRC-32s of {nbytes} bytes"));
        } else {
            report.add_absent("crc", "a single array has no checksum");
        }
    }
    report
}
