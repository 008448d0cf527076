//! A model whose signatures or keys are about to change, and the result of the change.

use std::path::{Path, PathBuf};

use modelfmt_core::source::{BoxSource, FileVersion};
use modelfmt_core::{Limits, Source as _};
use modelfmt_write::edit::{NewFile, Preview};

use crate::edit::EditMethod;
use crate::edit::fault::{failed, opened, version};
use modelfmt_model::apr2::{Flags, Reader, SetIndex};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_model::open::OpenOptions;
use modelfmt_rules::wording::Note;

/// The result of a change of signatures or keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resealed {
    /// The file; for a set, its manifest.
    pub path: PathBuf,
    /// How the file was changed: [`EditMethod::Unchanged`] if it already had all changes, otherwise
    /// [`EditMethod::InPlace`].
    pub method: EditMethod,
    /// The number of bytes that were written.
    pub changed_nbytes: u64,
    /// Notes for the user, for standard error.
    pub notes: Vec<Note>,
}

/// A model that is about to change.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    /// The version of the opened file.
    pub(super) version: FileVersion,
    pub(super) model: Model,
    pub(super) notes: Vec<Note>,
}

impl Opened {
    pub(super) fn new(path: &Path, options: &OpenOptions) -> Result<Self> {
        let path = if path.is_dir() { options.model_in(path)? } else { path.to_owned() };
        #[cfg(feature = "policy")]
        options.judge_place(&path)?;
        let notes = crate::edit::recovered(&path)?.into_iter().collect();
        let version = version(&path)?;
        let model = options.open(&path)?;
        Ok(Self { path, version, model, notes })
    }

    pub(super) fn reader(&self) -> Result<&Reader<BoxSource>> {
        self.model.as_apr2().ok_or_else(|| {
            let format = self.model.format();
            let why = format!("only APR2 files have signatures and keys inside, and this is {format}");
            Error::NotEditable { path: self.path.clone(), why }
        })
    }

    /// Fails for a shard, because its manifest states its length and content.
    pub(super) fn expect_alone(&self) -> Result<()> {
        if !self.reader()?.index().flags().contains(Flags::SHARDED) {
            return Ok(());
        }
        let why = "it is a shard, and its manifest states its size; name the manifest instead";
        Err(Error::NotEditable { path: self.path.clone(), why: why.to_owned() })
    }
}

/// Fails if the new content of a file could not be read. This is checked before the file changes, because
/// afterwards nobody could change it back.
pub(super) fn expect_readable(path: &Path, new: &NewFile) -> Result<()> {
    let preview = Preview::new(new.clone(), opened(path)?);
    Reader::from_source(preview).map(drop).map_err(|error| failed(path, error))
}

/// Does the same for the manifest of a set.
pub(super) fn expect_manifest(path: &Path, new: &NewFile) -> Result<()> {
    let text = Preview::new(new.clone(), opened(path)?);
    let text = text.read(0..new.len()).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    SetIndex::parse(&text, &Limits::default()).map(drop).map_err(|error| failed(path, error))
}
