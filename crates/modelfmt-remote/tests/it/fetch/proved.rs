//! With an outboard, every piece is proved.

use std::fs;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt_remote::fetch::{CheckedBy, FetchError, FetchOptions};

use super::{GROUP, asked, content, fetch, files, names, proved, serving};

#[test]
fn three_bad_bytes_of_a_large_file_are_three_groups_and_three_requests() {
    let good = content(64 << 20);
    let (server, hash) = proved(&good);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let mut bad = good.clone();
    for at in [5, 30 << 20, (64 << 20) - 1] {
        bad[at] ^= 1;
    }
    fs::write(&out, bad).unwrap();
    let done = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    assert_eq!((done.size, done.bad, done.checked_by), (64 << 20, 3, Some(CheckedBy::B3)));
    assert_eq!((done.fetched, done.kept), (3 * GROUP as u64, (64 << 20) - 3 * GROUP as u64));
    // One request for the length, which returns one byte, and one for the outboard.
    assert_eq!(asked(&server, "m", good.len()), (1 + 3, 1 + 3 * GROUP as u64));
    assert_eq!(asked(&server, "m.obao4", 1 << 20).0, 1);
    assert_eq!((done.requests, server.requests().len()), (5, 5));
    assert_eq!(names(folder.path()), ["m"]);

    // Now the file is correct, and no server is asked.
    server.forget();
    let again = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert_eq!((again.kept, again.fetched, again.bad, again.requests), (64 << 20, 0, 0, 0));
    assert!(server.requests().is_empty());
}

#[test]
fn new_files_of_all_lengths() {
    for len in [0, 1, GROUP, GROUP + 1, 5 * GROUP - 1, 3 << 20, (20 << 20) + 5] {
        let good = content(len);
        let (server, hash) = proved(&good);
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("m");
        let done = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
        assert!(fs::read(&out).unwrap() == good, "{len}");
        assert_eq!((done.size, done.kept, done.fetched), (len as u64, 0, len as u64), "{len}");
        assert_eq!(names(folder.path()), ["m"], "{len}");
        assert_eq!(done.checked_by, Some(CheckedBy::B3));
        if len > 16 << 20 {
            assert!(asked(&server, "m", len).0 >= 16, "several at once");
        }
    }
}

/// Damage to a copy: its name, how it is done, and the number of groups that then exist and are wrong.
type Damage = (&'static str, fn(&mut Vec<u8>), u64);

#[test]
fn damaged_copies_of_all_kinds() {
    let good = content(40 * GROUP + 77);
    let (server, hash) = proved(&good);
    let damages: [Damage; 8] = [
        ("cut within a group", |bytes| bytes.truncate(20 * GROUP + 5), 1),
        ("cut between groups", |bytes| bytes.truncate(20 * GROUP), 0),
        ("longer", |bytes| bytes.extend([9; 100_000]), 0),
        ("a hole", |bytes| bytes[3 * GROUP..30 * GROUP].fill(0), 0),
        ("a wrong group beside a hole", |bytes| bytes[3 * GROUP - 1..30 * GROUP].fill(0), 1),
        ("the last byte", |bytes| *bytes.last_mut().unwrap() ^= 1, 1),
        ("one byte missing", |bytes| _ = bytes.remove(35 * GROUP), 6),
        ("every second group", |bytes| (0..40).step_by(2).for_each(|group| bytes[group * GROUP] ^= 1), 20),
    ];
    for (name, damage, bad) in damages {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("m");
        let mut copy = good.clone();
        damage(&mut copy);
        fs::write(&out, copy).unwrap();
        let inode = inode(&out);
        let done = fetch(&server, &out, &FetchOptions::new().pin(hash))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(fs::read(&out).unwrap() == good, "{name}");
        assert_eq!(done.bad, bad, "{name}");
        assert_eq!(done.kept + done.fetched, good.len() as u64, "{name}");
        assert_eq!(inode, self::inode(&out), "{name}: in place");
        assert_eq!(names(folder.path()), ["m"], "{name}");
    }
}

#[cfg(unix)]
fn inode(path: &std::path::Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap())
}

#[cfg(not(unix))]
fn inode(_: &std::path::Path) -> u64 {
    0
}

#[test]
fn another_file_is_no_damaged_copy() {
    let good = content(10 * GROUP);
    let (server, hash) = proved(&good);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let other = vec![7; 10 * GROUP];
    fs::write(&out, &other).unwrap();
    let error = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap_err();
    assert!(matches!(&error, FetchError::Refused { .. }), "{error}");
    assert!(fs::read(&out).unwrap() == other);
    let done = fetch(&server, &out, &FetchOptions::new().pin(hash).force(true)).unwrap();
    assert_eq!((done.kept, done.fetched), (0, 10 * GROUP as u64));
    assert!(fs::read(&out).unwrap() == good);
    // In a file of one piece, nothing could be correct.
    let (server, hash) = proved(b"good");
    fs::write(&out, b"bad!").unwrap();
    fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert_eq!(fs::read(&out).unwrap(), b"good");
}

