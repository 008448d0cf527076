//! The test vectors of the specification, and signatures with a plain key by older releases of its authors'
//! tool.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use modelfmt_core::Execution;
use modelfmt_keys::PublicKey;
use modelfmt_oms::{Bundle, Error, Verified, VerifyOptions, verify};

/// Makes the folder that was signed. The signer left out one of its files.
fn model() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("signme-1", "signme-1\n"), ("signme-2", "signme-2"), ("ignore-me", "")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn signer() -> PublicKey {
    PublicKey::read(&testkit::testdata("oms/releases/signer.pub")).unwrap()
}

fn verified(model: &Path, signature: &str) -> Result<Verified, Error> {
    let options = VerifyOptions::new().signature(testkit::testdata("oms").join(signature));
    verify(model, &[signer()], &options, &Execution::default())
}

#[test]
fn the_valid_vector_of_a_key_holds() {
    let folder = model();
    let good = verified(folder.path(), "spec/key.json").unwrap();
    assert!(good.is_ok(), "{:?}", good.findings());
    assert_eq!((good.files, &*good.name, good.key_id), (2, "model", signer().id()));
    assert_eq!(good.ignored, ["ignore-me"]);
    fs::write(folder.path().join("signme-2"), "signme-3").unwrap();
    fs::write(folder.path().join("extra"), "").unwrap();
    let found = verified(folder.path(), "spec/key.json").unwrap().findings().join("\n");
    assert!(found.contains("signme-2") && found.contains("extra"), "{found}");
}

#[test]
fn the_other_vectors_are_refused_by_what_is_wrong_with_them() {
    let folder = model();
    for (name, expected) in [
        ("empty", "EOF"),
        ("missing-envelope", "no dsseEnvelope"),
        ("missing-verification-material", "no verificationMaterial"),
        ("certificate", "certificate"),
        ("wrong-predicate", "its statement has been changed"),
    ] {
        let error = verified(folder.path(), &format!("spec/{name}.json")).unwrap_err();
        let mut said = error.to_string();
        let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
        while let Some(error) = cause {
            said = format!("{said}: {error}");
            cause = error.source();
        }
        assert!(said.contains(expected), "{name}: {said}");
    }
}

/// Bundles before 1.1.0 had the key itself in place of its id, and none of these releases recorded which
/// files were left out.
#[test]
fn what_older_releases_signed_holds() {
    let folder = model();
    for release in ["1.0.1", "1.1.0"] {
        let signature = format!("releases/{release}.sig");
        let bytes = fs::read(testkit::testdata("oms").join(&signature)).unwrap();
        assert_eq!(Bundle::parse(&bytes).unwrap().hint().is_some(), release == "1.1.0");
        if release != "1.1.0" {
            fs::remove_file(folder.path().join("ignore-me")).unwrap();
        } else {
            fs::write(folder.path().join("ignore-me"), "").unwrap();
        }
        let good = verified(folder.path(), &signature).unwrap();
        assert!(good.is_ok(), "{release}: {:?}", good.findings());
    }
    for release in ["0.3.1", "1.0.0"] {
        let signature = format!("releases/{release}.sig");
        let good = verified(&folder.path().join("signme-1"), &signature).unwrap();
        assert!(good.is_ok(), "{release}: {:?}", good.findings());
        let other = verified(&folder.path().join("signme-2"), &signature).unwrap();
        assert!(!other.is_ok(), "{release}");
    }
}
