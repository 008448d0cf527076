//! Signatures in reports (OpenSSF Model Signing): adds the result of a signature check, and verifies a file
//! that has no path.

use std::sync::Arc;

use modelfmt_core::author::with_causes;
use modelfmt_core::source::BoxSource;
use modelfmt_core::{Execution, Report, VerifyLevel};
use modelfmt_keys::PublicKey;
use modelfmt_oms::{Error, Verified};

use crate::formats::Format;
use crate::open::OpenOptions;
use crate::verify::FileReport;

/// The maximum number of file names in a line.
const NAMES: usize = 5;

/// The reason why the signature of an index is refused.
pub(crate) const OF_SETS: &str =
    "it names other files, which its own signature does not cover; sign its folder, and verify that";

impl OpenOptions {
    /// Verifies the file `source`, which must have a signature by one of `keys`; `signature` has the bytes of `FILE.sig`. In
    /// addition to the checks of [`verify_source`](Self::verify_source), the report has `signature` and `digests`. The index of a
    /// set is refused.
    #[must_use]
    pub fn verify_source_signed(
        &self,
        name: &str,
        source: BoxSource,
        signature: &[u8],
        keys: &[PublicKey],
        level: VerifyLevel,
        work: &Execution<'_>,
    ) -> FileReport {
        let source = Arc::new(source);
        let mut report = self.verify_source(name, Box::new(Arc::clone(&source)), None, level, work);
        if report.format.is_some_and(Format::is_set) {
            report.report.add("signature", vec![OF_SETS.to_owned()], "");
            return report;
        }
        let file = name.rsplit('/').next().unwrap_or(name);
        add(&mut report.report, modelfmt_oms::verify_source(file, &source, signature, keys, work));
        report
    }
}

pub(crate) fn add(report: &mut Report, verified: modelfmt_oms::Result<Verified>) {
    match verified {
        Ok(verified) => {
            let by = format!("by the trusted key {}", verified.key_id);
            report.add("signature", Vec::new(), by);
            let files = format!("{} file{}", verified.files, if verified.files == 1 { "" } else { "s" });
            let mut unknown = Vec::new();
            if !verified.ignored.is_empty() {
                let left_out = some(&verified.ignored);
                unknown.push(format!("the signer left out {left_out}, which could be anything"));
            }
            if !verified.empty.is_empty() {
                let empty = some(&verified.empty);
                unknown
                    .push(format!("the signature says nothing of empty files: {empty} may have been added"));
            }
            if unknown.is_empty() {
                report.add("digests", verified.findings(), files);
            } else {
                let looked_at = format!("{files}; {}", unknown.join("; "));
                report.add_partial("digests", verified.findings(), looked_at);
            }
        }
        Err(
            error @ (Error::Read { .. } | Error::Unsignable { .. } | Error::Changed { .. } | Error::Stopped),
        ) => {
            report.add("digests", vec![with_causes(&error)], "");
        }
        Err(error) => report.add("signature", vec![with_causes(&error)], ""),
    }
}

/// Returns the first names, and the number of the others.
fn some(names: &[String]) -> String {
    let first: Vec<_> = names.iter().take(NAMES).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(NAMES);
    if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) }
}
