//! The operations of each type of key. If a type is not compiled in, they return an error that says so.

use pkcs8::SecretDocument;
use pkcs8::spki::AlgorithmIdentifierRef;
use sha2::Digest as _;
use zeroize::Zeroizing;

use crate::KeyType;
#[cfg(feature = "ed25519")]
use crate::ed25519;
use crate::error::{Error, Result};
use crate::key_type::EC;
#[cfg(feature = "nist")]
use crate::nist;
#[cfg(feature = "x25519")]
use crate::x25519;

/// Calls a function of the curve or module of a key type.
macro_rules! dispatch {
    ($key_type:expr, $function:ident ( $($argument:expr),* )) => {{
        let key_type: KeyType = $key_type;
        match key_type {
            #[cfg(feature = "ed25519")]
            KeyType::Ed25519 => ed25519::$function($($argument),*),
            #[cfg(feature = "x25519")]
            KeyType::X25519 => x25519::$function($($argument),*),
            #[cfg(feature = "nist")]
            KeyType::P256 => nist::p256::$function($($argument),*),
            #[cfg(feature = "nist")]
            KeyType::P384 => nist::p384::$function($($argument),*),
            #[cfg(feature = "nist")]
            KeyType::P521 => nist::p521::$function($($argument),*),
            #[allow(unreachable_patterns, reason = "with every feature there is no other type")]
            _ => {
                $(let _ = &$argument;)*
                Err(Error::NotEnabled { key_type })
            }
        }
    }};
}

/// Checks a secret and returns its public key.
pub(crate) fn public(key_type: KeyType, secret: &[u8]) -> Result<Vec<u8>> {
    dispatch!(key_type, public(secret))
}

/// Checks a public key. Returns the bytes to keep, which for the NIST curves are the uncompressed point.
pub(crate) fn point(key_type: KeyType, bytes: &[u8]) -> Result<Vec<u8>> {
    dispatch!(key_type, point(bytes))
}

/// Encodes a secret as PKCS#8.
pub(crate) fn to_pkcs8(key_type: KeyType, secret: &[u8]) -> Result<SecretDocument> {
    dispatch!(key_type, to_pkcs8(secret))
}

/// Returns the key type that a key file names.
pub(crate) fn key_type(algorithm: &AlgorithmIdentifierRef<'_>) -> Result<KeyType> {
    let oid = if algorithm.oid == EC {
        algorithm.parameters_oid().map_err(|_| Error::Damaged)?
    } else {
        algorithm.oid
    };
    KeyType::of_oid(oid).ok_or_else(|| Error::UnknownType { oid: oid.to_string() })
}

/// Extracts the secret from the contents of a PKCS#8 key.
pub(crate) fn unwrap(key_type: KeyType, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    dispatch!(key_type, unwrap(wrapped))
}

pub(crate) fn sign(key_type: KeyType, secret: &[u8], message: &[u8]) -> Result<Vec<u8>> {
    dispatch!(key_type, sign(secret, message))
}

pub(crate) fn verify(key_type: KeyType, public: &[u8], message: &[u8], signature: &[u8]) -> Result<()> {
    dispatch!(key_type, verify(public, message, signature))
}

/// Returns the id of a public key, as defined by the format that uses keys of this type.
pub(crate) fn id(key_type: KeyType, public: &[u8], pem: &str) -> [u8; 32] {
    let _ = (public, pem);
    match key_type {
        #[cfg(feature = "ed25519")]
        KeyType::Ed25519 => labelled(b"APR2-SEAL-1 ed25519 key\0", public),
        #[cfg(feature = "x25519")]
        KeyType::X25519 => labelled(b"APR2-SEAL-1 x25519 key\0", public),
        _ => sha2::Sha256::digest(pem.as_bytes()).into(),
    }
}

#[cfg(any(feature = "ed25519", feature = "x25519"))]
fn labelled(label: &[u8], public: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(label).update(public).finalize().as_bytes()
}
