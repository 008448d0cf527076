//! Signatures: the records in a file, and the keys that the caller names.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use ed25519_dalek::{Signature, Signer as _};

use crate::error::SealFault;
use crate::seal::hash::{Hash, hex, key_id, label};
use crate::seal::wire::{Fields, structure};

/// The algorithm number of Ed25519.
const ED25519: u16 = 1;
/// The length of a key identifier and a signature.
const ED25519_LEN: u32 = 96;

/// A public Ed25519 key that the caller trusts. Files do not contain keys, only their identifiers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// Creates a public key from its 32 bytes (RFC 8032).
    ///
    /// # Errors
    /// If the bytes are not a point of the curve in canonical form, or are a point of small order, for which
    /// anybody can sign.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, InvalidKey> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes)
            .map_err(|_| InvalidKey("it is no point of the curve"))?;
        if key.is_weak() {
            return Err(InvalidKey("it is of small order: anybody can sign for it"));
        }
        if !is_canonical(bytes) {
            return Err(InvalidKey("it is not written in its canonical form"));
        }
        Ok(Self(key))
    }

    /// Returns the key as 32 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// Returns the identifier of the key in files.
    #[must_use]
    pub fn key_id(&self) -> [u8; 32] {
        key_id("ed25519 key", self.0.as_bytes())
    }

    fn verify(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let is_canonical = signature.first_chunk().is_some_and(is_canonical);
        is_canonical && self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({})", hex(&self.key_id()))
    }
}

/// Returns whether the y coordinate of a point is below 2^255 − 19.
fn is_canonical(point: &[u8; 32]) -> bool {
    let [first, middle @ .., last] = point;
    !(*first >= 0xed && middle.iter().all(|&byte| byte == 0xff) && last & 0x7f == 0x7f)
}

/// The error for a key that must not be used to seal or to trust a file.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key cannot be used: {0}")]
pub struct InvalidKey(pub(crate) &'static str);

modelfmt_core::author::debug_as_sentence!(InvalidKey);

/// A secret Ed25519 key. Its memory is wiped when dropped, and it is never printed.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// Creates a secret key from its 32 bytes (RFC 8032).
    #[must_use]
    pub fn from_bytes(secret: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(secret))
    }

    /// Returns the public key.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, purpose: Purpose, statement: &Hash) -> Record {
        let key_id = self.verifying_key().key_id();
        let signature = self.0.sign(&purpose.message(&key_id, statement)).to_bytes();
        Record { algorithm: ED25519, signed: Some(Signed { key_id, signature }) }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(of {})", hex(&self.verifying_key().key_id()))
    }
}

/// The kind of statement that is signed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    File,
    Set,
}

impl Purpose {
    fn message(self, key_id: &Hash, statement: &Hash) -> Vec<u8> {
        let text = match self {
            Self::File => "signature",
            Self::Set => "set signature",
        };
        let mut message = label(text);
        message.extend(ED25519.to_le_bytes());
        message.extend(key_id);
        message.extend(statement);
        message
    }
}

/// A signature record as it is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) algorithm: u16,
    /// Its key and signature, if the algorithm is known.
    pub(crate) signed: Option<Signed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    pub(crate) key_id: Hash,
    pub(crate) signature: [u8; 64],
}

/// Decodes the records in the section of signatures.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Record>, SealFault> {
    let mut records = Vec::new();
    let mut c = Fields(bytes);
    while !c.0.is_empty() {
        let (algorithm, zero, len) = (c.u16()?, c.u16()?, c.u32()?);
        let mut content = Fields(c.bytes(len.into())?);
        let mut record = Record { algorithm, signed: None };
        if algorithm == ED25519 {
            if zero != 0 || len != ED25519_LEN {
                return Err(structure("a signature of Ed25519 has another length"));
            }
            record.signed = Some(Signed { key_id: content.array()?, signature: content.array()? });
        }
        records.push(record);
    }
    Ok(records)
}

/// Encodes a record of the known algorithm.
pub(crate) fn encode(signed: &Signed, out: &mut Vec<u8>) {
    out.extend(ED25519.to_le_bytes());
    out.extend(0u16.to_le_bytes());
    out.extend(ED25519_LEN.to_le_bytes());
    out.extend(signed.key_id);
    out.extend(signed.signature);
}

/// Checks that enough of the named keys have signed the statement. A single invalid record of a named key is an error.
pub(crate) fn check(
    records: &[Record],
    keys: &[VerifyingKey],
    threshold: usize,
    purpose: Purpose,
    statement: &Hash,
) -> Result<(), SealFault> {
    let mut found = Vec::new();
    for key in keys {
        let key_id = key.key_id();
        let of_key =
            records.iter().filter_map(|record| record.signed).filter(|signed| signed.key_id == key_id);
        for signed in of_key {
            if !key.verify(&purpose.message(&key_id, statement), &signed.signature) {
                return Err(SealFault::BadSignature(hex(&key_id)));
            }
            if !found.contains(&key_id) {
                found.push(key_id);
            }
        }
    }
    let threshold = threshold.max(1);
    if found.len() < threshold {
        return Err(SealFault::NoTrustedSignature { found: found.len(), threshold });
    }
    Ok(())
}
