//! Why a model could not be signed, or its signature could not be checked.

use std::io;
use std::path::PathBuf;

use modelfmt_keys::KeyId;

/// Why a model could not be signed, or why its signature does not count. Files that differ from what was signed are not an error:
/// [`Verified`](crate::Verified) reports them.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The signature cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is a signature already.
    #[error("{}: exists already", path.display())]
    Exists {
        /// The signature's file.
        path: PathBuf,
    },
    /// There is no signature.
    #[error("{}: there is no signature", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A part of the model that cannot be signed.
    #[error("{}: {why}", path.display())]
    Unsignable {
        /// The part.
        path: PathBuf,
        /// Why not, and what helps.
        why: &'static str,
    },
    /// A file was written to while it was hashed.
    #[error("{}: was changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The signature's file is no bundle that this crate knows.
    #[error("{}: {fault}", path.display())]
    Bundle {
        /// The signature's file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Fault,
    },
    /// No key that was named made the signature.
    #[error("{}: is signed by the key {}, which is not one of the named keys", path.display(), hint)]
    UntrustedKey {
        /// The signature's file.
        path: PathBuf,
        /// The id that the signature gives, which proves nothing.
        hint: String,
    },
    /// The signature is not by the named keys, or what it signs has changed.
    #[error("{}: the signature is not by {}, or its statement has been changed", path.display(), keys(ids))]
    BadSignature {
        /// The signature's file.
        path: PathBuf,
        /// The keys that were tried.
        ids: Vec<KeyId>,
    },
    /// None of the keys can make or check such a signature.
    #[error(
        "a signature beside a file or folder (OpenSSF Model Signing) is by a key of P-256, P-384 or P-521, and {0}"
    )]
    WrongKey(String),
    /// A key did not do its work.
    #[error(transparent)]
    Key(#[from] modelfmt_keys::Error),
    /// The progress callback asked to stop.
    #[error("stopped on request")]
    Stopped,
}

modelfmt_core::author::debug_as_sentence!(Error);

/// What is wrong with a bundle or a statement.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It is larger than the limit.
    #[error("has {0} bytes, and the limit is {1}")]
    TooLarge(u64, u64),
    /// It is not JSON, or a member is missing or of another kind.
    #[error("is no signature that can be read: {0}")]
    Json(String),
    /// Another kind of bundle, or an unknown version.
    #[error("{what} is {found:?}, not {expected:?}")]
    Unknown {
        /// Which member.
        what: &'static str,
        /// What it says.
        found: String,
        /// What is read.
        expected: &'static str,
    },
    /// It was signed with a certificate.
    #[error("is signed with a certificate, not with a key; `model_signing verify` checks it")]
    Certificate,
    /// There is not exactly one signature or subject.
    #[error("has {found} {what}, not one")]
    NotOne {
        /// `signatures` or `subjects`.
        what: &'static str,
        /// How many.
        found: usize,
    },
    /// A member is not Base64.
    #[error("{0} is no Base64")]
    Base64(&'static str),
    /// The root digest does not match the resources.
    #[error("the list of files does not match the digest over it")]
    Root,
    /// A name that no signer writes: outside the folder, or the same twice.
    #[error("the name {name:?} {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A digest of another length, or for another algorithm than the statement's.
    #[error("the digest of {0:?} is not what its algorithm gives")]
    Digest(String),
    /// Ranges of a file that leave gaps, overlap or have another size than the statement says.
    #[error("the ranges of {0:?} do not cover it one after the other")]
    Shards(String),
}

modelfmt_core::author::debug_as_sentence!(Fault);

fn keys(ids: &[KeyId]) -> String {
    match ids {
        [one] => format!("the key {one}"),
        _ => "any of the keys that were named".to_owned(),
    }
}

/// A result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
