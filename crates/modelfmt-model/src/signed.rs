//! Signatures beside files and folders: OpenSSF Model Signing.
//!
//! [`DetachedSignature::find`] looks for the signature of a model. [`signed_files`] verifies it, for
//! [`OpenOptions::signed_files`](crate::OpenOptions::signed_files). The crate [`modelfmt_oms`] signs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::author::with_causes;
use modelfmt_core::source::folder_of;
use modelfmt_core::{Execution, Report, VerifyLevel};
use modelfmt_keys::PublicKey;
use modelfmt_oms::{
    Bundle, SignedFiles, VerifyOptions, file_signature_path, folder_signature_path, signature_path,
};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::error::{Error, Result};
use crate::folder::probe;
use crate::formats::Format;
use crate::model::Model;
use crate::open::OpenOptions;
use crate::signed_report::{OF_SETS, add};
use crate::verify::FileReport;
use modelfmt_rules::wording::Note;

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
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("path", &self.path.display().to_string())?;
        map.serialize_entry("of", &self.of.display().to_string())?;
        map.serialize_entry("key_id", &self.key_id)?;
        map.serialize_entry("trusted", &self.is_trusted)?;
        map.serialize_entry("problem", &self.problem)?;
        map.end()
    }
}

impl DetachedSignature {
    /// Looks for the signature that covers the model at a path: beside its file (`FILE.sig`), or in its folder (`FOLDER/model.sig`). Nothing is
    /// verified: what it says is only a claim. [`signed_files`] verifies.
    #[must_use]
    pub fn find(model: impl AsRef<Path>) -> Option<Self> {
        let model = model.as_ref();
        // The signature of an index covers none of the files that it names.
        let is_set = || {
            probe(model)
                .is_ok_and(|found| found.format.is_some_and(Format::is_set) || !found.files.is_empty())
        };
        let covering = [model, folder_of(model)].into_iter();
        let mut found =
            covering.map(|of| (of, signature_path(of))).filter(|(_, path)| std::fs::metadata(path).is_ok());
        let (of, path) = found.find(|(of, _)| of.is_dir() || !is_set())?;
        Some(Self::read(of, path))
    }

    fn read(of: &Path, path: PathBuf) -> Self {
        let (key_id, problem) = match Bundle::read(&path) {
            Ok(bundle) => (bundle.hint().map(str::to_owned), None),
            Err(error) => (None, Some(with_causes(&error))),
        };
        Self { path, of: of.to_owned(), key_id, is_trusted: None, problem }
    }
}

impl Model {
    /// The signature beside it. If it was opened through [`signed_files`](OpenOptions::signed_files), that is trusted; else it is what
    /// [`DetachedSignature::find`] finds.
    #[must_use]
    pub fn detached_signature(&self) -> Option<DetachedSignature> {
        let Some(signed) = &self.signed else { return DetachedSignature::find(self.on_disk.as_ref()?) };
        Some(DetachedSignature {
            path: signed.signature().to_owned(),
            of: signed.of().to_owned(),
            key_id: Some(signed.key_id().to_string()),
            is_trusted: Some(true),
            problem: None,
        })
    }
}

/// Verifies the signature beside a model, [where it is](DetachedSignature::find), and hashes every file that it covers. Open the model through the result
/// ([`OpenOptions::signed_files`]): what is read then is what was hashed here. It can be used for every model of a signed folder.
///
/// # Errors
/// [`Error::Signature`] if there is no signature, it is by none of the keys, or a file is not what was signed.
pub fn signed_files(
    model: impl AsRef<Path>,
    keys: &[PublicKey],
    options: &VerifyOptions,
    work: &Execution<'_>,
) -> Result<Arc<SignedFiles>> {
    let model = model.as_ref();
    let failed = |why| Error::Signature { path: model.to_owned(), why };
    let none = || failed(format!("{}: there is no signature beside it", model.display()));
    let of = DetachedSignature::find(model).ok_or_else(none)?.of;
    let verified = modelfmt_oms::verify_to_read(&of, keys, options, work);
    match verified.map_err(|error| failed(with_causes(&error)))? {
        (_, Some(files)) => Ok(Arc::new(files)),
        (verified, None) => {
            let mut findings = verified.findings().into_iter();
            let (first, more) = (findings.next().unwrap_or_default(), findings.len());
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            Err(failed(format!("{}: {first}{more}", of.display())))
        }
    }
}

