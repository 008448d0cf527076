//! The program signs and rekeys models of several files: all shards and the manifest change together.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::Secrets;
use serde_json::Value;

/// Makes a set in its own folder, and returns its manifest.
fn set(keys: &Secrets, name: &str, with: &[&str]) -> String {
    fs::create_dir(keys.path(name)).unwrap();
    let out = keys.path(&format!("{name}/m.apr"));
    let source = testkit::testdata("seal").join("signed.apr").display().to_string();
    let convert = ["convert", &source, &out, "--dequantize", "f32", "--lossy", "--shard-size", "8KiB"];
    keys.ok(&[&convert, with].concat());
    assert!(files(&out).len() > 2);
    out
}

/// Returns the files in the folder of a manifest, by their names.
fn files(manifest: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(Path::new(manifest).parent().unwrap()).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect()
}

/// Returns the path of a shard.
fn shard(manifest: &str, number: usize) -> PathBuf {
    let mut names = files(manifest).into_keys().filter(|name| name.contains("-of-"));
    Path::new(manifest).with_file_name(names.nth(number).unwrap())
}

fn is_same(keys: &Secrets, a: &str, b: &str, with: &[&str]) -> bool {
    let run = keys.run(&[&["diff", "--ignore-metadata", a, b], with].concat());
    assert!(run.status < 2 && run.stderr.is_empty(), "{}", run.stderr);
    run.status == 0
}

#[test]
fn a_set_that_is_not_sealed_is_signed_where_it_is() {
    let keys = Secrets::new();
    let (a, b) = (keys.key("ed25519", "a"), keys.key("ed25519", "b"));
    let (a_public, b_public) = (format!("{a}.pub"), format!("{b}.pub"));
    for compress in ["none", "lz4"] {
        let plain = set(&keys, &format!("plain-{compress}"), &["--compress", compress]);
        let out = set(&keys, &format!("set-{compress}"), &["--compress", compress]);
        keys.ok(&["sign", &out, "--key", &a, "--revision", "4"]);
        let verified = keys.ok(&["verify", &out, "--key", &a_public, "--min-revision", "4"]);
        assert!(verified.contains("signature") && verified.contains("digests"), "{verified}");
        assert!(keys.run(&["verify", &out, "--key", &b_public]).status == 1);
        assert!(is_same(&keys, &plain, &out, &[]));
        assert!(files(&plain).keys().eq(files(&out).keys()), "nothing is left behind");
        // The second signature is only in the manifest.
        let once = files(&out);
        keys.ok(&["sign", &out, "--key", &b]);
        let changed: Vec<_> = files(&out).into_iter().filter(|(name, bytes)| once[name] != *bytes).collect();
        assert!(changed.len() == 1 && changed[0].0 == "m.apr");
        // The set has two signers, and its shards have one of them.
        for (named, is_named) in [(&[][..], [false; 2]), (&["--key", &b_public], [false, true])] {
            let shown: Value =
                serde_json::from_str(&keys.ok(&[&["inspect", "--json", &out], named].concat())).unwrap();
            let details = &shown["details"];
            let signatures = details["signatures"].as_array().unwrap().iter();
            assert!(signatures.map(|signature| signature["is_named"] == true).eq(is_named), "{details}");
            assert_eq!(details["revision"], 4);
            let pin = format!("seal:{}", details["statement"].as_str().unwrap());
            keys.ok(&["verify", &out, "--pin", &pin]);
        }
        let both = ["--key", &a_public, "--key", &b_public, "--threshold", "2", "--min-revision", "4"];
        keys.ok(&[&["verify", &out], &both[..]].concat());
        // A shard of another set is not accepted in this one.
        fs::copy(shard(&plain, 0), shard(&out, 0)).unwrap();
        assert!(keys.run(&["verify", &out, "--key", &a_public]).status == 1);
    }
}

#[test]
fn a_set_that_is_damaged_is_not_signed() {
    let keys = Secrets::new();
    let (a, out) = (keys.key("ed25519", "a"), set(&keys, "set", &[]));
    let shard = shard(&out, 1);
    let mut bytes = fs::read(&shard).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    let before = files(&out);
    let error = keys.run(&["sign", &out, "--key", &a]).error();
    assert!(error.contains("not intact") && files(&out) == before, "{error}");
}

