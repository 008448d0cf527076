//! Proves a file by its BLAKE3 hash and an outboard, a separate file of the hashes in its tree.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::io;
use std::sync::Arc;

use blake3_tree::Verifier;

use super::{Part, Proof, ProofError, named};
use crate::fetch::Fetch;

/// A file's BLAKE3 hash and its outboard: the parents of the hash tree, in the layout of `FILE.obao4`.
///
/// The outboard is read as needed, and a bounded part of it is kept: about 10 MiB for a file of a terabyte.
#[derive(Debug)]
pub struct OutboardProof<O> {
    verifier: Verifier,
    outboard: O,
    name: Arc<str>,
    root: Arc<str>,
}

impl<O: Fetch> OutboardProof<O> {
    /// Creates the proof of a file of `len` bytes with this BLAKE3 hash. `name` names the outboard in errors.
    ///
    /// # Errors
    /// [`ProofError::Outboard`] inside the I/O error, if the outboard does not have the length that this file
    /// needs.
    pub fn new(hash: [u8; 32], len: u64, outboard: O, name: &str) -> io::Result<Self> {
        let (verifier, size) = (Verifier::new(hash, len), outboard.size());
        let proof = Self { verifier, outboard, name: name.into(), root: named(&hash) };
        proof.verifier.check_len(size).map_err(|mismatch| proof.outboard_error(mismatch))?;
        Ok(proof)
    }

    fn outboard_error(&self, mismatch: blake3_tree::Mismatch) -> ProofError {
        ProofError::Outboard { name: Arc::clone(&self.name), mismatch, root: Arc::clone(&self.root) }
    }
}

impl<O: Fetch> Proof for OutboardProof<O> {
    async fn part<S: Fetch>(&self, _: &S, at: u64) -> io::Result<Part> {
        let mut walk = self.verifier.walk(at);
        while let Some(need) = walk.need() {
            let bytes = self.outboard.fetch(need).await.map_err(|error| {
                io::Error::new(error.kind(), format!("{}: cannot be read: {error}", self.name))
            })?;
            walk.feed(&bytes).map_err(|mismatch| self.outboard_error(mismatch))?;
        }
        let page = walk.finish().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Part::new(0, page, Arc::clone(&self.root)))
    }
}
