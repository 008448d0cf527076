//! The types of chunks.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

/// A chunk's type tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FourCC(pub [u8; 4]);

impl FourCC {
    /// Control integrity (AIP-0001).
    pub const IHSH: Self = Self(*b"IHSH");
    /// Metadata as JSON.
    pub const MJSN: Self = Self(*b"MJSN");
    /// The manifest, as MessagePack.
    pub const MMSG: Self = Self(*b"MMSG");
    /// Page hashes of a shard (AIP-0002).
    pub const PHSH: Self = Self(*b"PHSH");
    /// The tensor index.
    pub const TIDX: Self = Self(*b"TIDX");
    /// A weight shard.
    pub const WTSH: Self = Self(*b"WTSH");

    /// Returns whether chunks of this type are never compressed (AERO 0.1, "Chunk Types").
    #[must_use]
    pub const fn is_never_compressed(self) -> bool {
        matches!(self, Self::IHSH | Self::PHSH | Self::WTSH)
    }

    /// Returns whether a chunk of this type and name has the name of the control hash without being one.
    pub(crate) fn is_misnamed(self, name: &str) -> bool {
        matches!(name, "ihsh" | "control.integrity") && self != Self::IHSH
    }
}

impl fmt::Display for FourCC {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{}", byte.escape_ascii()))
    }
}

impl fmt::Debug for FourCC {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
