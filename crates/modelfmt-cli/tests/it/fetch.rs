//! `fetch`: what it writes, what it prints, and what an interrupt leaves.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Run, command, program};
use crate::server::{Reply, Server};

const GROUP: usize = 16 << 10;

fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn files(files: Vec<(&'static str, Vec<u8>)>) -> Server {
    Server::start(move |request| {
        let path = request.target.split('?').next().unwrap();
        match files.iter().find(|(name, _)| format!("/{name}") == path) {
            Some((_, bytes)) => Reply::file(request, bytes, "\"1\""),
            None => Reply::status(404),
        }
    })
}

fn run(folder: &Path, args: &[&str]) -> Run {
    crate::common::run(command(program()).current_dir(folder).arg("fetch").args(args))
}

/// Writes the outboard of a file with the program, and returns it.
fn outboard(bytes: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m"), bytes).unwrap();
    crate::common::run(command(program()).current_dir(folder.path()).args(["outboard", "m"])).ok();
    fs::read(folder.path().join("m.obao4")).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_new_file_and_a_damaged_one() {
    let good = content(10 * GROUP);
    let server = files(vec![("m", good.clone()), ("m.obao4", outboard(&good))]);
    let url = format!("http://user:PW@127.0.0.1:{}/m?sig=PW", server.port);
    let shown = format!("http://127.0.0.1:{}/m", server.port);
    let folder = tempfile::tempdir().unwrap();
    let pin = format!("b3:{}", hash(&good));
    let new = run(folder.path(), &["--pin", &pin, &url, "m"]);
    let said = new.stderr.clone();
    new.ok();
    assert!(said.starts_with("fetched m: 160.00 KiB, 160.00 KiB came in"), "{said}");
    assert!(said.contains("checked by its BLAKE3") && !said.contains("PW"), "{said}");
    assert!(fs::read(folder.path().join("m")).unwrap() == good);

    let mut bad = good.clone();
    bad[3 * GROUP] ^= 1;
    fs::write(folder.path().join("m"), bad).unwrap();
    let repaired = run(folder.path(), &[&url, "m", "--json", "--pin", &pin]);
    let json: serde_json::Value = serde_json::from_str(&repaired.stdout).unwrap();
    let expected = serde_json::json!({
        "path": "m", "size": 10 * GROUP, "kept": 9 * GROUP, "fetched": GROUP, "bad": 1, "requests": 3,
        "sources": [{"url": shown, "bytes": GROUP, "refused": 0}], "checked_by": "b3"
    });
    assert_eq!(json, expected);
    let again = run(folder.path(), &[&url, "m", "--pin", &pin]);
    assert!(again.stderr.contains("all of it right already"), "{}", again.stderr);
    let quiet = run(folder.path(), &[&url, "m", "--pin", &pin, "-q"]);
    assert!(quiet.stderr.is_empty() && quiet.stdout.is_empty());
    assert_eq!(names(folder.path()), ["m"]);
}

#[test]
fn what_is_refused() {
    let good = content(10 * GROUP);
    let server = files(vec![("m", good.clone()), ("m.obao4", outboard(&good))]);
    let url = format!("http://127.0.0.1:{}/m", server.port);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m"), b"mine").unwrap();
    let pin = format!("b3:{}", hash(&good));
    let zeros = format!("aero:{}", "0".repeat(64));
    for (args, status, says) in [
        (&[url.as_str()][..], 2, "one path is given"),
        (&["m", "n"], 2, "is not a URL"),
        (&[&url, &url], 2, "OUT is a URL"),
        (&[&url, "-"], 2, "name a file"),
        (&[&url, "m", "--pin", &zeros], 2, "takes b3:HEX"),
        (&[&url, "m", "--include", "*"], 2, "files of a folder"),
        (&[&url, "m"], 1, "give --pin b3:HEX, or --force"),
        (&[&url, "m", "--pin", &pin], 1, "not a damaged copy"),
        (&[&format!("{url}x?PW"), "n"], 1, "there is no such file"),
    ] {
        let run = run(folder.path(), args);
        assert_eq!(run.status, status, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(says) && !run.stderr.contains("PW"), "{args:?}: {}", run.stderr);
        assert_eq!(fs::read(folder.path().join("m")).unwrap(), b"mine");
    }
    let json = run(folder.path(), &[&url, "m", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!((&error["code"], json.status), (&"exists".into(), 1));
    let forced = run(folder.path(), &[&url, "m", "--force"]);
    forced.ok();
    assert!(fs::read(folder.path().join("m")).unwrap() == good);
}

/// The server delays its answers after the first one, so that the interrupt comes in between.
#[cfg(unix)]
#[test]
fn an_interrupt_says_what_is_kept_and_the_same_command_goes_on() {
    const LEN: usize = 4 << 20;
    let good = content(LEN);
    let is_slow = Arc::new(AtomicUsize::new(1));
    let (served, slow) = (good.clone(), Arc::clone(&is_slow));
    let server = Server::start(move |request| {
        let reply = Reply::file(request, &served, "\"1\"");
        // After a quarter, each request breaks off and is made again, over and over.
        match request.range(LEN as u64) {
            Some(range) if range.start >= 1 << 20 && slow.load(Ordering::SeqCst) == 1 => {
                Reply { wait: Some(std::time::Duration::from_secs(3600)), ..reply }
            }
            _ => reply,
        }
    });
    let url = format!("http://127.0.0.1:{}/m", server.port);
    let folder = tempfile::tempdir().unwrap();
    let mut child = command(program());
    child.current_dir(folder.path()).args(["fetch", &url, "m"]).stderr(Stdio::piped()).stdout(Stdio::piped());
    let child = testkit::signals::hears_signals(&mut child).spawn().unwrap();
    // Received bytes are listed once only the silent requests remain to wait for.
    let log = folder.path().join(".m.modelfmt-fetch-log");
    while !fs::read_to_string(&log).unwrap_or_default().contains(" came ") || server.requests().len() < 4 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let status = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.starts_with("interrupted; ") && said.contains(" of 4.0 MiB are kept, the same command goes on"),
        "{said}"
    );
    assert_eq!(names(folder.path()), [".m.modelfmt-fetch", ".m.modelfmt-fetch-log"]);
    is_slow.store(0, Ordering::SeqCst);
    let done = run(folder.path(), &[&url, "m", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(json["kept"].as_u64().unwrap() > 0, "{json}");
    assert!(fs::read(folder.path().join("m")).unwrap() == good);
}

#[cfg(unix)]
#[test]
fn an_interrupt_says_if_nothing_is_kept() {
    const LEN: usize = 4 << 20;
    for has_tag in [true, false] {
        let served = content(LEN);
        // With a tag, nothing arrives. Without one, a quarter arrives, but no later fetch could continue from
        // it.
        let server = Server::start(move |request| {
            let reply = Reply::file(request, &served, "\"1\"");
            let reply = if has_tag { reply } else { reply.without("etag").without("last-modified") };
            let from = if has_tag { 0 } else { 1 << 20 };
            match request.range(LEN as u64) {
                Some(range) if range.end > 1 && range.start >= from => {
                    Reply { wait: Some(std::time::Duration::from_secs(3600)), ..reply }
                }
                _ => reply,
            }
        });
        let url = format!("http://127.0.0.1:{}/m", server.port);
        let folder = tempfile::tempdir().unwrap();
        let mut child = command(program());
        child.current_dir(folder.path()).args(["fetch", &url, "m"]);
        child.stderr(Stdio::piped()).stdout(Stdio::piped());
        let child = testkit::signals::hears_signals(&mut child).spawn().unwrap();
        let part = folder.path().join(".m.modelfmt-fetch");
        let has_come = || has_tag || fs::metadata(&part).is_ok_and(|part| part.len() > 0);
        while server.requests().is_empty() || !has_come() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
        assert!(said.contains("interrupted; nothing could be kept"), "{said}");
    }
}

#[test]
fn verify_says_what_heals_a_damaged_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(crate::common::testdata("reference/one-shard.aero")).unwrap();
    let pin = format!("b3:{}", hash(&bytes));
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(folder.path().join("m.aero"), &bytes).unwrap();
    let verify = |args: &[&str]| {
        crate::common::run(
            command(program()).current_dir(folder.path()).args(["verify", "m.aero"]).args(args),
        )
    };
    let own = verify(&[]);
    assert!(own.stderr.contains("note: `modelfmt fetch URL m.aero` replaces"), "{}", own.stderr);
    let pinned = verify(&["--pin", &pin]);
    assert!(
        pinned.stderr.contains(&format!("note: `modelfmt fetch URL m.aero --pin {pin}` replaces")),
        "{}",
        pinned.stderr
    );
    assert!(verify(&["-q"]).stderr.is_empty());
    // Nothing shows that a whole file with another hash, or a file that is not a model, is damaged.
    fs::copy(crate::common::testdata("reference/one-shard.aero"), folder.path().join("m.aero")).unwrap();
    let other = format!("b3:{}", hash(b"other"));
    let whole = verify(&["--pin", &other]);
    assert!(whole.status == 1 && !whole.stderr.contains("fetch"), "{}", whole.stderr);
    fs::write(folder.path().join("m.aero"), b"no model").unwrap();
    for args in [&["--pin", &other][..], &[]] {
        let none = verify(args);
        assert!(none.status == 1 && !none.stderr.contains("fetch"), "{}", none.stderr);
    }
    fs::copy(crate::common::testdata("safetensors/dtypes.safetensors"), folder.path().join("m.aero"))
        .unwrap();
    let unknown = verify(&["--pin", &other]);
    assert!(unknown.stderr.contains("note: if it is a damaged copy"), "{}", unknown.stderr);
}
