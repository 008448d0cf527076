//! The program writes sealed APR2 files: who can open them and who cannot, what it refuses, and that it prints no secret.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

mod common;

use std::fs;
use std::path::Path;

use common::Secrets;
use serde_json::Value;

/// A model that APR2 can hold as it is.
fn plain(keys: &Secrets) -> String {
    let path = keys.path("plain.safetensors");
    let source = testkit::testdata("seal").join("signed.apr").display().to_string();
    keys.ok(&["convert", &source, &path, "--dequantize", "f32", "--lossy"]);
    path
}

fn is_same(keys: &Secrets, a: &str, b: &str) -> bool {
    let run = keys.run(&["diff", "--ignore-metadata", a, b]);
    assert!(run.status < 2 && run.stderr.is_empty(), "{}", run.stderr);
    run.status == 0
}

#[test]
fn a_sealed_file_opens_for_those_who_were_named_and_nobody_else() {
    let keys = Secrets::new();
    let (model, sealed, back) = (plain(&keys), keys.path("sealed.apr"), keys.path("back.safetensors"));
    let (me, other) = (keys.key("x25519", "me"), keys.key("x25519", "other"));
    let release = keys.key("ed25519", "release");
    let (phrase, raw) = (keys.secret("phrase", "correct horse battery\n"), keys.raw("raw"));
    let cases: [(&[&str], [&str; 2]); 3] = [
        (&["--to-recipient", &format!("{me}.pub")], ["--identity", &me]),
        (&["--passphrase-file", &phrase], ["--passphrase-file", &phrase]),
        (&["--key-file", &raw, "--key-id", "kms/7"], ["--key-file", &raw]),
    ];
    for compress in ["none", "lz4"] {
        for (to, with) in cases {
            let seal = [
                "seal",
                &model,
                &sealed,
                "--force",
                "--compress",
                compress,
                "--sign",
                &release,
                "--revision",
                "3",
            ];
            keys.ok(&[&seal, to].concat());
            let public = format!("{release}.pub");
            let signed = ["--key", &public, "--min-revision", "3"];
            let verified = keys.ok(&[&["verify", &sealed], &signed[..], &with].concat());
            assert!(verified.contains("encryption"), "{verified}");
            keys.ok(&[&["unseal", &sealed, &back, "--force"], &signed[..], &with].concat());
            assert!(is_same(&keys, &model, &back), "{to:?}");
            for wrong in [&["--identity", &other][..], &[]] {
                let error = keys.run(&[&["unseal", &sealed, &back, "--force"], wrong].concat()).error();
                assert!(error.contains("SealNoKey"), "{error}");
            }
            let error = keys.run(
                &[
                    &["convert", &sealed, &back, "--force", "--key", &public, "--min-revision", "4"][..],
                    &with,
                ]
                .concat(),
            );
            assert!(error.error().contains("SealRevision"));
        }
    }
    // What is shown of a raw key is its name.
    let shown: Value = serde_json::from_str(&keys.ok(&["inspect", "--json", &sealed])).unwrap();
    let shown = &shown["details"]["encryption"]["recipients"][0];
    assert_eq!((&shown["type"], &shown["key_id"]), (&"raw-key".into(), &hex(b"kms/7").into()));
    // Sealed anew for somebody else, from a file that is sealed.
    let next = keys.path("next.apr");
    keys.ok(&[
        "seal",
        &sealed,
        &next,
        "--old-key-file",
        &raw,
        "--to-recipient",
        &format!("{other}.pub"),
        "--hide-index",
    ]);
    let hidden: Value = serde_json::from_str(&keys.ok(&["inspect", "--json", &next])).unwrap();
    assert_eq!(hidden["tensors"], Value::Array(Vec::new()));
    keys.ok(&["unseal", &next, &back, "--force", "--identity", &other]);
    assert!(is_same(&keys, &model, &back));
    let error = keys.run(&["unseal", &model, &back, "--force"]).error();
    assert!(error.contains("is not encrypted"), "{error}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn convert_signs_and_seals_in_one_pass_files_and_sets() {
    let keys = Secrets::new();
    let model = plain(&keys);
    let (release, me) = (keys.key("ed25519", "release"), keys.key("x25519", "me"));
    let public = format!("{release}.pub");
    let signed = keys.path("signed.apr");
    keys.ok(&["convert", &model, &signed, "--sign", &release, "--compress", "lz4"]);
    assert!(keys.ok(&["verify", &signed, "--key", &public]).contains("signature"));
    assert!(is_same(&keys, &model, &signed));
    let out = keys.path("set/m.apr");
    fs::create_dir(keys.path("set")).unwrap();
    let me_public = format!("{me}.pub");
    keys.ok(&[
        "convert",
        &model,
        &out,
        "--seal",
        "--to-recipient",
        &me_public,
        "--sign",
        &release,
        "--shard-size",
        "8KiB",
    ]);
    assert!(fs::read_dir(keys.path("set")).unwrap().count() > 2);
    keys.ok(&["verify", &out, "--key", &public, "--identity", &me]);
    let back = keys.path("back.safetensors");
    keys.ok(&["unseal", &out, &back, "--key", &public, "--identity", &me]);
    assert!(is_same(&keys, &model, &back));
    // From standard input to standard output.
    let script = format!(
        "cat {model} | {m} seal - - --passphrase-file {p} > {o} && {m} unseal {o} {b} --passphrase-file - < {p} --force",
        m = common::program(),
        p = keys.secret("phrase", "a word\n"),
        o = keys.path("piped.apr"),
        b = back,
    );
    keys.shell(&script).ok();
    assert!(is_same(&keys, &model, &back));
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let keys = Secrets::new();
    let model = plain(&keys);
    let (p256, me, release) =
        (keys.key("p256", "p256"), keys.key("x25519", "me"), keys.key("ed25519", "release"));
    let (me_public, release_public) = (format!("{me}.pub"), format!("{release}.pub"));
    let (empty, short) =
        (keys.secret("empty", "\n"), keys.secret("short", "0123456789abcdef0123456789abcde"));
    let zero = keys.path("zero.pub");
    let weak = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n-----END PUBLIC KEY-----\n";
    fs::write(&zero, weak).unwrap();
    let out = keys.path("out.apr");
    let cases: &[(i32, &[&str], &str)] = &[
        (2, &["seal"], "nobody could open OUT"),
        (1, &["seal", "--passphrase-file", &empty], "the passphrase is empty"),
        (1, &["seal", "--key-file", &short], "a key is 32 bytes"),
        (1, &["seal", "--to-recipient", &zero], "weak"),
        (1, &["seal", "--to-recipient", &me], "is a private key"),
        (1, &["seal", "--to-recipient", &release_public], "x25519"),
        (1, &["convert", "--sign", &p256], "ed25519"),
        (1, &["convert", "--sign", &release_public], "is a public key"),
        (2, &["convert", "--to-recipient", &me_public], "--seal"),
        (2, &["convert", "--seal", "--passphrase-file", "-", "--key-file", "-"], "two secrets"),
        (2, &["convert", "--revision", "1"], "--sign"),
        (2, &["seal", "--key-file", &release, "--key-id", "a", "--key-id", "b"], "--key-id"),
        (2, &["convert", "--seal", "--to-recipient", &me_public, "--to", "gguf"], "--seal"),
        (2, &["convert", "--sign", &release, "--to", "aero"], "--sign"),
    ];
    for (status, args, why) in cases {
        let run = keys.run(&[args, &[model.as_str(), &out][..]].concat());
        assert!(run.status == *status && run.stderr.contains(why), "{args:?}: {} {}", run.status, run.stderr);
        assert!(!Path::new(&out).exists(), "{args:?}");
    }
    // Neither what is read nor a key is replaced.
    let seal = ["--to-recipient", &me_public, "--sign", &release, "--force"];
    for kept in [&model, &me_public, &release] {
        let before = fs::read(kept).unwrap();
        let error = keys.run(&[&["seal", model.as_str(), kept], &seal[..]].concat()).error();
        assert!(error.contains("no output replaces"), "{error}");
        assert!(before == fs::read(kept).unwrap());
    }
}
