//! Verifies a sealed set: its signatures, and the seals of its shards.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use apr2::author::{add_set_signature, verify_set};
use modelfmt_core::{Execution, FetchFiles, OpenSet, Report, VerifyLevel};

use super::SetIndex;

pub(super) async fn report<F: FetchFiles>(
    manifest: &SetIndex,
    set: &OpenSet<SetIndex, F>,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let signature = |report: &mut Report, is_signed: bool, findings: Vec<String>| {
        add_signature(manifest, is_signed, findings, report);
    };
    let (mut report, seals) = verify_set(&manifest.plain, set, level, work, signature).await;
    seals.add_to(&mut report);
    report
}

/// Adds the check of the signatures. Only those by keys that the caller has named prove anything. Opening has
/// checked them.
fn add_signature(manifest: &SetIndex, is_signed: bool, findings: Vec<String>, report: &mut Report) {
    match manifest.signers() {
        Some((signers, true)) => report.add("signature", findings, signers),
        Some((signers, false)) => {
            report.add_partial("signature", findings, format!("{signers}; not checked by any key"));
        }
        None => add_set_signature(report, is_signed, findings),
    }
}
