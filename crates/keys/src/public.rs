//! Public keys.

use std::fmt;
use std::path::Path;

use pkcs8::der::Decode as _;
use pkcs8::der::asn1::{AnyRef, BitStringRef};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use pkcs8::{Document, LineEnding};

use crate::error::{Error, Result};
use crate::key_type::EC;
use crate::{KeyId, KeyType, algorithm, file};

/// A valid public key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PublicKey {
    key_type: KeyType,
    bytes: Vec<u8>,
    pem: String,
    id: KeyId,
}

impl PublicKey {
    /// Makes a key from its bytes: 32 for Ed25519 and X25519, the SEC 1 point for a NIST curve.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bytes are not a key of this type, [`Error::Weak`] if anyone could use the key,
    /// [`Error::NotEnabled`] if the type is not compiled in.
    pub fn from_bytes(key_type: KeyType, bytes: &[u8]) -> Result<Self> {
        Self::known(key_type, algorithm::point(key_type, bytes)?)
    }

    /// Makes a key whose bytes have been checked.
    pub(crate) fn known(key_type: KeyType, bytes: Vec<u8>) -> Result<Self> {
        let pem = encode(key_type, &bytes).ok_or(Error::Malformed { key_type })?;
        let id = KeyId(algorithm::id(key_type, &bytes, &pem));
        Ok(Self { key_type, bytes, pem, id })
    }

    /// Reads a public key in PEM (`PUBLIC KEY`).
    ///
    /// # Errors
    /// An error that says what the text is instead, if it is not a public key.
    pub fn from_pem(pem: &str) -> Result<Self> {
        match file::label(pem)? {
            "PUBLIC KEY" => {}
            label if label.ends_with("PRIVATE KEY") => return Err(Error::IsPrivate),
            _ => return Err(Error::WrongLabel),
        }
        let (_, der) = Document::from_pem(pem).map_err(|_| Error::Damaged)?;
        let info = SubjectPublicKeyInfoRef::from_der(der.as_bytes()).map_err(|_| Error::Damaged)?;
        let key_type = algorithm::key_type(&info.algorithm)?;
        let bytes = info.subject_public_key.as_bytes().ok_or(Error::Malformed { key_type })?;
        Self::from_bytes(key_type, bytes)
    }

    /// Reads a public key from a file.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read, [`Error::File`] if it does not hold a usable key.
    pub fn read(path: &Path) -> Result<Self> {
        file::read(path, Self::from_pem)
    }

    /// Writes the key as SubjectPublicKeyInfo in PEM, in the same text as OpenSSL: lines of 64 columns, each
    /// with a line feed.
    pub fn to_pem(&self) -> String {
        self.pem.clone()
    }

    /// Returns the type of the key.
    pub const fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// Returns the key's bytes: 32 for Ed25519 and X25519, the uncompressed point for a NIST curve.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the id of the key.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Checks that this key made the signature over this message.
    ///
    /// # Errors
    /// [`Error::BadSignature`] if it did not, [`Error::WrongUse`] for an X25519 key.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<()> {
        algorithm::verify(self.key_type, &self.bytes, message, signature)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("key_type", &self.key_type).field("id", &self.id).finish()
    }
}

fn encode(key_type: KeyType, bytes: &[u8]) -> Option<String> {
    let oid = key_type.oid();
    let algorithm = if key_type.is_nist() {
        AlgorithmIdentifierRef { oid: EC, parameters: Some(AnyRef::from(&oid)) }
    } else {
        AlgorithmIdentifierRef { oid, parameters: None }
    };
    let subject_public_key = BitStringRef::from_bytes(bytes).ok()?;
    let document = Document::encode_msg(&SubjectPublicKeyInfoRef { algorithm, subject_public_key }).ok()?;
    document.to_pem("PUBLIC KEY", LineEnding::LF).ok()
}
