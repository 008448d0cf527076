//! A file to fetch, and what is known about it before a server is asked.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::context::Context;
use super::error::{FetchError, Result};
use super::part::{self, open_locked};
use super::report::{CheckedBy, Fetched};
use crate::url::Location;

/// A file to fetch.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The servers that have it.
    pub(super) places: Vec<Location>,
    pub(super) target: PathBuf,
    pub(super) pin: Option<[u8; 32]>,
    /// Its SHA-256, if a list of files states it.
    pub(super) sha256: Option<[u8; 32]>,
    /// What is known about the file if it arrived before, for the same set, and nobody has changed it since.
    /// It may then be replaced.
    pub(super) previous: Option<Previous>,
    /// Whether the target is in a folder within which no link is followed.
    pub(super) is_in_folder: bool,
}

/// A file that arrived before, while other files of its set are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Previous {
    pub(super) size: u64,
    /// The hash of what identified its version; empty if the server stated nothing.
    pub(super) tag: String,
    /// What the system states about the complete file. If this has changed, the file belongs to somebody
    /// else.
    pub(super) stamp: String,
}

/// Returns what changes whenever a file is changed: its length, and the times when its bytes and its metadata
/// were last changed.
pub(super) fn stamp_of(path: &Path) -> Result<String> {
    let found = std::fs::symlink_metadata(path).map_err(FetchError::local(path))?;
    let since = |time: std::time::SystemTime| time.duration_since(std::time::UNIX_EPOCH).ok();
    let changed = found.modified().ok().and_then(since).unwrap_or_default().as_nanos();
    #[cfg(unix)]
    let changed = {
        use std::os::unix::fs::MetadataExt as _;
        format!("{changed}-{}.{:09}", found.ctime(), found.ctime_nsec())
    };
    Ok(format!("{}-{changed}", found.len()))
}

/// Notes that the remains of an earlier fetch of a file cannot be used, if there are any.
pub(super) fn note_left(cx: &Context<'_>, wanted: &Wanted, key: Option<&str>, size: u64) {
    let left = part::of_another(&wanted.target, key.unwrap_or_default(), size);
    if left > 0 {
        cx.note(format!(
            "{}: an earlier fetch left {left} bytes, but of another version or another URL, so the fetch starts from the beginning",
            wanted.target.display()
        ));
    }
}

impl Wanted {
    /// Checks whether an existing file at the target may be replaced.
    pub(super) const fn is_ours(&self) -> bool {
        self.previous.is_some()
    }

    /// Returns a report with the target and the size, without a check.
    pub(super) fn report(&self, size: u64) -> Fetched {
        Fetched { path: self.target.clone(), size, ..Fetched::default() }
    }

    pub(super) fn url(&self) -> String {
        self.places.first().map(Location::to_string).unwrap_or_default()
    }

    /// Opens the file at the target: to repair it or, if it cannot be written, to check whether it is
    /// correct.
    pub(super) fn open(&self) -> Result<File> {
        let opened = match open_locked(&self.target, false, !self.is_in_folder) {
            Err(error)
                if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                File::open(&self.target)
            }
            opened => opened,
        };
        opened.map_err(FetchError::local(&self.target))
    }
}

/// Returns the result for a file that is already correct.
pub(super) fn already_correct(
    cx: &Context<'_>,
    wanted: &Wanted,
    size: u64,
    checked_by: CheckedBy,
) -> Result<(Fetched, Option<String>)> {
    let local = || FetchError::local(&wanted.target);
    // A fetch that was stopped between its last two steps has left its list.
    let (_, log) = part::paths(&wanted.target);
    part::remove(&log).map_err(local())?;
    cx.add_to_total(size);
    cx.count_written(size)?;
    Ok((Fetched { kept: size, checked_by: Some(checked_by), ..wanted.report(size) }, None))
}

/// Formats a hash as hexadecimal digits.
pub(super) fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the form in which a list stores the identity of a version.
pub(super) fn hash_of(tag: &str) -> String {
    hex(&blake3_tree::hash(tag.as_bytes()))
}

/// Opens the file at a path, to check it.
pub(super) fn opened(path: &Path) -> Result<File> {
    File::open(path).map_err(FetchError::local(path))
}
