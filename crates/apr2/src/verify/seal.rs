//! What a seal adds to the checks of its file. Nothing here knows what one is.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use modelfmt_core::{
    Execution, Fetch, VerifyLevel,
    author::{FileIndex, Parcel},
};

use super::Findings;
use crate::error::{Error, Fault};
use crate::index::Index;

/// The seal of a file, as the pass over every byte of the file knows it.
///
/// Its stretches are looked at in that pass, so that no byte is read twice. Where tensors are in LZ4 blocks, the file is cut for these, and
/// the stretches are not looked at; [`Pass::has_looked`](super::Pass::has_looked) says so.
pub trait Seal: Sync {
    /// What one stretch showed.
    type Seen: Parcel + Send;

    /// What is looked at as a whole: ranges of the file in ascending order, of which none overlaps another.
    fn stretches(&self) -> Vec<Range<u64>>;

    /// Looks at the bytes of the stretch of that number. `before` is called with the place in them up to which they are looked at next.
    fn look(&self, stretch: usize, bytes: &[u8], before: impl FnMut(u64)) -> Self::Seen;

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
    type Seen = Nothing;

    fn stretches(&self) -> Vec<Range<u64>> {
        match *self {}
    }

    fn look(&self, _: usize, _: &[u8], _: impl FnMut(u64)) -> Nothing {
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

/// What no seal sees.
pub(super) enum Nothing {}

impl Parcel for Nothing {
    fn put(&self, _: &mut Vec<u8>) {
        match *self {}
    }

    fn take(_: &mut &[u8]) -> Option<Self> {
        None
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
