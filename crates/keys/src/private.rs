//! Private keys.

use std::fmt;
use std::path::Path;

use pkcs8::der::Decode as _;
use pkcs8::{LineEnding, PrivateKeyInfoRef, SecretDocument};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::{KeyType, PublicKey, algorithm, file};

/// A private key. It is wiped when it is dropped, and `Debug` shows no part of it.
#[derive(Clone)]
pub struct PrivateKey {
    key_type: KeyType,
    /// The seed of Ed25519, the private key of X25519, or the number of a NIST curve.
    secret: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

impl PrivateKey {
    /// Generates a new key.
    ///
    /// # Errors
    /// [`Error::Random`] if the system cannot provide random bytes, [`Error::NotEnabled`] if the type is not compiled in.
    #[cfg(feature = "random")]
    pub fn generate(key_type: KeyType) -> Result<Self> {
        let mut secret = Zeroizing::new(vec![0; key_type.secret_len()]);
        loop {
            crate::random(&mut secret)?;
            if key_type == KeyType::P521
                && let Some(first) = secret.first_mut()
            {
                *first &= 1; // 521 bits of 528
            }
            // A number beyond the order of a NIST curve is discarded, so that all keys are equally likely. On
            // average this happens about every second time for P-521, and once in 2^32 times for P-256.
            match Self::from_bytes(key_type, &secret) {
                Err(Error::Malformed { .. }) => {}
                done => return done,
            }
        }
    }

    /// Makes a key from its bytes: the seed of Ed25519 (RFC 8032), the private key of X25519, or the
    /// big-endian number of a NIST curve.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the number of bytes is wrong, or the number is not a key of the curve; [`Error::NotEnabled`] if
    /// the type is not compiled in.
    pub fn from_bytes(key_type: KeyType, secret: &[u8]) -> Result<Self> {
        let public = PublicKey::known(key_type, algorithm::public(key_type, secret)?)?;
        Ok(Self { key_type, secret: Zeroizing::new(secret.to_vec()), public })
    }

    /// Reads a private key in PEM: PKCS#8 (`PRIVATE KEY`), or OpenSSL's older form (`EC PRIVATE KEY`).
    ///
    /// # Errors
    /// An error that says what the text is instead, if it is not a private key.
    pub fn from_pem(pem: &str) -> Result<Self> {
        match file::label(pem)? {
            "PRIVATE KEY" | "EC PRIVATE KEY" => {}
            "PUBLIC KEY" => return Err(Error::IsPublic),
            "ENCRYPTED PRIVATE KEY" => return Err(Error::Encrypted),
            _ => return Err(Error::WrongLabel),
        }
        let (label, der) = SecretDocument::from_pem(pem).map_err(|_| Error::Damaged)?;
        if label == "PRIVATE KEY" {
            Self::from_pkcs8(der.as_bytes())
        } else {
            Self::from_sec1(der.as_bytes())
        }
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self> {
        let info = PrivateKeyInfoRef::from_der(der).map_err(|_| Error::Damaged)?;
        let key_type = algorithm::key_type(&info.algorithm)?;
        Self::from_bytes(key_type, &algorithm::unwrap(key_type, info.private_key.as_bytes())?)
    }

    /// Parses a key of a NIST curve in SEC 1 form, which names its curve itself.
    fn from_sec1(der: &[u8]) -> Result<Self> {
        let nist = KeyType::ALL.into_iter().filter(|key_type| key_type.is_nist());
        let mut why = Error::Damaged;
        for key_type in nist {
            // Secrets have a different length for each curve, so at most one curve fits.
            match algorithm::unwrap(key_type, der) {
                Ok(secret) => return Self::from_bytes(key_type, &secret),
                Err(error @ Error::NotEnabled { .. }) => why = error,
                Err(_) => {}
            }
        }
        Err(why)
    }

    /// Reads a private key from a file.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read, [`Error::File`] if it does not hold a usable key.
    pub fn read(path: &Path) -> Result<Self> {
        file::read(path, Self::from_pem)
    }

    /// Writes the key as PKCS#8 in PEM, which OpenSSL and others read.
    ///
    /// # Errors
    /// None in practice for a key that this crate has made.
    pub fn to_pem(&self) -> Result<Zeroizing<String>> {
        let document = algorithm::to_pkcs8(self.key_type, &self.secret)?;
        let pem = document.to_pem("PRIVATE KEY", LineEnding::LF);
        pem.map_err(|_| Error::Malformed { key_type: self.key_type })
    }

    /// Returns the type of the key.
    pub const fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// Returns the secret bytes, for uses other than signatures. They are wiped with the key; wipe your
    /// copies too.
    #[must_use]
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Returns the matching public key.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message. A signature is 64 bytes for Ed25519, and DER for the NIST curves.
    ///
    /// # Errors
    /// [`Error::WrongUse`] for an X25519 key.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        algorithm::sign(self.key_type, &self.secret, message)
    }

    /// Computes the secret that this key and `their` key agree on. Both must be X25519 keys. The bits of the
    /// secret are not uniform: derive keys from it.
    ///
    /// # Errors
    /// [`Error::WrongUse`] if one key is of another type, [`Error::Weak`] if everybody would know the result.
    #[cfg(feature = "x25519")]
    pub fn agree(&self, their: &PublicKey) -> Result<Zeroizing<[u8; 32]>> {
        for key_type in [self.key_type, their.key_type()] {
            if key_type != KeyType::X25519 {
                return Err(Error::WrongUse { key_type, what: "agree on a secret" });
            }
        }
        crate::x25519::agree(&self.secret, their.as_bytes())
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey")
            .field("key_type", &self.key_type)
            .field("public", &self.public.id())
            .finish_non_exhaustive()
    }
}
