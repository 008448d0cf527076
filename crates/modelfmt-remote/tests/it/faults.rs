//! Servers that respond wrongly: each leads to a named error or to a limited number of retries, and never to
//! a wrong byte.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    reason = "this is test code"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Reply, Request, Server};
use modelfmt_core::Source as _;
use modelfmt_core::source::contract_test;
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{DiskCache, Environment, Error, Fault, Location, Options};
use testkit::servers::S3;

/// Returns a file whose bytes depend on their offsets.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// Reads all of a file: the bytes that opening it has fetched, and the rest.
fn whole(options: Options, place: &Location) -> Result<Vec<u8>, Fault> {
    let store = Store::new(options).unwrap();
    let file = store.open(place).map_err(|error| error.fault().clone())?;
    let read = file.read(0..file.len()).map(|bytes| bytes.to_vec());
    read.map_err(|error| Error::within(&error).unwrap_or_else(|| panic!("{error}")).fault().clone())
}

/// Returns the same file on a web server and in a bucket of S3.
fn places(server: &Server) -> [Location; 2] {
    [server.url("bucket/k"), "s3://bucket/k".parse().unwrap()]
}

#[test]
fn a_remote_file_keeps_the_contract_of_sources() {
    let bytes = bytes(100);
    let server = Server::of(bytes.clone());
    for (place, front) in places(&server).iter().flat_map(|place| [(place, 7), (place, 100), (place, 1000)]) {
        let store = Store::new(server.options().front(front).in_flight(4, 16)).unwrap();
        let file = store.open(place).unwrap();
        contract_test(&file, &bytes).unwrap();
        assert_eq!(file.name().unwrap(), place.to_string());
    }
    assert!(server.most_at_once() <= 4, "{}", server.most_at_once());
}

#[test]
fn an_empty_file_is_one() {
    let server = Server::start(|request| match request.header("range") {
        Some(_) => Reply::file(request, &[], "\"1\""),
        None => {
            Reply::status(200).with("last-modified", "Sun, 22 Nov 2026 00:00:00 GMT").with("etag", "\"1\"")
        }
    });
    for place in places(&server) {
        assert_eq!(whole(server.options(), &place).unwrap(), b"", "{place}");
    }
}

#[test]
fn a_connection_may_break_at_every_byte() {
    let all = bytes(96);
    for cut in 0..=96 {
        let served = all.clone();
        // Every other response breaks off, after `cut` bytes or at its end.
        let server = Server::start(move |request| {
            let reply = Reply::file(request, &served, "\"1\"");
            if request.number % 2 == 0 { Reply { cut: Some(cut), ..reply } } else { reply }
        });
        for place in places(&server) {
            let read = whole(server.options().front(32), &place);
            assert_eq!(read.unwrap(), all, "{place}, cut after {cut}");
        }
    }
}

#[test]
fn what_always_breaks_off_ends() {
    let all = bytes(1000);
    let server = Server::start(move |request| Reply { cut: Some(1), ..Reply::file(request, &all, "\"1\"") });
    for place in places(&server) {
        server.forget();
        let fault = whole(server.options(), &place).unwrap_err();
        assert!(matches!(fault, Fault::Broken(_)), "{fault:?}");
        assert_eq!(server.requests().len(), 6, "the first and five more");
    }
}

type Wrong = fn(Reply, &Request) -> Reply;
type Expected = fn(&Fault) -> bool;

