//! Statements that one model is derived from another: in-toto statements in the same signed envelope as
//! signatures of models, with their own predicate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use modelfmt_core::Execution;
use modelfmt_keys::{KeyId, PrivateKey, PublicKey};
use modelfmt_write::{AtomicFile, Output as _, Overwrite, Sink as _};
use serde_json::{Value, json};

use crate::bundle::Bundle;
use crate::error::{Error, Fault, Result};
use crate::hash;
use crate::sign::not_written;
use crate::statement::{TYPE, expect_unique_members, hex};
use crate::verified::signer;

/// The type of the predicate. Signatures of models have a different one, so a statement cannot be mistaken
/// for a signature, or a signature for a statement.
pub const DERIVATION: &str = "urn:modelfmt:derivation:1";

/// The name and the digests of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashedFile {
    /// The name, relative to the folder of the model.
    pub name: String,
    /// SHA-256, 64 lower-case hex digits.
    pub sha256: String,
    /// BLAKE3-256, 64 lower-case hex digits.
    pub blake3: String,
}

impl HashedFile {
    /// Reads each file once. Names are relative to the folder of the first file if a file is below it.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Changed`] if a file is modified in the meantime, [`Error::Stopped`].
    pub fn of(paths: &[PathBuf], work: &Execution<'_>) -> Result<Vec<Self>> {
        let folder = paths.first().and_then(|first| first.parent()).unwrap_or(Path::new(""));
        let run = |buffer: &mut Vec<u8>, number: u64| {
            let path = usize::try_from(number).ok().and_then(|number| paths.get(number));
            let Some(path) = path else { return Ok(None) };
            let (sha256, blake3) = hash::both(path, buffer, work)?;
            let below = path
                .strip_prefix(folder)
                .ok()
                .unwrap_or_else(|| path.file_name().unwrap_or_default().as_ref());
            let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
            Ok::<_, Error>(Some(Self { name: parts.join("/"), sha256: hex(&sha256), blake3: hex(&blake3) }))
        };
        let hashed = work.map(paths.len() as u64, Vec::new, run)?;
        Ok(hashed.into_iter().flatten().collect())
    }

    /// Returns the file as an in-toto resource.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "digest": {"sha256": self.sha256, "blake3": self.blake3}})
    }

    /// Reads the file that an in-toto resource names. Returns `None` unless the resource has exactly these
    /// two digests.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let digest = value.get("digest")?.as_object()?;
        if digest.len() != 2 {
            return None; // every digest has to hold, and others are not computed here
        }
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let (sha256, blake3) = (text(digest.get("sha256"))?, text(digest.get("blake3"))?);
        Some(Self { name: text(value.get("name"))?, sha256, blake3 })
    }
}

/// A signed statement: the files of a model, and what they were made from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Derivation {
    /// The files of the model.
    pub files: Vec<HashedFile>,
    /// What the files were made from, and how.
    pub predicate: Value,
    /// The key that signed the statement; `None` if the signature was not checked.
    pub key_id: Option<KeyId>,
}

impl Derivation {
    /// Signs a statement and writes it to a file.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if the key is not on a NIST curve, [`Error::Exists`], [`Error::Write`].
    pub fn sign(
        path: &Path,
        files: &[HashedFile],
        predicate: &Value,
        key: &PrivateKey,
        overwrite: Overwrite,
    ) -> Result<KeyId> {
        if !key.key_type().is_nist() {
            return Err(Error::WrongKey(format!("this key is {}", key.key_type())));
        }
        let subjects: Vec<Value> = files.iter().map(HashedFile::to_json).collect();
        let statement = json!({
            "_type": TYPE, "subject": subjects, "predicateType": DERIVATION, "predicate": predicate
        });
        let bundle = Bundle::sign(statement.to_string().as_bytes(), key)?;
        let output = AtomicFile::create(path, overwrite).map_err(|error| not_written(path, error))?;
        output.write_at(0, bundle.as_bytes()).map_err(|error| not_written(path, error))?;
        output.commit().map_err(|error| not_written(path, error))?;
        Ok(key.public().id())
    }

    /// Reads a statement that one of the keys has signed.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Read`], [`Error::Bundle`] if the file is not such a statement;
    /// [`Error::UntrustedKey`], [`Error::BadSignature`] and [`Error::WrongKey`] if none of the keys has
    /// signed it.
    pub fn read(path: &Path, keys: &[PublicKey]) -> Result<Self> {
        let bundle = Bundle::read(path)?;
        let key_id = signer(path, &bundle, keys)?;
        Ok(Self { key_id: Some(key_id), ..Self::parse(path, &bundle)? })
    }

    /// Reads a statement without checking who has signed it.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Read`], [`Error::Bundle`] if the file is not such a statement.
    pub fn read_unchecked(path: &Path) -> Result<Self> {
        Self::parse(path, &Bundle::read(path)?)
    }

