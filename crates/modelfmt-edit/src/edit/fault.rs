//! The errors of edits, and the files that they concern.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::source::{FileSource, FileVersion};
use modelfmt_core::{AnyError, Execution};
use modelfmt_write::edit::EditConflict;

use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::change::EditFault;

/// Turns the error of a format into an error about the file at `path`.
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

/// Returns the error for a file at `path` that could not be changed.
pub(crate) fn unchanged(path: &Path, source: io::Error) -> Error {
    match EditConflict::of(&source) {
        Some(EditConflict { path, .. }) => Error::EditConflict { path: path.clone() },
        None => Error::Write { path: path.to_owned(), source },
    }
}

/// The versions of the files that an edit was prepared for.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions(Vec<(PathBuf, FileVersion)>);

impl Versions {
    pub(super) fn add(&mut self, path: PathBuf, version: FileVersion) {
        self.0.push((path, version));
    }

    /// Returns a result that was found before anything was written. If it is an error, and one of the files
    /// has changed since the edit was prepared, the error says that instead.
    pub(super) fn or_conflict<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            if error.is_usage() || matches!(error, Error::Interrupted { .. } | Error::Exists { .. }) {
                return error;
            }
            let other =
                self.0.iter().find(|(path, before)| FileVersion::of(path).ok().as_ref() != Some(before));
            other.map_or(error, |(path, _)| Error::EditConflict { path: path.clone() })
        })
    }
}

/// Calls `write` for an edit of the file at `path`, and stops if the progress callback says so.
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
        _ => unchanged(path, source),
    })
}

/// Opens the present file so that several readers can share it.
pub(crate) fn opened(path: &Path) -> Result<Arc<FileSource>> {
    let source = FileSource::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    Ok(Arc::new(source))
}

/// Returns the version of a file that an edit is prepared for. Call this before reading the file.
pub(crate) fn version(path: &Path) -> Result<FileVersion> {
    FileVersion::of(path).map_err(|source| Error::Open { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_another_one_by_now_is_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        std::fs::write(&path, "one").unwrap();
        let mut versions = Versions::default();
        versions.add(path.clone(), version(&path).unwrap());
        let broken = || Err::<(), _>(Error::file(path.clone(), AnyError::Changed));
        let usage = || Err::<(), _>(Error::usage(modelfmt_rules::wording::Choice::Output, "it is wrong"));
        assert!(matches!(versions.or_conflict(broken()), Err(Error::File { .. })));
        std::fs::write(&path, "another").unwrap();
        assert!(matches!(versions.or_conflict(broken()), Err(Error::EditConflict { .. })));
        assert!(versions.or_conflict(usage()).unwrap_err().is_usage());
        assert!(versions.or_conflict(Ok(())).is_ok());
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(versions.or_conflict(broken()), Err(Error::EditConflict { .. })));
    }
}
