//! The pages of one object.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{CacheKey, DiskCache, Known, PAGE, PageLock};

/// The pages of one object, in one state.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    cache: DiskCache,
    key: CacheKey,
    size: u64,
    /// The number of further bytes of the object that may be cached. Without this limit, a pass over a file
    /// that is larger than the cache would evict everything else, and then the beginning of the file itself,
    /// so that not even a second pass would benefit.
    left: Arc<AtomicU64>,
}

/// How much of a range is in the cache.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The cache had this many bytes from the beginning of the range.
    Found(usize),
    /// The pages with these numbers are missing. The first of them contains the beginning of the range.
    Missing(Range<u64>),
}

impl Pages {
    /// Returns the pages of the object at `url`; `None` if its tag does not identify its bytes.
    pub(crate) fn new(cache: &DiskCache, server: &str, url: &str, known: &Known) -> Option<Self> {
        let key = CacheKey::tagged(server, url, &known.etag, known.len)?;
        let left = Arc::new(AtomicU64::new(cache.left_for(&key, known.len)));
        Some(Self { cache: cache.clone(), key, size: known.len, left })
    }

    /// Fills the beginning of `out` with the bytes at `offset`, as far as the cache has them.
    pub(crate) fn look(&self, offset: u64, out: &mut [u8]) -> Look {
        let end = offset.saturating_add(out.len() as u64);
        let mut done = 0usize;
        let mut at = offset;
        while at < end {
            let number = at / PAGE;
            let Some(page) = self.page(number) else { break };
            let within = usize::try_from(at % PAGE).unwrap_or(usize::MAX);
            let bytes = page.get(within..).unwrap_or_default();
            let rest = out.get_mut(done..).unwrap_or_default();
            let here = bytes.len().min(rest.len());
            if here == 0 {
                break;
            }
            if let (Some(to), Some(from)) = (rest.get_mut(..here), bytes.get(..here)) {
                to.copy_from_slice(from);
            }
            done += here;
            at += here as u64;
        }
        if done > 0 || at >= end {
            return Look::Found(done);
        }
        let (first, last) = (offset / PAGE, (end - 1) / PAGE);
        let missing = (first + 1..=last).find(|&number| self.has(number)).unwrap_or(last + 1);
        Look::Missing(first..missing)
    }

    fn page(&self, number: u64) -> Option<bytes::Bytes> {
        let page = self.cache.page(&self.key, number)?;
        let range = self.bytes_of(&(number..number + 1));
        if page.len() as u64 == range.end.saturating_sub(range.start) {
            return Some(page);
        }
        self.cache.forget(&self.key, number);
        None
    }

    /// Checks whether a page exists.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.cache.has(&self.key, number)
    }

    /// Returns the range of bytes that pages cover.
    pub(crate) fn bytes_of(&self, pages: &Range<u64>) -> Range<u64> {
        let at = |number: u64| number.saturating_mul(PAGE).min(self.size);
        at(pages.start)..at(pages.end)
    }

    /// Checks whether more of the object may be cached.
    pub(crate) fn keeps(&self) -> bool {
        self.left.load(Ordering::Relaxed) >= PAGE
    }

    /// Caches the whole pages within `bytes`, which begin at `offset`, as far as more may be cached.
    pub(crate) fn keep(&self, offset: u64, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len() as u64);
        let first = offset.div_ceil(PAGE);
        let after = if end >= self.size { self.size.div_ceil(PAGE) } else { end / PAGE };
        // Write the first page last: a process that sees it sees all of them, and a process that does not see
        // it waits for the lock.
        for number in (first..after).rev() {
            let range = self.bytes_of(&(number..number + 1));
            let index = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
            let Some(page) = bytes.get(index(range.start)..index(range.end)) else { continue };
            let less = |left: u64| left.checked_sub(page.len() as u64);
            if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
                self.cache.keep(&self.key, number, page);
            }
        }
    }

    /// Locks the first of these pages, waiting up to `limit`, and as many of the next pages as are neither
    /// locked nor in the cache. Returns the end of the pages to fetch; if the first cannot be locked, these
    /// are all of them. A process that holds a lock never waits for another lock.
    pub(crate) async fn lock(&self, missing: &Range<u64>, limit: Duration) -> (u64, Vec<PageLock>) {
        let (cache, key) = (&self.cache, &self.key);
        let Some(first) = cache.lock(key, missing.start, limit).await else {
            return (missing.end, Vec::new());
        };
        let mut locks = vec![first];
        for number in missing.start + 1..missing.end {
            let Some(lock) = cache.try_lock(key, number).filter(|_| !cache.has(key, number)) else {
                return (number, locks);
            };
            locks.push(lock);
        }
        (missing.end, locks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_made_of_pages() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(folder.path(), 1 << 30);
        let size = 3 * PAGE + 10;
        let known = Known { etag: "\"e\"".to_owned(), len: size };
        let pages = Pages::new(&cache, "", "u", &known).unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(usize::try_from(size).unwrap()).collect();
        let mut out = vec![0; bytes.len()];
        assert_eq!(pages.look(0, &mut out), Look::Missing(0..4));
        assert_eq!(pages.look(size, &mut []), Look::Found(0));
        // Only whole pages are kept, and the last page, which may be shorter.
        let page = usize::try_from(PAGE).unwrap();
        pages.keep(1, &bytes[1..2 * page + 5]);
        pages.keep(3 * PAGE - 7, &bytes[3 * page - 7..]);
        assert_eq!([0, 1, 2, 3].map(|number| pages.has(number)), [false, true, false, true]);
        assert_eq!(pages.look(5, &mut out[5..]), Look::Missing(0..1));
        assert_eq!(pages.look(PAGE + 3, &mut out[page + 3..]), Look::Found(page - 3));
        assert!(out[page + 3..2 * page] == bytes[page + 3..2 * page]);
        assert_eq!(pages.look(2 * PAGE, &mut out[2 * page..]), Look::Missing(2..3));
        assert_eq!(pages.look(size - 2, &mut out[3 * page + 8..]), Look::Found(2));
        assert_eq!(out[3 * page + 8..], bytes[3 * page + 8..]);
        pages.keep(0, &bytes);
        assert_eq!(pages.look(1, &mut out[1..]), Look::Found(bytes.len() - 1));
        assert!(out[1..] == bytes[1..]);
        // A page of another length is invalid.
        cache.keep(&pages.key, 1, b"short");
        assert_eq!(pages.look(PAGE, &mut out[page..]), Look::Missing(1..2));
        assert!(!pages.has(1));
    }
}
