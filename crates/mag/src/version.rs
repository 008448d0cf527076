//! The versions of the format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

/// The alignment of the data and of each tensor in version 0.3.
pub(crate) const PAGE: u64 = 4096;
/// The largest number of dimensions that magnetron 0.2.2 loads (docs/formats/mag.md#places-of-tensors).
pub(crate) const MAX_RANK_0_3: usize = 16;

/// A version of the format. Each magnetron reads only its own version. This crate reads all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// Version 1, which the document describes and magnetron up to 0.1.2 wrote: records, a checksum, values
    /// at multiples of 64.
    #[default]
    V1,
    /// Version 0.1.0, written by magnetron 0.1.5 and 0.1.6: a string pool, descriptors, values without gaps.
    V0_1,
    /// Version 0.2.0, written by magnetron 0.1.7 to 0.1.9: like 0.1.0, but with values at multiples of 16.
    V0_2,
    /// Version 0.3.0, written by magnetron 0.2.0 to 0.2.2: a manifest in JSON, values at multiples of 4,096.
    V0_3,
}

impl Version {
    /// Every version that this crate reads.
    pub const ALL: &'static [Self] = &[Self::V1, Self::V0_1, Self::V0_2, Self::V0_3];

    /// Returns the version as text: `1`, `0.1.0`, `0.2.0` or `0.3.0`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "1",
            Self::V0_1 => "0.1.0",
            Self::V0_2 => "0.2.0",
            Self::V0_3 => "0.3.0",
        }
    }

    /// Returns the version number in a file. From 0.1.0 on it is major × 10,000 + minor × 100 + patch.
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
