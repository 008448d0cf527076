//! Files that the formats' own tools wrote match `expected.json` and pass verification.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::{modelfmt, testdata};
use serde_json::Value;

/// Returns each listed file of `testdata/reference`, with its expected content.
fn expected() -> Vec<(String, Value)> {
    let text = std::fs::read(testdata("reference/expected.json")).unwrap();
    let Value::Object(files) = serde_json::from_slice(&text).unwrap() else { panic!("an object") };
    files.into_iter().collect()
}

/// Returns the files that can be opened.
fn readable() -> impl Iterator<Item = (String, Value)> {
    expected().into_iter().filter(|(_, expected)| expected["refused"].is_null())
}

fn inspect(name: &str) -> Value {
    let path = testdata("reference").join(name);
    modelfmt(["inspect".as_ref(), "--json".as_ref(), "--hash".as_ref(), path.as_os_str()]).json()
}

fn verify(name: &str) -> Value {
    let path = testdata("reference").join(name);
    let run = modelfmt(["verify".as_ref(), "--json".as_ref(), path.as_os_str()]);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{name}: {error}: {}", run.stderr))
}

/// Finds the files of `testdata/reference/` and of its folders, without the files that describe them.
fn samples(folder: &Path, prefix: &str, found: &mut BTreeSet<String>, folders: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            samples(&entry.path(), &format!("{name}/"), found, folders);
            folders.insert(name);
        } else if !["README.md", "BLAKE3SUMS", "expected.json"].contains(&&*name) {
            found.insert(name);
        }
    }
}

/// Returns the other files of the set that a listed file represents.
fn siblings(name: &str) -> Vec<String> {
    let folder = name.rfind('/').map_or("", |end| &name[..=end]);
    let found = inspect(name);
    let files = found["details"]["files"].as_array().cloned().unwrap_or_default();
    files.iter().map(|file| format!("{folder}{}", file["path"].as_str().unwrap())).collect()
}

#[test]
fn every_sample_is_listed_and_every_folder_has_one() {
    let (mut found, mut folders) = (BTreeSet::new(), BTreeSet::new());
    samples(&testdata("reference"), "", &mut found, &mut folders);
    let mut listed: BTreeSet<String> = expected().into_iter().map(|(name, _)| name).collect();
    for folder in folders.iter().map(String::as_str).chain([""]) {
        let is_in = |name: &&String| name.rsplit_once('/').map_or("", |(folder, _)| folder) == folder;
        assert!(listed.iter().any(|name| is_in(&name)), "no file of the folder {folder:?} is listed");
    }
    listed.extend(readable().flat_map(|(name, _)| siblings(&name)));
    assert_eq!(found, listed);
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
        // Damaged files open; some entries say no more about them.
        if !expected["damaged"].is_null() && expected["tensors"].is_null() {
            continue;
        }
        assert_eq!(found["format"], expected["format"], "{name}");
        let (rows, wanted) = (found["tensors"].as_array().unwrap(), expected["tensors"].as_array().unwrap());
        assert_eq!(rows.len(), wanted.len(), "{name}");
        for (row, wanted) in rows.iter().zip(wanted) {
            // Compare what the entry has: some entries have more than others.
            for (key, wanted) in wanted.as_object().unwrap() {
                assert_eq!(&row[key], wanted, "{name}: {key} of {}", row["name"]);
            }
            for key in ["name", "dtype", "shape", "nbytes"] {
                // If a tensor has no values, some entries do not state how long these would be.
                let is_said = wanted.get(key).is_some() || (key == "nbytes" && row["has_data"] == false);
                assert!(is_said, "{name}: {key} of {} is not expected", row["name"]);
            }
            let has_data = row["has_data"] == true;
            assert_eq!(wanted.get("blake3").is_some(), has_data, "{name}: values of {}", row["name"]);
        }
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
fn verify_agrees() {
    for (name, expected) in readable() {
        let report = verify(&name);
        let is_damaged = !expected["damaged"].is_null();
        assert_eq!((&report["ok"], &report["level"]), (&(!is_damaged).into(), &"full".into()), "{name}");
        let format = expected.get("format").unwrap_or(&report["format"]);
        assert_eq!(&report["format"], format, "{name}");
        assert_eq!(report["errors"].as_array().is_none_or(Vec::is_empty), !is_damaged, "{name}");
        for word in expected["damaged"].as_str().into_iter().flat_map(|words| words.split(": ")) {
            assert!(report["errors"].to_string().contains(word), "{name}: {word}: {}", report["errors"]);
        }
        let checks = report["checks"].as_array().unwrap();
        for absent in expected["absent"].as_array().into_iter().flatten() {
            let found = checks.iter().find(|check| check["name"] == *absent).unwrap();
            assert_eq!(found["status"], "absent", "{name}");
        }
        unhashed(&name, checks, expected["unhashed"].as_array().map_or(&[], Vec::as_slice));
    }
}

/// Checks that the chunks without hashes are named, and no others.
fn unhashed(name: &str, checks: &[Value], unhashed: &[Value]) {
    let Some(check) = checks.iter().find(|check| check["name"] == "chunk-hashes") else {
        return assert!(unhashed.is_empty(), "{name}");
    };
    let detail = check["detail"].as_str().unwrap();
    assert_eq!(detail.contains("hash is not recorded"), !unhashed.is_empty(), "{name}: {detail}");
    for chunk in unhashed {
        assert!(detail.contains(&chunk.to_string()), "{name}: {detail}");
    }
}

#[test]
fn the_fault_of_openinfers_writer_is_explained() {
    let name = "oinf/v2-quant-broken.oinf";
    let errors = verify(name)["errors"].to_string();
    assert!(errors.contains("quant payload") && errors.contains("OpenInfer's writer"), "{errors}");
    let error = inspect(name)["tensors"][0]["quant"]["error"].clone();
    assert!(error.as_str().unwrap().contains("OpenInfer's writer"), "{error}");
}

#[test]
fn show_prints_what_the_document_of_oinf_shows() {
    let shown = modelfmt(["show".as_ref(), testdata("reference/simple_model.oinf").as_os_str()]).ok();
    assert_eq!(shown, include_str!("../simple_model.txt"));
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
