//! Values that are read to be written again, checked by whatever their own file says about them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use modelfmt_core::claims::{ClaimError, Claims};
use modelfmt_core::{Execution, TensorInfo};
use modelfmt_write::BoxError;

use crate::error::{Error, Result};
use crate::model::Model;

/// Where values are pulled: the number of a tensor in what is written, and the byte of its values.
pub(crate) type Place = (usize, u64);

/// A model whose values are checked while they are read. The code that writes them calls [`finish`](Self::finish) before what is
/// written appears, or damaged bytes would get a good hash.
pub struct Checked<'a> {
    model: &'a Model,
    claims: Claims,
    /// Whether all of it was found good.
    is_good: AtomicBool,
    /// What went wrong while a writer pulled values, and where. Writers know nothing of this crate's errors.
    kept: Mutex<Option<(Place, Error)>>,
}

impl<'a> Checked<'a> {
    /// For the tensors at these positions; nothing is checked without `verify`.
    pub fn new(model: &'a Model, positions: &[usize], verify: bool) -> Result<Self> {
        let claims = match verify {
            true => {
                let claims = model.container().claims(positions).map_err(|error| damaged(model, error))?;
                // What is written appears after `finish`.
                claims.deferred()
            }
            false => Claims::new(),
        };
        Ok(Self { model, claims, is_good: AtomicBool::new(false), kept: Mutex::new(None) })
    }

    /// Keeps an error, for the caller of the writer. The writer gets one that stands for it. Of the errors of several threads the one of the first
    /// place stays, so that each run says the same.
    pub fn keep(&self, place: Place, error: Error) -> BoxError {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(first, _)| place < *first) {
            *kept = Some((place, error));
        }
        "the values cannot be read, or are damaged".into()
    }

    /// The error of the first place, if one was kept.
    pub fn failure(&self) -> Option<Error> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take().map(|(_, error)| error)
    }

    /// What is not checked, and why.
    pub fn notes(&self) -> &[String] {
        self.claims.notes()
    }

    /// What a tensor is.
    pub fn info(&self, position: usize) -> Option<TensorInfo<'_>> {
        self.model.container().info(position)
    }

    /// Fills `out` with a tensor's values from byte `offset` on.
    pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let container = self.model.container();
        let claims = (!self.claims.is_empty()).then_some(&self.claims);
        let read = container.values_into(position, offset, out, claims);
        // What cannot be decoded may be what is damaged, and then the digest says more.
        match self.claims.failure() {
            Some(failure) => Err(damaged(self.model, failure)),
            None => read.map_err(|error| self.model.failed(error)),
        }
    }

    /// Bytes of a tensor's values without a copy, if the file is in memory and holds them in this form.
    pub fn borrow(&self, position: usize, range: Range<u64>) -> Option<&[u8]> {
        let (at, bytes) = self.model.borrow(position, range)?;
        if self.claims.is_empty() {
            return Some(bytes);
        }
        self.claims.observe(0, at, bytes);
        // Reading says what is wrong.
        if self.claims.failure().is_some() { None } else { Some(bytes) }
    }

    /// Reads what is still missing of what is checked, and says whether all of it holds.
    pub fn finish(&self, work: &Execution<'_>) -> Result<()> {
        // The files of a set each wait for this.
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
        return model.failed(error); // no option gives what a pin refuses
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
        let checked = Checked::new(&model, &[], false).unwrap();
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
