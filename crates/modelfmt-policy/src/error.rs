//! Why a policy cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a policy cannot be used.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The policy.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file has an unknown key, a wrong value, or the name of a key that cannot be read.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The policy.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

modelfmt_core::author::debug_as_sentence!(Error);

/// The result of reading a policy.
pub type Result<T> = std::result::Result<T, Error>;
