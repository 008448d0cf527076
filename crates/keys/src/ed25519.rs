//! Strict Ed25519: weak keys, and signatures that are also valid for a second key, are refused.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use pkcs8::SecretDocument;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::{KeyType, octets};

const MALFORMED: Error = Error::Malformed { key_type: KeyType::Ed25519 };

pub(crate) fn public(secret: &[u8]) -> Result<Vec<u8>> {
    Ok(signing(secret)?.verifying_key().to_bytes().to_vec())
}

pub(crate) fn point(bytes: &[u8]) -> Result<Vec<u8>> {
    let key = verifying(bytes)?;
    // A number that is not below the field's prime would be a second encoding of the same key.
    if key.to_edwards().compress().as_bytes() != bytes {
        return Err(MALFORMED);
    }
    Ok(bytes.to_vec())
}

pub(crate) fn to_pkcs8(secret: &[u8]) -> Result<SecretDocument> {
    octets::to_pkcs8(KeyType::Ed25519, secret)
}

pub(crate) fn unwrap(wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    octets::unwrap(KeyType::Ed25519, wrapped)
}

pub(crate) fn sign(secret: &[u8], message: &[u8]) -> Result<Vec<u8>> {
    Ok(signing(secret)?.sign(message).to_bytes().to_vec())
}

pub(crate) fn verify(public: &[u8], message: &[u8], signature: &[u8]) -> Result<()> {
    let signature = Signature::from_slice(signature).map_err(|_| Error::BadSignature)?;
    verifying(public)?.verify_strict(message, &signature).map_err(|_| Error::BadSignature)
}

fn signing(secret: &[u8]) -> Result<SigningKey> {
    Ok(SigningKey::from_bytes(secret.try_into().map_err(|_| MALFORMED)?))
}

fn verifying(bytes: &[u8]) -> Result<VerifyingKey> {
    let key = VerifyingKey::try_from(bytes).map_err(|_| MALFORMED)?;
    if key.is_weak() { Err(Error::Weak { key_type: KeyType::Ed25519 }) } else { Ok(key) }
}
