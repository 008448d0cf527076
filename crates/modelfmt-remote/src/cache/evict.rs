//! Keeps the cache folder within its size limit.

use std::fs::{self, DirEntry, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::page::{HASH_LEN, UNFINISHED, in_folder};

/// If an unfinished file has not changed for this long, its writer no longer exists.
const ABANDONED: Duration = Duration::from_secs(3600);

struct Page {
    used: SystemTime,
    len: u64,
    path: PathBuf,
}

/// Removes the least recently used pages until the remaining pages have at most `most` bytes, and removes the
/// files of writers that were killed.
///
/// # Errors
/// An error of kind `WouldBlock` if another process is doing this now.
pub(super) fn shrink(folder: &Path, most: u64) -> io::Result<()> {
    let lock =
        in_folder(&folder.join("evict.lock"), |path| File::options().create(true).append(true).open(path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut pages = Vec::new();
    let mut total = 0u64;
    let objects = fs::read_dir(folder.join("pages")).into_iter().flatten().flatten();
    for object in objects {
        let files = fs::read_dir(object.path()).into_iter().flatten().flatten();
        let before = pages.len();
        pages.extend(files.filter_map(|file| page(&file)));
        total = pages.iter().skip(before).map(|page| page.len).fold(total, u64::saturating_add);
    }
    if total <= most {
        return Ok(());
    }
    pages.sort_unstable_by_key(|page| page.used);
    for page in pages {
        if total <= most {
            break;
        }
        if fs::remove_file(&page.path).is_ok() {
            total = total.saturating_sub(page.len);
        }
        if let Some(object) = page.path.parent() {
            let _ = fs::remove_dir(object); // if that was the last of it
        }
    }
    Ok(())
}

/// Returns the page in a file, if it is one. Leftover files are removed here.
fn page(file: &DirEntry) -> Option<Page> {
    let (metadata, path) = (file.metadata().ok()?, file.path());
    let used = metadata.modified().ok()?;
    if path.extension().is_some_and(|extension| extension == "page") {
        return Some(Page { used, len: metadata.len().saturating_sub(HASH_LEN), path });
    }
    let is_unfinished = file.file_name().to_string_lossy().starts_with(UNFINISHED);
    let is_old = used.elapsed().is_ok_and(|age| age > ABANDONED);
    if is_unfinished && is_old {
        let _ = fs::remove_file(&path);
    }
    None
}
