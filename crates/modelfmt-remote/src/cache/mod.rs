//! The disk cache: pages of objects that were fetched before, and notes about URLs.
//!
//! ```text
//! FOLDER/v1/pages/KEY/NUMBER.page   256 KiB of an object, behind their hash
//!                    /NUMBER.lock   while somebody fetches it
//!          /known/KEY               the entity tag and the length that an object had last
//! ```
//!
//! A page is written under another name and then renamed, so a page that exists is complete. A page that was damaged in a crash
//! is detected by its hash. The cache never makes a read fail: without space or permissions, nothing is cached.

mod evict;
mod key;
mod object;
mod page;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

pub(crate) use key::{CacheKey, Known};
pub(crate) use object::{Look, Pages};
pub(crate) use page::PAGE;

/// The default size of a cache, in bytes of pages.
pub const DEFAULT_CACHE_SIZE: u64 = 10 << 30;
/// The time during which the use of a page is not recorded again.
const NOTED: Duration = Duration::from_secs(3600);
/// The longest pause between two tries to lock a file.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A folder of pages that several threads and processes share.
///
/// The pages take at most a given number of bytes. Each process that uses the folder checks this after it has
/// written 1/64 of that size, so the folder may be larger by that much for each process. The least recently
/// used pages are removed first; times of use are recorded to within an hour.
#[derive(Clone, Debug)]
pub struct DiskCache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    size: u64,
    /// The number of bytes that may be written before the size of the folder is checked again.
    left: AtomicU64,
}

impl DiskCache {
    /// Makes a cache of at most `size` bytes in `folder`. The folder is created when something is first
    /// cached.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, size: u64) -> Self {
        Self(Arc::new(Inner { folder: folder.into().join("v1"), size, left: AtomicU64::new(0) }))
    }

    /// Makes the user's cache: at most 10 GiB in `$XDG_CACHE_HOME/modelfmt`, `%LOCALAPPDATA%\modelfmt` or
    /// `~/.cache/modelfmt`. `None` if the environment names none of these.
    #[must_use]
    pub fn for_user(var: impl Fn(&str) -> Option<String>) -> Option<Self> {
        // The XDG specification says to ignore a path that is not absolute.
        let absolute = |name: &str| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || Some(absolute("HOME")?.join(".cache"));
        let folder = absolute("XDG_CACHE_HOME").or_else(|| absolute("LOCALAPPDATA")).or_else(home)?;
        Some(Self::new(folder.join("modelfmt"), DEFAULT_CACHE_SIZE))
    }

    /// Returns the folder of the cache.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.folder.parent().unwrap_or(&self.0.folder)
    }

    /// Returns how many more bytes of an object of this length may be cached.
    fn left_for(&self, key: &CacheKey, len: u64) -> u64 {
        let most = self.0.size / 2;
        if len <= most {
            return u64::MAX;
        }
        // The object is long, so counting its pages takes little time compared with reading it.
        let folder = self.pages().join(key.to_string());
        let count = fs::read_dir(folder).map_or(0, |pages| pages.flatten().count() as u64);
        most.saturating_sub(count.saturating_mul(PAGE))
    }

    fn pages(&self) -> PathBuf {
        self.0.folder.join("pages")
    }

    /// Returns a page, if the cache has it and its hash matches.
    #[must_use]
    pub(crate) fn page(&self, key: &CacheKey, number: u64) -> Option<Bytes> {
        let path = page::path(&self.pages(), key, number);
        let mut file = File::open(&path).ok()?;
        let Some(bytes) = page::read(&mut file) else {
            let _ = fs::remove_file(&path); // it is of no use to anybody
            return None;
        };
        let age =
            file.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_none_or(|age| age > NOTED)
            && let Ok(file) = File::options().write(true).open(&path)
        {
            let _ = file.set_modified(SystemTime::now()); // then it may go too early
        }
        Some(bytes)
    }

    /// Checks whether a page exists. The page may be damaged.
    #[must_use]
    pub(crate) fn has(&self, key: &CacheKey, number: u64) -> bool {
        page::path(&self.pages(), key, number).exists()
    }

    /// Caches a page, if possible.
    pub(crate) fn keep(&self, key: &CacheKey, number: u64, bytes: &[u8]) {
        if self.0.size < bytes.len() as u64 || !self.make_room(bytes.len() as u64) {
            return;
        }
        let _ = page::write(&self.pages(), key, number, bytes);
    }

    /// Removes a page that turned out to be wrong.
    pub(crate) fn forget(&self, key: &CacheKey, number: u64) {
        let _ = fs::remove_file(page::path(&self.pages(), key, number));
    }

    /// Waits until no other thread or process is fetching a page, but not longer than `limit`, because the
    /// other process may be suspended. As long as the result exists, others wait. `None` if the wait was too
    /// long or locking is impossible; the same page may then be fetched twice.
    pub(crate) async fn lock(&self, key: &CacheKey, number: u64, limit: Duration) -> Option<PageLock> {
        wait_for_lock(&page::path(&self.pages(), key, number), limit).await
    }

    /// Does the same as [`lock`](Self::lock), but does not wait: returns `None` if the page is locked.
    #[must_use]
    pub(crate) fn try_lock(&self, key: &CacheKey, number: u64) -> Option<PageLock> {
        lock_now(&page::path(&self.pages(), key, number)).ok()
    }

    /// Waits until no other thread or process is opening the object at a URL about which nothing is known,
    /// but not longer than `limit`. As long as the result exists, others wait.
    pub(crate) async fn lock_known(&self, url: &CacheKey, limit: Duration) -> Option<PageLock> {
        wait_for_lock(&self.known_path(url), limit).await
    }

    /// Returns the known tag and length of the object at a URL.
    #[must_use]
    pub(crate) fn known(&self, url: &CacheKey) -> Option<Known> {
        Known::parse(&fs::read(self.known_path(url)).ok()?)
    }

    /// Records the tag and length of the object at a URL.
    pub(crate) fn note(&self, url: &CacheKey, known: &Known) {
        if self.known(url).as_ref() != Some(known) {
            let _ = page::write_whole(&self.known_path(url), &[known.to_text().as_bytes()]);
        }
    }

    /// Removes the recorded tag and length of the object at a URL.
    pub(crate) fn forget_known(&self, url: &CacheKey) {
        let _ = fs::remove_file(self.known_path(url));
    }

    fn known_path(&self, url: &CacheKey) -> PathBuf {
        self.0.folder.join("known").join(format!("{url}"))
    }

    /// Checks whether there is room for a page. Removes the least recently used pages if needed.
    fn make_room(&self, len: u64) -> bool {
        let left = &self.0.left;
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(len)).is_ok() {
            return true;
        }
        // Between two checks, each process may write this much.
        let step = (self.0.size / 64).max(len);
        match evict::shrink(&self.0.folder, self.0.size.saturating_sub(step)) {
            Ok(()) => {
                left.store(step.saturating_sub(len), Ordering::Relaxed);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true, // another process makes room
            Err(_) => false,
        }
    }
}

