//! Signatures beside files: OpenSSF Model Signing.

use std::io;
use std::path::{Component, Path, PathBuf};

use modelfmt_core::author::with_causes;
use modelfmt_core::source::folder_of;
use modelfmt_core::{Execution, Report, Source, VerifyLevel};
use modelfmt_keys::PublicKey;
use modelfmt_oms::{
    Bundle, OpenFiles, VerifyOptions, file_signature_path, folder_signature_path, signature_path,
};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::formats::Format;
use crate::model::Model;
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

/// Which of the files that a signature covers are compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureScope {
    /// All of them.
    All,
    /// Those of the model. This is for a caller that has compared all files of the folder before, for another model in it.
    Model,
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

/// Looks for the signature that covers an open model: beside its file (`FILE.sig`), in its folder (`FOLDER/model.sig`). With keys it is verified, which
/// reads every file that it covers. The model's own files are hashed as they are open, so what is then read from the model is what was signed.
#[must_use]
pub fn detached_signature(
    model: &Model,
    keys: &[PublicKey],
    options: &VerifyOptions,
    scope: SignatureScope,
    work: &Execution<'_>,
) -> Option<DetachedSignature> {
    let given = model.path();
    // The signature of an index covers none of the files that it names.
    let covering = [given, folder_of(given)].into_iter().filter(|of| of.is_dir() || !model.format().is_set());
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
    let open = open_files(model, of).only(scope == SignatureScope::Model);
    let problem = match modelfmt_oms::verify_open(of, keys, options, &open, work) {
        Ok(verified) if verified.is_ok() => None,
        Ok(verified) => verified.findings().into_iter().next(),
        Err(error) => Some(with_causes(&error)),
    };
    Some(DetachedSignature { is_trusted: Some(problem.is_none()), problem, ..found })
}

/// The files of a model as they are open, by their names below `of`.
fn open_files<'m>(model: &'m Model, of: &Path) -> OpenFiles<'m> {
    let mut open = OpenFiles::new();
    for member in model.members() {
        let Some(path) = member.on_disk.as_deref() else { continue };
        let container = member.container();
        let source_of =
            move |number| container.source_of(number).map_err(|error| io::Error::other(with_causes(&error)));
        match &member.index_file {
            Some((_, index)) => {
                open = open.file(name_below(of, path), move || Ok(index as &dyn Source));
                for (number, name) in container.file_paths().iter().enumerate() {
                    let name = name_below(of, &folder_of(path).join(name));
                    open = open.file(name, move || source_of(number));
                }
            }
            None => open = open.file(name_below(of, path), move || source_of(0)),
        }
    }
    open
}

/// What a signature of the folder `of` calls a file. What is not below it keeps its path, which no signature has.
fn name_below(of: &Path, file: &Path) -> String {
    let below = file.strip_prefix(of).unwrap_or(file);
    let parts = below.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
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
        let (mut report, model) = if path.is_dir() {
            let report = Report::new(level);
            (FileReport { path: path.to_owned(), format: None, pin: self.pin, report }, None)
        } else {
            self.opened_and_verified(path, level, work)
        };
        if report.format.is_some_and(Format::is_set) && !path.is_dir() {
            report.report.add("signature", vec![OF_SETS.to_owned()], "");
            return report;
        }
        let open = model.as_ref().map_or_else(OpenFiles::new, |model| open_files(model, path));
        let verified = modelfmt_oms::verify_open(path, keys, options, &open, work);
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

    fn verified(model: &Model, scope: SignatureScope) -> DetachedSignature {
        let key = PrivateKey::from_bytes(KeyType::P256, &[7; 32]).unwrap();
        let (options, work) = (VerifyOptions::new(), Execution::default());
        detached_signature(model, &[key.public().clone()], &options, scope, &work).unwrap()
    }

    #[test]
    fn a_model_that_was_opened_before_the_signed_one_came_is_not_trusted() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("m.safetensors");
        let text = |byte: u8| {
            let header = br#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
            [&(header.len() as u64).to_le_bytes()[..], header, &[byte]].concat()
        };
        let key = PrivateKey::from_bytes(KeyType::P256, &[7; 32]).unwrap();
        for of in [path.as_path(), place.path()] {
            fs::write(&path, text(1)).unwrap();
            let signed = sign(of, &key, &SignOptions::new(), &Execution::default()).unwrap();
            let good = Model::open(&path).unwrap();
            for scope in [SignatureScope::All, SignatureScope::Model] {
                assert_eq!(verified(&good, scope).problem, None);
            }
            // The other file is open, and the signed one is where it was.
            fs::remove_file(&path).unwrap();
            fs::write(&path, text(2)).unwrap();
            let other = Model::open(&path).unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, text(1)).unwrap();
            for scope in [SignatureScope::All, SignatureScope::Model] {
                assert_eq!(verified(&other, scope).is_trusted, Some(false), "{}", of.display());
                assert_eq!(verified(&Model::open(&path).unwrap(), scope).is_trusted, Some(true));
            }
            fs::remove_file(signed.path).unwrap();
        }
    }

    #[test]
    fn every_file_of_a_set_is_hashed_as_it_is_open() {
        let place = tempfile::tempdir().unwrap();
        let index = place.path().join("m.safetensors.index.json");
        let shard = |byte: u8| {
            let header = br#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
            [&(header.len() as u64).to_le_bytes()[..], header, &[byte]].concat()
        };
        fs::create_dir(place.path().join("sub")).unwrap();
        let path = place.path().join("sub/1.safetensors");
        fs::write(&path, shard(1)).unwrap();
        fs::write(&index, r#"{"metadata":{"total_size":1},"weight_map":{"w":"sub/1.safetensors"}}"#).unwrap();
        let key = PrivateKey::from_bytes(KeyType::P256, &[7; 32]).unwrap();
        sign(place.path(), &key, &SignOptions::new(), &Execution::default()).unwrap();
        for scope in [SignatureScope::All, SignatureScope::Model] {
            assert_eq!(verified(&Model::open(&index).unwrap(), scope).problem, None);
            assert_eq!(verified(&Model::open(place.path()).unwrap(), scope).problem, None);
        }
        let put = |path: &Path, bytes: &[u8]| {
            fs::remove_file(path).unwrap();
            fs::write(path, bytes).unwrap();
        };
        put(&path, &shard(2));
        let other = Model::open(&index).unwrap();
        assert_eq!(other.tensor("w").unwrap().bytes(), [2]);
        put(&path, &shard(1));
        assert_eq!(verified(&other, SignatureScope::All).is_trusted, Some(false));
        let text = fs::read(&index).unwrap();
        put(&index, &[&text[..], b" "].concat());
        let other = Model::open(&index).unwrap();
        put(&index, &text);
        for scope in [SignatureScope::All, SignatureScope::Model] {
            assert_eq!(verified(&other, scope).is_trusted, Some(false));
            assert_eq!(verified(&Model::open(&index).unwrap(), scope).problem, None);
        }
    }
}
