//! Checks what callers require of sealed files, and what sealed files hide.

use std::path::Path;

use modelfmt_core::{AnyError, Part};

use crate::error::Error;
use crate::formats::capabilities::MetadataSchema;
use crate::{Format, Model, OpenOptions, Result};

/// Returns the error for a file that hides what a caller needs.
fn sealed_error(fault: crate::apr2::Fault) -> crate::apr2::Error {
    crate::apr2::Error::Malformed { part: Part::new("file"), at: 0, fault }
}

impl OpenOptions {
    /// Fails if a caller requires a signature or gives a key, and files of the format can have neither.
    pub(crate) fn check_sealable(&self, path: &Path, format: Format) -> Result<()> {
        let is_apr2 = format.properties().schema == Some(MetadataSchema::Apr2);
        if is_apr2 || !self.access.as_ref().is_some_and(|access| access.demands()) {
            return Ok(());
        }
        Err(Error::NotSealable { path: path.to_owned(), format })
    }
}

impl Model {
    /// Checks whether the values are encrypted in the file, even if it was opened with a key; for a merged
    /// model, in any of its files. Only APR2 files can be encrypted. For a set, the first file decides.
    #[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.members().any(|model| model.sealing().is_encrypted)
    }

    /// Fails for a file or set that hides the names of its tensors from callers without a key.
    pub(crate) fn expect_names(&self) -> Result<()> {
        let seal = self.as_apr2().and_then(|reader| reader.index().seal());
        let is_hidden = match self.as_apr2_sharded() {
            Some(set) => set.index().hides_names(),
            None => seal.is_some_and(|seal| seal.has_sealed_index() && seal.is_locked()),
        };
        if !is_hidden {
            return Ok(());
        }
        let fault =
            crate::apr2::SealFault::NoKey("names, shapes and values are encrypted, and no key was given");
        Err(self.failed(AnyError::from(sealed_error(crate::apr2::Fault::Seal(fault)))))
    }
}
