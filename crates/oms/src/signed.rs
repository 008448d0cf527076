//! Reads files that have been verified.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::Source;
use modelfmt_core::proof::{Page, RecordedProof, VerifiedSource};
use modelfmt_keys::KeyId;

use crate::verified::Verified;

/// The recorded page digests of each file, by its name in the statement: one for each range, with the offset
/// of the range.
pub(crate) type Pages = BTreeMap<String, Vec<(u64, Page)>>;

/// The files that a signature covers. [`verify_to_read`](crate::verify_to_read) returns this if it found all
/// of them unchanged. Every read through a [`source`](Self::source) is checked against the bytes that were
/// hashed then. This takes 64 bytes of memory for each 16 KiB of a file, but at most 4 MiB per file and 64
/// MiB in total; for larger models, larger groups are checked at once.
pub struct SignedFiles {
    of: PathBuf,
    is_folder: bool,
    signature: PathBuf,
    key_id: KeyId,
    proofs: BTreeMap<String, RecordedProof>,
}

impl fmt::Debug for SignedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedFiles({}, {} files)", self.of.display(), self.proofs.len())
    }
}

impl SignedFiles {
    pub(crate) fn new(of: &Path, verified: &Verified, pages: Pages) -> Self {
        let signature = &verified.path;
        let is_folder = of.is_dir();
        let root = |name: &str| -> Arc<str> {
            let what = if is_folder { format!("the {name:?}") } else { "the file".to_owned() };
            format!("{what} that {} signs", signature.display()).into()
        };
        let proofs = pages.into_iter().map(|(name, pages)| {
            let proof = RecordedProof::new(pages, root(&name));
            (name, proof)
        });
        Self {
            of: of.to_owned(),
            is_folder,
            signature: signature.clone(),
            key_id: verified.key_id,
            proofs: proofs.collect(),
        }
    }

    /// Returns the signed file or folder.
    #[must_use]
    pub fn of(&self) -> &Path {
        &self.of
    }

    /// Returns the path of the signature.
    #[must_use]
    pub fn signature(&self) -> &Path {
        &self.signature
    }

    /// Returns the id of the trusted key that made the signature.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Checks whether the signature covers the file at this path.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        self.proof(path).is_some()
    }

    /// Wraps `source`, which is the open file at this path. Reads return the signed bytes or an error.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if the signature does not cover the file, [`io::ErrorKind::InvalidData`] if its
    /// length has changed.
    pub fn source<S: Source>(&self, path: &Path, source: S) -> io::Result<VerifiedSource<S, RecordedProof>> {
        let signature = self.signature.display();
        let proof = self.proof(path).ok_or_else(|| {
            let text = format!("it is not among the files that {signature} covers");
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        })?;
        if proof.len() != source.len() {
            let (signed, found) = (proof.len(), source.len());
            let text = format!(
                "it has {found} bytes, and {signature} signs {signed}: it was changed while it was read"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(VerifiedSource::new(source, proof.clone()))
    }

    fn proof(&self, path: &Path) -> Option<&RecordedProof> {
        if !self.is_folder {
            // The statement may use the file's own name or `.`.
            return self.proofs.values().next().filter(|_| path == self.of);
        }
        self.proofs.get(&name_below(&self.of, path)?)
    }
}

/// Returns the name of a file in the signature of the folder `of`, or `None` if the file is not below the
/// folder.
fn name_below(of: &Path, file: &Path) -> Option<String> {
    let is_here = |part: &Component<'_>| *part == Component::CurDir;
    let mut parts = file.components().filter(|part| !is_here(part));
    for folder in of.components().filter(|part| !is_here(part)) {
        (parts.next()? == folder).then_some(())?;
    }
    let names = parts.map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    Some(names.collect::<Option<Vec<_>>>()?.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_from_the_signed_folder() {
        let name = |of: &str, file: &str| name_below(Path::new(of), Path::new(file));
        for (of, file, expected) in [
            ("m", "m/a", Some("a")),
            ("m/", "m/sub/./a", Some("sub/a")),
            ("./m", "m/a", Some("a")),
            (".", "a", Some("a")),
            (".", "./a", Some("a")),
            ("/x/m", "/x/m/a", Some("a")),
            ("..", "../a", Some("a")),
            ("m", "n/a", None),
            ("m", "a", None),
            (".", "../a", None),
            ("m", "m/../a", None),
            (".", "/a", None),
        ] {
            assert_eq!(name(of, file).as_deref(), expected, "{of} {file}");
        }
    }
}
