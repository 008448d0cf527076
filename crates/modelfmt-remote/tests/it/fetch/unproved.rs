//! Without an outboard: a hash of the whole file, or an entity tag, or nothing.

use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use modelfmt_remote::fetch::{CheckedBy, FetchError, FetchOptions, FetchProgress};

use super::{content, fetch, fetch_from, files, names, serving};
use crate::common::{Reply, Request, Server};

const LEN: usize = 6 << 20;

fn stop(now: FetchProgress) -> ControlFlow<()> {
    if now.done > (LEN / 2) as u64 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

#[test]
fn a_tag_is_enough_to_go_on() {
    let good = content(LEN);
    let server = files(vec![("m", good.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    fetch(&server, &out, &FetchOptions::new().progress(&stop)).unwrap_err();
    assert!(!out.exists());
    let log = fs::read_to_string(folder.path().join(".m.modelfmt-fetch-log")).unwrap();
    assert!(!log.contains("127.0.0.1"), "{log}");
    let done = fetch(&server, &out, &FetchOptions::new()).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    assert_eq!((done.kept + done.fetched, done.checked_by), (LEN as u64, Some(CheckedBy::Etag)));
    assert!(done.kept + (LEN as u64 / 50) > LEN as u64 / 2, "{done:?}");
    // The server may still log requests of the stopped fetch, so the bytes that arrived are counted.
    assert!(done.fetched <= LEN as u64 / 2 + LEN as u64 / 20, "{done:?}");
    assert_eq!((names(folder.path()), done.notes), (vec!["m".to_owned()], vec![]));
    // There is nothing to check the complete file by.
    let error = fetch(&server, &out, &FetchOptions::new()).unwrap_err();
    assert!(error.to_string().contains("--force"), "{error}");
    fetch(&server, &out, &FetchOptions::new().force(true)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
}

#[test]
fn another_version_begins_anew() {
    let (old, new) = (vec![1; LEN], content(LEN));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    fetch(&files(vec![("m", old)]), &out, &FetchOptions::new().progress(&stop)).unwrap_err();
    let served = new.clone();
    let server = Server::start(move |request| Reply::file(request, &served, "\"2\""));
    let done = fetch(&server, &out, &FetchOptions::new()).unwrap();
    assert_eq!((done.kept, done.fetched), (0, LEN as u64));
    assert!(done.notes.iter().any(|note| note.contains("of another version")), "{:?}", done.notes);
    assert!(fs::read(&out).unwrap() == new);
}

#[test]
fn a_server_without_validators_is_noted_once_and_not_gone_on_with() {
    let good = content(LEN);
    let bare = |reply: Reply| reply.without("etag").without("last-modified");
    let server = serving(vec![("m", good.clone())], move |_, reply| bare(reply));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    fetch(&server, &out, &FetchOptions::new().progress(&stop)).unwrap_err();
    assert_eq!(names(folder.path()), [".m.modelfmt-fetch"]);
    let notes = Mutex::new(Vec::new());
    let note = |text: &str| notes.lock().unwrap().push(text.to_owned());
    let done = fetch(&server, &out, &FetchOptions::new().note(&note)).unwrap();
    assert_eq!((done.kept, done.checked_by), (0, None));
    assert_eq!((notes.lock().unwrap().len(), done.notes.len()), (1, 1));
    assert!(done.notes[0].contains("nothing that identifies the version"), "{:?}", done.notes);
    assert!(fs::read(&out).unwrap() == good);
}

/// The bytes that a stop keeps are the bytes that the next call does not fetch again.
#[test]
fn what_is_kept_is_counted() {
    let good = content(LEN);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    for has_tag in [true, false] {
        let change = move |_: &Request, reply: Reply| {
            if has_tag { reply } else { reply.without("etag").without("last-modified") }
        };
        let server = serving(vec![("m", good.clone())], change);
        let last = Mutex::new((0, 0));
        let half = |now: FetchProgress| {
            *last.lock().unwrap() = (now.done, now.kept);
            stop(now)
        };
        fetch(&server, &out, &FetchOptions::new().progress(&half)).unwrap_err();
        let (done, kept) = *last.lock().unwrap();
        assert!(done > (LEN / 2) as u64 && kept == if has_tag { done } else { 0 }, "{done} {kept}");
    }
    let server = files(vec![("m", good)]);
    let last = Mutex::new(FetchProgress::default());
    let all = |now: FetchProgress| {
        *last.lock().unwrap() = now;
        ControlFlow::Continue(())
    };
    fetch(&server, &out, &FetchOptions::new().progress(&all)).unwrap();
    assert_eq!(last.lock().unwrap().kept, LEN as u64);
}

#[test]
fn a_server_without_ranges_sends_one_stream_that_is_checked() {
    let good = content(LEN);
    let hash = blake3_tree::hash(&good);
    for (claims_len, right) in [(true, true), (false, true), (true, false)] {
        let mut served = good.clone();
        served[77] ^= u8::from(!right);
        let server = Server::start(move |request| {
            let body = if request.target == "/m" { Some(served.clone()) } else { None };
            match body {
                Some(body) => {
                    let length = if claims_len { None } else { Some(None) };
                    Reply { status: 200, body, length, ..Reply::default() }
                }
                None => Reply::status(404),
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("m");
        let done = fetch(&server, &out, &FetchOptions::new().pin(hash));
        if right {
            let done = done.unwrap();
            assert_eq!(
                (done.size, done.fetched, done.checked_by),
                (LEN as u64, LEN as u64, Some(CheckedBy::B3))
            );
            assert!(done.notes[0].contains("does not answer requests for ranges"), "{:?}", done.notes);
            assert!(fs::read(&out).unwrap() == good);
            assert_eq!(names(folder.path()), ["m"]);
        } else {
            assert!(matches!(done, Err(FetchError::Wrong { .. })));
            assert!(names(folder.path()).is_empty());
        }
    }
}

/// A body that ends with its connection may have been cut.
#[test]
fn a_stream_without_an_end_needs_something_to_check_it_by() {
    let good = content(LEN);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    for body in [good[..LEN / 2].to_vec(), good.clone()] {
        let reply = Reply { status: 200, body, length: Some(None), ..Reply::default() };
        let server = Server::start(move |_| reply.clone());
        let error = fetch(&server, &out, &FetchOptions::new()).unwrap_err();
        assert!(matches!(error, FetchError::Wrong { .. }), "{error}");
        assert!(error.to_string().contains("--pin b3:HEX"), "{error}");
        assert!(names(folder.path()).is_empty());
    }
    // A body in chunks has an end.
    let chunks = [format!("{LEN:x}\r\n").as_bytes(), &good, b"\r\n0\r\n\r\n"].concat();
    let reply = Reply { status: 200, body: chunks, length: Some(None), ..Reply::default() };
    let reply = reply.with("transfer-encoding", "chunked");
    let server = Server::start(move |_| reply.clone());
    let done = fetch(&server, &out, &FetchOptions::new()).unwrap();
    assert_eq!((done.size, done.checked_by), (LEN as u64, None));
    assert!(fs::read(&out).unwrap() == good);
}

#[test]
fn a_stream_that_the_disk_has_no_room_for_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let reply = Reply { status: 200, body: content(LEN), length: Some(Some(1 << 60)), ..Reply::default() };
    let server = Server::start(move |_| reply.clone());
    let error = fetch(&server, &folder.path().join("m"), &FetchOptions::new()).unwrap_err();
    let text = modelfmt_core::author::with_causes(&error);
    assert!(text.contains("there is room for"), "{text}");
    assert!(names(folder.path()).is_empty());
    let server = Server::start(move |request| match request.target.ends_with("far") {
        true => Reply { status: 200, body: content(LEN), length: Some(Some(1 << 60)), ..Reply::default() },
        false => Reply::status(200).body(&content(LEN)),
    });
    let urls = [server.url("far"), server.url("m")];
    let done = fetch_from(&server, &urls, &folder.path().join("m"), &FetchOptions::new()).unwrap();
    assert_eq!(done.size, LEN as u64, "a false length does not keep others from being asked");
}

/// Servers behind a load balancer may answer differently each time.
#[test]
fn one_answer_without_ranges_destroys_nothing() {
    let good = content(LEN);
    let sends_all = Arc::new(AtomicBool::new(false));
    let (served, is_whole) = (good.clone(), Arc::clone(&sends_all));
    let server = Server::start(move |request| match is_whole.load(Ordering::SeqCst) {
        true => Reply::status(200).body(&served),
        false => Reply::file(request, &served, "\"1\""),
    });
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let left =
        || names(folder.path()).into_iter().map(|name| fs::read(folder.path().join(name)).unwrap()).collect();
    fetch(&server, &out, &FetchOptions::new().progress(&stop)).unwrap_err();
    let before: Vec<Vec<u8>> = left();
    assert_eq!(before.len(), 2);
    sends_all.store(true, Ordering::SeqCst);
    let error = fetch(&server, &out, &FetchOptions::new()).unwrap_err();
    assert!(matches!(error, FetchError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("an earlier fetch left") && error.to_string().contains("--force"));
    assert!(left() == before);
    sends_all.store(false, Ordering::SeqCst);
    let done = fetch(&server, &out, &FetchOptions::new()).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    assert!(done.kept + (LEN as u64 / 50) > LEN as u64 / 2, "{done:?}");
    // Whoever wants to may begin anew.
    fs::remove_file(&out).unwrap();
    fetch(&server, &out, &FetchOptions::new().progress(&stop)).unwrap_err();
    sends_all.store(true, Ordering::SeqCst);
    let done = fetch(&server, &out, &FetchOptions::new().force(true)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    assert_eq!((done.kept, names(folder.path())), (0, vec!["m".to_owned()]));
}

#[test]
fn a_second_fetch_does_not_disturb_the_first() {
    let good = content(LEN);
    for has_ranges in [false, true] {
        let (go_on, gate) = mpsc::channel();
        let (served, gate) = (good.clone(), Arc::new(Mutex::new(gate)));
        let server = Server::start(move |request: &Request| {
            let reply = match has_ranges {
                true => Reply::file(request, &served, "\"1\""),
                false => Reply::status(200).body(&served),
            };
            // What opens the file is answered at once.
            let is_first = request.header("range").is_some_and(|range| range.starts_with("bytes=0-"));
            let gate = (!is_first).then(|| (reply.body.len() / 2, Arc::clone(&gate)));
            Reply { gate, ..reply }
        });
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("m");
        let (tell, has_begun) = mpsc::channel();
        let begun = |now: FetchProgress| {
            if now.done > 0 {
                let _ = tell.send(()); // heard once
            }
            ControlFlow::Continue(())
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| fetch(&server, &out, &FetchOptions::new().progress(&begun)));
            has_begun.recv().unwrap();
            for force in [false, true] {
                let error = fetch(&server, &out, &FetchOptions::new().force(force)).unwrap_err();
                let FetchError::Local { source, .. } = &error else { panic!("{error}") };
                assert_eq!(source.kind(), ErrorKind::ResourceBusy, "{error}");
            }
            drop(go_on);
            first.join().unwrap().unwrap();
        });
        assert!(fs::read(&out).unwrap() == good);
        assert_eq!(names(folder.path()), ["m"]);
    }
}

/// A short file is compared with the file on the server. A long one cannot be the same, and is not read.
#[test]
fn a_file_of_another_length_is_not_read_to_compare_it() {
    let server = files(vec![("m", content(100))]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    fs::File::create(&out).unwrap().set_len(1 << 40).unwrap();
    let error = fetch(&server, folder.path(), &FetchOptions::new()).unwrap_err();
    assert!(matches!(error, FetchError::Refused { .. }), "{error}");
    assert_eq!(names(folder.path()), ["m"]);
}

#[test]
fn a_pin_without_an_outboard_proves_the_whole() {
    let good = content(LEN);
    let hash = blake3_tree::hash(&good);
    let server = files(vec![("m", good.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let mut damaged = good.clone();
    damaged[5] ^= 1;
    fs::write(&out, &damaged).unwrap();
    let done = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert_eq!((done.kept, done.fetched, done.checked_by), (0, LEN as u64, Some(CheckedBy::B3)));
    assert!(fs::read(&out).unwrap() == good);
    // A server with other bytes changes nothing.
    let server = files(vec![("m", damaged)]);
    fs::write(&out, b"mine").unwrap();
    let error = fetch(&server, &out, &FetchOptions::new().pin(hash)).unwrap_err();
    assert!(matches!(error, FetchError::Wrong { .. }), "{error}");
    assert_eq!((fs::read(&out).unwrap(), names(folder.path())), (b"mine".to_vec(), vec!["m".to_owned()]));
}

#[test]
fn errors_of_the_server_and_of_the_target() {
    let server = files(vec![("m", content(100))]);
    let folder = tempfile::tempdir().unwrap();
    let missing =
        fetch_from(&server, &[server.url("none?secret=1")], &folder.path().join("x"), &FetchOptions::new());
    let error = missing.unwrap_err();
    assert!(
        error.to_string().contains("/none: there is no such file") && !error.to_string().contains("secret"),
        "{error}"
    );
    assert_eq!(error.code(), "cannot-open");
    let inside = folder.path().join("none").join("m");
    server.forget();
    let error = fetch(&server, &inside, &FetchOptions::new()).unwrap_err();
    assert!(matches!(error, FetchError::Local { .. }), "{error}");
    assert!(
        modelfmt_core::author::with_causes(&error).ends_with(": its folder does not exist; make it first")
    );
    assert!(server.requests().is_empty());
    // Into a folder, under the file's own name.
    let done = fetch(&server, folder.path(), &FetchOptions::new()).unwrap();
    assert_eq!(done.path, folder.path().join("m"));
    assert!(fetch_from(&server, &[], folder.path(), &FetchOptions::new()).is_err());
}

#[test]
fn a_folder_of_a_web_server_is_no_file() {
    let server = Server::start(|request| match request.target.as_str() {
        "/models" => Reply::status(301).with("location", "/models/"),
        _ => Reply::file(request, b"<html>a list</html>", "\"1\""),
    });
    let folder = tempfile::tempdir().unwrap();
    for url in ["", "models", "models/"] {
        for out in [folder.path().join("m"), folder.path().to_owned()] {
            let error = fetch_from(&server, &[server.url(url)], &out, &FetchOptions::new()).unwrap_err();
            assert!(error.to_string().contains("it is a folder; name the file in it"), "{url}: {error}");
            assert!(names(folder.path()).is_empty());
        }
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_where_the_user_names_them_and_not_below_a_folder() {
    let good = content(LEN);
    let (server, hash) = super::proved(&good);
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("m"));
    let mut damaged = good.clone();
    damaged[5] ^= 1;
    fs::write(&real, &damaged).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let into_folder = fetch(&server, folder.path(), &FetchOptions::new().pin(hash));
    assert!(matches!(into_folder, Err(FetchError::Refused { .. })));
    assert!(fs::read(&real).unwrap() == damaged);
    fetch(&server, &link, &FetchOptions::new().pin(hash)).unwrap();
    assert!(fs::read(&real).unwrap() == good && fs::symlink_metadata(&link).unwrap().is_symlink());
}
