//! `prove`: exit statuses, and statements that are signed, verified and compared.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Run, modelfmt_in};

/// A folder with a base and two keys, and what is made of the base.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::copy(testkit::testdata("reference/trained.mag"), place.path().join("base.mag")).unwrap();
        for command in [
            "keygen --type p256 -o k",
            "keygen --type p256 -o other",
            "convert base.mag half.gguf --cast f16 --lossy --stringify --exclude steps --exclude mask --quiet",
        ] {
            place.run(command).ok();
        }
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, args: &str) -> Run {
        modelfmt_in(self.path(), args)
    }

    fn fails(&self, args: &str, why: &str) {
        let run = self.run(args);
        assert_eq!(run.status, 1, "{args}: {}{}", run.stdout, run.stderr);
        assert!(
            format!("{}{}", run.stdout, run.stderr).contains(why),
            "{args}: {}{}",
            run.stdout,
            run.stderr
        );
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path().join(name)).unwrap();
        change(&mut bytes);
        fs::write(self.path().join(name), bytes).unwrap();
    }
}

const STATEMENT: &str = "half.gguf.derivation.json";

/// The payload of a statement.
fn payload(place: &Place) -> Value {
    let bundle: Value = serde_json::from_slice(&fs::read(place.path().join(STATEMENT)).unwrap()).unwrap();
    let text = bundle["dsseEnvelope"]["payload"].as_str().unwrap();
    serde_json::from_slice(&base64(text)).unwrap()
}

fn base64(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = (text.bytes().filter(|byte| *byte != b'='))
        .map(|byte| match byte {
            b'A'..=b'Z' => u32::from(byte - b'A'),
            b'a'..=b'z' => u32::from(byte - b'a') + 26,
            b'0'..=b'9' => u32::from(byte - b'0') + 52,
            b'+' => 62,
            _ => 63,
        })
        .collect();
    let bytes = digits.chunks(4).flat_map(|chunk| {
        let word = chunk.iter().enumerate().fold(0, |word, (at, digit)| word | digit << (18 - 6 * at));
        word.to_be_bytes()[1..chunk.len()].to_vec()
    });
    bytes.collect()
}

#[test]
fn a_proof_is_signed_verified_and_compared() {
    let place = Place::new();
    place.run("prove base.mag half.gguf --sign k").ok();
    let stated = payload(&place);
    assert_eq!(stated["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(stated["predicateType"], "urn:modelfmt:derivation:1");
    let subject = &stated["subject"][0];
    let bytes = fs::read(place.path().join("half.gguf")).unwrap();
    assert_eq!(subject["name"], "half.gguf");
    assert_eq!(subject["digest"]["blake3"], blake3::hash(&bytes).to_hex().as_str());
    assert_eq!(subject["digest"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(stated["predicate"]["base"][0]["name"], "base.mag");
    let tensors = stated["predicate"]["tensors"].as_array().unwrap();
    assert!(tensors.iter().any(|tensor| tensor["steps"] == serde_json::json!(["cast:f16"])), "{tensors:?}");

    let verify = format!("verify half.gguf --derivation {STATEMENT} --key");
    assert!(place.run(&format!("{verify} k.pub")).ok().contains("derivation"));
    assert!(place.run(&format!("{verify} k.pub --json")).json()["ok"].as_bool().unwrap());
    place.fails(&format!("{verify} other.pub"), "is not one of the named keys");
    place.run(&format!("prove base.mag half.gguf --against {STATEMENT} --key k.pub")).ok();
    place.fails(
        &format!("prove base.mag half.gguf --against {STATEMENT} --key other.pub"),
        "not one of the named keys",
    );
    let unsigned = place.run(&format!("prove base.mag half.gguf --against {STATEMENT}"));
    assert!(
        unsigned.status == 0 && unsigned.stderr.contains("the signature is not checked"),
        "{}",
        unsigned.stderr
    );

    // It exists already; another name of the file is no matter, and other bytes are.
    place.fails("prove base.mag half.gguf --sign k", "--force replaces it");
    place.run("prove base.mag half.gguf --sign k --force").ok();
    fs::copy(place.path().join("half.gguf"), place.path().join("renamed.gguf")).unwrap();
    place.run(&format!("verify renamed.gguf --derivation {STATEMENT} --key k.pub")).ok();
    place.change("renamed.gguf", |bytes| *bytes.last_mut().unwrap() ^= 1);
    let changed = format!("verify renamed.gguf --derivation {STATEMENT} --key k.pub");
    place.fails(&changed, "its SHA-256 and its BLAKE3 differ");
    // The same tensors in another file of BASE.
    place.run("convert base.mag base.aero --quiet").ok();
    place.fails(&format!("prove base.aero half.gguf --against {STATEMENT} --key k.pub"), "BASE: ");
}

/// A signature of a model is no statement of a derivation, and the other way round, although the same key has signed both.
#[test]
fn statements_and_signatures_do_not_take_each_others_place() {
    let place = Place::new();
    place.run("prove base.mag half.gguf --sign k").ok();
    place.run("sign half.gguf --key k").ok();
    place.run("verify half.gguf --key k.pub").ok();
    place.fails("verify half.gguf --derivation half.gguf.sig --key k.pub", "the predicate's type");
    fs::copy(place.path().join(STATEMENT), place.path().join("half.gguf.sig")).unwrap();
    place.fails("verify half.gguf --key k.pub", "the predicate's type");
    // A statement that somebody has changed.
    place.change(STATEMENT, |bytes| {
        let at = bytes.windows(10).position(|part| part == b"\"payload\":").unwrap() + 20;
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
    });
    place.fails(&format!("verify half.gguf --derivation {STATEMENT} --key k.pub"), "derivation!");
}

#[test]
fn nothing_is_signed_unless_the_proof_holds() {
    let place = Place::new();
    // The last tensor has 8 bytes, and padding follows.
    place.change("half.gguf", |bytes| {
        let at = bytes.len() - 32;
        bytes[at] ^= 1;
    });
    let run = place.run("prove base.mag half.gguf --sign k");
    assert_eq!(run.status, 1, "{}", run.stdout);
    assert!(!place.path().join(STATEMENT).exists());
    assert_eq!(place.run("prove base.mag").status, 2);
    assert_eq!(place.run(&format!("verify half.gguf --derivation {STATEMENT}")).status, 2);
}
