//! BLAKE3-256 hashes of the values of tensors.

use modelfmt_core::Execution;

use crate::error::Result;
use crate::model::Model;
use crate::tied_weights::Ties;
use crate::values::Pieces;

impl Model {
    /// Computes the BLAKE3-256 of a tensor's values, uncompressed.
    ///
    /// # Errors
    /// If the tensor has no values, they cannot be read, or the progress callback stops the work.
    pub fn hash(&self, position: usize, work: &Execution<'_>) -> Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        let mut pieces = Pieces::new(self, position)?;
        while let Some(piece) = pieces.next(work)? {
            hasher.update(piece);
        }
        Ok(hasher.finalize())
    }

    /// Computes the hashes of several tensors, in their order. Each tensor is hashed on one thread, several
    /// in parallel. Tensors over the same bytes are hashed once.
    pub fn hashes(&self, positions: &[usize], work: &Execution<'_>) -> Result<Vec<blake3::Hash>> {
        let ties = Ties::of(self, positions.iter().copied())?;
        ties.check_reading(self)?;
        let one = |(): &mut (), number: u64| {
            let position = usize::try_from(number).ok().and_then(|number| ties.firsts.get(number));
            self.hash(position.copied().unwrap_or(usize::MAX), work)
        };
        let hashes = work.map(ties.firsts.len() as u64, || (), one)?;
        Ok(ties.groups.iter().filter_map(|&group| hashes.get(group).copied()).collect())
    }
}
