//! Errors of fetching.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error as RemoteError;

/// An error of fetching.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// A server could not be read.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A local file could not be read or written.
    #[error("{}: it cannot be read or written", .path.display())]
    Local {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file at the target was refused, and is unchanged.
    #[error("{}: {why}", .path.display())]
    Refused {
        /// The target.
        path: PathBuf,
        /// The reason, and what you can do.
        why: Box<str>,
    },
    /// A list of files has a name that could lead out of the target folder.
    #[error("{list}: it names the file {name:?}: {why}; nothing was fetched")]
    Name {
        /// The list: an index, or a repository.
        list: Box<str>,
        /// The name.
        name: Box<str>,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// No server has the right bytes.
    #[error("{url}: {why}")]
    Wrong {
        /// The file.
        url: Box<str>,
        /// What is wrong.
        why: Box<str>,
    },
    /// A policy refuses a URL.
    #[error("{0}")]
    Policy(Box<str>),
    /// The options contradict each other, or do not fit what is fetched.
    #[error("{0}")]
    Usage(Box<str>),
    /// The progress callback stopped the fetch. What arrived is kept, and the same call continues the fetch.
    #[error("it was stopped; the same call goes on")]
    Stopped,
}

modelfmt_core::author::debug_as_sentence!(FetchError);

/// A result of this module.
pub(super) type Result<T> = std::result::Result<T, FetchError>;

impl FetchError {
    /// Makes the error for a local file.
    pub(super) fn local(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Local { path, source }
    }

    pub(super) fn refused(path: &Path, why: &str) -> Self {
        Self::Refused { path: path.to_owned(), why: why.into() }
    }

    /// Returns a stable name for the kind of error, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Remote(_) => "cannot-open",
            Self::Local { .. } => "cannot-write",
            Self::Policy(_) => "policy",
            Self::Refused { .. } => "exists",
            Self::Name { .. } => "bad-name",
            Self::Wrong { .. } => "damaged",
            Self::Usage(_) => "usage",
            Self::Stopped => "stopped",
        }
    }
}
