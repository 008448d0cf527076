//! The error of an edit that another one came before.

use std::io;
use std::path::{Path, PathBuf};

/// Another edit or program changed the file after this edit was prepared. This edit has changed nothing.
#[derive(thiserror::Error)]
#[error(
    "{} has been changed since the edit was prepared, by another edit or another program. This edit has changed nothing, and the \
     file is as the other one left it; edit it again",
    path.display()
)]
pub struct Overtaken {
    /// The file that was changed.
    pub path: PathBuf,
}

tensor_core::debug_as_sentence!(Overtaken);

impl Overtaken {
    /// This error within an I/O error, if that is the cause.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

pub(super) fn overtaken(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, Overtaken { path: path.to_owned() })
}

/// On a file system without locks: the name of a journal or mark was free, but another edit has taken it since.
pub(super) fn or_overtaken(error: io::Error, path: &Path) -> io::Error {
    if error.kind() == io::ErrorKind::AlreadyExists { overtaken(path) } else { error }
}

pub(super) fn busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process is changing it; wait until it is done")
}
