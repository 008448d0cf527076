//! Signatures beside files (OpenSSF Model Signing): reads files through what was signed, verifies the signature of a file that has no path, and puts
//! the result of any such signature into a report.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::author::with_causes;
use modelfmt_core::source::{BoxSource, Files, SharedFiles, folder_of, shared_files};
use modelfmt_core::{Execution, Report, VerifyLevel};
use modelfmt_keys::PublicKey;
use modelfmt_oms::{Error, SignedFiles, Verified};

use crate::formats::Format;
use crate::open::OpenOptions;
use crate::verify::FileReport;

/// The most names of files that a line says.
const NAMES: usize = 5;

/// Why the signature of an index is refused.
pub(crate) const OF_SETS: &str =
    "it names other files, which its own signature does not cover; sign its folder, and verify that";

/// The file `index`, opened as `source`, and the files beside it, as the options say that they were signed.
pub(crate) fn checked(
    options: &OpenOptions,
    index: &Path,
    source: BoxSource,
    files: Option<SharedFiles>,
) -> crate::Result<(BoxSource, Option<SharedFiles>)> {
    let Some(signed) = &options.signed else { return Ok((source, files)) };
    let source = signed.source(index, source);
    let source = source.map_err(|source| crate::Error::Open { path: index.to_owned(), source })?;
    let folder = folder_of(index).to_owned();
    let files = files.map(|files| shared_files(SignedSet { files, folder, signed: Arc::clone(signed) }));
    Ok((Box::new(source), files))
}

/// The files of a set, each as it was signed.
struct SignedSet {
    files: SharedFiles,
    folder: PathBuf,
    signed: Arc<SignedFiles>,
}

impl Files for SignedSet {
    type Source = BoxSource;

    fn open(&self, path: &str) -> io::Result<BoxSource> {
        let source = self.files.open(path)?;
        Ok(Box::new(self.signed.source(&self.folder.join(path), source)?))
    }
}

impl OpenOptions {
    /// As [`verify_source`](Self::verify_source), and the file must have a signature by one of `keys`: `signature` holds the bytes of
    /// `FILE.sig`. The report has the checks `signature` and `digests`. The index of a set is refused.
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
            let by = format!("by the key {}, which was named", verified.key_id);
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

/// The first names, and how many more there are.
fn some(names: &[String]) -> String {
    let first: Vec<_> = names.iter().take(NAMES).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(NAMES);
    if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) }
}
