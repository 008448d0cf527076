//! What a seal adds to the checks of its file. Nothing here knows what one is.
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

/// The seal of a file, as the pass over every byte of the file knows it. The pass completes the digests that the seal wants, so that no byte is
/// read twice.
pub trait Seal: Sync {
    /// How the digests are made.
    type Kind: DigestKind<Digest: Parcel, Run: Parcel>;

    /// The digests of ranges of the file.
    fn ledger(&self) -> &Ledger<Self::Kind, 1>;

    /// Ranges of the data section that are no padding, although no tensor of the index is there.
    fn filled(&self) -> Vec<Range<u64>>;

    /// Up to which byte the seal has a CRC of its own.
    fn crc_end(&self) -> u64;

    /// Why the CRC of everything up to there, which is `found`, is not the right one.
    fn crc_fault(&self, found: u32) -> Option<Error>;
}

/// That of a file that has none.
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

/// The index of a file that the verifier of sets can check: one of this crate, or one that has it inside.
pub trait Verified: FileIndex<Fault = Fault> {
    /// What the seals of all shards of a set showed.
    type Seals: Default;

    /// The index as it is without a seal.
    fn plain(&self) -> &Index;

    /// The checks of the file, which is named `name`; adds what its seal showed to `seals`.
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
