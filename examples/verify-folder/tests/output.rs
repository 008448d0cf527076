//! Runs the program as its documentation says: on valid files, on a damaged one, on an empty folder.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::fs;
use std::path::Path;
use std::process::Command;

fn run(folder: Option<&Path>) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_verify-folder")).args(folder).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn intact_models_pass() {
    let (status, text) = run(None);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("ok names.mag (mag: structure, crc, extents)\n"), "{text}");
    assert!(text.ends_with(" models, 0 damaged\n"), "{text}");
}

#[test]
fn a_damaged_byte_fails_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/reference");
    fs::create_dir(folder.path().join("below")).unwrap();
    fs::copy(testdata.join("trained.mag"), folder.path().join("trained.mag")).unwrap();
    let mut bytes = fs::read(testdata.join("one-shard.aero")).unwrap();
    bytes[1500] ^= 1;
    fs::write(folder.path().join("below/damaged.aero"), bytes).unwrap();
    fs::write(folder.path().join("notes.txt"), "no model").unwrap();
    let (status, text) = run(Some(folder.path()));
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("DAMAGED "), "{text}");
    assert!(text.contains("\n  WTSH chunk \"weights.shard0\" at byte 1200: has BLAKE3 "), "{text}");
    assert!(text.ends_with("\n2 models, 1 damaged\n"), "{text}");
}

#[test]
fn a_folder_without_models_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(Some(folder.path())).0, Some(2));
    assert_eq!(run(Some(&folder.path().join("missing"))).0, Some(2));
}