    fn parse(path: &Path, bundle: &Bundle) -> Result<Self> {
        let bad = |fault| Error::Bundle { path: path.to_owned(), fault };
        let no_statement = |why: &str| bad(Fault::Json(why.to_owned()));
        expect_unique_members(bundle.payload()).map_err(bad)?;
        let mut statement: Value =
            serde_json::from_slice(bundle.payload()).map_err(|error| no_statement(&error.to_string()))?;
        let known = |what, member: &str, expected| match statement.get(member).and_then(Value::as_str) {
            Some(found) if found == expected => Ok(()),
            found => {
                let found = found.unwrap_or_default().chars().take(128).collect();
                Err(bad(Fault::Unknown { what, found, expected }))
            }
        };
        known("the statement's type", "_type", TYPE)?;
        known("the predicate's type", "predicateType", DERIVATION)?;
        let subjects = statement.get("subject").and_then(Value::as_array).filter(|all| !all.is_empty());
        let subjects = subjects.ok_or_else(|| no_statement("there is no subject"))?;
        let files: Option<Vec<HashedFile>> = subjects.iter().map(HashedFile::from_json).collect();
        let files =
            files.ok_or_else(|| no_statement("a subject lacks its name, its SHA-256 or its BLAKE3"))?;
        let predicate = statement.get_mut("predicate").map(Value::take).unwrap_or_default();
        Ok(Self { files, predicate, key_id: None })
    }

    /// Compares the files of a model with this statement, and returns the differences. A single file may have
    /// another name. The result is empty if the files are exactly those of the statement.
    #[must_use]
    pub fn findings(&self, files: &[HashedFile]) -> Vec<String> {
        differences(&self.files, files)
    }
}

/// Returns how files differ from those of a statement. A single file may have another name.
#[must_use]
pub fn differences(stated: &[HashedFile], found: &[HashedFile]) -> Vec<String> {
    if let ([stated], [found]) = (stated, found) {
        return changed(stated, found).into_iter().collect();
    }
    let by_name: BTreeMap<&str, &HashedFile> = found.iter().map(|file| (&*file.name, file)).collect();
    let names: BTreeMap<&str, &HashedFile> = stated.iter().map(|file| (&*file.name, file)).collect();
    let mut findings: Vec<String> = Vec::new();
    if names.len() != stated.len() || by_name.len() != found.len() {
        findings.push("a file is there twice".to_owned());
    }
    for (name, file) in &names {
        match by_name.get(name) {
            Some(found) => findings.extend(changed(file, found)),
            None => findings.push(format!("{name:?} is missing")),
        }
    }
    let new = by_name.keys().filter(|name| !names.contains_key(*name));
    findings.extend(new.map(|name| format!("{name:?} is not part of the statement")));
    findings
}

/// Says that a file differs from the statement. Both digests have to match.
fn changed(stated: &HashedFile, found: &HashedFile) -> Option<String> {
    let name = &found.name;
    let wrong: Vec<&str> =
        [("SHA-256", stated.sha256 == found.sha256), ("BLAKE3", stated.blake3 == found.blake3)]
            .into_iter()
            .filter(|(_, is_same)| !is_same)
            .map(|(what, _)| what)
            .collect();
    let verb = if wrong.len() == 1 { "differs" } else { "differ" };
    let wrong = (!wrong.is_empty()).then(|| wrong.join(" and its "))?;
    Some(format!("{name:?} is not what was stated: its {wrong} {verb}"))
}

/// Returns the path of the statement about a model: `FILE.derivation.json` next to the model's main file.
#[must_use]
pub fn derivation_path(model: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(model);
    name.push(".derivation.json");
    name.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use modelfmt_keys::KeyType;

    use super::*;

    #[test]
    fn a_statement_has_each_member_once() {
        let key = PrivateKey::from_bytes(KeyType::P256, &[7; 32]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("statement");
        let read = |more: &str, of_subject: &str, of_predicate: &str| {
            let subject = format!(
                r#"[{{"name": "m", "digest": {{"sha256": "{0}", "blake3": "{0}"{of_subject}}}}}]"#,
                "0".repeat(64)
            );
            let text = format!(
                r#"{{"_type": "{TYPE}", "subject": {subject}, "predicateType": "{DERIVATION}",
                "predicate": {{"base": [1, -1, 0.5, true, null, {{"x": "y"{of_predicate}}}]}}{}}}"#,
                more.replace("SUBJECT", &subject)
            );
            std::fs::write(&path, Bundle::sign(text.as_bytes(), &key).unwrap()).unwrap();
            Derivation::read(&path, std::slice::from_ref(key.public()))
        };
        assert_eq!(read("", "", "").unwrap().files.len(), 1);
        for (twice, read) in [
            ("subject", read(r#", "subject": SUBJECT"#, "", "")),
            ("sha256", read("", r#", "sha256": """#, "")),
            ("x", read("", "", r#", "x": 1"#)),
        ] {
            let error = read.unwrap_err().to_string();
            assert!(error.contains(&format!("the member {twice:?} is there twice")), "{error}");
        }
    }
}
