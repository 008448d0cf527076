//! The servers start, answer like real ones, and end.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use testkit::servers::{Nginx, Request, S3, request};

#[test]
fn an_s3_server_keeps_objects_until_it_ends() {
    let s3 = S3::start();
    s3.make_bucket("models");
    s3.put("models", "a/b.bin", b"0123456789");
    assert_eq!(s3.get("models", "a/b.bin").unwrap(), b"0123456789");
    assert_eq!((s3.get("models", "a/c.bin"), s3.keys("models")), (None, vec!["a/b.bin".to_owned()]));
    assert_eq!(s3.unfinished_uploads("models"), [""; 0]);

    let address = s3.endpoint().replace("http://", "");
    let part = s3.request("GET", "/models/a/b.bin", "Range: bytes=2-4\r\n", b"");
    assert_eq!((part.status, part.body.as_slice()), (206, &b"234"[..]));
    assert!(part.head.contains("bytes 2-4/10"), "{}", part.head);
    let stale = s3.request("GET", "/models/a/b.bin", "If-Match: \"other\"\r\n", b"");
    assert_eq!((stale.status, request(&address, "GET", "/models/a/b.bin", "", b"").status), (412, 403));
    drop(s3);
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn nginx_sends_ranges_and_says_what_it_was_asked() {
    let (folder, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("m.bin"), b"0123456789").unwrap();
    let nginx = Nginx::start(folder.path(), work.path());
    let address = nginx.endpoint().replace("http://", "");
    let part = request(&address, "GET", "/m.bin", "Range: bytes=2-4\r\n", b"");
    assert_eq!((part.status, part.body.as_slice()), (206, &b"234"[..]));
    let stale = request(&address, "GET", "/m.bin", "If-Match: \"other\"\r\n", b"");
    assert_eq!(stale.status, 412);
    let asked = nginx.requests(2);
    let first = Request {
        what: "GET /m.bin".to_owned(),
        range: "bytes=2-4".to_owned(),
        if_match: String::new(),
        status: 206,
        nbytes: 3,
    };
    assert_eq!((asked.len(), &asked[0], asked[1].if_match.as_str()), (2, &first, "\"other\""));
    drop(nginx);
    assert!(std::net::TcpStream::connect(address).is_err());
}
