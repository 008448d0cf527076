//! Bytes that were read before are not requested again, unless the file has changed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code"
)]

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use modelfmt_core::Source as _;
use modelfmt_remote::blocking::{File, Store};
use modelfmt_remote::{DiskCache, Environment, Options};
use tempfile::TempDir;
use testkit::servers::{Nginx, S3};

const LEN: usize = 3_000_000;
/// The URL and the cache folder, for a test that runs as a separate process.
const CHILD: &str = "MODELFMT_TEST_CACHE";

struct Site {
    nginx: Nginx,
    files: TempDir,
    cache: TempDir,
    _work: TempDir,
}

impl Site {
    fn new() -> Self {
        let [files, cache, work] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let nginx = Nginx::start(files.path(), work.path());
        let site = Self { nginx, files, cache, _work: work };
        site.write(&bytes());
        site
    }

    fn write(&self, bytes: &[u8]) {
        std::fs::write(self.files.path().join("m.bin"), bytes).unwrap();
    }

    fn url(&self) -> String {
        format!("{}/m.bin", self.nginx.endpoint())
    }

    fn store(&self, options: Options) -> Store {
        store(self.cache.path(), options)
    }
}

fn bytes() -> Vec<u8> {
    (0..=250).cycle().take(LEN).collect()
}

fn store(cache: &Path, options: Options) -> Store {
    Store::new(
        options.cache(DiskCache::new(cache, 1 << 30)).environment(Environment::from_vars([("", ""); 0])),
    )
    .unwrap()
}

fn open(store: &Store, url: &str) -> File {
    store.open(&url.parse().unwrap()).unwrap()
}

fn read(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    file.read_into(offset, &mut out).unwrap();
    out
}

#[test]
fn a_second_open_is_one_small_request_and_none_where_a_hash_is_known() {
    let (site, bytes) = (Site::new(), bytes());
    let first = site.store(Options::new());
    let file = open(&first, &site.url());
    assert!(
        read(&file, 100, 1000) == bytes[100..1100]
            && read(&file, 1 << 20, 1000) == bytes[1 << 20..(1 << 20) + 1000]
    );
    // The beginning, and the next page, which has 256 KiB.
    assert_eq!((first.traffic().requests, first.traffic().bytes), (2, (512 << 10) + (256 << 10)));

    let second = site.store(Options::new());
    let file = open(&second, &site.url());
    assert_eq!(file.len(), LEN as u64);
    assert!(
        read(&file, 0, 1000) == bytes[..1000]
            && read(&file, 1 << 20, 5000) == bytes[1 << 20..(1 << 20) + 5000]
    );
    assert_eq!((second.traffic().requests, second.traffic().bytes), (1, 1));
    let last = site.nginx.requests(3).pop().unwrap();
    assert!(last.range == "bytes=0-0" && last.if_match.starts_with('"'), "{last:?}");
    assert!(read(&file, 0, LEN) == bytes);
    assert!(second.traffic().bytes <= LEN as u64);

    let third = site.store(Options::new().revalidate(false));
    assert!(read(&open(&third, &site.url()), 0, LEN) == bytes);
    assert_eq!(
        (third.traffic().requests, site.nginx.requests(0).len() as u64),
        (0, 2 + second.traffic().requests)
    );
}

#[test]
fn a_file_that_has_changed_is_read_anew() {
    let site = Site::new();
    read(&open(&site.store(Options::new()), &site.url()), 0, LEN);
    let new = vec![7; LEN + 1];
    site.write(&new);
    // The server is not asked, so nothing is noticed as long as no more bytes are requested.
    let trusting = site.store(Options::new().revalidate(false));
    assert!(read(&open(&trusting, &site.url()), 0, LEN) == bytes());
    let store = site.store(Options::new());
    let file = open(&store, &site.url());
    assert!(read(&file, 0, LEN + 1) == new);
    let again = site.store(Options::new().revalidate(false));
    assert!(read(&open(&again, &site.url()), 0, LEN + 1) == new && again.traffic().requests == 0);
}

#[test]
fn a_file_that_turns_out_to_have_changed_is_forgotten() {
    let site = Site::new();
    read(&open(&site.store(Options::new()), &site.url()), 0, 10);
    site.write(&[7; LEN + 1]);
    let trusting = || open(&site.store(Options::new().revalidate(false)), &site.url());
    let mut out = [0; 10];
    let error = trusting().read_into(LEN as u64 - 10, &mut out).unwrap_err();
    assert!(error.to_string().contains("has changed"), "{error}");
    assert_eq!(read(&trusting(), LEN as u64 - 10, 11), [7; 11]);
}

