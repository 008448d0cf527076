//! Errors of reading and using keys.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::KeyType;

/// Why a key could not be read, written or used. No error contains anything of the key.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file holds no key that can be used.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is there already, and keys are never replaced.
    #[error("{}: exists, and a key is never replaced; name another file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is larger than any key.
    #[error("has more than {max} bytes: this is no key")]
    TooLong {
        /// The most bytes that are read.
        max: u64,
    },
    /// Not PEM.
    #[error("is no key in PEM, the text that begins with -----BEGIN")]
    NotPem,
    /// A private key where a public key is needed.
    #[error("is a private key; name the public key that belongs to it")]
    IsPrivate,
    /// A public key where a private key is needed.
    #[error("is a public key; name the private key that belongs to it")]
    IsPublic,
    /// A private key under a passphrase.
    #[error("is a private key under a passphrase, which is not supported; `openssl pkey` writes it without")]
    Encrypted,
    /// PEM of something that is not a key.
    #[error("is PEM, but neither PRIVATE KEY nor PUBLIC KEY")]
    WrongLabel,
    /// A key of a type that is not known.
    #[error("is a key of type {oid}, which is none of {}", KeyType::NAMES)]
    UnknownType {
        /// The object identifier of the algorithm or curve.
        oid: String,
    },
    /// A key of a type that is not compiled in.
    #[error("is a key of type {key_type}; this program is built without the feature `{}`", key_type.feature())]
    NotEnabled {
        /// The key's type.
        key_type: KeyType,
    },
    /// The key's bytes are not a key of its type.
    #[error("is no valid {key_type} key")]
    Malformed {
        /// The key's type.
        key_type: KeyType,
    },
    /// The PEM text does not contain a key.
    #[error("is damaged: the PEM text holds no key")]
    Damaged,
    /// A weak key: anybody could make signatures for it, or everybody knows its shared secrets.
    #[error("is a weak {key_type} key, which anybody can use")]
    Weak {
        /// The key's type.
        key_type: KeyType,
    },
    /// A key of this type cannot do what was asked.
    #[error("a {key_type} key cannot {what}")]
    WrongUse {
        /// The key's type.
        key_type: KeyType,
        /// What was asked of it.
        what: &'static str,
    },
    /// A key of another type than is needed.
    #[error("{purpose} {wanted} keys, and this key is {found}")]
    WrongType {
        /// What keys of the right type do.
        purpose: &'static str,
        /// The type that the key must be of.
        wanted: KeyType,
        /// The type that it is of.
        found: KeyType,
    },
    /// A key that the format it is for does not take.
    #[error("{why}")]
    Unfit {
        /// Why not.
        why: String,
    },
    /// The signature was not made by this key over this message.
    #[error("the signature is not by this key, or what it signs has changed")]
    BadSignature,
    /// The system has no randomness.
    #[error("the system gives no random bytes")]
    Random,
}

/// The text of `Display` and the cause, which is what Rust prints of an error that `main` returns.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::error::Error::source(self) {
            Some(cause) => write!(f, "{self}: {cause}"),
            None => write!(f, "{self}"),
        }
    }
}

/// A result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
