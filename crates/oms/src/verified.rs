//! The results of verifying.

use std::path::{Path, PathBuf};

use modelfmt_keys::{KeyId, PublicKey};

use crate::bundle::Bundle;
use crate::error::{Error, Result};

/// A signature by a trusted key, and how the files differ from what was signed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verified {
    /// The path of the signature.
    pub path: PathBuf,
    /// The id of the key that made the signature.
    pub key_id: KeyId,
    /// The signer's name for the model. It is informative only and is not checked.
    pub name: String,
    /// The number of signed files.
    pub files: usize,
    /// Signed files that do not exist.
    pub missing: Vec<String>,
    /// Existing files that were not signed.
    pub extra: Vec<String>,
    /// Files that differ from what was signed.
    pub changed: Vec<String>,
    /// Existing empty files that the signature says nothing about, because it covers ranges of files. Each of them may have
    /// been added later.
    pub empty: Vec<String>,
    /// The files that the signer left out, besides git's files and the signature. They may have any content.
    pub ignored: Vec<String>,
}

impl Verified {
    /// Checks whether every file is what was signed, and there are no other files.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        [&self.missing, &self.extra, &self.changed].into_iter().all(Vec::is_empty)
    }

    /// Returns the differences, one line per file.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let lines = |names: &[String], what| -> Vec<String> {
            // A model that is a single file has no name in its own signature.
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

/// Returns the id of the key that made the signature, if it is one of `keys`.
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
