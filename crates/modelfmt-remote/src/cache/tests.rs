use super::*;

fn cache(size: u64) -> (tempfile::TempDir, DiskCache, CacheKey) {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::new(folder.path().join("a/b"), size);
    let key = CacheKey::tagged("", "s3://b/k", "\"e\"", 7).unwrap();
    (folder, cache, key)
}

/// Waits for a lock, as long as it takes.
fn lock(cache: &DiskCache, key: &CacheKey, number: u64) -> Option<PageLock> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(cache.lock(key, number, Duration::MAX))
}

fn aged(cache: &DiskCache, key: &CacheKey, number: u64, seconds: u64) {
    let file = File::options().write(true).open(page::path(&cache.pages(), key, number)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

#[test]
fn pages_come_back_as_they_were_kept() {
    let (_folder, cache, key) = cache(1 << 20);
    assert!(cache.page(&key, 0).is_none() && !cache.has(&key, 0));
    cache.keep(&key, 0, b"abc");
    cache.keep(&key, 1, b"");
    assert_eq!((&*cache.page(&key, 0).unwrap(), &*cache.page(&key, 1).unwrap()), (&b"abc"[..], &b""[..]));
    for (url, etag, len) in [("s3://b/l", "\"e\"", 7), ("s3://b/k", "\"f\"", 7), ("s3://b/k", "\"e\"", 8)] {
        let other = CacheKey::tagged("", url, etag, len).unwrap();
        assert!(cache.page(&other, 0).is_none());
    }
    cache.forget(&key, 0);
    assert!(cache.page(&key, 0).is_none());
}

#[test]
fn what_names_no_state_has_no_key() {
    assert!(CacheKey::tagged("", "u", "", 1).is_none() && CacheKey::tagged("", "u", "W/\"1\"", 1).is_none());
    assert_ne!(CacheKey::tagged("a", "b", "\"1\"", 1), CacheKey::tagged("", "ab", "\"1\"", 1));
}

#[test]
fn a_page_that_is_damaged_is_none_and_goes() {
    let (_folder, cache, key) = cache(1 << 20);
    for damage in [0usize, 31, 32, 34] {
        cache.keep(&key, 3, b"abc");
        let path = page::path(&cache.pages(), &key, 3);
        let mut bytes = fs::read(&path).unwrap();
        bytes[damage] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(cache.page(&key, 3).is_none() && !path.exists(), "{damage}");
    }
    for len in 0..35 {
        cache.keep(&key, 3, b"abc");
        let path = page::path(&cache.pages(), &key, 3);
        File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
        assert!(cache.page(&key, 3).is_none(), "{len}");
    }
}

#[test]
fn the_longest_unused_pages_go_and_the_bound_holds() {
    const LEN: usize = 1000;
    let (_folder, cache, key) = cache(10 * LEN as u64);
    for number in 0..10 {
        cache.keep(&key, number, &[7; LEN]);
        if cache.has(&key, number) {
            aged(&cache, &key, number, 100_000 - 1000 * number);
        }
    }
    let oldest = (0..10).find(|number| cache.has(&key, *number)).unwrap();
    assert!(cache.page(&key, oldest).is_some()); // used, and so young again
    let other = CacheKey::url("", "x");
    for number in 0..3 {
        cache.keep(&other, number, &[8; LEN]);
    }
    let kept: Vec<u64> = (0..10).filter(|number| cache.has(&key, *number)).collect();
    assert!(kept.contains(&oldest) && !kept.contains(&(oldest + 1)), "{kept:?}");
    assert!((0..3).all(|number| cache.has(&other, number)));
    assert!(kept.len() + 3 <= 10, "{kept:?}");
    // A page that is larger than the whole cache is not kept.
    cache.keep(&other, 9, &[0; 20 * LEN]);
    assert!(!cache.has(&other, 9));
}

#[test]
fn what_a_killed_writer_leaves_goes_in_time() {
    let (_folder, cache, key) = cache(10);
    cache.keep(&key, 0, b"x");
    let folder = page::path(&cache.pages(), &key, 0).parent().unwrap().to_owned();
    let (old, new) = (folder.join(".new-0.page-1"), folder.join(".new-0.page-2"));
    for path in [&old, &new] {
        fs::write(path, "half").unwrap();
    }
    let file = File::options().write(true).open(&old).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    evict::shrink(&cache.0.folder, 0).unwrap();
    assert!(!old.exists() && new.exists() && !cache.has(&key, 0));
}

#[test]
fn one_fetches_and_the_others_wait() {
    let (_folder, cache, key) = cache(1 << 20);
    let fetched = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let _lock = lock(&cache, &key, 5).unwrap();
                if cache.page(&key, 5).is_none() {
                    fetched.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                    cache.keep(&key, 5, b"page");
                }
            });
        }
    });
    assert_eq!(fetched.into_inner(), 1);
    let left = fs::read_dir(page::path(&cache.pages(), &key, 5).parent().unwrap()).unwrap();
    assert_eq!(left.count(), 1); // no lock stays
}

#[test]
fn a_lock_is_held_by_one_at_a_time() {
    const TURNS: u64 = 300;
    let (_folder, cache, key) = cache(1 << 20);
    let (holders, turns) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (cache, key, holders, turns) = (&cache, &key, &holders, &turns);
            scope.spawn(move || {
                for _ in 0..TURNS {
                    let lock = if number % 2 == 0 { lock(cache, key, 1) } else { cache.try_lock(key, 1) };
                    let Some(lock) = lock else { continue };
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    turns.fetch_add(1, Ordering::SeqCst);
                    std::thread::yield_now();
                    holders.fetch_sub(1, Ordering::SeqCst);
                    drop(lock);
                }
            });
        }
    });
    assert!(turns.into_inner() >= 3 * TURNS);
}

#[test]
fn urls_are_known_by_what_they_had_last() {
    let (_folder, cache, _) = cache(1 << 20);
    let url = CacheKey::url("", "https://h/x");
    assert_eq!(cache.known(&url), None);
    for (etag, len) in [("\"a\"", 1u64), ("\"b c\"", u64::MAX)] {
        let known = Known { etag: etag.to_owned(), len };
        cache.note(&url, &known);
        assert_eq!(cache.known(&url), Some(known));
    }
    for hostile in ["", "1", "1 ", "x \"e\"", "1 \"e\"\r\nHost: other", "-1 \"e\"", "1 \"\u{e9}\""] {
        fs::write(cache.known_path(&url), hostile).unwrap();
        assert_eq!(cache.known(&url), None, "{hostile:?}");
    }
}

#[test]
fn a_cache_without_rights_or_room_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "no folder").unwrap();
    let (cache, key) = (DiskCache::new(&file, 1 << 20), CacheKey::url("", "p"));
    cache.keep(&key, 0, b"abc");
    cache.note(&key, &Known { etag: "e".to_owned(), len: 1 });
    assert!(cache.page(&key, 0).is_none() && lock(&cache, &key, 0).is_none() && cache.known(&key).is_none());
}

#[test]
fn the_users_folder_is_where_the_environment_says() {
    let of = |pairs: &'static [(&str, &str)]| {
        let var = |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
        DiskCache::for_user(var).map(|cache| cache.folder().to_owned())
    };
    assert_eq!(of(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]), Some("/c/modelfmt".into()));
    assert_eq!(of(&[("XDG_CACHE_HOME", "c"), ("HOME", "/h")]), Some("/h/.cache/modelfmt".into()));
    assert_eq!(of(&[("HOME", "h")]), None);
}
