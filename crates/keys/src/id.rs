//! The id of a public key.

use std::fmt;

/// The id of a public key: 32 bytes, printed as 64 hex digits.
///
/// An id is the hash that a format uses to name a key, so you can compare it with an id in a file:
///
/// - NIST curves: SHA-256 of the PEM text, as in OpenSSF Model Signing (`hint`). `sha256sum KEY.pub` prints it
/// - Ed25519 and X25519: BLAKE3 of a label and the key's 32 bytes, as in sealed APR2 files (`key_id`)
///
/// An id says which key is meant. It proves nothing: trust the key, not the id in a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 32]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}
