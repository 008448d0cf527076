//! The program and a web server with TLS.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code"
)]

use std::path::Path;

use crate::common::{Run, command, program};
use testkit::servers::Nginx;

#[test]
fn a_server_with_tls_is_read_if_its_authority_is_trusted() {
    let [work, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let testdata = crate::common::testdata("");
    let nginx = Nginx::start_tls(&testdata, work.path());
    let run = |url: &str, trusted: Option<&Path>, json: &[&str]| -> Run {
        let mut command = command(program());
        command.args(["inspect", url]).args(json).env("XDG_CACHE_HOME", cache.path());
        command.env_remove("SSL_CERT_DIR").env_remove("SSL_CERT_FILE");
        trusted.iter().for_each(|path| {
            command.env("SSL_CERT_FILE", path);
        });
        crate::common::run(&mut command)
    };
    let url = format!("{}/apr2/lz4.apr", nginx.endpoint());
    assert!(url.starts_with("https://127.0.0.1:"));
    let authority = nginx.authority();
    let mut found = run(&url, Some(&authority), &["--json"]).json();
    let mut local =
        crate::common::modelfmt(["inspect", "--json", testdata.join("apr2/lz4.apr").to_str().unwrap()])
            .json();
    assert_eq!(found["path"], url.as_str());
    found["path"].take();
    local["path"].take();
    assert_eq!(found, local);
    assert!(nginx.requests(1)[0].range.starts_with("bytes="));
    // Another authority, or a name that differs from the certificate's, is refused.
    let before = nginx.requests(1).len();
    let untrusted = run(&url, None, &[]).error();
    assert!(untrusted.contains("certificate"), "{untrusted}");
    let other = run(&url.replace("127.0.0.1", "localhost"), Some(&authority), &[]).error();
    assert!(other.contains("certificate") || other.contains("localhost"), "{other}");
    // Plain HTTP fails with a server that expects TLS.
    let plain = run(&url.replace("https", "http"), Some(&authority), &[]).error();
    assert!(plain.contains("400") || plain.contains("cannot be opened"), "{plain}");
    assert_eq!(nginx.requests(before).iter().filter(|request| request.status == 206).count(), before);
}