#[test]
fn what_is_damaged_on_the_disk_is_fetched_again() {
    let (site, bytes) = (Site::new(), bytes());
    read(&open(&site.store(Options::new()), &site.url()), 0, LEN);
    let pages = site.cache.path().join("v1/pages");
    let object = std::fs::read_dir(pages).unwrap().next().unwrap().unwrap().path();
    for page in std::fs::read_dir(object).unwrap().map(|page| page.unwrap().path()) {
        let mut damaged = std::fs::read(&page).unwrap();
        damaged[1000] ^= 1;
        std::fs::write(page, damaged).unwrap();
    }
    let store = site.store(Options::new());
    assert!(read(&open(&store, &site.url()), 0, LEN) == bytes);
    assert!(store.traffic().bytes > LEN as u64);
}

/// A page that cannot be read and cannot be removed, such as a page of another user, counts as missing. A
/// folder in its place has this effect for every user.
#[test]
fn a_page_that_cannot_be_read_is_fetched() {
    let (site, bytes) = (Site::new(), bytes());
    read(&open(&site.store(Options::new()), &site.url()), 0, LEN);
    let pages = site.cache.path().join("v1/pages");
    let object = std::fs::read_dir(pages).unwrap().next().unwrap().unwrap().path();
    for number in [0, 4, 5] {
        let page = object.join(format!("{number}.page"));
        std::fs::remove_file(&page).unwrap();
        std::fs::create_dir(page).unwrap();
    }
    let (done, waiting) = std::sync::mpsc::channel();
    let url = site.url();
    let store = site.store(Options::new());
    thread::spawn(move || done.send(read(&open(&store, &url), 0, LEN)));
    let came = waiting.recv_timeout(Duration::from_secs(20)).expect("it does not wait for ever");
    assert!(came == bytes);
}

#[test]
fn threads_that_want_the_same_fetch_it_once() {
    let (site, bytes) = (Site::new(), bytes());
    read(&open(&site.store(Options::new()), &site.url()), 0, 1);
    // Each thread has its own store: they share only the folder.
    let stores = [(); 4].map(|()| site.store(Options::new().revalidate(false)));
    thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| {
                let part = read(&open(store, &site.url()), 1 << 20, 1 << 20);
                assert!(part == bytes[1 << 20..2 << 20]);
            });
        }
    });
    assert_eq!(stores.iter().map(|store| store.traffic().requests).sum::<u64>(), 1);
}

/// Locks a file of the cache, as a process does that is suspended while it fetches.
fn locked(path: &Path) -> std::fs::File {
    let file = std::fs::File::options().create(true).append(true).open(path).unwrap();
    file.lock().unwrap();
    file
}

fn only_entry(folder: &Path) -> std::path::PathBuf {
    std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn a_process_that_does_not_go_on_stops_no_other_for_ever() {
    let (site, bytes) = (Site::new(), bytes());
    read(&open(&site.store(Options::new()), &site.url()), 0, 1);
    let short = || Options::new().stall_timeout(Duration::from_secs(5));
    let object = only_entry(&site.cache.path().join("v1/pages"));
    let _page = locked(&object.join("4.lock"));
    let part = read(&open(&site.store(short()), &site.url()), 1 << 20, 1 << 20);
    assert!(part == bytes[1 << 20..2 << 20]);
    let known = only_entry(&site.cache.path().join("v1/known"));
    std::fs::remove_file(&known).unwrap();
    let _known = locked(&known.with_extension("lock"));
    assert!(read(&open(&site.store(short()), &site.url()), 0, LEN) == bytes);
}

/// No thread is left that waits for the lock: the runtime would wait for that thread.
#[test]
fn a_read_that_is_cancelled_does_not_wait_for_a_lock() {
    let site = Site::new();
    read(&open(&site.store(Options::new()), &site.url()), 0, 1);
    let object = only_entry(&site.cache.path().join("v1/pages"));
    let _page = locked(&object.join("4.lock"));
    let options = Options::new().cache(DiskCache::new(site.cache.path(), 1 << 30));
    let store = modelfmt_remote::Store::new(options.environment(Environment::from_vars([("", ""); 0])));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let file = runtime.block_on(store.open(&site.url().parse().unwrap())).unwrap();
    let mut out = vec![0; 1000];
    runtime.block_on(async {
        let mut read = std::pin::pin!(file.read_into(1 << 20, &mut out));
        assert!(futures_util::poll!(&mut read).is_pending());
    });
    let (done, waiting) = std::sync::mpsc::channel();
    thread::spawn(move || {
        drop(runtime);
        done.send(())
    });
    waiting.recv_timeout(Duration::from_secs(20)).expect("it does not wait for ever");
}

#[test]
fn processes_that_want_the_same_fetch_it_once() {
    if let Ok(child) = std::env::var(CHILD) {
        let (url, cache) = child.split_once(' ').unwrap();
        let store = store(Path::new(cache), Options::new().revalidate(false));
        assert!(read(&open(&store, url), 1 << 20, 1 << 20) == bytes()[1 << 20..2 << 20]);
        return;
    }
    let site = Site::new();
    read(&open(&site.store(Options::new()), &site.url()), 0, 1);
    let before = site.nginx.requests(1).len();
    let child = format!("{} {}", site.url(), site.cache.path().display());
    let children = [(); 3].map(|()| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "cache::processes_that_want_the_same_fetch_it_once"]).env(CHILD, &child);
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(site.nginx.requests(before + 1).len(), before + 1);
}

