//! The digests of files: SHA-256 and BLAKE3, computed while each file is read once.

use modelfmt_core::author::PIECE;
use modelfmt_core::{AnyError, Execution, Source};
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use sha2::{Digest as _, Sha256};

/// A file with its digests.
#[derive(Clone, Debug)]
pub(super) struct HashedFile {
    pub(super) name: String,
    pub(super) size: u64,
    /// SHA-256, 64 lower-case hex digits.
    pub(super) sha256: String,
    /// BLAKE3-256, 64 lower-case hex digits.
    pub(super) blake3: String,
}

/// Hashes the files of a model, and the files next to it that describe it. Each thread takes one file after
/// the other.
pub(super) fn hashed(model: &Model, beside: &[&str], work: &Execution<'_>) -> Result<Vec<HashedFile>> {
    let files = model.files();
    let one = |buffer: &mut Vec<u8>, number: u64| {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let done = match (files.get(number), beside.get(number.saturating_sub(files.len()))) {
            (Some(file), _) => digests(file.name.clone(), file.source()?, buffer, work).map(Some),
            (None, Some(name)) => of_beside(model, name, buffer, work),
            (None, None) => Ok(None),
        };
        done.map_err(|error| model.failed(error))
    };
    let count = files.len().saturating_add(beside.len());
    Ok(work.map(count as u64, Vec::new, one)?.into_iter().flatten().collect())
}

#[cfg(not(target_arch = "wasm32"))]
fn of_beside(
    model: &Model,
    name: &str,
    buffer: &mut Vec<u8>,
    work: &Execution<'_>,
) -> Result<Option<HashedFile>, AnyError> {
    let failed = |source| AnyError::Io { at: 0, len: 0, source }.in_source(Some(name.into()));
    let source = model.sidecars().open(name).map_err(failed)?;
    source.map(|source| digests(name.to_owned(), &*source, buffer, work)).transpose()
}

#[cfg(target_arch = "wasm32")]
fn of_beside(_: &Model, _: &str, _: &mut Vec<u8>, _: &Execution<'_>) -> Result<Option<HashedFile>, AnyError> {
    Ok(None)
}

fn digests(
    name: String,
    source: &dyn Source,
    buffer: &mut Vec<u8>,
    work: &Execution<'_>,
) -> Result<HashedFile, AnyError> {
    let (mut sha256, mut blake3) = (Sha256::new(), blake3::Hasher::new());
    let size = source.len();
    buffer.resize(usize::try_from(PIECE.min(size)).unwrap_or(usize::MAX), 0);
    let mut at = 0_u64;
    while at < size {
        let most = usize::try_from(size - at).unwrap_or(usize::MAX).min(buffer.len());
        let piece = buffer.get_mut(..most).unwrap_or_default();
        let len = most as u64;
        let failed = |error| AnyError::Io { at, len, source: error }.in_source(source.name());
        source.read_into(at, piece).map_err(failed)?;
        sha256.update(&*piece);
        blake3.update(piece);
        at = at.saturating_add(len);
        if work.advance(len).is_break() {
            return Err(AnyError::Cancelled);
        }
    }
    if !source.is_unchanged() {
        return Err(AnyError::Changed.in_source(source.name()));
    }
    let sha256 = hex(&sha256.finalize());
    Ok(HashedFile { name, size, sha256, blake3: blake3.finalize().to_hex().to_string() })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
