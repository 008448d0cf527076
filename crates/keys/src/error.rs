//! Errors of reading and using keys.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::KeyType;

/// Why a key could not be read, written or used. No error contains any part of the key.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not hold a usable key.
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
        /// The cause.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file exists, and keys are never replaced.
    #[error("{}: exists, and a key is never replaced; name another file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is larger than any key.
    #[error("has more than {max} bytes: this is no key")]
    TooLong {
        /// The largest number of bytes that is read.
        max: u64,
    },
    /// The text is not PEM.
    #[error("is no key in PEM, the text that begins with -----BEGIN")]
    NotPem,
    /// The key is private, but a public key is needed.
    #[error("is a private key; name the public key that belongs to it")]
    IsPrivate,
    /// The key is public, but a private key is needed.
    #[error("is a public key; name the private key that belongs to it")]
    IsPublic,
    /// The private key is encrypted with a passphrase.
    #[error("is a private key under a passphrase, which is not supported; `openssl pkey` writes it without")]
    Encrypted,
    /// The PEM text is not labelled as a key.
    #[error("is PEM, but neither PRIVATE KEY nor PUBLIC KEY")]
    WrongLabel,
    /// The type of the key is unknown.
    #[error("is a key of type {oid}, which is none of {}", KeyType::NAMES)]
    UnknownType {
        /// The object identifier of the algorithm or curve.
        oid: String,
    },
    /// The type of the key is not compiled in.
    #[error("is a key of type {key_type}; this program is built without the feature `{}`", key_type.feature())]
    NotEnabled {
        /// The type of the key.
        key_type: KeyType,
    },
    /// The key's bytes are not a key of its type.
    #[error("is no valid {key_type} key")]
    Malformed {
        /// The type of the key.
        key_type: KeyType,
    },
    /// The PEM text does not contain a key.
    #[error("is damaged: the PEM text holds no key")]
    Damaged,
    /// The key is weak: anyone could make signatures for it, or everyone knows its shared secrets.
    #[error("is a weak {key_type} key, which anybody can use")]
    Weak {
        /// The type of the key.
        key_type: KeyType,
    },
    /// Keys of this type do not support the operation.
    #[error("a {key_type} key cannot {what}")]
    WrongUse {
        /// The type of the key.
        key_type: KeyType,
        /// The operation.
        what: &'static str,
    },
    /// The key has another type than the one that is needed.
    #[error("{purpose} {wanted} keys, and this key is {found}")]
    WrongType {
        /// What keys of the right type do.
        purpose: &'static str,
        /// The type that is needed.
        wanted: KeyType,
        /// The type of the key.
        found: KeyType,
    },
    /// The format that the key is for does not accept it.
    #[error("{why}")]
    Unfit {
        /// The reason.
        why: String,
    },
    /// The signature was not made by this key over this message.
    #[error("the signature is not by this key, or what it signs has changed")]
    BadSignature,
    /// The system cannot provide random bytes.
    #[error("the system gives no random bytes")]
    Random,
}

/// Prints the text of `Display` and the cause, because Rust prints the `Debug` form of an error that `main` returns.
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