/// Notes about the signatures beside a file that has just been changed, and in its folder.
pub(crate) fn of_before(file: &Path) -> impl Iterator<Item = Note> {
    let signatures = [(file_signature_path(file), "the file"), (folder_signature_path(file), "the folder")];
    signatures.into_iter().filter(|(path, _)| path.is_file()).map(|(path, what)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text =
            format!("{name} is the signature of {what} as it was before; sign {what} again or remove it");
        Note::about(path, text)
    })
}

impl OpenOptions {
    /// Verifies a file or a folder, which must have a signature by one of `keys`: `FILE.sig`, `FOLDER/model.sig` (OpenSSF Model
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
        if !path.is_dir() && probe(path).is_ok_and(|found| found.format.is_some_and(Format::is_set)) {
            let mut report = self.verify(path, level, work);
            report.report.add("signature", vec![OF_SETS.to_owned()], "");
            return report;
        }
        // What the signature covers is then read as it was hashed.
        let (verified, opening) = match modelfmt_oms::verify_to_read(path, keys, options, work) {
            Ok((verified, Some(files))) => (Ok(verified), self.clone().signed_files(Arc::new(files))),
            Ok((verified, None)) => (Ok(verified), self.clone()),
            Err(error) => (Err(error), self.clone()),
        };
        let mut report = match path.is_dir() {
            true => {
                let (report, warnings) = (Report::new(level), Vec::new());
                FileReport { path: path.to_owned(), format: None, pin: self.pin, report, warnings }
            }
            false => opening.verify(path, level, work),
        };
        if report.format.is_some_and(Format::is_set) {
            report.report.add("signature", vec![OF_SETS.to_owned()], "");
            return report;
        }
        if report.format.is_none() && verified.is_ok() && path.is_file() {
            report.report = Report::new(level); // it need not be a model
        }
        add(&mut report.report, verified);
        report
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs;

    use modelfmt_keys::{KeyType, PrivateKey};
    use modelfmt_oms::{SignOptions, sign};

    use super::*;

    fn key() -> PrivateKey {
        PrivateKey::from_bytes(KeyType::P256, &[7; 32]).unwrap()
    }

    fn files_of(model: &Path) -> Result<Arc<SignedFiles>> {
        signed_files(model, &[key().public().clone()], &VerifyOptions::new(), &Execution::default())
    }

    fn sign_it(of: &Path) -> PathBuf {
        sign(of, &key(), &SignOptions::new(), &Execution::default()).unwrap().path
    }

    /// A safetensors file with one tensor of this byte, 100,000 times.
    fn file(byte: u8) -> Vec<u8> {
        let header = br#"{"w":{"dtype":"U8","shape":[100000],"data_offsets":[0,100000]}}"#;
        [&(header.len() as u64).to_le_bytes()[..], header, &[byte; 100_000]].concat()
    }

