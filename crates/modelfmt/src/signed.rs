//! Signatures beside files: OpenSSF Model Signing.

use std::path::{Path, PathBuf};

use modelfmt_core::author::with_causes;
use modelfmt_core::source::folder_of;
use modelfmt_core::{Execution, Report, VerifyLevel};
use modelfmt_keys::PublicKey;
use modelfmt_oms::{Bundle, VerifyOptions, signature_path};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::formats::Format;
use crate::open::OpenOptions;
use crate::signed_source::{OF_SETS, add};
use crate::verify::FileReport;
use crate::words::Note;

/// The signature beside a model, as far as it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetachedSignature {
    /// Its file.
    pub path: PathBuf,
    /// What it covers: the file, or the folder with all that is in it.
    pub of: PathBuf,
    /// The id of the key that the signature names. Without a trusted key it is only a claim.
    pub key_id: Option<String>,
    /// Whether a key that the caller trusts made it, and every file is what was signed. `None` if no key was named.
    pub is_trusted: Option<bool>,
    /// Why it cannot be read, or is not valid.
    pub problem: Option<String>,
}

impl Serialize for DetachedSignature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("path", &self.path.display().to_string())?;
        map.serialize_entry("of", &self.of.display().to_string())?;
        map.serialize_entry("key_id", &self.key_id)?;
        map.serialize_entry("trusted", &self.is_trusted)?;
        map.serialize_entry("problem", &self.problem)?;
        map.end()
    }
}

/// Looks for the signature that covers a model which was opened by `path`: beside its file (`FILE.sig`), in its folder (`FOLDER/model.sig`).
/// With keys it is verified, which reads every file that it covers.
#[must_use]
pub fn detached_signature(
    path: &Path,
    format: Format,
    keys: &[PublicKey],
    options: &VerifyOptions,
    work: &Execution<'_>,
) -> Option<DetachedSignature> {
    let folder = folder_of(path);
    // The signature of an index covers none of the files that it names.
    let covering = [path, folder].into_iter().filter(|of| of.is_dir() || !format.is_set());
    let (of, path) = covering.map(|of| (of, signature_path(of))).find(|(_, path)| path.is_file())?;
    let mut found =
        DetachedSignature { path, of: of.to_owned(), key_id: None, is_trusted: None, problem: None };
    let problem = match Bundle::read(&found.path) {
        Ok(bundle) => {
            found.key_id = bundle.hint().map(str::to_owned);
            None
        }
        Err(error) => Some(with_causes(&error)),
    };
    if keys.is_empty() {
        return Some(DetachedSignature { problem, ..found });
    }
    let verified = modelfmt_oms::verify(of, keys, options, work);
    let problem = match verified {
        Ok(verified) if verified.is_ok() => None,
        Ok(verified) => verified.findings().into_iter().next(),
        Err(error) => Some(with_causes(&error)),
    };
    Some(DetachedSignature { is_trusted: Some(problem.is_none()), problem, ..found })
}

/// Notes about the signatures beside a file that has just been changed, and in its folder.
pub(crate) fn of_before(file: &Path) -> impl Iterator<Item = Note> {
    let folder = folder_of(file);
    let signatures = [(signature_path(file), "the file"), (signature_path(folder), "the folder")];
    signatures.into_iter().filter(|(path, _)| path.is_file()).map(|(path, what)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text =
            format!("{name} is the signature of {what} as it was before; sign {what} again or remove it");
        Note::about(path, text)
    })
}

impl OpenOptions {
    /// As [`verify`](Self::verify), and the file or folder must have a signature by one of `keys`: `FILE.sig`, `FOLDER/model.sig` (OpenSSF Model
    /// Signing). The report has the checks `signature` and `digests`. A folder is checked only by its signature, and so is a file that is not a
    /// model. The index of a set is refused, because the signature of that one file covers no other.
    #[must_use]
    pub fn verify_signed(
        &self,
        path: impl AsRef<Path>,
        level: VerifyLevel,
        keys: &[PublicKey],
        options: &VerifyOptions,
        work: &Execution<'_>,
    ) -> FileReport {
        let path = path.as_ref();
        let mut report = if path.is_dir() {
            FileReport { path: path.to_owned(), format: None, pin: self.pin, report: Report::new(level) }
        } else {
            self.verify(path, level, work)
        };
        if report.format.is_some_and(Format::is_set) && !path.is_dir() {
            report.report.add("signature", vec![OF_SETS.to_owned()], "");
            return report;
        }
        let verified = modelfmt_oms::verify(path, keys, options, work);
        if report.format.is_none() && verified.is_ok() && path.is_file() {
            report.report = Report::new(level); // it need not be a model
        }
        add(&mut report.report, verified);
        report
    }
}
