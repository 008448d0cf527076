//! The errors of edits, and the files that they concern.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::source::{FileSource, FileVersion};
use modelfmt_core::{AnyError, Execution};
use modelfmt_write::edit::Overtaken;

use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::change::EditFault;

/// Turns the error of a format into one for the file at `path`.
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

/// The error for a file at `path` that could not be changed.
pub(crate) fn unchanged(path: &Path, source: io::Error) -> Error {
    match Overtaken::of(&source) {
        Some(Overtaken { path, .. }) => Error::Overtaken { path: path.clone() },
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

    /// Passes on a result that was found before anything is written. If it is an error, and a file has changed meanwhile, returns
    /// that as the cause.
    pub(super) fn unless_overtaken<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            if error.is_usage() || matches!(error, Error::Interrupted { .. } | Error::Exists { .. }) {
                return error;
            }
            let other =
                self.0.iter().find(|(path, before)| FileVersion::of(path).ok().as_ref() != Some(before));
            other.map_or(error, |(path, _)| Error::Overtaken { path: path.clone() })
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

/// Opens the file as it is, for several readers.
pub(crate) fn opened(path: &Path) -> Result<Arc<FileSource>> {
    let source = FileSource::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    Ok(Arc::new(source))
}

/// The version of a file that an edit is prepared for. Call this before reading the file.
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
        assert!(matches!(versions.unless_overtaken(broken()), Err(Error::File { .. })));
        std::fs::write(&path, "another").unwrap();
        assert!(matches!(versions.unless_overtaken(broken()), Err(Error::Overtaken { .. })));
        assert!(versions.unless_overtaken(usage()).unwrap_err().is_usage());
        assert!(versions.unless_overtaken(Ok(())).is_ok());
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(versions.unless_overtaken(broken()), Err(Error::Overtaken { .. })));
    }
}
