//! The errors of edits, and the files that these are made for.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use modelfmt_core::source::{FileSource, FileVersion};
use modelfmt_core::{AnyError, Execution};

use crate::error::{Error, Result};
use crate::formats::change::EditFault;

/// What a format says of the file at `path`.
pub(crate) fn failed(path: &Path, fault: impl Into<EditFault>) -> Error {
    let path = path.to_owned();
    match fault.into() {
        EditFault::Read(error) => Error::file(path, error),
        EditFault::Write(error) => Error::Refused { path, error },
        EditFault::NoKey(key, keys) => {
            let near = keys.into_iter().map(|other| (strsim::damerau_levenshtein(&key, &other), other));
            let nearest = near.filter(|(distance, other)| distance * 2 <= other.chars().count()).min();
            Error::NoSuchKey { path, key, nearest: nearest.map(|(_, other)| other) }
        }
    }
}

/// Writes something for the edit of the file at `path`, and stops when the caller wants that.
pub(super) fn interruptible<T>(
    path: &Path,
    work: &Execution<'_>,
    write: impl FnOnce(&dyn Fn(u64) -> bool) -> io::Result<T>,
) -> Result<T> {
    let is_cancelled = Cell::new(false);
    let go_on = |nbytes| {
        is_cancelled.set(work.advance(nbytes).is_break());
        !is_cancelled.get()
    };
    write(&go_on).map_err(|source| match source.kind() {
        _ if is_cancelled.get() => Error::file(path.to_owned(), AnyError::Cancelled),
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => Error::Write { path: path.to_owned(), source },
    })
}

/// The file as it is, to be read by several at once.
pub(crate) fn opened(path: &Path) -> Result<Arc<FileSource>> {
    let source = FileSource::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    Ok(Arc::new(source))
}

/// The version of a file that an edit is prepared for: asked before the file is read.
pub(crate) fn version(path: &Path) -> Result<FileVersion> {
    FileVersion::of(path).map_err(|source| Error::Open { path: path.to_owned(), source })
}
