//! The interface between the checks of this crate and a seal, which is implemented elsewhere.
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

/// The seal of a file, as the pass over every byte of the file uses it. The pass also computes the digests that the seal wants,
/// so that no byte is read twice.
pub trait Seal: Sync {
    /// The kind of digest.
    type Kind: DigestKind<Digest: Parcel, Run: Parcel>;

    /// The digests to compute, by ranges of the file.
    fn ledger(&self) -> &Ledger<Self::Kind, 1>;

    /// Ranges of the data section that are not padding, although no tensor of the index is there.
    fn filled(&self) -> Vec<Range<u64>>;

    /// The end of the bytes that the seal's own CRC covers.
    fn crc_end(&self) -> u64;

    /// The error if `found` is not the right CRC of the bytes before [`crc_end`](Self::crc_end).
    fn crc_fault(&self, found: u32) -> Option<Error>;
}

/// The seal of a file that has none.
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

/// The index of a file that the verifier of sets can check: this crate's, or one that contains it.
pub trait Verified: FileIndex<Fault = Fault> {
    /// The combined results of the seals of all shards of a set.
    type Seals: Default;

    /// The index without the seal.
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
