//! Keys that sign and seal model files. They are read from PEM, written as PEM, and wiped after use.
//!
//! | type | for | signature |
//! | --- | --- | --- |
//! | Ed25519 | signatures inside APR2 files | 64 bytes, RFC 8032 |
//! | X25519 | recipients of sealed APR2 files | none: two keys agree on a secret |
//! | P-256, P-384, P-521 | OpenSSF Model Signing | ECDSA with SHA-256, SHA-384, SHA-512, in DER |
//!
//! A private key is PKCS#8 (`-----BEGIN PRIVATE KEY-----`), a public key SubjectPublicKeyInfo (`-----BEGIN PUBLIC KEY-----`), as
//! OpenSSL and Python's `cryptography` write them. The older `-----BEGIN EC PRIVATE KEY-----` is read too.
//!
//! ```
//! use modelfmt_keys::{KeyType, PrivateKey, PublicKey};
//!
//! # #[cfg(feature = "ed25519")] {
//! let key = PrivateKey::from_bytes(KeyType::Ed25519, &[7; 32])?; // with the feature `random`: PrivateKey::generate(KeyType::Ed25519)?
//! let signature = key.sign(b"what is signed")?;
//!
//! let public = PublicKey::from_pem(&key.public().to_pem())?;
//! public.verify(b"what is signed", &signature)?;
//! assert!(public.verify(b"something else", &signature).is_err());
//! # }
//! # Ok::<(), modelfmt_keys::Error>(())
//! ```
//!
//! # What is kept secret
//!
//! The bytes of a [`PrivateKey`] are wiped when it is dropped. `Debug` shows its type and the id of its public key, and no error
//! contains a byte of what was read. Signing and agreement take the same time for all keys of a type.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod algorithm;
mod error;
mod file;
mod id;
mod key_type;
#[cfg(feature = "nist")]
mod nist;
#[cfg(any(feature = "ed25519", feature = "x25519"))]
mod octets;
mod pair;
mod private;
mod public;

#[cfg(feature = "ed25519")]
mod ed25519;
#[cfg(feature = "x25519")]
mod x25519;

pub use error::{Error, Result};
pub use file::MAX_LEN;
pub use id::KeyId;
pub use key_type::KeyType;
pub use pair::write_pair;
pub use private::PrivateKey;
pub use public::PublicKey;

/// Fills `out` with unpredictable bytes from the system.
///
/// # Errors
/// [`Error::Random`] if the system has none.
#[cfg(feature = "random")]
pub fn random(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out).map_err(|_| Error::Random)
}
