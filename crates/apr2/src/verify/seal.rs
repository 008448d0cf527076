//! The interface between this crate's checks and a seal, which is implemented in another crate.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Execution, Fetch, VerifyLevel,
    author::{Crc32, FileIndex, Parcel},
    ledger::{DigestKind, Ledger},
};

use super::Findings;
use crate::error::{Error, Fault};
use crate::index::Index;

/// The seal of a file, as the pass over every byte of the file needs it. The pass also computes the digests
/// that the seal needs, so that no byte is read twice.
pub trait Seal: Sync {
    /// The kind of digest.
    type Kind: DigestKind<Digest: Parcel, Run: Parcel>;

    /// Returns the digests to compute, by ranges of the file.
    fn ledger(&self) -> &Ledger<Self::Kind, 1>;

    /// Returns ranges of the data section that are not padding, although the index has no tensor there.
    fn filled(&self) -> Vec<Range<u64>>;

    /// Returns the end of the bytes that the seal's own CRC covers.
    fn crc_end(&self) -> u64;

    /// Returns an error if `found` is not the right CRC of the bytes before [`crc_end`](Self::crc_end).
    fn crc_fault(&self, found: u32) -> Option<Error>;
}

/// The seal of files that have none.
pub(super) enum Unsealed {}

impl Seal for Unsealed {
    type Kind = Crc32;

    fn ledger(&self) -> &Ledger<Crc32, 1> {
        match *self {}
    }

    fn filled(&self) -> Vec<Range<u64>> {
        match *self {}
    }

    fn crc_end(&self) -> u64 {
        match *self {}
    }

    fn crc_fault(&self, _: u32) -> Option<Error> {
        match *self {}
    }
}

/// The index of a file that the set verifier can check: this crate's index, or one that contains it.
pub trait Verified: FileIndex<Fault = Fault> {
    /// The combined results of the seals of all shards of a set.
    type Seals: Default;

    /// Returns the index without the seal.
    fn plain(&self) -> &Index;

    /// Runs the checks on the file named `name`, and adds the results of its seal to `seals`.
    fn findings<S: Fetch>(
        &self,
        source: &S,
        level: VerifyLevel,
        work: &Execution<'_>,
        name: &str,
        seals: &mut Self::Seals,
    ) -> impl Future<Output = Findings>;
}

impl Verified for Index {
    type Seals = ();

    fn plain(&self) -> &Index {
        self
    }

    async fn findings<S: Fetch>(
        &self,
        source: &S,
        level: VerifyLevel,
        work: &Execution<'_>,
        _: &str,
        (): &mut (),
    ) -> Findings {
        super::plain(self, source, level, work).await
    }
}
