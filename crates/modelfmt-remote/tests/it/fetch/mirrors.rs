//! Several servers: wrong, slow and vanishing servers are named, and the bytes are correct.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use modelfmt_remote::fetch::{CheckedBy, FetchError, FetchOptions};

use super::{asked, content, fetch_from, files, names, serving};
use crate::common::{Reply, Server};

const LEN: usize = 24 << 20;

#[test]
fn a_lying_a_slow_and_a_vanishing_mirror_among_four() {
    let good = content(LEN);
    let (hash, outboard) = blake3_tree::outboard(&good);
    let with_outboard = || vec![("m", good.clone()), ("m.obao4", outboard.clone())];
    let honest = files(with_outboard());
    let lying = serving(with_outboard(), |request, mut reply| {
        if request.target == "/m" {
            reply.body.iter_mut().for_each(|byte| *byte ^= 1);
        }
        reply
    });
    // It sends a byte from time to time, so it never counts as silent.
    let slow = serving(with_outboard(), |request, reply| match request.number {
        0 => reply,
        _ => Reply { trickle: Some(Duration::from_millis(1)), ..reply },
    });
    let answered = Arc::new(AtomicUsize::new(0));
    let vanishing = serving(with_outboard(), move |_, reply| match answered.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => reply,
        _ => Reply { cut: Some(0), ..reply },
    });
    let servers = [&lying, &slow, &vanishing, &honest];
    let urls: Vec<_> = servers.iter().map(|server| server.url("m")).collect();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let done = fetch_from(&honest, &urls, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    assert_eq!((done.size, done.kept), (LEN as u64, 0));
    assert_eq!(names(folder.path()), ["m"]);
    let named = |server: &Server, what: &str| {
        let url = server.url("m").to_string();
        done.notes.iter().any(|note| note.starts_with(&url) && note.contains(what))
    };
    assert!(named(&lying, "sends wrong bytes"), "{:?}", done.notes);
    assert!(named(&slow, "is slow"), "{:?}", done.notes);
    assert!(named(&vanishing, "the rest is fetched from other URLs"), "{:?}", done.notes);
    assert!(
        !done.notes.iter().any(|note| note.starts_with(&honest.url("m").to_string())),
        "{:?}",
        done.notes
    );
    let refused: Vec<u64> = done.sources.iter().map(|source| source.refused).collect();
    assert!(refused[0] > 0 && refused[1..] == [0; 3], "{refused:?}");
    // Wrong bytes are not requested from it again: at most the requests that were in progress.
    assert!(asked(&lying, "m", LEN).0 <= 1 + 16, "{}", asked(&lying, "m", LEN).0);
}

#[test]
fn without_anything_to_check_by_versions_are_never_mixed() {
    let (first, second) = (vec![1; LEN], content(LEN));
    let answered = Arc::new(AtomicUsize::new(0));
    let vanishing =
        serving(vec![("m", first)], move |_, reply| match answered.fetch_add(1, Ordering::SeqCst) {
            0..6 => reply,
            _ => Reply { cut: Some(0), ..reply },
        });
    let other = files(vec![("m", second.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let urls = [vanishing.url("m"), other.url("m")];
    let done = fetch_from(&other, &urls, &out, &FetchOptions::new()).unwrap();
    assert!(fs::read(&out).unwrap() == second);
    assert!(done.notes.iter().any(|note| note.contains("from the beginning")), "{:?}", done.notes);
    assert_eq!(done.sources[1].bytes, LEN as u64);
}

#[test]
fn a_hash_of_the_whole_decides_between_mirrors() {
    let good = content(LEN);
    let hash = blake3_tree::hash(&good);
    let mut wrong = good.clone();
    wrong[9] ^= 1;
    let (lying, honest) = (files(vec![("m", wrong)]), files(vec![("m", good.clone())]));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let urls = [lying.url("m"), honest.url("m")];
    let done = fetch_from(&honest, &urls, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    assert_eq!((done.checked_by, done.sources[0].refused), (Some(CheckedBy::B3), 1));
    assert!(done.notes.iter().any(|note| note.starts_with(&lying.url("m").to_string())), "{:?}", done.notes);
}

#[test]
fn a_mirror_of_another_length_is_not_used() {
    let good = content(100 << 10);
    let (hash, outboard) = blake3_tree::outboard(&good);
    let other = files(vec![("m", content(99 << 10)), ("m.obao4", outboard.clone())]);
    let honest = files(vec![("m", good.clone()), ("m.obao4", outboard)]);
    let gone = serving(vec![], |_, reply| reply);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let urls = [gone.url("m"), other.url("m"), honest.url("m")];
    let done = fetch_from(&honest, &urls, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    for server in [&gone, &other] {
        let url = server.url("m").to_string();
        assert!(done.notes.iter().any(|note| note.starts_with(&url)), "{:?}", done.notes);
    }
}

/// Hashing the local file as if it had that length would take years.
#[test]
fn a_mirror_that_states_an_impossible_length_is_not_used() {
    const CLAIMED: u64 = 1 << 48;
    let good = content(1 << 20);
    let (hash, outboard) = blake3_tree::outboard(&good);
    for has_outboard in [true, false] {
        let (bytes, first) = (good.clone(), outboard.clone());
        let hostile = Server::start(move |request| {
            let (len, bytes) = match request.target.as_str() {
                "/m" => (CLAIMED, &bytes),
                "/m.obao4" if has_outboard => (blake3_tree::Shape::new(CLAIMED).outboard_len(), &first),
                _ => return Reply::status(404),
            };
            Reply::part(request, len, "\"1\"", |range| {
                let mut part = bytes.get(range.start as usize..).unwrap_or_default().to_vec();
                part.resize((range.end - range.start) as usize, 0);
                part
            })
        });
        let mut of_honest = vec![("m", good.clone())];
        of_honest.extend(has_outboard.then(|| ("m.obao4", outboard.clone())));
        let honest = files(of_honest);
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("m");
        let mut damaged = good.clone();
        damaged[9] ^= 1;
        fs::write(&out, damaged).unwrap();
        let urls = [hostile.url("m"), honest.url("m")];
        let done = fetch_from(&honest, &urls, &out, &FetchOptions::new().pin(hash)).unwrap();
        assert!(fs::read(&out).unwrap() == good);
        let url = hostile.url("m").to_string();
        let is_named = |note: &String| note.starts_with(&url) && note.contains("not used");
        assert!(done.notes.iter().any(is_named), "{:?}", done.notes);
        fs::write(&out, b"mine").unwrap();
        let error = fetch_from(&hostile, &urls[..1], &out, &FetchOptions::new().pin(hash)).unwrap_err();
        assert!(matches!(error, FetchError::Local { .. }), "{error}");
        assert_eq!(fs::read(&out).unwrap(), b"mine");
    }
}

#[test]
fn a_wrong_outboard_of_one_mirror_is_replaced_by_that_of_another() {
    let good = content(1 << 20);
    let (hash, outboard) = blake3_tree::outboard(&good);
    let mut wrong = outboard.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let first = files(vec![("m", good.clone()), ("m.obao4", wrong)]);
    let second = files(vec![("m", good.clone()), ("m.obao4", outboard)]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m");
    let urls = [first.url("m"), second.url("m")];
    let done = fetch_from(&second, &urls, &out, &FetchOptions::new().pin(hash)).unwrap();
    assert!(fs::read(&out).unwrap() == good);
    let url = first.url("m.obao4").to_string();
    assert!(done.notes.iter().any(|note| note.starts_with(&url)), "{:?}", done.notes);
}
