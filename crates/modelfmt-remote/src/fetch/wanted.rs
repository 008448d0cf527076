//! A file that is to be fetched, and what is known of it before a server is asked.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::context::Context;
use super::error::{FetchError, Result};
use super::part::{self, open_locked};
use super::report::{CheckedBy, Fetched};
use crate::url::Location;

/// A file that is to be fetched.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The servers that have it.
    pub(super) places: Vec<Location>,
    pub(super) target: PathBuf,
    pub(super) pin: Option<[u8; 32]>,
    /// Its SHA-256, as a list of files states it.
    pub(super) sha256: Option<[u8; 32]>,
    /// If the file came before, for the same set, and nobody has changed it since: what is known of it. It may be replaced.
    pub(super) before: Option<Before>,
    /// Whether the target is in a folder in which no link is followed.
    pub(super) is_in_folder: bool,
}

/// A file that came before, while others of its set are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) size: u64,
    /// What identified its version, hashed; empty if the server did not say.
    pub(super) tag: String,
    /// What the system says of the file when it is complete. If that has changed, the file is another's.
    pub(super) stamp: String,
}

/// What changes when a file is changed: its length, and when its bytes and its record were changed last.
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

/// Says that what an earlier fetch has left of a file cannot be used, if it has left something.
pub(super) fn note_left(cx: &Context<'_>, wanted: &Wanted, key: Option<&str>, size: u64) {
    let left = part::of_another(&wanted.target, key.unwrap_or_default(), size);
    if left > 0 {
        cx.note(format!(
            "{}: an earlier fetch had left {left} bytes of it; they are of another version or another URL, so it begins anew",
            wanted.target.display()
        ));
    }
}

impl Wanted {
    /// Whether a file at the target may be replaced.
    pub(super) const fn is_ours(&self) -> bool {
        self.before.is_some()
    }

    /// The target, without anything that it is checked by.
    pub(super) fn report(&self, size: u64) -> Fetched {
        Fetched { path: self.target.clone(), size, ..Fetched::default() }
    }

    pub(super) fn url(&self) -> String {
        self.places.first().map(Location::to_string).unwrap_or_default()
    }

    /// Opens the file at the target: to be repaired, or if it cannot be written, to see whether it is right.
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

/// The result for a file that is right as it is.
pub(super) fn kept(
    cx: &Context<'_>,
    wanted: &Wanted,
    size: u64,
    checked_by: CheckedBy,
) -> Result<(Fetched, Option<String>)> {
    let local = || FetchError::local(&wanted.target);
    // A fetch that was stopped between its last two steps has left its list.
    let (_, log) = part::paths(&wanted.target);
    part::remove(&log).map_err(local())?;
    cx.expect(size);
    cx.came(size)?;
    Ok((Fetched { kept: size, checked_by: Some(checked_by), ..wanted.report(size) }, None))
}

/// A hash as it is written.
pub(super) fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What stands for the identity of a version in a list.
pub(super) fn hash_of(tag: &str) -> String {
    hex(&blake3_tree::hash(tag.as_bytes()))
}

/// The file at a path, for a check.
pub(super) fn opened(path: &Path) -> Result<File> {
    File::open(path).map_err(FetchError::local(path))
}