/// Waits for the lock on a file of the cache, but not longer than `limit`. The system could wait for it, but
/// it would not stop if the reader is cancelled.
async fn wait_for_lock(path: &Path, limit: Duration) -> Option<PageLock> {
    let (begun, mut pause) = (Instant::now(), Duration::from_millis(1));
    loop {
        match lock_now(path) {
            Ok(lock) => return Some(lock),
            Err(TryLockError::WouldBlock) if begun.elapsed() < limit => tokio::time::sleep(pause).await,
            Err(_) => return None,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Locks a file of the cache, unless somebody else has locked it.
fn lock_now(path: &Path) -> Result<PageLock, TryLockError> {
    /// No process loses the race this often.
    const TRIES: usize = 1000;
    let path = path.with_extension("lock");
    for _ in 0..TRIES {
        let open = |path: &Path| File::options().create(true).append(true).open(path);
        let file = page::in_folder(&path, open).map_err(TryLockError::Error)?;
        file.try_lock()?;
        // The lock file may have been removed since it was opened, and another lock file may have its name.
        if is_at(&file, &path) {
            return Ok(PageLock { path, _file: file });
        }
    }
    Err(TryLockError::WouldBlock)
}

/// Checks whether a path still leads to an open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    fs::metadata(path).ok().map(identity) == file.metadata().ok().map(identity)
}

/// Returns true: on other systems, an open file keeps its name.
#[cfg(not(unix))]
const fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// The lock on a page that is being fetched, or on an object that is being opened.
#[derive(Debug)]
#[must_use = "others fetch the same as soon as this is dropped"]
pub(crate) struct PageLock {
    path: PathBuf,
    _file: File,
}

impl Drop for PageLock {
    fn drop(&mut self) {
        // Another process may have the file open, and checks when it gets the lock whether the file still has
        // its name.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
