//! `modelfmt check`: a verdict for each file, and its findings.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;

use crate::common::{modelfmt, modelfmt_in, testdata};
use serde_json::{Value, json};

fn write(path: &Path, tensors: &[(&str, &[f32])]) {
    let tensors = tensors
        .iter()
        .map(|&(name, values)| (name, modelfmt::View::new(values, [values.len() as u64]).unwrap()));
    modelfmt::save(path, tensors, &modelfmt::Object::default()).unwrap();
}

#[test]
fn each_file_has_a_verdict_and_the_last_line_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    write(
        &folder.path().join("good.mag"),
        &[("w", &[1.0, 2.0]), ("zero", &[0.0, -0.0]), ("again", &[1.0, 2.0])],
    );
    write(
        &folder.path().join("bad.aero"),
        &[("w\u{1b}[2J", &[nan, inf, -inf, 1.0]), ("one", &[inf]), ("half", &[0.5, 0.5])],
    );
    fs::write(folder.path().join("no.model"), "text").unwrap();
    let good = modelfmt_in(folder.path(), "check good.mag").ok();
    assert_eq!(
        good,
        "ok good.mag: 3 tensors, 1 all zero, 1 duplicate\n  all zero: zero\n  equal: again = w\n"
    );
    let all = modelfmt_in(folder.path(), "check good.mag bad.aero no.model missing.gguf");
    assert_eq!((all.status, &*all.stderr), (1, ""));
    let bad = "FAILED bad.aero: 3 tensors, 1 with NaN, 2 with infinities, 1 constant\n  \
               w\\u{1b}[2J: 1 NaN, 2 infinities, the first at index 0\n  one: 1 infinity, the first at index 0\n  constant: half\nFAILED no.model\n  not a model file";
    assert!(all.stdout.contains(bad), "{}", all.stdout);
    assert!(all.stdout.ends_with("4 files: 1 ok, 3 failed\n"), "{}", all.stdout);

    let all = modelfmt_in(folder.path(), "check --json good.mag missing.gguf");
    let lines: Vec<Value> = all.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((all.status, lines.len()), (1, 2));
    let zero = json!({"name": "zero", "nan": 0, "inf": 0, "first_bad": null, "outlier": null, "zero": true, "constant": true, "same_as": null});
    let again = json!({"name": "again", "nan": 0, "inf": 0, "first_bad": null, "outlier": null, "zero": false, "constant": false, "same_as": "w"});
    assert_eq!(lines[0], json!({"path": "good.mag", "ok": true, "tensors": [zero, again], "findings": []}));
    assert_eq!((&lines[1]["ok"], &lines[1]["tensors"]), (&json!(false), &json!([])));
    assert!(lines[1]["findings"][0].as_str().unwrap().starts_with("cannot be opened"), "{}", lines[1]);
}

#[test]
fn a_set_is_checked_by_its_index() {
    let path = testdata("safetensors/set.safetensors.index.json");
    let found = modelfmt(["check".as_ref(), "--json".as_ref(), path.as_os_str()]);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["tensors"][1]["name"], "f16.x");
    assert_eq!((&found["ok"], &found["tensors"][1]["nan"]), (&json!(false), &json!(2)));

    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("a.safetensors"), &[("a", &[1.0, 2.0])]);
    let index = r#"{"metadata": {}, "weight_map": {"a": "a.safetensors", "b": "a.safetensors"}}"#;
    fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    let found = modelfmt_in(folder.path(), "check .");
    assert_eq!(found.status, 1);
    assert!(found.stdout.contains("the index says that it is in \"a.safetensors\""), "{}", found.stdout);
}

#[test]
fn tensors_without_values_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("m.safetensors"), &[("w", &[1.0, 2.0]), ("none", &[])]);
    let text = modelfmt_in(folder.path(), "check m.safetensors").ok();
    assert_eq!(text, "ok m.safetensors: 1 tensor, 1 more without values\n");
    let found = modelfmt_in(folder.path(), "check --json m.safetensors").json();
    assert_eq!((&found["ok"], &found["findings"]), (&json!(true), &json!(["1 tensor has no values"])));
}

#[test]
fn wrong_usage_is_said() {
    let hex = "0".repeat(64);
    for args in ["check".to_owned(), format!("check a b --pin b3:{hex}")] {
        assert_eq!(modelfmt(args.split(' ')).status, 2, "{args}");
    }
}

/// A pickle that only calls a function.
const PICKLE: &[u8] = b"\x80\x04cposix\nsystem\n(X\x02\x00\x00\x00hitR.";

#[test]
fn every_pickle_of_a_folder_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("model.safetensors"), &[("w", &[1.0, 2.0])]);
    fs::create_dir(folder.path().join("below")).unwrap();
    for name in ["a.pkl", "b.pt", "below/c.bin"] {
        fs::write(folder.path().join(name), PICKLE).unwrap();
    }
    fs::write(folder.path().join("m.onnx"), b"\x08\x08\x12\x07pytorch\x1a\x05").unwrap();
    let found = modelfmt_in(folder.path(), "check .");
    assert_eq!(found.status, 1);
    for name in ["a.pkl", "b.pt"] {
        let text = format!("FAILED ./{name}\n");
        assert!(found.stdout.contains(&text), "{}", found.stdout);
    }
    assert_eq!(
        found.stdout.matches("the pickle calls posix.system at byte 2").count(),
        2,
        "{}",
        found.stdout
    );
    assert!(
        found.stdout.contains("pickle.load() would run code") && !found.stdout.contains("onnx"),
        "{}",
        found.stdout
    );
    let found = modelfmt_in(folder.path(), "check -r . --json");
    let lines: Vec<Value> = found.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let runs = |line: &&Value| line["runs_code"] == true && line["globals"] == json!(["posix.system"]);
    assert_eq!((lines.len(), lines.iter().filter(runs).count()), (4, 3), "{}", found.stdout);
    assert!(found.stderr.contains("ONNX"), "{}", found.stderr);
    let none = modelfmt_in(folder.path(), "check -r nothing");
    assert_eq!(none.status, 1);
}

#[test]
fn arrays_of_objects_are_pickles() {
    let found = modelfmt_in(&testdata("npy"), "check others.npz");
    assert_eq!(found.status, 1);
    assert!(found.stdout.contains("numpy.load(allow_pickle=True) would run code"), "{}", found.stdout);
}
