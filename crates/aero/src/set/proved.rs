//! Verifies the files of a set whose index is trusted, by the SHA-256 of each file in the index.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::BTreeMap;
use std::io;

use modelfmt_core::ledger::DigestKind;
use modelfmt_core::proof::{HashProof, VerifiedSource};
use modelfmt_core::source::Files;
use modelfmt_core::{Execution, Fetch, Limits, Source};
use sha2::{Digest as _, Sha256};

use super::SetIndex;
use crate::error::{Error, Result};
use crate::hex::hex;

/// The proofs of a set's files: the size and SHA-256 of each, from the index. They are only as trustworthy as
/// the index, so read the index through a [`VerifiedSource`] or an
/// [`AsyncVerifiedSource`](modelfmt_core::proof::AsyncVerifiedSource).
#[derive(Debug)]
pub struct FileProofs {
    /// The size and SHA-256 of each file, by path.
    stated: BTreeMap<String, (u64, Option<[u8; 32]>)>,
}

impl FileProofs {
    /// Returns the proofs in the index of a set.
    #[must_use]
    pub fn new(index: &SetIndex) -> Self {
        let stated = index.files().map(|file| (file.path.clone(), (file.size, file.sha256)));
        Self { stated: stated.collect() }
    }

    /// Reads the proofs of a set's files from its index. The limits bound the length of the index.
    ///
    /// # Errors
    /// If the index cannot be read, breaks a rule, or exceeds a limit.
    pub async fn read<S: Fetch>(index: &S, limits: &Limits) -> Result<Self> {
        let len = index.size();
        Limits::check("the length of the index of the set", len, limits.index_len)?;
        let text = index.fetch(0..len).await.map_err(|source| Error::Io { at: 0, len, source })?;
        Ok(Self::new(&SetIndex::parse(&text, limits)?))
    }

    /// Returns the proof of the file of `len` bytes at `path`, as the index names it.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the index has no SHA-256 of the file, or states another length.
    pub fn of(&self, path: &str, len: u64) -> io::Result<HashProof> {
        let (size, sha256) = self.stated(path)?;
        if len != size {
            return Err(bad(format!("it has {len} bytes, but the index of the set says {size}")));
        }
        let root = format!("sha256:{}, which the index of the set says", hex(&sha256)).into();
        let show = |found: &[u8; 32]| format!("sha256:{}", hex(found));
        Ok(HashProof::with_digest::<Chain>(size, root, sha256, show))
    }

    fn stated(&self, path: &str) -> io::Result<(u64, [u8; 32])> {
        let unproved = || bad("the index of the set, which is pinned, has no SHA-256 of it".to_owned());
        let &(size, sha256) = self.stated.get(path).ok_or_else(unproved)?;
        Ok((size, sha256.ok_or_else(unproved)?))
    }
}

fn bad(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The files of a set, verified. The size and SHA-256 in the set's index prove every byte that they return.
/// The first read of a file goes over the whole file.
#[derive(Debug)]
pub struct VerifiedFiles<F> {
    files: F,
    proofs: FileProofs,
}

impl<F: Files> VerifiedFiles<F> {
    /// Wraps the files of a set, with the proofs from its index.
    pub const fn new(proofs: FileProofs, files: F) -> Self {
        Self { files, proofs }
    }
}

impl<F: Files<Source: Sync>> Files for VerifiedFiles<F> {
    type Source = VerifiedSource<F::Source, HashProof>;

    fn open(&self, path: &str) -> io::Result<Self::Source> {
        self.proofs.stated(path)?;
        let source = self.files.open(path)?;
        let proof = self.proofs.of(path, source.len())?;
        Ok(VerifiedSource::new(source, proof))
    }
}

/// Computes the SHA-256 of a whole file, as the index of a set states it. The progress callback of `work` can
/// stop it.
///
/// # Errors
/// If the file cannot be read; [`io::ErrorKind::Interrupted`] if the callback stops the work.
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

/// SHA-256 as a digest that takes bytes in order.
struct Chain;

impl DigestKind for Chain {
    const NAME: &'static str = "sha256";
    const IN_ORDER: bool = true;
    type Digest = [u8; 32];
    type Run = Sha256;

    fn begin(_: u64) -> Sha256 {
        Sha256::new()
    }

    fn extend(_: u64, run: &mut Sha256, bytes: &[u8]) {
        run.update(bytes);
    }

    fn join(_: u64, first: Sha256, _: Sha256) -> Sha256 {
        first
    }

    fn finish(_: u64, run: Sha256) -> [u8; 32] {
        run.finalize().into()
    }
}
