//! Converts keys from PEM files to the key types of sealed files.

use modelfmt_keys::{Error, KeyType, PrivateKey, PublicKey, Result};

use crate::apr2::seal::{Identity, InvalidKey, Recipient, SigningKey, VerifyingKey};

/// Converts a private key to a key that signs.
///
/// ```
/// use modelfmt::seal::signing_key;
/// use modelfmt_keys::{KeyType, PrivateKey};
///
/// let key = PrivateKey::from_bytes(KeyType::Ed25519, &[1; 32])?;
/// assert_eq!(signing_key(&key)?.verifying_key().to_bytes(), key.public().as_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::WrongType`] if it is not an Ed25519 key.
pub fn signing_key(key: &PrivateKey) -> Result<SigningKey> {
    bytes(key.key_type(), key.secret(), KeyType::Ed25519, SIGNS).map(SigningKey::from_bytes)
}

/// Converts a public key to a key whose signatures are trusted.
///
/// # Errors
/// [`Error::WrongType`] if it is not an Ed25519 key, [`Error::Unfit`] if it is a weak one.
pub fn verifying_key(key: &PublicKey) -> Result<VerifyingKey> {
    let bytes = bytes(key.key_type(), key.as_bytes(), KeyType::Ed25519, SIGNS)?;
    VerifyingKey::from_bytes(bytes).map_err(unfit)
}

/// Converts a public key to a recipient, who can open a file.
///
/// # Errors
/// [`Error::WrongType`] if it is not an X25519 key, [`Error::Unfit`] if it is a weak one.
pub fn recipient(key: &PublicKey) -> Result<Recipient> {
    let bytes = bytes(key.key_type(), key.as_bytes(), KeyType::X25519, "files are encrypted for")?;
    Recipient::from_bytes(bytes).map_err(unfit)
}

/// Converts a private key to an identity, which opens files.
///
/// # Errors
/// [`Error::WrongType`] if it is not an X25519 key.
pub fn identity(key: &PrivateKey) -> Result<Identity> {
    bytes(key.key_type(), key.secret(), KeyType::X25519, "encrypted files are opened with")
        .map(Identity::from_bytes)
}

const SIGNS: &str = "signatures inside APR2 files are of";

fn bytes<'a>(
    found: KeyType,
    bytes: &'a [u8],
    wanted: KeyType,
    purpose: &'static str,
) -> Result<&'a [u8; 32]> {
    let bytes = bytes.try_into().ok().filter(|_| found == wanted);
    bytes.ok_or(Error::WrongType { purpose, wanted, found })
}

/// Returns the error for a weak key, which anybody could use.
fn unfit(error: InvalidKey) -> Error {
    Error::Unfit { why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_each_type_are_for_one_purpose() {
        let key = |key_type| PrivateKey::from_bytes(key_type, &[7; 32]).unwrap();
        let (signs, opens) = (key(KeyType::Ed25519), key(KeyType::X25519));
        assert!(signing_key(&signs).is_ok() && verifying_key(signs.public()).is_ok());
        assert!(identity(&opens).is_ok() && recipient(opens.public()).is_ok());
        let refused = [
            signing_key(&opens).err(),
            verifying_key(opens.public()).err(),
            identity(&signs).err(),
            recipient(signs.public()).err(),
        ];
        for error in refused {
            let Some(Error::WrongType { wanted, found, .. }) = error else { panic!("{error:?}") };
            assert_ne!(wanted, found);
        }
    }
}