#[test]
fn rekey_changes_who_can_open_every_shard() {
    let keys = Secrets::new();
    let (me, other, release) =
        (keys.key("x25519", "me"), keys.key("x25519", "other"), keys.key("ed25519", "release"));
    let (me_public, other_public, public) =
        (format!("{me}.pub"), format!("{other}.pub"), format!("{release}.pub"));
    let plain = set(&keys, "plain", &[]);
    let out = set(&keys, "set", &["--seal", "--to-recipient", &me_public, "--sign", &release]);
    let phrase = keys.secret("phrase", "correct horse battery");
    let steps: &[(&[&str], [&str; 2])] = &[
        (
            &["--identity", &me, "--to-recipient", &me_public, "--to-recipient", &other_public],
            ["--identity", &other],
        ),
        (&["--identity", &me, "--passphrase-file", &phrase], ["--passphrase-file", &phrase]),
        (&["--old-passphrase-file", &phrase, "--to-recipient", &other_public], ["--identity", &other]),
    ];
    let names: Vec<String> = files(&out).into_keys().collect();
    for (step, with) in steps {
        keys.ok(&[&["seal", &out, "--rekey"], *step].concat());
        keys.ok(&[&["verify", &out, "--key", &public], &with[..]].concat());
        assert!(is_same(&keys, &plain, &out, &with[..]), "{step:?}");
        assert!(files(&out).into_keys().eq(names.iter().cloned()), "nothing is left behind");
    }
    let before = files(&out);
    let error = keys.run(&["seal", &out, "--rekey", "--identity", &me, "--to-recipient", &me_public]).error();
    assert!(error.contains("SealNoKey") && files(&out) == before, "{error}");
    let (raw, long) = (keys.raw("raw"), "x".repeat(1025));
    let to = ["--identity", &other, "--key-file", &raw, "--key-id", &long];
    let error = keys.run(&[&["seal", &out, "--rekey"], &to[..]].concat()).error();
    assert!(error.contains("SealLimit") && files(&out) == before, "{error}");
    let error =
        keys.run(&["seal", &plain, "--rekey", "--identity", &other, "--to-recipient", &me_public]).error();
    assert!(error.contains("SealMissing") || error.contains("not encrypted"), "{error}");
    // A single shard cannot be rekeyed.
    let shard = shard(&out, 0).display().to_string();
    let rekey = ["seal", &shard, "--rekey", "--identity", &other, "--to-recipient", &me_public];
    assert!(keys.run(&rekey).error().contains("name the manifest"));
    assert!(files(&out) == before);
}

#[test]
fn a_set_hides_its_index() {
    let keys = Secrets::new();
    let (me, other, release) =
        (keys.key("x25519", "me"), keys.key("x25519", "other"), keys.key("ed25519", "release"));
    let (me_public, other_public, public) =
        (format!("{me}.pub"), format!("{other}.pub"), format!("{release}.pub"));
    let plain = set(&keys, "plain", &[]);
    let seal = ["--seal", "--hide-index", "--to-recipient", &me_public, "--sign", &release];
    let out = set(&keys, "set", &seal);
    let shown = |with: &[&str]| -> Value {
        serde_json::from_str(&keys.ok(&[&["inspect", "--json", &out], with].concat())).unwrap()
    };
    let (open, locked) = (shown(&["--identity", &me]), shown(&[]));
    let names = open["tensors"].as_array().unwrap().iter().map(|tensor| tensor["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 2 && locked["tensors"] == Value::Array(Vec::new()), "{locked}");
    assert!(names.contains(&"a.weight"));
    for bytes in files(&out).values() {
        assert!(!bytes.windows(8).any(|part| part == b"a.weight"));
    }
    keys.ok(&["verify", &out, "--key", &public]);
    keys.ok(&["verify", &out, "--key", &public, "--identity", &me]);
    assert!(is_same(&keys, &plain, &out, &["--identity", &me]));
    let one = keys.path("one.npy");
    keys.ok(&["extract", &out, "a.weight", "-o", &one, "--key", &public, "--identity", &me]);
    let back = keys.path("back.apr");
    keys.ok(&["unseal", &out, &back, "--key", &public, "--identity", &me]);
    assert!(is_same(&keys, &plain, &back, &[]));
    for without in
        [&["extract", &out, "a.weight", "-o", &one, "--force"][..], &["convert", &out, &back, "--force"]]
    {
        let error = keys.run(without).error();
        assert!(error.contains("SealNoKey"), "{error}");
    }
    let wrong = keys.run(&["unseal", &out, &back, "--force", "--identity", &other]).error();
    assert!(wrong.contains("SealNoKey"), "{wrong}");
    // The people who can open it change, and so do its signers. Neither needs the content that the shards
    // hide.
    keys.ok(&["seal", &out, "--rekey", "--identity", &me, "--to-recipient", &other_public]);
    let next = keys.key("ed25519", "next");
    keys.ok(&["sign", &out, "--key", &next]);
    let both = ["--key", &public, "--key", &format!("{next}.pub"), "--threshold", "2", "--identity", &other];
    keys.ok(&[&["verify", &out], &both[..]].concat());
    assert!(is_same(&keys, &plain, &out, &["--identity", &other]));
    // If a shard of a hidden set is missing, the error names it. The manifest alone is not enough.
    fs::remove_file(shard(&out, 1)).unwrap();
    let error = keys.run(&["inspect", &out, "--identity", &other]).error();
    assert!(error.contains("-00002-of-"), "{error}");
}
