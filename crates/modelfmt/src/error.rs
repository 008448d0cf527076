//! What can go wrong, with the file in which it did.

use std::io;
use std::path::{Path, PathBuf};

use tensor_core::{AnyError, Shortened};

use crate::format::Format;

/// An error of this crate. `Display` is one line that names the file; `source()` carries causes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened.
    #[error("{}: cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is broken, or could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        #[source]
        error: AnyError,
    },
    /// A file is of no format that is known.
    #[error("{}: not a model file: {hint}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What it looks like, or what was expected.
        hint: &'static str,
    },
    /// The format is known, but this build cannot read it.
    #[error("{}: is an {format} file, but this build has the feature `{feature}` of modelfmt switched off", path.display())]
    NotEnabled {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Format,
        /// The feature to switch on.
        feature: &'static str,
    },
    /// A tensor does not fit the file that it is to be extracted to.
    #[error("{}: tensor {:?} cannot be extracted: {why}", path.display(), Shortened(name))]
    NotExtractable {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Why, and what to do.
        why: String,
    },
    /// Text could not be printed.
    #[error("cannot print: {source}")]
    Output {
        /// Why.
        source: io::Error,
    },
    /// There is no tensor of that name.
    #[error("{}: no tensor is named {:?}{}", path.display(), Shortened(name), suggestion(nearest.as_deref()))]
    NoSuchTensor {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        name: String,
        /// A tensor with a similar name.
        nearest: Option<String>,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {:?}?", Shortened(name)))
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Names the file in which an error of a format crate occurred.
    pub(crate) fn in_file<F>(path: &Path) -> impl FnOnce(tensor_core::Error<F>) -> Self
    where
        F: std::fmt::Display + std::fmt::Debug + Send + Sync + 'static,
    {
        let path = path.to_owned();
        move |error| Self::File { path, error: error.erase() }
    }
}
