//! The error of an edit when another edit has changed the file first.

use std::io;
use std::path::{Path, PathBuf};

/// Another edit or program changed the file after this edit was prepared. This edit has changed nothing.
#[derive(thiserror::Error)]
#[error(
    "{} has been changed since the edit was prepared, by another edit or another program. This edit has changed nothing, and the \
     other change was kept; run the edit again",
    path.display()
)]
pub struct EditConflict {
    /// The file that was changed.
    pub path: PathBuf,
}

tensor_core::debug_as_sentence!(EditConflict);

impl EditConflict {
    /// Returns the `EditConflict` inside an I/O error, if it has one.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

pub(super) fn conflict(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, EditConflict { path: path.to_owned() })
}

/// Converts the error that occurs if another edit has taken the name of a journal or mark, which was free
/// before. This happens on file systems without locks.
pub(super) fn or_conflict(error: io::Error, path: &Path) -> io::Error {
    if error.kind() == io::ErrorKind::AlreadyExists { conflict(path) } else { error }
}

pub(super) fn busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process is changing it; wait until it is done")
}