#[test]
fn a_pass_over_a_long_file_leaves_half_of_the_cache_to_others() {
    let (site, bytes) = (Site::new(), bytes());
    std::fs::write(site.files.path().join("small.bin"), &bytes[..600_000]).unwrap();
    let small = site.url().replace("m.bin", "small.bin");
    // The cache has less room than the long file needs.
    let store = || {
        let options = Options::new().cache(DiskCache::new(site.cache.path(), 2_600_000));
        Store::new(options.environment(Environment::from_vars([("", ""); 0]))).unwrap()
    };
    assert!(read(&open(&store(), &small), 0, 600_000) == bytes[..600_000]);
    for _ in 0..3 {
        let long = open(&store(), &site.url());
        for at in (0..LEN).step_by(100_000) {
            assert!(read(&long, at as u64, 100_000) == bytes[at..at + 100_000], "at {at}");
        }
        assert!(read(&long, 0, LEN) == bytes);
    }
    let again = store();
    assert!(read(&open(&again, &small), 0, 600_000) == bytes[..600_000]);
    assert_eq!((again.traffic().requests, again.traffic().bytes), (1, 1));
    // The beginning of the long file was cached.
    let again = store();
    assert!(read(&open(&again, &site.url()), 0, 1 << 20) == bytes[..1 << 20]);
    assert_eq!((again.traffic().requests, again.traffic().bytes), (1, 1));
}

/// If the index is at the end of a file, the end is read together with the beginning. Both are then
/// available, however they are read.
#[test]
fn what_came_when_a_file_was_opened_is_not_requested_again() {
    let (site, bytes) = (Site::new(), bytes());
    std::fs::write(site.files.path().join("m.apr"), &bytes).unwrap();
    let options = Options::new().environment(Environment::from_vars([("", ""); 0]));
    let store = Store::new(options).unwrap();
    let file = open(&store, &format!("{}/m.apr", site.nginx.endpoint()));
    let tail = LEN - (64 << 10);
    assert_eq!(store.traffic().requests, 2);
    for (from, to) in [(0, 512 << 10), (7, 100), (tail, LEN), (tail + 9, LEN - 1), (LEN, LEN)] {
        assert!(read(&file, from as u64, to - from) == bytes[from..to], "{from}..{to}");
        assert_eq!(store.traffic().requests, 2, "{from}..{to}");
    }
    assert!(read(&file, tail as u64 - 10, 20) == bytes[tail - 10..tail + 10]);
    assert!(read(&file, 3, LEN - 5) == bytes[3..LEN - 2]);
    assert!(store.traffic().bytes < 2 * LEN as u64);
}

#[test]
fn a_bucket_is_cached_too() {
    let (s3, folder) = (S3::start(), tempfile::tempdir().unwrap());
    s3.make_bucket("cached");
    s3.put("cached", "m", &bytes());
    let store = || {
        let options = Options::new().cache(DiskCache::new(folder.path(), 1 << 30));
        Store::new(options.environment(Environment::from_vars(s3.environment()))).unwrap()
    };
    assert!(read(&open(&store(), "s3://cached/m"), 0, LEN) == bytes());
    let second = store();
    assert!(read(&open(&second, "s3://cached/m"), 0, LEN) == bytes());
    assert_eq!((second.traffic().requests, second.traffic().bytes), (1, 1));
}
