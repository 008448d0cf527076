//! Errors of signing and verifying.

use std::io;
use std::path::PathBuf;

use modelfmt_keys::KeyId;

/// Why a model could not be signed, or why its signature is not valid. Files that differ from what was signed
/// are not an error: [`Verified`](crate::Verified) reports them.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The signature cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The signature exists already.
    #[error("{}: exists already", path.display())]
    Exists {
        /// The signature's file.
        path: PathBuf,
    },
    /// There is no signature.
    #[error("{}: there is no signature", path.display())]
    Missing {
        /// The path at which it was expected.
        path: PathBuf,
    },
    /// A part of the model cannot be signed.
    #[error("{}: {why}", path.display())]
    Unsignable {
        /// The part.
        path: PathBuf,
        /// The reason, and what you can do.
        why: &'static str,
    },
    /// A file was modified while it was hashed.
    #[error("{}: was changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The file of the signature is not a bundle that this crate can read.
    #[error("{}: {fault}", path.display())]
    Bundle {
        /// The signature's file.
        path: PathBuf,
        /// What is wrong with the file.
        fault: Fault,
    },
    /// The signature names a key that is not one of the trusted keys.
    #[error("{}: is signed by the key {}, which is not one of the named keys", path.display(), hint)]
    UntrustedKey {
        /// The signature's file.
        path: PathBuf,
        /// The key id that the signature names, which proves nothing.
        hint: String,
    },
    /// The signature was not made by any of the trusted keys, or the signed statement has been changed.
    #[error("{}: the signature is not by {}, or its statement has been changed", path.display(), keys(ids))]
    BadSignature {
        /// The signature's file.
        path: PathBuf,
        /// The keys that were tried.
        ids: Vec<KeyId>,
    },
    /// None of the keys is of a type that can make or check such a signature.
    #[error(
        "a signature beside a file or folder (OpenSSF Model Signing) is by a key of P-256, P-384 or P-521, and {0}"
    )]
    WrongKey(String),
    /// An operation with a key failed.
    #[error(transparent)]
    Key(#[from] modelfmt_keys::Error),
    /// The progress callback asked to stop.
    #[error("stopped on request")]
    Stopped,
}

modelfmt_core::author::debug_as_sentence!(Error);

/// The rules that a bundle or a statement can break.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file is larger than the limit.
    #[error("has {0} bytes, and the limit is {1}")]
    TooLarge(u64, u64),
    /// The text is not JSON, or a member is missing or of another type.
    #[error("is no signature that can be read: {0}")]
    Json(String),
    /// A member has an unknown value: it is another kind of bundle, or an unknown version.
    #[error("{what} is {found:?}, not {expected:?}")]
    Unknown {
        /// The name of the member.
        what: &'static str,
        /// The value of the member.
        found: String,
        /// The value that this crate supports.
        expected: &'static str,
    },
    /// The bundle was signed with a certificate instead of a key.
    #[error("is signed with a certificate, not with a key; `model_signing verify` checks it")]
    Certificate,
    /// The number of signatures or of subjects is not one.
    #[error("has {found} {what}, not one")]
    NotOne {
        /// `signatures` or `subjects`.
        what: &'static str,
        /// The number that was found.
        found: usize,
    },
    /// A member is not Base64.
    #[error("{0} is no Base64")]
    Base64(&'static str),
    /// The root digest does not match the digests of the listed files.
    #[error("the list of files does not match the digest over it")]
    Root,
    /// A name leads out of the folder, or occurs twice.
    #[error("the name {name:?} {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A digest has the wrong length, or its algorithm differs from the one that the statement names.
    #[error("the digest of {0:?} is not what its algorithm gives")]
    Digest(String),
    /// The ranges of a file leave gaps, overlap, or differ in size from what the statement says.
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
