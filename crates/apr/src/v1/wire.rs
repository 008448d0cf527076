//! The header of a file.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::fmt;

use modelfmt_core::author::Cursor;

use crate::error::{Fault, Result, malformed};

pub(super) const MAGIC: [u8; 4] = *b"APRN";
pub(super) const HEADER_LEN: u64 = 32;
pub(super) const FOOTER_LEN: u64 = 4;
/// The length of an Ed25519 signature and its public key.
pub(super) const SIGNATURE_LEN: u64 = 96;
/// The largest decompressed payload that aprender accepts.
pub(super) const MAX_UNCOMPRESSED: u32 = 1 << 30;

/// The kind of model that the payload holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModelType(pub u16);

impl ModelType {
    /// Returns the name of the kind, such as `linear_regression`; `None` if it is unknown.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "linear_regression",
            2 => "logistic_regression",
            3 => "decision_tree",
            4 => "random_forest",
            5 => "gradient_boosting",
            6 => "k_means",
            7 => "pca",
            8 => "naive_bayes",
            9 => "nearest_neighbours",
            10 => "svm",
            16 => "n_gram",
            17 => "tf_idf",
            18 => "count_vectorizer",
            32 => "neural_sequential",
            33 => "neural_custom",
            48 => "recommender",
            64 => "mixture_of_experts",
            255 => "custom",
            _ => return None,
        })
    }
}

/// The compression of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compression(pub u8);

impl Compression {
    /// Returns the name of the method, or `None` if it is unknown. zstd has two numbers; the second means a
    /// higher compression level.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "none",
            1 | 2 => "zstd",
            3 => "lz4",
            _ => return None,
        })
    }
}

/// The flags of the header, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// The payload is encrypted.
    pub const ENCRYPTED: Self = Self(1);
    /// A signature follows the payload.
    pub const SIGNED: Self = Self(1 << 1);
    /// The file is meant to be read in sequence.
    pub const STREAMING: Self = Self(1 << 2);
    /// The metadata has a licence.
    pub const LICENSED: Self = Self(1 << 3);
    /// The payload has the layout of aprender's own tensors.
    pub const TRUENO_NATIVE: Self = Self(1 << 4);
    /// Values are quantized.
    pub const QUANTIZED: Self = Self(1 << 5);
    /// The metadata has a model card.
    pub const HAS_MODEL_CARD: Self = Self(1 << 6);

    const NAMES: [&'static str; 7] =
        ["ENCRYPTED", "SIGNED", "STREAMING", "LICENSED", "TRUENO_NATIVE", "QUANTIZED", "HAS_MODEL_CARD"];

    /// Returns all bits as they are in the file.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether all of these flags are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns the names of the flags that are set, in the order of their bits. A bit without a name has a
    /// name such as `0x80`.
    pub fn names(self) -> impl Iterator<Item = Cow<'static, str>> + Clone {
        (0..u8::BITS).map(|bit| Self(1 << bit)).filter(move |&flag| self.contains(flag)).map(|flag| {
            let known = Self::NAMES.get(flag.0.trailing_zeros() as usize);
            known.map_or_else(|| format!("{:#x}", flag.0).into(), |&name| name.into())
        })
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The header: the first 32 bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: (u8, u8),
    pub(super) model_type: ModelType,
    pub(super) metadata_size: u32,
    pub(super) payload_size: u32,
    pub(super) uncompressed_size: u32,
    pub(super) compression: Compression,
    pub(super) flags: Flags,
    pub(super) quality: u8,
    pub(super) reserved: [u8; 9],
}

impl Header {
    pub(super) fn decode(c: &mut Cursor<'_>) -> Result<Self> {
        c.record("header", None);
        let bytes = c.clone().bytes(HEADER_LEN, "header")?;
        let magic = c.u32("magic")?.to_le_bytes();
        if magic != MAGIC {
            return Err(malformed(c.part("magic"), 0, Fault::MagicV1(magic)));
        }
        let version = (c.u8("version")?, c.u8("version")?);
        if version.0 != 1 {
            return Err(malformed(c.part("version"), 4, Fault::VersionV1(version.0)));
        }
        Ok(Self {
            version,
            model_type: ModelType(c.u16("model type")?),
            metadata_size: c.u32("metadata size")?,
            payload_size: c.u32("payload size")?,
            uncompressed_size: c.u32("uncompressed size")?,
            compression: Compression(c.u8("compression")?),
            flags: Flags(c.u8("flags")?),
            quality: c.u8("quality")?,
            reserved: bytes.last_chunk().copied().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_numbers() {
        let known = |n: u16| ModelType(n).name();
        assert_eq!((0..=u16::MAX).filter_map(known).count(), 18);
        assert_eq!((known(1), known(0), known(256)), (Some("linear_regression"), None, None));
        let names = |bits| Flags(bits).names().map(String::from).collect::<Vec<_>>();
        assert_eq!(names(0b1010_0011), ["ENCRYPTED", "SIGNED", "QUANTIZED", "0x80"]);
        assert_eq!((Compression(2).name(), Compression(4).name()), (Some("zstd"), None));
    }
}
