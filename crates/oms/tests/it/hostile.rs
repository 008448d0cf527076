//! Bundles and statements that no signer would write: each is refused, and none leads out of its folder.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::fs;

use crate::common::{bundle, hex, key, sha256, statement};
use modelfmt_core::Execution;
use modelfmt_oms::{Bundle, Error, Verified, VerifyOptions, verify};
use proptest::prelude::*;

const FILES: &str =
    r#""method": "files", "hash_type": "sha256", "allow_symlinks": false, "ignore_paths": []"#;

/// Verifies a folder with the files `a` and `b` by a bundle.
fn verified(bundle: &str) -> Result<Verified, Error> {
    verified_beside(bundle, &[])
}

/// Does the same with additional empty files of these names in the folder.
fn verified_beside(bundle: &str, empty: &[&str]) -> Result<Verified, Error> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("m")).unwrap();
    let model = folder.path().join("m");
    for name in ["a", "b"] {
        fs::write(model.join(name), name.repeat(10)).unwrap();
    }
    fs::write(folder.path().join("outside"), "outside").unwrap();
    fs::write(model.join("model.sig"), bundle).unwrap();
    empty.iter().for_each(|name| fs::write(model.join(name), "").unwrap());
    verify(&model, &[key().public().clone()], &VerifyOptions::new(), &Execution::default())
}

fn digest(name: &str) -> Vec<u8> {
    sha256(name.repeat(10).as_bytes())
}

fn good() -> String {
    statement(FILES, &[("b", "sha256", digest("b")), ("a", "sha256", digest("a"))])
}

fn said(payload: &str) -> String {
    let outcome = verified(&bundle(payload, &key()));
    outcome.map_or_else(|error| error.to_string(), |verified| format!("{:?}", verified.findings()))
}

#[test]
fn the_order_of_the_list_is_free() {
    assert!(verified(&bundle(&good(), &key())).unwrap().is_ok());
}

