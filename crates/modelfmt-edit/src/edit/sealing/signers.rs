//! Keys that sign files that are about to be written.

use modelfmt_core::source::BoxSource;
use modelfmt_core::{Execution, Part, VerifyLevel};
use modelfmt_write::edit::{NewFile, Preview};

use modelfmt_model::apr2::seal::{SealOptions, SigningKey};
use modelfmt_model::apr2::{EditError, SealFault, SetIndex, WriteError};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;

/// The keys, and the revision that they sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signers<'a> {
    pub(crate) keys: &'a [SigningKey],
    pub(crate) revision: Option<u64>,
}

/// What the manifest of a signed set states about a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignedShard {
    nbytes: u64,
    /// The statement that the signatures in the shard sign.
    statement: [u8; 32],
}

impl Signers<'_> {
    /// Returns the options for signing a file that is rewritten.
    pub(crate) fn options(&self) -> SealOptions {
        let options = SealOptions::new().revision(self.revision.unwrap_or_default());
        self.keys.iter().cloned().fold(options, SealOptions::sign)
    }

    /// Signs a file, as it is or as it will be after an edit. Verify the model first: a signature vouches for
    /// all of its content.
    pub(crate) fn file(
        &self,
        file: &modelfmt_model::apr2::Reader<BoxSource>,
        work: &Execution<'_>,
    ) -> Result<NewFile, EditError> {
        file.index().sign(file.source(), self.keys, self.revision, work)
    }

    /// Signs a shard in the same way, and returns what the manifest states about the shard.
    pub(crate) fn shard(
        &self,
        shard: &modelfmt_model::apr2::Reader<BoxSource>,
        work: &Execution<'_>,
    ) -> Result<(NewFile, SignedShard), EditError> {
        let new = self.file(shard, work)?;
        let signed = modelfmt_model::apr2::Reader::from_source(Preview::new(new.clone(), shard.source()))?;
        let statement = signed.index().seal().map(|seal| seal.statement());
        let unsigned = SealFault::Missing("it is without a signature after it was signed");
        let statement =
            statement.ok_or_else(|| WriteError::unsupported(Part::new("seal section"), unsigned))?;
        let nbytes = new.len();
        Ok((new, SignedShard { nbytes, statement }))
    }

    /// Returns the manifest of a set with the signatures of the set. `text` is the present manifest, and
    /// `shards` are all shards in their order.
    pub(crate) fn manifest(
        &self,
        set: &SetIndex,
        text: &[u8],
        shards: &[SignedShard],
    ) -> Result<NewFile, EditError> {
        let shards: Vec<_> = shards.iter().map(|shard| (shard.nbytes, shard.statement)).collect();
        set.sign_anew(text, &shards, self.keys, self.revision.unwrap_or_default())
    }
}

/// Fails for a model that is not intact, because such a model must not be signed.
pub(crate) fn expect_intact(model: &Model, work: &Execution<'_>) -> Result<()> {
    match model.verify_with(VerifyLevel::Full, work).errors.first() {
        None => Ok(()),
        Some(finding) => {
            let why = format!("it is not intact, and so it is not signed: {finding}");
            Err(Error::NotEditable { path: model.path().to_owned(), why })
        }
    }
}