/// Wrong responses to requests after the first, and the faults that they lead to.
const WRONG: &[(&str, Wrong, Expected)] = &[
    (
        "200 for 206",
        |reply, _| Reply { status: 200, body: vec![7; 1000], ..reply }.without("content-range"),
        |fault| matches!(fault, Fault::NoRanges | Fault::Store(_)),
    ),
    (
        "no Content-Range",
        |reply, _| reply.without("content-range"),
        |fault| matches!(fault, Fault::Answer(_)),
    ),
    (
        "another range",
        |reply, _| reply.with("content-range", "bytes 11-110/1000"),
        |fault| matches!(fault, Fault::Answer(_) | Fault::Store(_)),
    ),
    (
        "another length",
        |reply, _| reply.with("content-range", "bytes 100-999/1001"),
        |fault| matches!(fault, Fault::Changed),
    ),
    (
        "a malformed range",
        |reply, _| reply.with("content-range", "bytes 100-18446744073709551615/1000"),
        |fault| matches!(fault, Fault::Answer(_)),
    ),
    (
        "a short body",
        |reply, _| Reply { body: reply.body[..9].to_vec(), length: Some(None), ..reply },
        |fault| matches!(fault, Fault::Broken(_) | Fault::Store(_)),
    ),
    (
        "a long body",
        |reply, _| Reply { body: vec![1; 2000], length: Some(None), ..reply },
        |fault| matches!(fault, Fault::Answer(_) | Fault::Store(_)),
    ),
    (
        "a lie about the length",
        |reply, _| Reply { length: Some(Some(5000)), cut: Some(900), ..reply },
        |fault| matches!(fault, Fault::Answer(_) | Fault::Broken(_)),
    ),
    (
        "416",
        |reply, _| Reply { status: 416, body: vec![], ..reply }.with("content-range", "bytes */1000"),
        |fault| matches!(fault, Fault::Answer(_) | Fault::Status { status: 416, .. } | Fault::Changed),
    ),
    (
        "416 of a shorter file",
        |reply, _| Reply { status: 416, body: vec![], ..reply }.with("content-range", "bytes */9"),
        |fault| matches!(fault, Fault::Changed),
    ),
    ("a changed file, said so", |_, _| Reply::status(412), |fault| matches!(fault, Fault::Changed)),
    ("a changed file, sent", |reply, _| reply.with("etag", "\"2\""), |fault| matches!(fault, Fault::Changed)),
    ("no entity tag", |reply, _| reply.without("etag"), |fault| matches!(fault, Fault::Unnamed)),
    ("gzip", |reply, _| reply.with("content-encoding", "gzip"), |fault| matches!(fault, Fault::Answer(_))),
    (
        "a missing file",
        |_, _| Reply::status(404).body(b"<html>"),
        |fault| matches!(fault, Fault::NotFound(_)),
    ),
    (
        "no access",
        |_, _| Reply::status(403).body(b"<Error><Code>AccessDenied</Code>"),
        |fault| matches!(fault, Fault::Denied { status: 403, code } if &**code == " AccessDenied"),
    ),
    (
        "overload",
        |_, _| Reply::status(503).with("retry-after", "0").body(b"<html>secret</html>"),
        |fault| matches!(fault, Fault::Status { status: 503, .. }),
    ),
    (
        "overload for an hour",
        |_, _| Reply::status(429).with("retry-after", "3600"),
        |fault| matches!(fault, Fault::Status { status: 429, retry_after: Some(wait), .. } if wait.as_secs() == 3600),
    ),
    (
        "teapot",
        |_, _| Reply::status(418).body(b"<html>"),
        |fault| matches!(fault, Fault::Status { status: 418, .. } | Fault::Store(_)),
    ),
    (
        "silence",
        |reply, _| Reply { wait: Some(Duration::from_millis(900)), ..reply },
        |fault| matches!(fault, Fault::NoAnswer(_)),
    ),
    (
        "a trickle",
        |reply, _| Reply { trickle: Some(Duration::from_millis(40)), ..reply },
        |fault| matches!(fault, Fault::Stalled(_)),
    ),
];

#[test]
fn wrong_answers_have_names() {
    for (name, wrong, expected) in WRONG {
        let all = bytes(1000);
        let server = Server::start(move |request| {
            let reply = Reply::file(request, &all, "\"1\"");
            if request.range(1000).is_some_and(|range| range.start == 0) {
                reply
            } else {
                wrong(reply, request)
            }
        });
        for place in places(&server) {
            let quick = Duration::from_millis(300);
            let options = server.options().front(100).retries(1).first_byte(quick).progress(quick);
            let (before, fault) = (Instant::now(), whole(options, &place).unwrap_err());
            assert!(expected(&fault), "{name}, {place}: {fault:?}");
            assert!(
                !fault.to_string().contains(['<', '\n']) && fault.to_string().len() < 200,
                "{name}: {fault}"
            );
            assert!(before.elapsed() < Duration::from_secs(3), "{name}, {place}: {:?}", before.elapsed());
        }
    }
}

