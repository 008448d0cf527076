//! `prove`: exit statuses, and statements that are signed, verified and compared.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{Run, modelfmt_in};

/// A folder with a base, models that are derived from the base, and two keys.
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

/// Returns the payload of a statement.
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

    // The statement exists already. Another name of the file does not matter, but other bytes do.
    place.fails("prove base.mag half.gguf --sign k", "--force replaces it");
    place.run("prove base.mag half.gguf --sign k --force").ok();
    fs::copy(place.path().join("half.gguf"), place.path().join("renamed.gguf")).unwrap();
    place.run(&format!("verify renamed.gguf --derivation {STATEMENT} --key k.pub")).ok();
    place.change("renamed.gguf", |bytes| *bytes.last_mut().unwrap() ^= 1);
    let changed = format!("verify renamed.gguf --derivation {STATEMENT} --key k.pub");
    place.fails(&changed, "its SHA-256 and its BLAKE3 differ");
    // The same tensors in another file as BASE.
    place.run("convert base.mag base.aero --quiet").ok();
    place.fails(&format!("prove base.aero half.gguf --against {STATEMENT} --key k.pub"), "BASE: ");
}

/// A signature of a model is not accepted as a statement of a derivation, or the other way round, although
/// the same key has signed both.
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
    // The last tensor has 8 bytes, followed by padding.
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

/// Two adapters have files with the same names, and both are compared.
#[test]
fn a_proof_with_two_adapters_is_compared() {
    let place = Place::new();
    let write = |name: &str, bytes: &[u8]| {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let floats = |tensors: &[(&str, [u64; 2])]| {
        let (mut header, mut len) = (Vec::new(), 0);
        for (name, [rows, columns]) in tensors {
            let end = len + 4 * rows * columns;
            header.push(format!(
                r#""{name}":{{"dtype":"F32","shape":[{rows},{columns}],"data_offsets":[{len},{end}]}}"#
            ));
            len = end;
        }
        let header = format!("{{{}}}", header.join(","));
        let values = (0..len / 4).flat_map(|at| ((at % 5) as f32).to_le_bytes());
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &values.collect::<Vec<u8>>()].concat()
    };
    write("model.safetensors", &floats(&[("layers.0.q_proj.weight", [4, 4])]));
    for name in ["one", "two"] {
        let [a, b] = ["A", "B"].map(|side| format!("base_model.model.layers.0.q_proj.lora_{side}.weight"));
        write(&format!("{name}/adapter_model.safetensors"), &floats(&[(&a, [2, 4]), (&b, [4, 2])]));
        write(
            &format!("{name}/adapter_config.json"),
            format!(r#"{{"peft_type":"LORA","r":2,"lora_alpha":2,"x":"{name}"}}"#).as_bytes(),
        );
    }
    let adapters = "--lora one --lora two=0.5";
    place.run(&format!("convert model.safetensors merged.safetensors {adapters} --quiet")).ok();
    place.run(&format!("prove model.safetensors merged.safetensors {adapters} --sign k")).ok();
    let again = format!(
        "prove model.safetensors merged.safetensors {adapters} --against merged.safetensors.derivation.json --key k.pub"
    );
    place.run(&again).ok();
    place.change("two/adapter_config.json", |bytes| bytes.push(b' '));
    place.fails(&again, "lora/2/adapter_config.json");
}

/// Verifying a statement shows what its maker has excused, and the files of a folder are its subjects.
#[test]
fn a_statement_says_what_was_excused_and_covers_the_folder() {
    let place = Place::new();
    for name in ["base", "derived"] {
        fs::create_dir(place.path().join(name)).unwrap();
        fs::write(place.path().join(name).join("config.json"), "{}").unwrap();
    }
    place.run("convert base.mag base/model.safetensors --stringify --lossy --quiet").ok();
    fs::copy(place.path().join("base/model.safetensors"), place.path().join("derived/model.safetensors"))
        .unwrap();
    fs::write(place.path().join("derived/chat_template.jinja"), "{{ x }}").unwrap();
    let prove = "prove base/model.safetensors derived/model.safetensors --sign k";
    place.fails(prove, "chat_template.jinja: added");
    place.run(&format!("{prove} --allow-added chat*")).ok();
    let statement = "derived/model.safetensors.derivation.json";
    let verify = format!("verify derived/model.safetensors --derivation {statement} --key k.pub");
    let run = place.run(&verify);
    assert_eq!(run.status, 0, "{}{}", run.stdout, run.stderr);
    let said = r#"--allow-added "chat*", which accepted: "chat_template.jinja""#;
    assert!(run.stderr.contains(said), "{}", run.stderr);
    place.change("derived/config.json", |bytes| bytes.push(b' '));
    place.fails(&verify, "config.json");
}
