//! Replaces [`signing`](super::signing) in a build without the feature `seal`: nothing can be signed, and
//! signatures are not read. The APR2 crate itself refuses a signed file.

use std::path::Path;

use modelfmt_core::Execution;
use modelfmt_write::edit::{FileChange, NewFile};

use super::{EditMethod, EditOptions, Target};
use modelfmt_convert::convert::ConvertOptions;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;
use modelfmt_rules::wording::Note;

/// Has no values, because this build cannot sign.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signing {}

#[allow(clippy::unnecessary_wraps, reason = "the same functions with the feature")]
impl Signing {
    pub(super) const fn new(_: &Model, _: &EditOptions) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(super) const fn expect_intact(&self, _: &Path, _: &Execution<'_>) -> Result<()> {
        match *self {}
    }

    pub(super) fn sign_output(&self, _: &Path, _: &mut ConvertOptions, _: &Execution<'_>) -> Result<()> {
        match *self {}
    }

    pub(super) fn sign_file(&self, _: &Path, _: &NewFile, _: &Execution<'_>) -> Result<NewFile> {
        match *self {}
    }

    pub(super) fn add_to_set(&self, _: &Path, _: &Execution<'_>) -> Result<u64> {
        match *self {}
    }

    pub(super) fn sign_set(
        &self,
        _: &Path,
        _: &mut [FileChange],
        _: &[u8],
        _: &Execution<'_>,
    ) -> Result<NewFile> {
        match *self {}
    }
}

pub(super) const fn is_sealed(_: &Model) -> bool {
    false
}

pub(super) const fn signature_stripper(
    _: &Model,
    _: Option<&Signing>,
) -> Option<fn(&Path) -> Result<NewFile>> {
    None
}

pub(super) const fn note(_: &Model, _: &Target, _: EditMethod, _: Option<&Signing>) -> Option<Note> {
    None
}