#[test]
fn wrong_first_answers_have_names() {
    let no_ranges: Expected = |fault| matches!(fault, Fault::NoRanges | Fault::Store(_));
    let first: &[(&str, Wrong, Expected)] = &[
        (
            "a whole file",
            |reply, _| Reply { status: 200, body: vec![7; 1000], ..reply }.without("content-range"),
            no_ranges,
        ),
        (
            "without a length",
            |reply, _| Reply { status: 200, length: Some(None), ..reply }.without("content-range"),
            no_ranges,
        ),
        (
            "416",
            |reply, _| Reply { status: 416, body: vec![], ..reply },
            |fault| matches!(fault, Fault::Answer(_) | Fault::Status { status: 416, .. }),
        ),
    ];
    for &(name, wrong, expected) in first.iter().chain(WRONG.iter().filter(|(name, ..)| {
        [
            "no Content-Range",
            "another range",
            "a malformed range",
            "gzip",
            "no access",
            "teapot",
            "a missing file",
        ]
        .contains(name)
    })) {
        let all = bytes(1000);
        let server = Server::start(move |request| wrong(Reply::file(request, &all, "\"1\""), request));
        for place in places(&server) {
            let fault = whole(server.options().front(100).retries(0), &place).unwrap_err();
            assert!(expected(&fault), "{name}, {place}: {fault:?}");
        }
    }
    // A small file that arrives whole is accepted.
    let server = Server::start(|_| Reply::status(200).body(b"small"));
    assert_eq!(whole(server.options(), &server.url("x")).unwrap(), b"small");
}

#[test]
fn overload_passes() {
    for (status, after) in [(429, Some("1")), (503, Some("0")), (500, None), (504, None)] {
        let all = bytes(300);
        let server = Server::start(move |request| match (request.number % 3, after) {
            (0, Some(after)) => Reply::status(status).with("retry-after", after),
            (0, None) => Reply::status(status),
            _ => Reply::file(request, &all, "\"1\""),
        });
        for place in places(&server) {
            let before = Instant::now();
            assert_eq!(whole(server.options().front(100), &place).unwrap(), bytes(300), "{status}, {place}");
            let waited = before.elapsed();
            assert!(after != Some("1") || waited > Duration::from_millis(950), "{waited:?}");
        }
    }
}

#[test]
fn weak_etags_and_dates_pin_a_file_too() {
    for (name, header, value, other) in [
        ("weak", "etag", "W/\"1\"", "W/\"2\""),
        ("date", "last-modified", "Sun, 22 Nov 2026 00:00:00 GMT", "Sun, 22 Nov 2026 00:00:01 GMT"),
    ] {
        let all = bytes(1000);
        let server = Server::start(move |request| {
            let value = if request.number == 0 { value } else { other };
            let reply = Reply::file(request, &all, "\"1\"").without("etag").without("last-modified");
            assert!(request.header("if-match").is_none(), "a weak one never matches");
            reply.with(header, value)
        });
        let fault = whole(server.options().front(100), &server.url("x")).unwrap_err();
        assert!(matches!(fault, Fault::Changed), "{name}: {fault:?}");
    }
}

#[test]
fn an_answer_without_the_entity_tag_is_not_used_and_not_kept() {
    const LEN: usize = 1 << 20;
    let all = bytes(LEN);
    let is_wrong = Arc::new(AtomicBool::new(false));
    let (served, wrong) = (all.clone(), Arc::clone(&is_wrong));
    let server = Server::start(move |request| {
        let reply = Reply::file(request, &served, "\"1\"");
        if wrong.load(Ordering::SeqCst) {
            return Reply { body: vec![0xEE; reply.body.len()], ..reply }.without("etag");
        }
        reply
    });
    for place in places(&server) {
        let folder = tempfile::tempdir().unwrap();
        let options = || server.options().cache(DiskCache::new(folder.path(), 1 << 30));
        let store = Store::new(options()).unwrap();
        let file = store.open(&place).unwrap();
        is_wrong.store(true, Ordering::SeqCst);
        let error = file.read(0..LEN as u64).unwrap_err();
        let fault = Error::within(&error).unwrap().fault().clone();
        assert!(matches!(fault, Fault::Unnamed), "{place}: {fault:?}");
        is_wrong.store(false, Ordering::SeqCst);
        assert!(whole(options(), &place).unwrap() == all, "{place}: wrong bytes came out of the cache");
    }
}