#[test]
fn names_that_lead_elsewhere_or_twice_to_the_same_are_refused() {
    for name in ["../outside", "/etc/passwd", "./a", "a/../b", "a//b", "", "sub/", "a\\u0000"] {
        let digest = sha256(b"outside");
        let payload = statement(FILES, &[(name, "sha256", digest)]);
        assert!(said(&payload).contains("the name"), "{name:?}: {}", said(&payload));
    }
    let twice = statement(FILES, &[("a", "sha256", digest("a")), ("a", "sha256", digest("a"))]);
    assert!(said(&twice).contains("is there twice"), "{}", said(&twice));
    let ignored = FILES.replace("[]", r#"["../outside"]"#);
    assert!(said(&statement(&ignored, &[("a", "sha256", digest("a"))])).contains("the name"));
    let all = FILES.replace("[]", r#"["."]"#);
    assert!(said(&statement(&all, &[("a", "sha256", digest("a"))])).contains("the name"));
}

#[test]
fn statements_that_are_not_what_they_say_are_refused() {
    let rows: [(&str, &str, &str); 14] = [
        ("in-toto.io/Statement/v1", "in-toto.io/Statement/v0.1", "the statement's type"),
        ("model_signing/signature/v1.0", "model_signing/Digests/v0.1", "the predicate's type"),
        (r#"[{"name": "m""#, r#"[{"name": "x", "digest": {}}, {"name": "m""#, "2 subjects"),
        (r#""sha256": ""#, r#""sha256": "00"#, "the digest over it"),
        (r#""method": "files""#, r#""method": "chunks""#, "files or shards"),
        (r#""hash_type": "sha256""#, r#""hash_type": "md5""#, "sha256, blake2b or blake3"),
        (r#""algorithm": "sha256""#, r#""algorithm": "blake3""#, "is not what its algorithm gives"),
        (r#""allow_symlinks": false"#, r#""allow_symlinks": true"#, "symbolic links"),
        (r#""method": "files""#, r#""method": "files", "method": "files""#, "twice"),
        (r#"{"_type""#, r#"{"_type": "x", "_type""#, "twice"),
        (r#""digest": ""#, r#""digest": "ZZ"#, "lower-case hex"),
        (r#""resources""#, r#""sources""#, "lacks"),
        (r#""name": "b""#, r#""title": "b""#, "no name"),
        (r#"}}"#, r#"}} x"#, "no signature that can be read"),
    ];
    for (from, to, expected) in rows {
        let payload = if from == "}}" { format!("{} x", good()) } else { good().replacen(from, to, 1) };
        assert!(said(&payload).contains(expected), "{to}: {}", said(&payload));
    }
    // Unknown members are skipped, unless they are nested unreasonably deep.
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let more = good().replacen(r#"{"_type""#, &format!(r#"{{"more": {deep}, "_type""#), 1);
    assert_eq!(said(&more), "[]");
    let too_deep =
        good().replacen(r#"{"_type""#, &format!(r#"{{"more": {}, "_type""#, "[".repeat(100_000)), 1);
    assert!(said(&too_deep).contains("can be read"));
    let many: String = (0..100_000).map(|i| format!(r#""x{i}": 1,"#)).collect();
    let many = good().replacen(r#"{"_type""#, &format!(r#"{{{many} "_type""#), 1);
    assert!(said(&many).contains("members"), "{}", said(&many));
}

#[test]
fn bundles_of_other_kinds_are_named() {
    let good = bundle(&good(), &key());
    let rows: [(&str, &str, &str); 9] = [
        ("bundle.v0.3", "bundle.v0.2", "the bundle's type"),
        ("application/vnd.in-toto+json", "text/plain", "the payload's type"),
        (r#""publicKey""#, r#""x509CertificateChain": {"certificates": []}, "publicKey""#, "certificate"),
        (r#""publicKey""#, r#""certificate": {"rawBytes": ""}, "publicKey""#, "certificate"),
        (r#"[{"sig""#, r#"[{"sig": "AA=="}, {"sig""#, "2 signatures"),
        (r#""signatures""#, r#""x""#, "0 signatures"),
        (r#""payload": ""#, r#""payload": "*"#, "Base64"),
        (r#""hint": ""#, r#""hint": "0"#, "not one of the named keys"),
        (r#""dsseEnvelope""#, r#""messageSignature""#, "no dsseEnvelope"),
    ];
    for (from, to, expected) in rows {
        let error = verified(&good.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
    // Older releases wrote this in place of the hint.
    let old = good.replacen(r#""hint": ""#, r#""rawBytes": "AA==", "keyDetails": "PKIX", "more": ""#, 1);
    assert!(verified(&old).unwrap().is_ok());
    let null = good.replacen(&hex(&sha256(key().public().to_pem().as_bytes())), "", 1);
    assert!(verified(&null).unwrap().is_ok());
}

#[test]
fn a_statement_counts_only_with_its_own_signature() {
    let one = bundle(&good(), &key());
    let other = bundle(&statement(FILES, &[("a", "sha256", digest("b"))]), &key());
    let part = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!("\"{name}\": \"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let mixed = one.replace(&part(&one, "sig"), &part(&other, "sig"));
    assert!(matches!(verified(&mixed), Err(Error::BadSignature { .. })));
    // The same statement with other white space is a different statement.
    let spaced = base64(&good().replace(": ", ":"));
    assert!(matches!(
        verified(&one.replace(&part(&one, "payload"), &spaced)),
        Err(Error::BadSignature { .. })
    ));
    // The faulty encoding that the first release signed is not accepted.
    let payload = good();
    let faulty = format!("DSSEv1 28 b'application/vnd.in-toto+json' {} b'{payload}'", payload.len());
    let faulty = base64ct_encode(&key().sign(faulty.as_bytes()).unwrap());
    assert!(matches!(verified(&one.replace(&part(&one, "sig"), &faulty)), Err(Error::BadSignature { .. })));
}

fn base64(text: &str) -> String {
    base64ct_encode(text.as_bytes())
}

fn base64ct_encode(bytes: &[u8]) -> String {
    use base64ct::Encoding as _;
    base64ct::Base64::encode_string(bytes)
}

#[test]
fn ranges_and_other_hashes_are_read() {
    let shards = r#""method": "shards", "hash_type": "sha256", "allow_symlinks": false, "shard_size": 4.0"#;
    let range = |name: &str, range: std::ops::Range<usize>| sha256(&name.repeat(10).as_bytes()[range]);
    let all = |algorithm| {
        vec![
            ("a:0:4", algorithm, range("a", 0..4)),
            ("a:4:8", algorithm, range("a", 4..8)),
            ("a:8:10", algorithm, range("a", 8..10)),
            ("b:4:8", algorithm, range("b", 4..8)),
            ("b:0:4", algorithm, range("b", 0..4)),
            ("b:8:10", algorithm, range("b", 8..10)),
        ]
    };
    for algorithm in ["sha256", "sha256-sharded-4"] {
        assert_eq!(said(&statement(shards, &all(algorithm))), "[]");
    }
    // Ranges do not cover an empty file. The signer's tool writes statements like this too, so it is unknown
    // whether the file existed.
    let beside = verified_beside(&bundle(&statement(shards, &all("sha256")), &key()), &["__init__.py"]);
    let beside = beside.unwrap();
    assert_eq!((beside.is_ok(), &beside.empty[..]), (true, &["__init__.py".to_owned()][..]));
    let mut wrong = all("sha256");
    wrong[1].2 = range("b", 4..8);
    assert!(said(&statement(shards, &wrong)).contains("\\\"a\\\" is not what was signed"));
    let mut short = all("sha256");
    short.pop();
    assert!(
        said(&statement(shards, &short)).contains("\\\"b\\\" is not"),
        "{}",
        said(&statement(shards, &short))
    );
    for bad in
        ["a:0:5", "a:2:4", "a:4:4", "a:0", "a:x:4", "../a:0:4", "a:18446744073709551612:18446744073709551615"]
    {
        let mut list = all("sha256");
        list[0].0 = bad;
        let said = said(&statement(shards, &list));
        assert!(said.contains("ranges") || said.contains("the name"), "{bad}: {said}");
    }
    for size in ["4.5", "0", "-4", "1e300"] {
        let how = shards.replace("4.0", size);
        assert!(said(&statement(&how, &all("sha256"))).contains("no size of a range"), "{size}");
    }

    let blake3 = FILES.replace("sha256", "blake3");
    let hash = |name: &str| blake3::hash(name.repeat(10).as_bytes()).as_bytes().to_vec();
    let list = [("a", "blake3", hash("a")), ("b", "blake3", hash("b"))];
    assert_eq!(said(&statement(&blake3, &list)), "[]");
    use blake2::{Blake2b512, Digest as _};
    let blake2b = FILES.replace("sha256", "blake2b");
    let hash = |name: &str| Blake2b512::digest(name.repeat(10).as_bytes()).to_vec();
    assert_eq!(said(&statement(&blake2b, &[("a", "blake2b", hash("a")), ("b", "blake2b", hash("b"))])), "[]");
    let short = [("a", "blake2b", digest("a")), ("b", "blake2b", hash("b"))];
    assert!(said(&statement(&blake2b, &short)).contains("is not what its algorithm gives"));
}

#[cfg(unix)]
#[test]
fn a_signature_that_is_no_file_or_too_long_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (model, signature) = (folder.path().join("m"), folder.path().join("m.sig"));
    fs::write(&model, "m").unwrap();
    let refused = || {
        let error = verify(&model, &[key().public().clone()], &VerifyOptions::new(), &Execution::default());
        let error = error.unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        fs::remove_file(&signature).unwrap();
        format!("{error}: {cause}")
    };
    // A pipe into which nobody writes.
    assert!(std::process::Command::new("mkfifo").arg(&signature).status().unwrap().success());
    assert!(refused().ends_with("m.sig: cannot be read: it is not a regular file"));
    std::os::unix::fs::symlink("/dev/zero", &signature).unwrap();
    assert!(refused().ends_with("m.sig: cannot be read: it is not a regular file"));
    let long = fs::File::create(&signature).unwrap();
    long.set_len(modelfmt_oms::MAX_BUNDLE + 1).unwrap();
    let said = refused();
    assert!(said.contains("has 268435457 bytes, and the limit is 268435456"), "{said}");
}

proptest! {
    #[test]
    fn any_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Bundle::parse(&bytes).is_err());
    }

    #[test]
    fn any_signed_text_is_read_without_panic(cut in 0usize..600, text in "\\PC{0,40}") {
        let mut payload = good();
        let cut = payload.floor_char_boundary(cut.min(payload.len()));
        payload.insert_str(cut, &text);
        let _ = said(&payload);
    }
}
