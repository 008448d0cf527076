//! A process is killed at any moment. Nothing gets worse, and the next process continues.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use modelfmt_remote::blocking::Store;
use modelfmt_remote::fetch::{FetchOptions, FetchProgress};

use super::{GROUP, content, fetch, files, names, proved};
use crate::common::Server;

/// Returns the number of moments of each kind; `MODELFMT_FETCH_KILLS` sets another number.
fn moments() -> u64 {
    std::env::var("MODELFMT_FETCH_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(6)
}

/// The process that is killed. It fetches, and dies once this many bytes have been written. The other tests
/// start it.
#[test]
fn child() {
    let Ok(job) = std::env::var("MODELFMT_FETCH_CHILD") else { return };
    let [url, out, pin, at] = job.split('|').collect::<Vec<_>>()[..] else { panic!("{job}") };
    let at: u64 = at.parse().unwrap();
    let die = |now: FetchProgress| {
        if !now.is_checking && now.done >= at {
            std::process::abort();
        }
        ControlFlow::Continue(())
    };
    let mut options = FetchOptions::new().progress(&die);
    if pin.len() == 64 {
        let bytes: Vec<u8> =
            (0..32).map(|i| u8::from_str_radix(&pin[2 * i..2 * i + 2], 16).unwrap()).collect();
        options = options.pin(bytes.try_into().unwrap());
    }
    let _ = Store::new(crate::common::options()).unwrap().fetch(&[url.parse().unwrap()], out, &options);
}

/// Starts the process. Returns whether it was killed.
fn killed(server: &Server, out: &Path, pin: Option<[u8; 32]>, at: u64) -> bool {
    let pin: String = pin.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
    let url = format!("http://127.0.0.1:{}/m", server.port);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fetch::crash::child", "--test-threads", "1"])
        .env("MODELFMT_FETCH_CHILD", format!("{url}|{}|{pin}|{at}", out.display()))
        .output()
        .unwrap();
    !output.status.success()
}

const LEN: u64 = 8 << 20;

/// Kills fetches of a new file at many moments.
fn new_files(server: &Server, good: &[u8], pin: Option<[u8; 32]>) {
    let count = moments();
    for moment in 0..count {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("m");
        let at = 1 + LEN * moment / count.max(2);
        let mut kept = 0;
        // Twice, the second time at a later moment.
        for at in [at, (at + LEN / 5).min(LEN)] {
            assert!(killed(server, &out, pin, at), "at {at}");
            assert!(!out.exists(), "at {at}");
            kept = at;
        }
        let options = FetchOptions::new();
        let done = fetch(server, &out, &pin.map_or(options.clone(), |pin| options.pin(pin))).unwrap();
        assert!(fs::read(&out).unwrap() == good, "at {at}");
        assert!(done.kept + LEN / 20 >= kept, "at {at}: {} of {kept} kept", done.kept);
        // The server may still log requests of killed processes, so the bytes that arrived are counted here.
        assert!(done.fetched <= LEN - kept + LEN / 20, "at {at}: {} of {}", done.fetched, LEN - kept);
        assert_eq!(names(folder.path()), ["m"]);
    }
}

#[test]
fn a_killed_fetch_with_an_outboard_goes_on() {
    let good = content(LEN as usize);
    let (server, hash) = proved(&good);
    new_files(&server, &good, Some(hash));
}

#[test]
fn a_killed_fetch_with_a_tag_goes_on() {
    let good = content(LEN as usize);
    let server = files(vec![("m", good.clone())]);
    new_files(&server, &good, None);
}

#[test]
fn a_killed_repair_leaves_nothing_worse() {
    let good = content(LEN as usize);
    let (server, hash) = proved(&good);
    let groups = LEN as usize / GROUP;
    let mut bad = good.clone();
    let wrong = (0..groups).filter(|group| group % 3 != 0);
    wrong.for_each(|group| bad[group * GROUP + group % GROUP] ^= 1);
    let is_right =
        |bytes: &[u8], group: usize| bytes[group * GROUP..][..GROUP] == good[group * GROUP..][..GROUP];
    let count = moments();
    for moment in 0..count {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("m");
        fs::write(&out, &bad).unwrap();
        let at = 1 + LEN * moment / count.max(1);
        assert!(killed(&server, &out, Some(hash), at), "at {at}");
        let left = fs::read(&out).unwrap();
        assert_eq!(left.len(), bad.len());
        for group in 0..groups {
            assert!(
                is_right(&left, group) || left[group * GROUP..][..GROUP] == bad[group * GROUP..][..GROUP],
                "at {at}"
            );
        }
        let right = (0..groups).filter(|group| is_right(&left, *group)).count();
        let done = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
        assert!(fs::read(&out).unwrap() == good, "at {at}");
        assert_eq!(done.bad as usize, groups - right, "at {at}");
        assert_eq!(names(folder.path()), ["m"]);
    }
}

/// Stops between the last steps: the file has its name, and the list still exists.
#[test]
fn a_kill_between_the_last_steps() {
    let good = content(1 << 20);
    let server = files(vec![("m", good.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let (out, part) = (folder.path().join("m"), folder.path().join(".m.modelfmt-fetch"));
    assert!(killed(&server, &out, None, 1 << 20));
    let done = fetch(&server, &out, &FetchOptions::new()).unwrap();
    assert!(done.kept + (1 << 20) / 20 >= 1 << 20, "{done:?}");
    fs::remove_file(&out).unwrap();
    // Restores the list, as if `fetch` had died right after the rename.
    assert!(killed(&server, &out, None, 1 << 20));
    let log = folder.path().join(".m.modelfmt-fetch-log");
    let before = fs::read(&log).unwrap();
    fetch(&server, &out, &FetchOptions::new()).unwrap();
    assert!(!part.exists() && !log.exists());
    fs::write(&log, before).unwrap();
    let again = fetch(&server, &out, &FetchOptions::new());
    // The list may lack the last lines. The file is then refused and left as it is, like a file about which
    // nothing is known.
    assert!(again.is_ok() || fs::read(&out).unwrap() == good);
    assert!(fs::read(&out).unwrap() == good);
}