/// A server that sends nothing for an hour, or a byte from time to time, either after the first response or
/// from the beginning.
#[test]
fn a_server_that_gives_nothing_is_given_up() {
    let silent: Wrong = |reply, _| Reply { wait: Some(Duration::from_secs(3600)), ..reply };
    let trickling: Wrong = |reply, _| Reply { trickle: Some(Duration::from_millis(5)), ..reply };
    let overloaded: Wrong = |_, _| Reply::status(503).with("retry-after", "1");
    for (name, wrong, expected) in [
        ("silence", silent, (|fault| matches!(fault, Fault::Silent(_))) as Expected),
        ("a trickle", trickling, |fault| matches!(fault, Fault::Silent(_))),
        ("overload", overloaded, |fault| matches!(fault, Fault::Status { status: 503, .. })),
    ] {
        for is_first in [true, false] {
            let all = bytes(4000);
            let server = Server::start(move |request| {
                let reply = Reply::file(request, &all, "\"1\"");
                let is_right = !is_first && request.range(4000).is_some_and(|range| range.start == 0);
                if is_right { reply } else { wrong(reply, request) }
            });
            for place in places(&server) {
                // Without a limit, this would be retried for hours.
                let options =
                    server.options().front(100).retries(u32::MAX).stall_timeout(Duration::from_millis(400));
                let fault = whole(options, &place).unwrap_err();
                assert!(expected(&fault), "{name}, {place}: {fault:?}");
            }
        }
    }
}

#[test]
fn a_missing_bucket_is_not_a_missing_file() {
    let s3 = S3::start();
    s3.make_bucket("there");
    let options = || crate::common::options().environment(Environment::from_vars(s3.environment()));
    let fault = |place: &str| whole(options(), &place.parse().unwrap()).unwrap_err();
    assert!(matches!(fault("s3://there/m.aero"), Fault::NotFound(404)));
    for place in ["s3://not-there/m.aero", "s3://not-there/a/b/m.apr"] {
        let fault = fault(place);
        assert!(matches!(fault, Fault::NoBucket), "{place}: {fault:?}");
    }
    let store = Store::new(options()).unwrap();
    let error = store.list(&"s3://not-there/a/".parse().unwrap()).unwrap_err();
    assert!(matches!(error.fault(), Fault::NoBucket), "{error:?}");
}

#[test]
fn later_requests_name_the_version() {
    let server = Server::of(bytes(1000));
    for place in places(&server) {
        server.forget();
        whole(server.options().front(100), &place).unwrap();
        let requests = server.requests();
        assert_eq!(requests.len(), 2, "no HEAD: {requests:?}");
        assert_eq!(requests[0].header("if-match"), None);
        assert_eq!(requests[1].header("if-match"), Some("\"1\""));
        assert_eq!(requests[1].header("range"), Some("bytes=100-999"));
    }
}

#[test]
fn redirects_are_followed_where_they_may_lead() {
    let target = Server::of(bytes(1000));
    let to = format!("http://localhost:{}/data?sig=SECRET", target.port);
    let server = Server::start(move |_| Reply::status(302).with("location", &to));
    let place: Location = format!("http://user:pass@127.0.0.1:{}/x?q=1", server.port).parse().unwrap();
    assert_eq!(whole(server.options().front(100), &place).unwrap(), bytes(1000));
    assert_eq!(server.requests()[0].header("authorization"), Some("Basic dXNlcjpwYXNz"));
    assert_eq!(server.requests()[0].target, "/x?q=1");
    assert_eq!(server.requests().len(), 1, "the second request begins where the first was led");
    for request in target.requests() {
        assert_eq!(request.target, "/data?sig=SECRET");
        assert_eq!(request.header("authorization"), None, "a token goes to the server that it is for");
    }
    const NOT_HTTP: Fault = Fault::Redirect("to something that is not http or https, which is refused");
    for (location, expected) in [
        ("file:///etc/passwd", NOT_HTTP),
        ("gopher://h/", NOT_HTTP),
        ("http://", Fault::Redirect("without a valid address")),
        ("http://10.1.2.3/x", Fault::PrivateRedirect([10, 1, 2, 3].into(), "private")),
        ("http://[fe80::1]/x", Fault::PrivateRedirect("fe80::1".parse().unwrap(), "link-local")),
        ("/again", Fault::TooManyRedirects(10)),
    ] {
        let server = Server::start(move |_| Reply::status(307).with("location", location));
        let fault = whole(server.options(), &server.url("x")).unwrap_err();
        assert_eq!(fault, expected, "{location}");
    }
    let server =
        Server::start(|_| Reply::status(301).with("location", "http://169.254.169.254/latest/meta-data"));
    for options in [server.options(), server.options().private_redirects(true).instance_credentials(true)] {
        let fault = whole(options, &server.url("x")).unwrap_err();
        assert!(matches!(fault, Fault::Metadata(_)), "{fault:?}");
    }
    let direct = whole(server.options(), &"http://169.254.169.254/x".parse().unwrap());
    assert!(matches!(direct, Err(Fault::Metadata(_))), "{direct:?}");
}

