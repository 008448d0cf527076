//! The tool of the specification's authors, `model-signing` from PyPI, verifies what we sign, and we verify what it signs.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use crate::common::{Model, testdata};
use modelfmt_core::Execution;
use modelfmt_keys::PrivateKey;
use modelfmt_oms::{SignOptions, VerifyOptions, sign, signature_path, verify};

const KEYS: [&str; 3] = ["p256", "p384", "p521"];

fn command(words: &[&Path]) -> String {
    words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join("\t")
}

/// Returns the command that has the tool sign or verify a folder or a file, with the signature at our path.
fn asked(what: &str, key: &str, model: &Path) -> String {
    let (option, ending) = if what == "sign" { ("--private_key", "pem") } else { ("--public_key", "pub") };
    let key = testdata("keys").join(key).with_extension(ending);
    let (what, signature) = (Path::new(what), signature_path(model));
    let [way, option, put] = ["key", option, "--signature"].map(Path::new);
    command(&[what, way, option, &key, put, &signature, model])
}

fn run(commands: &[String]) {
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let _ = testkit::python_with("model-signing-1.1.1", include_str!("../oracle/commands.py"), &commands);
}

/// Makes a folder, and a single file next to it.
fn models() -> (Model, tempfile::TempDir) {
    let beside = tempfile::tempdir().unwrap();
    fs::write(beside.path().join("one.bin"), [7; 100_000]).unwrap();
    (Model::new(), beside)
}

#[test]
fn the_tool_verifies_what_we_sign() {
    let mut signed = Vec::new();
    let mut commands = Vec::new();
    for name in KEYS {
        let key = PrivateKey::read(&testdata("keys").join(name).with_extension("pem")).unwrap();
        let (model, beside) = models();
        let file = beside.path().join("one.bin");
        for path in [model.path(), &file] {
            sign(path, &key, &SignOptions::new(), &Execution::default()).unwrap();
            commands.push(asked("verify", name, path));
        }
        signed.push((model, beside));
    }
    run(&commands);
}

#[test]
fn the_tool_refuses_what_was_changed_since() {
    let key = PrivateKey::read(&testdata("keys/p256.pem")).unwrap();
    let (_, beside) = models();
    let file = beside.path().join("one.bin");
    sign(&file, &key, &SignOptions::new(), &Execution::default()).unwrap();
    let command = asked("verify", "p256", &file);
    run(std::slice::from_ref(&command));
    fs::write(&file, [8; 100_000]).unwrap();
    let refused = std::panic::catch_unwind(|| run(std::slice::from_ref(&command)));
    assert!(refused.is_err());
}

#[test]
fn what_the_tool_signs_holds() {
    let (model, beside) = models();
    let file = beside.path().join("one.bin");
    for name in KEYS {
        let key = PrivateKey::read(&testdata("keys").join(name).with_extension("pem")).unwrap();
        run(&[model.path(), &file].map(|path| asked("sign", name, path)));
        for path in [model.path(), &file] {
            let trusted = std::slice::from_ref(key.public());
            let verified = verify(path, trusted, &VerifyOptions::new(), &Execution::default()).unwrap();
            assert!(verified.is_ok(), "{name} {}: {:?}", path.display(), verified.findings());
        }
    }
}
