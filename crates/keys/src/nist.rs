//! ECDSA on the three NIST curves, each with the hash of its size. The nonce is computed from the key and the
//! message (RFC 6979), so no signature depends on randomness.

/// Defines the functions of one curve, which differ only in the crate of the curve.
macro_rules! curve {
    ($curve:ident, $key_type:ident) => {
        pub(crate) mod $curve {
            use pkcs8::{EncodePrivateKey as _, SecretDocument};
            use $curve::SecretKey;
            use $curve::ecdsa::signature::{Signer, Verifier};
            use $curve::ecdsa::{DerSignature, Signature, SigningKey, VerifyingKey};
            use zeroize::Zeroizing;

            use crate::KeyType;
            use crate::error::{Error, Result};

            const MALFORMED: Error = Error::Malformed { key_type: KeyType::$key_type };

            pub(crate) fn public(secret: &[u8]) -> Result<Vec<u8>> {
                Ok(private(secret)?.public_key().to_sec1_bytes().to_vec())
            }

            pub(crate) fn point(bytes: &[u8]) -> Result<Vec<u8>> {
                let key = $curve::PublicKey::from_sec1_bytes(bytes).map_err(|_| MALFORMED)?;
                Ok(key.to_sec1_bytes().to_vec())
            }

            pub(crate) fn to_pkcs8(secret: &[u8]) -> Result<SecretDocument> {
                private(secret)?.to_pkcs8_der().map_err(|_| MALFORMED)
            }

            pub(crate) fn unwrap(wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
                let key = SecretKey::from_sec1_der(wrapped).map_err(|_| MALFORMED)?;
                Ok(Zeroizing::new(Zeroizing::new(key.to_bytes()).to_vec()))
            }

            pub(crate) fn sign(secret: &[u8], message: &[u8]) -> Result<Vec<u8>> {
                let key = SigningKey::from(private(secret)?);
                let signature: Signature = key.try_sign(message).map_err(|_| MALFORMED)?;
                Ok(signature.to_der().as_bytes().to_vec())
            }

            pub(crate) fn verify(public: &[u8], message: &[u8], signature: &[u8]) -> Result<()> {
                let key = VerifyingKey::from_sec1_bytes(public).map_err(|_| MALFORMED)?;
                let signature = DerSignature::from_bytes(signature).map_err(|_| Error::BadSignature)?;
                key.verify(message, &signature).map_err(|_| Error::BadSignature)
            }

            fn private(secret: &[u8]) -> Result<SecretKey> {
                if secret.len() != KeyType::$key_type.secret_len() {
                    return Err(MALFORMED);
                }
                SecretKey::from_slice(secret).map_err(|_| MALFORMED)
            }
        }
    };
}

curve!(p256, P256);
curve!(p384, P384);
curve!(p521, P521);
