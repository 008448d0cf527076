//! What can go wrong, with the file in which it did.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use modelfmt_core::write::BoxError;
use modelfmt_core::{AnyError, Shortened};

use crate::convert::Unsupported;
use crate::format::Format;
use crate::model::Model;

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
    /// The bytes of a file are not what the file itself says of them. Nothing has been written.
    #[error("{}: {error}; nothing was written. --no-verify (no_verify) takes values as they are", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is damaged, and where.
        #[source]
        error: Box<AnyError>,
    },
    /// A file is of no format that is known.
    #[error("{}: not a model file: {hint}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What it looks like, or what was expected.
        hint: &'static str,
    },
    /// No model stands for a folder.
    #[error("{}: {why}", path.display())]
    NoModel {
        /// The folder.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The format is known, but this build cannot read it.
    #[error("{}: is of the format {format}, but this build has the feature `{feature}` of modelfmt switched off", path.display())]
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
    /// A conversion was asked for something that makes no sense, whatever the model.
    #[error("{option}: {why}")]
    Usage {
        /// The program's option; the field of [`ConvertOptions`](crate::ConvertOptions) has the same name.
        option: &'static str,
        /// Why, and what does.
        why: String,
    },
    /// The target of a conversion cannot hold all that the model has.
    #[error("{}: does not fit {target}: {}", path.display(), Summary(unsupported))]
    Unsupported {
        /// The model.
        path: PathBuf,
        /// The format that was asked for.
        target: Format,
        /// What does not fit, all of it.
        unsupported: Vec<Unsupported>,
    },
    /// Values of a tensor cannot be had in the type that was asked for.
    #[error("{}: tensor {:?}: {source}", path.display(), Shortened(tensor))]
    Values {
        /// The model.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Why, and at which element.
        source: BoxError,
    },
    /// No tensor has a name that was asked for by patterns.
    #[error("{}: {option} leaves none of its {tensors} tensors; `modelfmt inspect` lists their names", path.display())]
    NothingSelected {
        /// The model.
        path: PathBuf,
        /// The program's option or argument.
        option: String,
        /// The number of tensors that the model has.
        tensors: usize,
    },
    /// A file that is to be written exists.
    #[error("{}: exists already; --force (Overwrite::Replace) replaces it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
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
    /// A pattern of an option matches no tensor.
    #[error("{}: {option} {pattern}: no tensor has such a name; `modelfmt inspect` lists them", path.display())]
    NoMatch {
        /// The file.
        path: PathBuf,
        /// The program's option.
        option: &'static str,
        /// What was to be matched.
        pattern: String,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {:?}?", Shortened(name)))
}

/// What does not fit, in one line: one item in full, of several their number and the options that would help.
struct Summary<'a>(&'a [Unsupported]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [item] = self.0 {
            return item.fmt(f);
        }
        write!(f, "{} items", self.0.len())?;
        // The items say what an option does to them; here its name is enough.
        let option = |help| str::split(help, ", which").next().unwrap_or(help);
        let options: BTreeSet<&str> = self.0.iter().filter_map(|m| m.help.as_deref().map(option)).collect();
        for (number, option) in options.into_iter().enumerate() {
            write!(f, "{}{option}", if number == 0 { "; what helps: " } else { ", " })?;
        }
        Ok(())
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether the mistake lies in what was asked for, and no file has to do with it.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage { .. })
    }

    pub(crate) fn nothing_selected(model: &Model, option: impl Into<String>) -> Self {
        let (path, tensors) = (model.path().to_owned(), model.tensor_count());
        Self::NothingSelected { path, option: option.into(), tensors }
    }

    /// An error of a format crate in a file, which is named once: here.
    pub(crate) fn file(path: PathBuf, error: AnyError) -> Self {
        let error = error.outside(&path.to_string_lossy());
        Self::File { path, error }
    }

    /// Names the file in which an error of a format crate occurred.
    #[allow(dead_code, reason = "with no format switched on there are no such errors")]
    pub(crate) fn in_file<F>(path: &Path) -> impl FnOnce(modelfmt_core::Error<F>) -> Self
    where
        F: fmt::Display + fmt::Debug + Send + Sync + 'static,
    {
        let path = path.to_owned();
        move |error| Self::file(path, error.erase())
    }
}
