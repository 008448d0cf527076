//! What an edit says that another one was in the way of.

use std::io;
use std::path::{Path, PathBuf};

/// Another edit, or another program, was in between: what an edit was prepared for is no longer there, and it has changed nothing.
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
    /// Whether this is why something could not be written.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

pub(super) fn overtaken(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, Overtaken { path: path.to_owned() })
}

/// The name of a journal or mark was free, and is not any more: where the file system has no locks.
pub(super) fn or_overtaken(error: io::Error, path: &Path) -> io::Error {
    if error.kind() == io::ErrorKind::AlreadyExists { overtaken(path) } else { error }
}

pub(super) fn busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process is changing it; wait until it is done")
}