    #[test]
    fn what_is_read_is_what_was_hashed_whenever_the_file_changes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("m.safetensors");
        for of in [path.as_path(), place.path()] {
            fs::write(&path, file(1)).unwrap();
            let signature = sign_it(of);
            let files = files_of(&path).unwrap();
            let open = || OpenOptions::new().signed_files(Arc::clone(&files)).open(&path);
            let model = open().unwrap();
            assert_eq!(model.detached_signature().unwrap().is_trusted, Some(true));
            assert_eq!(model.tensor("w").unwrap().bytes(), [1; 100_000]);
            // Written into while it is open.
            fs::write(&path, file(2)).unwrap();
            let error = model.tensor("w").unwrap_err();
            assert_eq!(error.code(), "damaged");
            assert!(error.without_path(&path).contains("signs: the file is damaged, was changed"), "{error}");
            // Exchanged between the hash and the opening.
            fs::remove_file(&path).unwrap();
            fs::write(&path, file(2)).unwrap();
            assert!(open().is_err_and(|error| error.code() == "damaged"));
            fs::write(&path, [file(1), file(1)].concat()).unwrap();
            assert!(open().unwrap_err().to_string().contains("it was changed while it was read"));
            assert_eq!(files_of(&path).unwrap_err().code(), "signature");
            // Without the keys it is only a claim.
            assert_eq!(DetachedSignature::find(&path).unwrap().is_trusted, None);
            fs::remove_file(signature).unwrap();
            assert!(files_of(&path).unwrap_err().to_string().contains("there is no signature beside it"));
        }
    }

    #[test]
    fn every_file_of_a_set_is_read_as_it_was_hashed() {
        let place = tempfile::tempdir().unwrap();
        let index = place.path().join("m.safetensors.index.json");
        let text =
            |name: &str| format!(r#"{{"metadata":{{"total_size":100000}},"weight_map":{{"w":"{name}"}}}}"#);
        fs::create_dir(place.path().join("sub")).unwrap();
        let shard = place.path().join("sub/1.safetensors");
        fs::write(&shard, file(1)).unwrap();
        fs::write(place.path().join("scratch.safetensors"), file(1)).unwrap();
        fs::write(&index, text("sub/1.safetensors")).unwrap();
        fs::write(place.path().join("m.safetensors.index.json.sig"), "covers no other file").unwrap();
        let left_out = ["scratch.safetensors".to_owned()];
        let options = SignOptions::new().ignore(left_out);
        sign(place.path(), &key(), &options, &Execution::default()).unwrap();
        let files = files_of(&index).unwrap();
        assert_eq!(files.of(), place.path());
        let open = |path: &Path| OpenOptions::new().signed_files(Arc::clone(&files)).open(path);
        for path in [&*index, place.path()] {
            let model = open(path);
            // The folder has another model in it.
            let Ok(model) = model else { continue };
            assert_eq!(model.tensor("w").unwrap().bytes(), [1; 100_000]);
        }
        let model = open(&index).unwrap();
        fs::write(&shard, file(2)).unwrap();
        let said = |model: &Model| {
            let error = model.tensor("w").unwrap_err();
            with_causes(&error)
        };
        for model in [model, open(&index).unwrap()] {
            assert!(
                said(&model).contains("model.sig signs: the file is damaged, was changed"),
                "{}",
                said(&model)
            );
        }
        fs::write(&shard, file(1)).unwrap();
        // An index of the same length that leads to a file that the signer left out.
        fs::write(&index, text("scratch.safetens0")).unwrap();
        assert!(open(&index).is_err_and(|error| error.code() == "damaged"));
        assert!(
            open(&place.path().join("scratch.safetensors")).unwrap_err().to_string().contains("not among")
        );
    }

    #[test]
    fn a_report_is_about_the_bytes_that_were_hashed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("m.safetensors");
        fs::write(&path, file(1)).unwrap();
        sign_it(&path);
        let verified = || {
            let keys = [key().public().clone()];
            let options = OpenOptions::new();
            options.verify_signed(
                &path,
                VerifyLevel::Full,
                &keys,
                &VerifyOptions::new(),
                &Execution::default(),
            )
        };
        assert!(verified().is_ok());
        fs::write(&path, file(2)).unwrap();
        assert_eq!(verified().report.errors, ["the file is not what was signed"]);
        fs::write(&path, "no model").unwrap();
        assert_eq!(verified().report.errors, ["the file is not what was signed"]);
        fs::remove_file(file_signature_path(&path)).unwrap();
        sign_it(&path);
        assert!(verified().is_ok(), "it need not be a model");
    }
}
