//! The wrapper that RFC 8410 puts around the 32 bytes of a private key: an octet string within the octet string.

use pkcs8::der::asn1::OctetStringRef;
use pkcs8::spki::AlgorithmIdentifierRef;
use pkcs8::{PrivateKeyInfoRef, SecretDocument};
use zeroize::Zeroizing;

use crate::KeyType;
use crate::error::{Error, Result};

const HEAD: [u8; 2] = [4, 32];

pub(crate) fn to_pkcs8(key_type: KeyType, secret: &[u8]) -> Result<SecretDocument> {
    let mut wrapped = Zeroizing::new(Vec::with_capacity(HEAD.len() + secret.len()));
    wrapped.extend_from_slice(&HEAD);
    wrapped.extend_from_slice(secret);
    let algorithm = AlgorithmIdentifierRef { oid: key_type.oid(), parameters: None };
    let octets = OctetStringRef::new(&wrapped);
    let document = octets.map(|octets| PrivateKeyInfoRef::new(algorithm, octets));
    document.and_then(|info| SecretDocument::encode_msg(&info)).map_err(|_| Error::Malformed { key_type })
}

pub(crate) fn unwrap(key_type: KeyType, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let secret = wrapped.strip_prefix(&HEAD).filter(|secret| secret.len() == 32);
    let secret = secret.ok_or(Error::Malformed { key_type })?;
    Ok(Zeroizing::new(secret.to_vec()))
}
