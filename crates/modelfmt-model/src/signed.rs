//! Signatures beside files and folders: OpenSSF Model Signing.
//!
//! [`DetachedSignature::find`] looks for the signature of a model. [`signed_files`] verifies it, for
//! [`OpenOptions::signed_files`](crate::OpenOptions::signed_files). The crate [`modelfmt_oms`] makes signatures.

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
    /// The signature file.
    pub path: PathBuf,
    /// What the signature covers: a file, or a folder with everything in it.
    pub of: PathBuf,
    /// The id of the key that the signature names. Without a trusted key it is only a claim.
    pub key_id: Option<String>,
    /// Whether the signature is by a trusted key, and every file matches what was signed. `None` if the caller named no key.
    pub is_trusted: Option<bool>,
    /// Why the signature cannot be read or is not valid.
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
    /// Looks for the signature that covers the model at a path: beside its file (`FILE.sig`), or in its folder
    /// (`FOLDER/model.sig`). Nothing is verified: the content of the signature is only a claim. [`signed_files`] verifies it.
    #[must_use]
    pub fn find(model: impl AsRef<Path>) -> Option<Self> {
        let model = model.as_ref();
        // The signature of an index does not cover the files that it names.
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
    /// Returns the signature beside the model. If the model was opened with
    /// [`signed_files`](OpenOptions::signed_files), the signature is trusted; otherwise it is the result of
    /// [`DetachedSignature::find`].
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

/// Verifies the signature beside a model, [at the same places](DetachedSignature::find), and hashes every file that it covers. Open
/// the model with the result ([`OpenOptions::signed_files`]): its reads then return only bytes that match these hashes. The result
/// can be used for every model in a signed folder.
///
/// # Errors
/// [`Error::Signature`] if there is no signature, it is by none of the keys, or a file does not match what was signed.
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

/// Fails unless a file may be changed and then signed by this key: its new signature will vouch for everything
/// that the change keeps. So the file must pass a full verification, and a signature by the key beside it
/// (`FILE.sig`) must be of the file as it is.
///
/// # Errors
/// The errors of [`OpenOptions::open`]; [`Error::NotEditable`] if the file is not intact; [`Error::Signature`]
/// if it is not what the key has signed.
pub fn expect_signable(
    file: impl AsRef<Path>,
    key: &PublicKey,
    options: &OpenOptions,
    work: &Execution<'_>,
) -> Result<()> {
    let file = file.as_ref();
    let model = options.open(file)?;
    let (signature, keys) = (file_signature_path(file), std::slice::from_ref(key));
    if Bundle::read(&signature).is_ok_and(|bundle| bundle.check(keys).is_some()) {
        let failed = |why| Error::Signature { path: file.to_owned(), why };
        let options = VerifyOptions::new().signature(signature).allow_symlinks(true);
        let verified = modelfmt_oms::verify(file, keys, &options, work);
        if let Some(finding) = verified.map_err(|error| failed(with_causes(&error)))?.findings().first() {
            return Err(failed(format!(
                "{}: {finding}, so it is not signed after another change; if it is good, sign it as it is first",
                file.display()
            )));
        }
    }
    match model.verify_with(VerifyLevel::Full, work).errors.first() {
        None => Ok(()),
        Some(finding) => {
            let why = format!("it is not intact, and so it is not signed: {finding}");
            Err(Error::NotEditable { path: file.to_owned(), why })
        }
    }
}

/// Returns notes about the signatures beside a file that was just changed, and in its folder.
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
    /// Verifies a file or a folder, which must have a signature by one of `keys`: `FILE.sig` or
    /// `FOLDER/model.sig` (OpenSSF Model Signing). A file without a signature of its own may be covered by
    /// the signature of its folder. The report has the checks `signature` and `digests`. For a folder, and
    /// for a file that is not a model, only the signature is checked. The index of a set needs the signature
    /// of its folder, because its own does not cover the other files.
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
        #[cfg(feature = "policy")]
        if let Err(error) = self.judge_tree(path) {
            return self.unreadable(path, &error, level);
        }
        let covering = (!path.is_dir()).then(|| DetachedSignature::find(path)).flatten();
        let of = covering.map_or_else(|| path.to_owned(), |found| found.of);
        let is_alone = !of.is_dir();
        if is_alone && probe(path).is_ok_and(|found| found.format.is_some_and(Format::is_set)) {
            let mut report = self.verify(path, level, work);
            report.report.add("signature", vec![OF_SETS.to_owned()], "");
            return report;
        }
        // Reads of the covered files must then match the hashes.
        let (verified, opening) = match modelfmt_oms::verify_to_read(&of, keys, options, work) {
            Ok((_, Some(files))) if !path.is_dir() && !files.covers(path) => {
                let mut report = self.verify(path, level, work);
                let why = format!("{} does not cover it", files.signature().display());
                report.report.add("signature", vec![why], "");
                return report;
            }
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
        if is_alone && report.format.is_some_and(Format::is_set) {
            report.report.add("signature", vec![OF_SETS.to_owned()], "");
            return report;
        }
        if report.format.is_none() && verified.is_ok() && path.is_file() {
            report.report = Report::new(level); // the file need not be a model
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

    /// A safetensors file with one tensor: this byte, 100,000 times.
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
            // The file is overwritten while it is open.
            fs::write(&path, file(2)).unwrap();
            let error = model.tensor("w").unwrap_err();
            assert_eq!(error.code(), "damaged");
            assert!(error.without_path(&path).contains("signs: the file is damaged, was changed"), "{error}");
            // The file is replaced between hashing and opening.
            fs::remove_file(&path).unwrap();
            fs::write(&path, file(2)).unwrap();
            assert!(open().is_err_and(|error| error.code() == "damaged"));
            fs::write(&path, [file(1), file(1)].concat()).unwrap();
            assert!(open().unwrap_err().to_string().contains("it was changed while it was read"));
            assert_eq!(files_of(&path).unwrap_err().code(), "signature");
            // Without the keys, the signature is only a claim.
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
            // The folder contains another model.
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
        // An index of the same length names a file that the signer left out.
        fs::write(&index, text("scratch.safetens0")).unwrap();
        assert!(open(&index).is_err_and(|error| error.code() == "damaged"));
        assert!(
            open(&place.path().join("scratch.safetensors")).unwrap_err().to_string().contains("not among")
        );
    }

    #[test]
    fn a_file_is_verified_by_the_signature_of_its_folder() {
        let place = tempfile::tempdir().unwrap();
        let [model, left_out, notes] =
            ["m.safetensors", "scratch.safetensors", "notes.txt"].map(|name| place.path().join(name));
        for path in [&model, &left_out] {
            fs::write(path, file(1)).unwrap();
        }
        fs::write(&notes, "no model").unwrap();
        let options = SignOptions::new().ignore(["scratch.safetensors".to_owned(), "notes.txt".to_owned()]);
        sign(place.path(), &key(), &options, &Execution::default()).unwrap();
        let errors = |path: &Path| {
            let keys = [key().public().clone()];
            let (level, work) = (VerifyLevel::Full, Execution::default());
            let report = OpenOptions::new().verify_signed(path, level, &keys, &VerifyOptions::new(), &work);
            report.report.errors
        };
        assert_eq!(errors(&model), [""; 0]);
        for path in [&left_out, &notes] {
            let found = errors(path);
            assert!(found.iter().any(|error| error.ends_with("model.sig does not cover it")), "{found:?}");
        }
        fs::write(&model, file(2)).unwrap();
        assert!(!errors(&model).is_empty());
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
