//! Lists the files of a model. For a folder, these are all regular files below it, sorted by name.

use std::fs::{self, DirEntry, Metadata};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::names::Ignored;

/// A file that exists in a model.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The name of the file in the statement.
    pub(crate) name: String,
    pub(crate) stamp: Stamp,
}

/// The size and modification time of a file. A write changes at least one of them, unless someone sets the
/// time back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) len: u64,
    /// The modification time in nanoseconds since 1970; `None` if the system does not provide it.
    pub(crate) modified: Option<i128>,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { len: metadata.len(), modified: metadata.modified().ok().map(nanoseconds) }
    }
}

/// Returns the nanoseconds since 1970.
pub(crate) fn nanoseconds(time: SystemTime) -> i128 {
    let signed = |duration: std::time::Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -signed(before.duration()), signed)
}

/// Lists the files below `folder`, sorted by their names.
pub(crate) fn folder(folder: &Path, ignored: &Ignored, allow_symlinks: bool) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(prefix) = folders.pop() {
        let path = path_of(folder, &prefix);
        let failed = |source| Error::Read { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = name_of(&prefix, &entry)?;
            if ignored.has(&name) {
                continue;
            }
            match look(&entry, allow_symlinks)? {
                Some(stamp) => found.push(Found { name, stamp }),
                None => folders.push(name),
            }
        }
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Returns a single file, under the given name in the statement.
pub(crate) fn file(path: &Path, name: &str, allow_symlinks: bool) -> Result<Found> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let metadata = fs::symlink_metadata(path).map_err(failed)?;
    let metadata = if metadata.is_symlink() {
        refuse_link(path, allow_symlinks)?;
        fs::metadata(path).map_err(failed)?
    } else {
        metadata
    };
    if !metadata.is_file() {
        return Err(Error::Unsignable { path: path.to_owned(), why: "is no regular file" });
    }
    Ok(Found { name: name.to_owned(), stamp: Stamp::of(&metadata) })
}

/// Returns the path of a file in a folder.
pub(crate) fn path_of(folder: &Path, name: &str) -> PathBuf {
    if name.is_empty() { folder.to_owned() } else { folder.join(name) }
}

fn name_of(prefix: &str, entry: &DirEntry) -> Result<String> {
    let Ok(name) = entry.file_name().into_string() else {
        return Err(Error::Unsignable { path: entry.path(), why: "has a name that is no UTF-8; rename it" });
    };
    Ok(if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
}

/// Returns the stamp of a file, or `None` for a folder.
fn look(entry: &DirEntry, allow_symlinks: bool) -> Result<Option<Stamp>> {
    let path = entry.path();
    let failed = |source| Error::Read { path: path.clone(), source };
    let metadata = entry.metadata().map_err(failed)?;
    let is_link = metadata.is_symlink();
    if is_link {
        refuse_link(&path, allow_symlinks)?;
    }
    let metadata = if is_link { fs::metadata(&path).map_err(failed)? } else { metadata };
    if metadata.is_file() {
        return Ok(Some(Stamp::of(&metadata)));
    }
    let why = if metadata.is_dir() && is_link {
        "is a symbolic link to a folder, which is never followed"
    } else if metadata.is_dir() {
        return Ok(None);
    } else {
        "is neither file nor folder"
    };
    Err(Error::Unsignable { path, why })
}

fn refuse_link(path: &Path, allow_symlinks: bool) -> Result<()> {
    let why = "is a symbolic link, which is followed only where you allow it";
    if allow_symlinks { Ok(()) } else { Err(Error::Unsignable { path: path.to_owned(), why }) }
}
