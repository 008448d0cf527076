//! Which generation of the format a file is of.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

/// What version 0.3 aligns tensors and the first of them to.
pub(crate) const PAGE: u64 = 4096;
/// The most dimensions that magnetron 0.2.2 loads (docs/formats/mag.md#places-of-tensors).
pub(crate) const MAX_RANK_0_3: usize = 16;

/// A generation of the format. Each magnetron reads its own alone; this crate reads all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// The document's, which magnetron wrote up to 0.1.2: records, a checksum, values at multiples of 64.
    #[default]
    V1,
    /// Written by magnetron 0.1.5 and 0.1.6: a pool of strings, descriptors, values without gaps.
    V0_1,
    /// Written by magnetron 0.1.7 to 0.1.9: as 0.1, with values at multiples of 16.
    V0_2,
    /// Written by magnetron 0.2.0 to 0.2.2: a manifest in JSON, values at multiples of 4,096.
    V0_3,
}

impl Version {
    /// Every generation that is read.
    pub const ALL: &'static [Self] = &[Self::V1, Self::V0_1, Self::V0_2, Self::V0_3];

    /// As text: `1`, `0.1.0`, `0.2.0` or `0.3.0`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "1",
            Self::V0_1 => "0.1.0",
            Self::V0_2 => "0.2.0",
            Self::V0_3 => "0.3.0",
        }
    }

    /// The number that stands for it in a file: from 0.1.0 on it is major × 10,000 + minor × 100 + patch.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V0_1 => 100,
            Self::V0_2 => 200,
            Self::V0_3 => 300,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
