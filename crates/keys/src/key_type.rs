//! The types of keys.

use std::fmt;
use std::str::FromStr;

use pkcs8::ObjectIdentifier;

/// The object identifier of all keys on NIST curves. The curve is its parameter (RFC 5480).
pub(crate) const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KeyType {
    /// Signatures, RFC 8032.
    Ed25519,
    /// Key agreement, RFC 7748.
    X25519,
    /// ECDSA with SHA-256.
    P256,
    /// ECDSA with SHA-384.
    P384,
    /// ECDSA with SHA-512.
    P521,
}

impl KeyType {
    /// All types.
    pub const ALL: [Self; 5] = [Self::Ed25519, Self::X25519, Self::P256, Self::P384, Self::P521];
    pub(crate) const NAMES: &'static str = "ed25519, x25519, p256, p384 and p521";

    /// Returns the name: `ed25519`, `x25519`, `p256`, `p384` or `p521`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ed25519 => "ed25519",
            Self::X25519 => "x25519",
            Self::P256 => "p256",
            Self::P384 => "p384",
            Self::P521 => "p521",
        }
    }

    /// Checks whether keys of this type can sign.
    pub const fn signs(self) -> bool {
        !matches!(self, Self::X25519)
    }

    /// Checks whether keys of this type are on a NIST curve, as OpenSSF Model Signing requires.
    pub const fn is_nist(self) -> bool {
        matches!(self, Self::P256 | Self::P384 | Self::P521)
    }

    /// Returns the length of a private key in bytes: a seed, or a number of the curve.
    pub const fn secret_len(self) -> usize {
        match self {
            Self::Ed25519 | Self::X25519 | Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// Returns the feature of this crate that enables the type.
    pub const fn feature(self) -> &'static str {
        match self {
            Self::Ed25519 => "ed25519",
            Self::X25519 => "x25519",
            Self::P256 | Self::P384 | Self::P521 => "nist",
        }
    }

    /// Returns the object identifier of the type: that of the algorithm, or that of the curve.
    pub(crate) const fn oid(self) -> ObjectIdentifier {
        match self {
            Self::Ed25519 => ObjectIdentifier::new_unwrap("1.3.101.112"),
            Self::X25519 => ObjectIdentifier::new_unwrap("1.3.101.110"),
            Self::P256 => ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7"),
            Self::P384 => ObjectIdentifier::new_unwrap("1.3.132.0.34"),
            Self::P521 => ObjectIdentifier::new_unwrap("1.3.132.0.35"),
        }
    }

    /// Returns the type with this object identifier.
    pub(crate) fn of_oid(oid: ObjectIdentifier) -> Option<Self> {
        Self::ALL.into_iter().find(|key_type| key_type.oid() == oid)
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KeyType {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|key_type| key_type.name() == name);
        known.ok_or_else(|| format!("there is no key type {name:?}; the types are {}", Self::NAMES))
    }
}
