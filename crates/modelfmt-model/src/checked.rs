//! Reads values that are written to another file, and checks them against the digests of their own file.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use modelfmt_core::claims::{ClaimError, Claims};
use modelfmt_core::{Execution, TensorInfo};
use modelfmt_write::BoxError;
use tensor_program::Lost;

use crate::error::{Error, Result};
use crate::formats::mapped::computed_into;
use crate::model::Model;

/// Where a writer pulls values: the position of a tensor in the output, and a byte offset in its values.
pub(crate) type Place = (usize, u64);

/// A model whose values are checked while they are read. The caller that writes them calls [`finish`](Self::finish) before the
/// output appears; otherwise damaged bytes would get a valid hash.
pub struct CheckedValues<'a> {
    model: &'a Model,
    claims: Claims,
    /// Whether `finish` has found everything intact.
    is_good: AtomicBool,
    /// The error of a writer that pulled values, and its place. Writers do not know this crate's errors.
    kept: Mutex<Option<(Place, Error)>>,
}

impl<'a> CheckedValues<'a> {
    /// Prepares to read the tensors at these positions. Without `verify` nothing is checked.
    pub fn new(model: &'a Model, positions: &[usize], verify: bool) -> Result<Self> {
        let claims = match verify {
            true => {
                let claims = model.container().claims(positions).map_err(|error| damaged(model, error))?;
                // The output appears only after `finish`.
                claims.deferred()
            }
            false => Claims::new(),
        };
        Ok(Self { model, claims, is_good: AtomicBool::new(false), kept: Mutex::new(None) })
    }

    /// Keeps an error for the caller of the writer, and returns a substitute for the writer. If several
    /// threads fail, the error at the first place is kept, so that each run reports the same error.
    pub fn keep(&self, place: Place, error: Error) -> BoxError {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(first, _)| place < *first) {
            *kept = Some((place, error));
        }
        "the values cannot be read, or are damaged".into()
    }

    /// Takes the error that was kept, if there is one.
    pub fn failure(&self) -> Option<Error> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take().map(|(_, error)| error)
    }

    /// Returns notes that say what is not checked, and why.
    pub fn notes(&self) -> &[String] {
        self.claims.notes()
    }

    /// Returns the description of the tensor at a position.
    pub fn info(&self, position: usize) -> Option<TensorInfo<'_>> {
        self.model.container().info(position)
    }

    /// Fills `out` with a tensor's values from byte `offset` on. If the model computes the values, returns
    /// how many of them a cast did not preserve.
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<Lost> {
        let claims = (!self.claims.is_empty()).then_some(&self.claims);
        let read = computed_into(self.model.opened(), position, offset, out, claims);
        // If decoding fails because the bytes are damaged, the failed digest is the better error.
        match self.claims.failure() {
            Some(failure) => Err(damaged(self.model, failure)),
            None => read.map_err(|error| self.model.failed(error)),
        }
    }

    /// Borrows bytes of a tensor's values, if the file is in memory and stores them uncompressed.
    pub fn borrow(&self, position: usize, range: Range<u64>) -> Option<&[u8]> {
        let (at, bytes) = self.model.borrow(position, range)?;
        if self.claims.is_empty() {
            return Some(bytes);
        }
        self.claims.observe(0, at, bytes);
        // The caller then reads the values, and gets the error.
        if self.claims.failure().is_some() { None } else { Some(bytes) }
    }

    /// Reads the bytes that the digests cover and that were not read yet. Fails if a digest does not match.
    pub fn finish(&self, work: &Execution<'_>) -> Result<()> {
        // Each file of a set calls this.
        if self.is_good.load(Ordering::Acquire) {
            return Ok(());
        }
        self.claims.finish(self.model.container(), work).map_err(|error| match error {
            ClaimError::Damaged(error) => damaged(self.model, error),
            ClaimError::Other(error) => self.model.failed(error),
        })?;
        self.is_good.store(true, Ordering::Release);
        Ok(())
    }
}

fn damaged(model: &Model, error: modelfmt_core::AnyError) -> Error {
    if model.pin().is_some() {
        return model.failed(error); // no option gets around a pin
    }
    let path = model.path_of(&error);
    Error::Damaged { error: error.without_file(&path.to_string_lossy()).into(), path }
}

#[cfg(all(test, feature = "safetensors"))]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_the_first_place_is_kept() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/safetensors/dtypes.safetensors");
        let model = Model::open(file).unwrap();
        let checked = CheckedValues::new(&model, &[], false).unwrap();
        for place in [(1, 0), (0, 64), (2, 0), (0, 128)] {
            checked.keep(
                place,
                Error::Open { path: format!("{place:?}").into(), source: std::io::ErrorKind::Other.into() },
            );
        }
        let kept = checked.failure().unwrap().to_string();
        assert!(kept.starts_with("(0, 64): "), "{kept}");
        assert!(checked.failure().is_none());
    }
}