#[test]
fn a_stopped_fetch_goes_on() {
    let good = content(16 << 20);
    let (server, hash) = proved(&good);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let done = AtomicU64::new(0);
    let stop = |now: modelfmt_remote::fetch::FetchProgress| {
        done.store(now.done, Ordering::Relaxed);
        if now.done > 8 << 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = fetch(&server, &out, &FetchOptions::new().pin(hash).progress(&stop)).unwrap_err();
    assert!(matches!(error, FetchError::Stopped), "{error}");
    assert!(!out.exists());
    assert_eq!(names(folder.path()), [".m.modelfmt-fetch", ".m.modelfmt-fetch-log"]);
    let came = done.load(Ordering::Relaxed);
    let rest = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    assert!(rest.kept + (1 << 20) / 8 >= came, "{} of {came}", rest.kept);
    assert_eq!(rest.kept + rest.fetched, good.len() as u64);
    assert_eq!(names(folder.path()), ["m"]);
}

#[test]
fn an_unfinished_file_that_was_damaged_is_repaired() {
    let good = content(4 << 20);
    let (server, hash) = proved(&good);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let stop = |now: modelfmt_remote::fetch::FetchProgress| match now.done > 2 << 20 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    fetch(&server, &out, &FetchOptions::new().pin(hash).progress(&stop)).unwrap_err();
    let part = folder.path().join(".m.modelfmt-fetch");
    let mut bytes = fs::read(&part).unwrap();
    bytes[7] ^= 1;
    fs::write(&part, bytes).unwrap();
    let done = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    assert!(done.kept > 1 << 20, "{done:?}");
}

#[test]
fn an_outboard_may_be_beside_the_target() {
    let good = content(40 * GROUP);
    let (hash, outboard) = blake3_tree::outboard(&good);
    let server = files(vec![("m", good.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    fs::write(folder.path().join("m.obao4"), &outboard).unwrap();
    let mut bad = good.clone();
    bad[20 * GROUP] ^= 1;
    fs::write(&out, bad).unwrap();
    let done = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    assert_eq!((done.fetched, asked(&server, "m.obao4", 1).0), (GROUP as u64, 0));
}

#[test]
fn a_wrong_outboard_changes_nothing() {
    let good = content(40 * GROUP);
    let (hash, outboard) = blake3_tree::outboard(&good);
    let mut bad = good.clone();
    bad[20 * GROUP] ^= 1;
    for at in [0, 63, 64, outboard.len() / 2, outboard.len() - 1] {
        let mut wrong = outboard.clone();
        wrong[at] ^= 1;
        let server = files(vec![("m", good.clone()), ("m.obao4", wrong)]);
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("m");
        fs::write(&out, &bad).unwrap();
        match fetch(&server, &out, &FetchOptions::new().pin(hash)) {
            // The first parent is wrong. The file then counts as no outboard, and the whole file is fetched.
            Ok(done) => assert!(at < 64 && done.fetched == good.len() as u64, "{at}"),
            Err(error) => {
                assert!(at >= 64 && matches!(error, FetchError::Wrong { .. }), "{at}: {error}");
                assert!(fs::read(&out).unwrap() == bad);
            }
        }
    }
}

#[test]
fn wrong_bytes_of_the_only_server_are_named_and_the_rest_is_kept() {
    let good = content(40 * GROUP);
    let (hash, outboard) = blake3_tree::outboard(&good);
    let mut served = good.clone();
    served[20 * GROUP] ^= 1;
    let server = files(vec![("m", served), ("m.obao4", outboard.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let error = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap_err();
    assert!(
        error.to_string().contains(&format!(
            "1 piece of 16 KiB is wrong at this URL too, the first at byte {}",
            20 * GROUP
        )),
        "{error}"
    );
    assert!(!out.exists());
    // Only that piece is requested from a good server.
    let server = files(vec![("m", good.clone()), ("m.obao4", outboard)]);
    let done = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert_eq!((done.fetched, done.kept), (GROUP as u64, 39 * GROUP as u64));
    assert!(fs::read(&out).unwrap() == good);
}

#[test]
fn a_file_that_changes_on_the_server_is_never_mixed() {
    let good = content(8 << 20);
    let (hash, outboard) = blake3_tree::outboard(&good);
    let server = serving(vec![("m", good), ("m.obao4", outboard)], |request, reply| {
        if request.target == "/m" && request.number > 4 { reply.with("etag", "\"2\"") } else { reply }
    });
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let error = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap_err();
    assert!(error.to_string().contains("changed"), "{error}");
    assert!(!out.exists());
}
