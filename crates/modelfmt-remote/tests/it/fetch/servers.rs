//! Real servers: nginx, and moto, which implements S3.

use std::fs;

use modelfmt_remote::blocking::Store;
use modelfmt_remote::fetch::{CheckedBy, FetchOptions, FetchProgress};
use modelfmt_remote::{Environment, Location, Options};
use testkit::servers::{Nginx, S3};

use super::{GROUP, content, names};

const LEN: usize = (20 << 20) + 7;

/// Fetches a new file, a stopped one and a damaged one, with and without an outboard.
fn all(store: &Store, url: &Location, good: &[u8], hash: [u8; 32]) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let plain = FetchOptions::new();
    let pinned = FetchOptions::new().pin(hash);
    for (options, by) in [(&plain, CheckedBy::Etag), (&pinned, CheckedBy::B3)] {
        let stop = |now: FetchProgress| match now.done > 9 << 20 {
            true => std::ops::ControlFlow::Break(()),
            false => std::ops::ControlFlow::Continue(()),
        };
        store.fetch(std::slice::from_ref(url), &out, &options.clone().progress(&stop)).unwrap_err();
        let done = store.fetch(std::slice::from_ref(url), &out, options).unwrap();
        assert!(fs::read(&out).unwrap() == good, "{url}");
        assert!(
            done.kept + (1 << 20) > 9 << 20 && done.kept + done.fetched <= LEN as u64 + (512 << 10),
            "{done:?}"
        );
        assert_eq!((done.checked_by, names(folder.path())), (Some(by), vec!["m".to_owned()]), "{url}");
        assert!(done.notes.is_empty(), "{:?}", done.notes);
        fs::remove_file(&out).unwrap();
    }
    let mut bad = good.to_vec();
    [9, 11 << 20, LEN - 1].iter().for_each(|at| bad[*at] ^= 1);
    fs::write(&out, bad).unwrap();
    let done = store.fetch(std::slice::from_ref(url), &out, &pinned).unwrap();
    assert!(fs::read(&out).unwrap() == good, "{url}");
    assert_eq!((done.bad, done.fetched, done.requests), (3, 2 * GROUP as u64 + 7, 5), "{url}");
}

#[test]
fn nginx() {
    let (folder, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let good = content(LEN);
    let (hash, outboard) = blake3_tree::outboard(&good);
    fs::write(folder.path().join("m"), &good).unwrap();
    fs::write(folder.path().join("m.obao4"), &outboard).unwrap();
    let nginx = Nginx::start(folder.path(), work.path());
    let store = Store::new(crate::common::options()).unwrap();
    all(&store, &format!("{}/m", nginx.endpoint()).parse().unwrap(), &good, hash);
}

#[test]
fn a_bucket() {
    let s3 = S3::start();
    s3.make_bucket("fetched");
    let good = content(LEN);
    let (hash, outboard) = blake3_tree::outboard(&good);
    s3.put("fetched", "m", &good);
    s3.put("fetched", "m.obao4", &outboard);
    let store = Store::new(Options::new().environment(Environment::from_vars(s3.environment()))).unwrap();
    all(&store, &"s3://fetched/m".parse().unwrap(), &good, hash);
}

/// All files below the folder, in whatever subfolders, but no files next to it.
#[test]
fn a_folder_of_a_bucket() {
    let s3 = S3::start();
    s3.make_bucket("folders");
    let files = [("m/config.json", "{}"), ("m/a/b.txt", "b"), ("m/.hidden", "h"), ("other", "o")];
    for (key, text) in files {
        s3.put("folders", key, text.as_bytes());
    }
    let store = Store::new(Options::new().environment(Environment::from_vars(s3.environment()))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let get = |options: &FetchOptions<'_>, url: &str| store.fetch(&[url.parse().unwrap()], &out, options);
    let done = get(&FetchOptions::new(), "s3://folders/m/").unwrap();
    assert_eq!(done.files.len(), 2, "{done:?}");
    assert_eq!(fs::read(out.join("a/b.txt")).unwrap(), b"b");
    assert_eq!(fs::read(out.join("config.json")).unwrap(), b"{}");
    assert!(!out.join(".hidden").exists() && !out.join("other").exists());
    let error = get(&FetchOptions::new(), "s3://folders/none/").unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}