#[test]
fn an_address_that_expired_is_asked_for_again() {
    let all = bytes(1000);
    let target = Server::start(move |request| match request.number {
        1 => Reply::status(403),
        _ => Reply::file(request, &all, "\"1\""),
    });
    let to = format!("http://127.0.0.1:{}/data", target.port);
    let server = Server::start(move |_| Reply::status(302).with("location", &to));
    assert_eq!(whole(server.options().front(100), &server.url("x")).unwrap(), bytes(1000));
    assert_eq!((server.requests().len(), target.requests().len()), (2, 3));
}

#[test]
fn the_token_of_hugging_face_stays_there() {
    let target = Server::of(bytes(1000));
    let to = format!("http://127.0.0.1:{}/cdn", target.port);
    let server = Server::start(move |_| Reply::status(302).with("location", &to));
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let variables = [("HF_ENDPOINT", endpoint.as_str()), ("HF_TOKEN", "hf_secret")];
    let options = crate::common::options().environment(Environment::from_vars(variables));
    let place = "hf://owner/repo/a/m.gguf@v1".parse().unwrap();
    assert_eq!(whole(options, &place).unwrap(), bytes(1000));
    let asked = &server.requests()[0];
    assert_eq!(asked.target, "/owner/repo/resolve/v1/a/m.gguf");
    assert_eq!(asked.header("authorization"), Some("Bearer hf_secret"));
    assert_eq!(target.requests()[0].header("authorization"), None);
}

#[test]
fn the_files_of_a_repository_are_of_one_commit() {
    let commits = ["a".repeat(40), "b".repeat(40)];
    let first = commits[0].clone();
    let server = Server::start(move |request| {
        // The branch moves with each request.
        let commit = commits[request.number.min(1)].clone();
        Reply::file(request, &bytes(100), "\"1\"").with("x-repo-commit", &commit)
    });
    let store = Store::new(server.options()).unwrap();
    for place in
        ["hf://o/r/m.index.json", "hf://o/r/m-1.gguf", "hf://o/r/m-2.gguf@main", "hf://o/other/m.gguf"]
    {
        store.open(&place.parse().unwrap()).unwrap();
    }
    let targets: Vec<String> = server.requests().into_iter().map(|request| request.target).collect();
    let expected = [
        "/o/r/resolve/main/m.index.json".to_owned(),
        format!("/o/r/resolve/{first}/m-1.gguf"),
        format!("/o/r/resolve/{first}/m-2.gguf"),
        "/o/other/resolve/main/m.gguf".to_owned(),
    ];
    assert_eq!(targets, expected);
}

#[test]
fn nothing_secret_is_printed() {
    let server = Server::start(|_| Reply::status(403).body(b"<Code>Denied</Code>sig=SECRET"));
    let place: Location =
        format!("http://user:SECRET@127.0.0.1:{}/x?sig=SECRET", server.port).parse().unwrap();
    let store = Store::new(server.options()).unwrap();
    let error = store.open(&place).unwrap_err();
    let shown = format!("{error} {error:?} {place:?} {store:?}");
    assert!(!shown.contains("SECRET"), "{shown}");
    let expected = format!(
        "http://127.0.0.1:{}/x: the server refuses access (403 Denied); check the credentials",
        server.port
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn no_credentials_are_looked_for_at_metadata_addresses() {
    for place in ["s3://b/k", "gs://b/k", "az://c/k"] {
        let fault = whole(crate::common::options(), &place.parse().unwrap()).unwrap_err();
        assert!(matches!(fault, Fault::NoCredentials { .. }), "{place}: {fault:?}");
    }
}

#[test]
fn limits_of_what_is_under_way_hold() {
    let all = bytes(1 << 20);
    let served = all.clone();
    let server = Server::start(move |request| Reply {
        wait: Some(Duration::from_millis(2)),
        ..Reply::file(request, &served, "\"1\"")
    });
    for place in places(&server) {
        // Pieces of 64 KiB: the limit on requests would allow four times as many simultaneous bytes as the
        // limit on bytes.
        let options = server.options().front(100).in_flight(3, 64 << 10);
        assert_eq!(whole(options, &place).unwrap(), all);
    }
    assert!(server.most_at_once() <= 3, "{}", server.most_at_once());
}
