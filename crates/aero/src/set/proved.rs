//! The files of a set whose index is known to be right: it has the SHA-256 of each.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use modelfmt_core::proof::{CustomDigest, HashProof, VerifiedSource};
use modelfmt_core::source::Files;
use modelfmt_core::{Execution, Source};
use sha2::{Digest as _, Sha256};

use super::SetIndex;
use crate::hex::hex;

/// The files of a set. Every byte that they return is proved by the size and SHA-256 in the index of the set. The first
/// read of a file goes over all of it.
///
/// The set is as good as its index: read that through a [`VerifiedSource`] source.
pub struct VerifiedFiles<F> {
    files: F,
    /// Size and SHA-256 of each, by its path.
    stated: BTreeMap<String, (u64, Option<[u8; 32]>)>,
}

impl<F> fmt::Debug for VerifiedFiles<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifiedFiles({} files)", self.stated.len())
    }
}

impl<F: Files> VerifiedFiles<F> {
    /// The files of the set of that index.
    #[must_use]
    pub fn new(index: &SetIndex, files: F) -> Self {
        let stated = index.files().map(|file| (file.path.clone(), (file.size, file.sha256)));
        Self { files, stated: stated.collect() }
    }
}

impl<F: Files<Source: Sync>> Files for VerifiedFiles<F> {
    type Source = VerifiedSource<F::Source, HashProof>;

    fn open(&self, path: &str) -> io::Result<Self::Source> {
        let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let unproved = || bad("the index of the set, which is pinned, has no SHA-256 of it".to_owned());
        let &(size, sha256) = self.stated.get(path).ok_or_else(unproved)?;
        let sha256 = sha256.ok_or_else(unproved)?;
        let source = self.files.open(path)?;
        if source.len() != size {
            let found = source.len();
            return Err(bad(format!("it has {found} bytes, but the index of the set says {size}")));
        }
        let root = format!("sha256:{}, which the index of the set says", hex(&sha256)).into();
        let digest = move || Box::new(Stated { sha256, hasher: Sha256::new() }) as Box<dyn CustomDigest>;
        Ok(VerifiedSource::new(source, HashProof::with_digest(size, root, digest)))
    }
}

/// The SHA-256 of a whole file, as the index of a set states it. `work` is asked whether to go on.
///
/// # Errors
/// If the file cannot be read; [`io::ErrorKind::Interrupted`] if the work is to stop.
pub fn sha256(file: &(impl Source + ?Sized), work: &Execution<'_>) -> io::Result<[u8; 32]> {
    const STEP: u64 = 1 << 20;
    let (mut hasher, mut at) = (Sha256::new(), 0);
    while at < file.len() {
        let end = at.saturating_add(STEP).min(file.len());
        hasher.update(&*file.read(at..end)?);
        if work.advance(0).is_break() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        at = end;
    }
    Ok(hasher.finalize().into())
}

struct Stated {
    sha256: [u8; 32],
    hasher: Sha256,
}

impl CustomDigest for Stated {
    fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        let found: [u8; 32] = self.hasher.finalize().into();
        if found == self.sha256 { Ok(()) } else { Err(format!("sha256:{}", hex(&found))) }
    }
}
