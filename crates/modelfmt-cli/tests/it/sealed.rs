//! The program reads sealed APR2 files: who has signed, who can open, and what is refused.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::modelfmt;
use modelfmt_keys::{KeyType, PrivateKey, PublicKey};
use serde_json::Value;

fn vector(name: &str) -> String {
    testkit::testdata("seal").join(name).display().to_string()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// The keys of the vectors as files, and the secrets that no output may show.
struct Keys {
    folder: tempfile::TempDir,
    secrets: Vec<String>,
}

impl Keys {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vectors: Value = serde_json::from_slice(&fs::read(vector("vectors.json")).unwrap()).unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut secrets = Vec::new();
        for (kind, key_type) in [("sign", KeyType::Ed25519), ("x25519", KeyType::X25519)] {
            for (name, key) in vectors[kind].as_object().unwrap() {
                let secret = key["secret"].as_str().unwrap();
                secrets.push(secret.to_owned());
                let private = PrivateKey::from_bytes(key_type, &hex(secret)).unwrap();
                fs::write(path(name), &*private.to_pem().unwrap()).unwrap();
                let public = PublicKey::from_bytes(key_type, &hex(key["public"].as_str().unwrap())).unwrap();
                fs::write(path(&format!("{name}.pub")), public.to_pem()).unwrap();
            }
        }
        let good = hex(vectors["passphrase"]["good"].as_str().unwrap());
        fs::write(path("phrase"), [&good[..], b"\n"].concat()).unwrap();
        secrets.push(String::from_utf8(good).unwrap());
        let raw = vectors["raw"]["kms/1"].as_str().unwrap();
        fs::write(path("raw"), hex(raw)).unwrap();
        fs::write(path("hex"), format!("{raw}\n")).unwrap();
        secrets.push(raw.to_owned());
        Self { folder, secrets }
    }

    fn path(&self, name: &str) -> String {
        PathBuf::from(self.folder.path()).join(name).display().to_string()
    }

    /// Runs the program, and checks that the output has no secret.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let run = modelfmt(args);
        let (out, err) = (run.stdout, run.stderr);
        for secret in &self.secrets {
            assert!(!out.contains(secret) && !err.contains(secret), "{args:?} prints a secret");
        }
        (run.status, out, err)
    }
}

#[test]
fn verify_says_who_has_signed_and_refuses_others() {
    let keys = Keys::new();
    let (alice, mallory) = (keys.path("alice.pub"), keys.path("mallory.pub"));
    let signed = vector("signed.apr");
    let (code, out, _) = keys.run(&["verify", "--json", "--key", &alice, &signed]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let check = |name: &str| {
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (code, &check("signature")["status"], &check("digests")["status"]),
        (0, &"ok".into(), &"ok".into())
    );
    assert!(check("signature")["detail"].as_str().unwrap().contains("(named)"));
    let (code, out, _) = keys.run(&["verify", "--key", &mallory, &signed]);
    assert!(code == 1 && out.contains("SealNoTrustedSignature"), "{out}");
    let (code, out, _) =
        keys.run(&["verify", "--key", &alice, "--key", &mallory, "--threshold", "2", &signed]);
    assert!(code == 1 && out.contains("SealNoTrustedSignature"), "{out}");
    let (code, out, _) = keys.run(&["verify", "--key", &alice, "--min-revision", "8", &signed]);
    assert!(code == 1 && out.contains("SealRevision"), "{out}");
    // Other commands are equally strict, and a file of another format does not count as signed.
    let (code, _, err) = keys.run(&["inspect", "--key", &mallory, &signed]);
    assert!(code == 1 && err.contains("SealNoTrustedSignature"), "{err}");
    let other = testkit::testdata("safetensors").join("dtypes.safetensors").display().to_string();
    for (command, file, why) in [
        ("inspect", &vector("encrypted-key.apr"), "SealMissing"),
        ("plan", &other, "there is no signature"),
        ("inspect", &other, "there is no signature"),
    ] {
        let (code, _, err) = keys.run(&[command, "--key", &alice, file]);
        assert!(code == 1 && err.contains(why), "{command} {file}: {err}");
    }
    let (code, _, err) = keys.run(&["verify", "--key", &alice, "--min-revision", "8", &other]);
    assert!(code == 1 && err.contains("--min-revision"), "{err}");
    // Damage.
    let damaged = keys.path("damaged.apr");
    let mut bytes = fs::read(&signed).unwrap();
    bytes[5960] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let (code, out, _) = keys.run(&["verify", "--key", &alice, &damaged]);
    assert!(code == 1 && out.contains("SealDigest"), "{out}");
}

#[test]
fn encrypted_files_are_read_with_a_key_and_not_without() {
    let keys = Keys::new();
    let plain = keys.path("plain.safetensors");
    let cases = [
        ("encrypted-recipient.apr", "--identity", "carol"),
        ("encrypted-recipient.apr", "--identity", "dave"),
        ("encrypted-passphrase.apr", "--passphrase-file", "phrase"),
        ("encrypted-key.apr", "--key-file", "raw"),
        ("encrypted-key.apr", "--key-file", "hex"),
        ("signed-and-encrypted.apr", "--identity", "carol"),
    ];
    for (file, option, key) in cases {
        let file = vector(file);
        let (code, _, err) = keys.run(&[
            "convert",
            "--lossy",
            "--dequantize",
            "f32",
            "--force",
            option,
            &keys.path(key),
            &file,
            &plain,
        ]);
        assert_eq!(code, 0, "{file} {option}: {err}");
        let (code, out, err) = keys.run(&["verify", option, &keys.path(key), &file]);
        assert!(code == 0 && out.contains("encryption"), "{out}{err}");
        let (code, _, err) = keys.run(&["convert", "--lossy", "--force", &file, &plain]);
        assert!(code == 1, "{file} without a key: {err}");
    }
    let (code, _, err) =
        keys.run(&["inspect", "--identity", &keys.path("eve"), &vector("encrypted-recipient.apr")]);
    assert!(code == 1 && err.contains("SealNoKey"), "{err}");
}

#[test]
fn inspect_shows_what_a_sealed_file_claims() {
    let keys = Keys::new();
    let (code, out, _) = keys.run(&["inspect", "--json", &vector("signed-and-encrypted.apr")]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, shown["tensors"].as_array().unwrap().len()), (0, 0));
    let details = &shown["details"];
    assert_eq!(details["signatures"][1]["is_named"], false);
    let kinds: Vec<_> =
        details["encryption"]["recipients"].as_array().unwrap().iter().map(|r| &r["type"]).collect();
    assert_eq!(kinds, ["unknown", "x25519", "raw-key"]);
    let (_, out, _) = keys.run(&[
        "inspect",
        "--json",
        "--identity",
        &keys.path("carol"),
        &vector("signed-and-encrypted.apr"),
    ]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (shown["tensors"].as_array().unwrap().len(), &shown["details"]["encryption"]["is_open"]),
        (6, &true.into())
    );
    assert_eq!(shown["tensors"][0]["encoding"], "encrypted");
    // An invalid key is reported without being shown.
    let (code, _, err) =
        keys.run(&["inspect", "--key-file", &keys.path("phrase"), &vector("encrypted-key.apr")]);
    assert!(code == 1 && err.contains("64 hex digits"), "{err}");
    assert!(Path::new(&keys.path("phrase")).exists());
}
