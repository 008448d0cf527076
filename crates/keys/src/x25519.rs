//! X25519: two keys agree on a secret.

use pkcs8::SecretDocument;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::{KeyType, octets};

const MALFORMED: Error = Error::Malformed { key_type: KeyType::X25519 };
const WEAK: Error = Error::Weak { key_type: KeyType::X25519 };

pub(crate) fn public(secret: &[u8]) -> Result<Vec<u8>> {
    Ok(PublicKey::from(&private(secret)?).to_bytes().to_vec())
}

pub(crate) fn point(bytes: &[u8]) -> Result<Vec<u8>> {
    // A point of small order gives zeros with every private key, so one try detects it.
    agree(&[1; 32], bytes)?;
    Ok(bytes.to_vec())
}

pub(crate) fn to_pkcs8(secret: &[u8]) -> Result<SecretDocument> {
    octets::to_pkcs8(KeyType::X25519, secret)
}

pub(crate) fn unwrap(wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    octets::unwrap(KeyType::X25519, wrapped)
}

pub(crate) fn sign(_: &[u8], _: &[u8]) -> Result<Vec<u8>> {
    Err(Error::WrongUse { key_type: KeyType::X25519, what: "sign" })
}

pub(crate) fn verify(_: &[u8], _: &[u8], _: &[u8]) -> Result<()> {
    Err(Error::WrongUse { key_type: KeyType::X25519, what: "verify a signature" })
}

/// Returns the secret that both keys agree on. A secret of zeros is refused, because everyone would know it
/// (RFC 7748, 6.1).
pub(crate) fn agree(secret: &[u8], public: &[u8]) -> Result<Zeroizing<[u8; 32]>> {
    let public: [u8; 32] = public.try_into().map_err(|_| MALFORMED)?;
    let shared = private(secret)?.diffie_hellman(&PublicKey::from(public));
    if shared.was_contributory() { Ok(Zeroizing::new(shared.to_bytes())) } else { Err(WEAK) }
}

fn private(secret: &[u8]) -> Result<StaticSecret> {
    let secret: &[u8; 32] = secret.try_into().map_err(|_| MALFORMED)?;
    Ok(StaticSecret::from(*secret))
}
