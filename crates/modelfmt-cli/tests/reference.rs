//! Files that the formats' own tools wrote hold what `expected.json` says, and pass verification.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

mod common;

use common::{modelfmt, testdata};
use serde_json::Value;

/// Each file of `testdata/reference`, with what it holds.
fn expected() -> Vec<(String, Value)> {
    let text = std::fs::read(testdata("reference/expected.json")).unwrap();
    let Value::Object(files) = serde_json::from_slice(&text).unwrap() else { panic!("an object") };
    assert_eq!(files.len(), 38);
    files.into_iter().collect()
}

fn inspect(name: &str) -> Value {
    let path = testdata("reference").join(name);
    modelfmt(["inspect".as_ref(), "--json".as_ref(), "--hash".as_ref(), path.as_os_str()]).json()
}

#[test]
fn inspect_agrees() {
    for (name, expected) in expected() {
        if let Some(word) = expected["refused"].as_str() {
            let path = testdata("reference").join(&name);
            let error = modelfmt(["inspect".as_ref(), path.as_os_str()]).error();
            assert!(error.contains(word), "{name}: {error}");
            continue;
        }
        let found = inspect(&name);
        assert_eq!(found["format"], expected["format"], "{name}");
        let rows = |file: &Value| -> Vec<[Value; 5]> {
            let rows = file["tensors"].as_array().unwrap();
            let keys = ["name", "dtype", "shape", "nbytes", "blake3"];
            rows.iter().map(|row| keys.map(|key| row[key].clone())).collect()
        };
        assert_eq!(rows(&found), rows(&expected), "{name}");
        for (key, place) in [
            ("metadata", "/metadata"),
            ("checksum", "/details/checksum"),
            ("sizevars", "/details/sizevars"),
            ("flags", "/details/flags"),
            ("magic", "/details/magic"),
            ("version", "/version"),
        ] {
            let Some(wanted) = expected.get(key) else { continue };
            assert_eq!(found.pointer(place), Some(wanted), "{name} {key}");
        }
    }
}

#[test]
fn verify_passes() {
    for (name, expected) in expected().into_iter().filter(|(_, expected)| expected["refused"].is_null()) {
        let path = testdata("reference").join(&name);
        let report = modelfmt(["verify".as_ref(), "--json".as_ref(), path.as_os_str()]).json();
        assert_eq!((&report["ok"], &report["level"]), (&Value::Bool(true), &Value::from("full")), "{name}");
        assert_eq!(report["format"], expected["format"]);
        for absent in expected["absent"].as_array().into_iter().flatten() {
            let check = |check: &&Value| check["name"] == *absent;
            let found = report["checks"].as_array().unwrap().iter().find(check).unwrap();
            assert_eq!(found["status"], "absent", "{name}");
        }
        assert_eq!(report["errors"].as_array().map(Vec::len), Some(0), "{name}");
    }
}

#[test]
fn show_prints_what_the_document_of_oinf_shows() {
    let shown = modelfmt(["show".as_ref(), testdata("reference/simple_model.oinf").as_os_str()]).ok();
    assert_eq!(shown, include_str!("simple_model.txt"));
}

#[test]
fn the_files_of_a_set_are_listed_with_their_sizes() {
    let set = inspect("aeroset/model.aeroset.json");
    let files = set["details"]["files"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 4);
    assert!(names.contains(&"model.aeroset.json") && names.contains(&"index.aero"), "{names:?}");
    let sum: u64 = files.iter().map(|file| file["size"].as_u64().unwrap()).sum();
    assert_eq!(set["file_size"], sum);
}
