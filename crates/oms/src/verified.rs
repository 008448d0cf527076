//! What verifying finds.

use std::path::{Path, PathBuf};

use modelfmt_keys::{KeyId, PublicKey};

use crate::bundle::Bundle;
use crate::error::{Error, Result};

/// A signature by a trusted key, and how the files compare with what was signed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verified {
    /// The signature's file.
    pub path: PathBuf,
    /// The key that made it.
    pub key_id: KeyId,
    /// What the signer called the model. It is only for people, and is not checked.
    pub name: String,
    /// How many files were signed.
    pub files: usize,
    /// Files that were signed and are not there.
    pub missing: Vec<String>,
    /// Files that are there and were not signed.
    pub extra: Vec<String>,
    /// Files that are not what was signed.
    pub changed: Vec<String>,
    /// Empty files that are there, and of which the signature says nothing because it is of ranges of files. Each of them may have been added.
    pub empty: Vec<String>,
    /// The files that the signer left out, besides git's files and the signature. They could be anything.
    pub ignored: Vec<String>,
}

impl Verified {
    /// Whether every file is what was signed, and there are no other files.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        [&self.missing, &self.extra, &self.changed].into_iter().all(Vec::is_empty)
    }

    /// What differs, a line for each file.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let lines = |names: &[String], what| -> Vec<String> {
            // A model that is one file has no name in its own signature.
            let quoted =
                |name: &String| if name == "." { "the file".to_owned() } else { format!("{name:?}") };
            names.iter().map(|name| format!("{} {what}", quoted(name))).collect()
        };
        [
            lines(&self.changed, "is not what was signed"),
            lines(&self.missing, "was signed and is missing"),
            lines(&self.extra, "is there and was not signed"),
        ]
        .concat()
    }
}

/// The key that made the signature, if it is one of these.
pub(crate) fn signer(path: &Path, bundle: &Bundle, keys: &[PublicKey]) -> Result<KeyId> {
    let nist: Vec<_> = keys.iter().filter(|key| key.key_type().is_nist()).collect();
    if nist.is_empty() {
        let types: Vec<_> = keys.iter().map(|key| key.key_type().name()).collect();
        return Err(Error::WrongKey(match &*types {
            [] => "none was named".to_owned(),
            types => format!("the named keys are {}", types.join(", ")),
        }));
    }
    if let Some(id) = bundle.check(keys) {
        return Ok(id);
    }
    let is_named = |hint: &str| nist.iter().any(|key| key.id().to_string() == hint);
    match bundle.hint() {
        Some(hint) if !is_named(hint) => {
            Err(Error::UntrustedKey { path: path.to_owned(), hint: hint.chars().take(64).collect() })
        }
        hint => {
            let tried =
                nist.iter().map(|key| key.id()).filter(|id| hint.is_none_or(|hint| hint == id.to_string()));
            Err(Error::BadSignature { path: path.to_owned(), ids: tried.collect() })
        }
    }
}
