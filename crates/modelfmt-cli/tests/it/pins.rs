//! Outboards, and commands with a pin for a file.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::path::Path;

use crate::common::{modelfmt, modelfmt_in, testdata};
use serde_json::{Value, json};

/// Makes a safetensors file of some groups, in its own folder.
fn model() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
    let header = json!({"w": {"dtype": "U8", "shape": [100_000], "data_offsets": [0, 100_000]}}).to_string();
    let header = format!("{header:<72}");
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat();
    std::fs::write(folder.path().join("m.safetensors"), &file).unwrap();
    let hash = blake3::hash(&file).to_hex().to_string();
    (folder, hash)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn an_outboard_is_written_once_and_its_hash_printed() {
    let (folder, hash) = model();
    let run = modelfmt_in(folder.path(), "outboard m.safetensors");
    assert!(run.stderr.starts_with("wrote m.safetensors.obao4: 384 B in "), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{hash}\n"));
    let path = folder.path().join("m.safetensors.obao4");
    let outboard = std::fs::read(&path).unwrap();
    assert_eq!(outboard.len(), 6 * 64);
    let error = modelfmt_in(folder.path(), "outboard m.safetensors").error();
    assert_eq!(error, "error: m.safetensors.obao4: exists already; --force replaces it");
    flip(&path, 3);
    modelfmt_in(folder.path(), "outboard m.safetensors --force --quiet").ok();
    assert_eq!(std::fs::read(&path).unwrap(), outboard);
    // Any file can have an outboard; that of a small file is empty.
    std::fs::write(folder.path().join("note"), "hello").unwrap();
    assert_eq!(
        modelfmt_in(folder.path(), "outboard note").ok().trim(),
        blake3::hash(b"hello").to_hex().as_str()
    );
    assert_eq!(std::fs::read(folder.path().join("note.obao4")).unwrap(), b"");
    assert!(modelfmt_in(folder.path(), "outboard missing").error().contains("missing: cannot be opened"));
    assert!(modelfmt_in(folder.path(), "outboard .").error().contains("it is a folder"));
    assert_eq!(modelfmt_in(folder.path(), "outboard -").status, 2);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "nothing else is left");
}

#[test]
fn every_command_takes_a_pin() {
    let (folder, hash) = model();
    for with_outboard in [false, true] {
        if with_outboard {
            modelfmt_in(folder.path(), "outboard m.safetensors").ok();
        }
        for command in [
            "inspect m.safetensors",
            "show m.safetensors",
            "verify m.safetensors",
            "convert m.safetensors m.aero --force",
            "extract m.safetensors w -o w.bin --force",
            "diff m.safetensors m.safetensors",
        ] {
            modelfmt_in(folder.path(), &format!("{command} --pin b3:{hash}")).ok();
            let other = "0".repeat(64);
            let run = modelfmt_in(folder.path(), &format!("{command} --pin b3:{other}"));
            assert_eq!(run.status, 1, "{command}");
            let text = format!("{}{}", run.stdout, run.stderr);
            assert!(text.contains(&other) && text.contains("m.safetensors"), "{command}: {text}");
            assert_eq!(modelfmt_in(folder.path(), &format!("{command} --pin b3:12")).status, 2);
        }
    }
}

#[test]
fn damage_is_named_and_nothing_is_made_of_it() {
    let (folder, hash) = model();
    modelfmt_in(folder.path(), "outboard m.safetensors").ok();
    flip(&folder.path().join("m.safetensors"), 60_000);
    let pin = format!("--pin b3:{hash}");
    // The header is in another group, and can be read.
    modelfmt_in(folder.path(), &format!("inspect m.safetensors {pin}")).ok();
    let run = modelfmt_in(folder.path(), &format!("convert m.safetensors m.aero {pin}"));
    assert!(
        run.stderr.contains(&format!("bytes 49152 to 65536 are not those of b3:{hash}")),
        "{}",
        run.stderr
    );
    run.error();
    assert!(!folder.path().join("m.aero").exists());
    let run = modelfmt_in(folder.path(), &format!("verify m.safetensors --json {pin}"));
    assert_eq!(run.status, 1);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&report["pin"], &report["ok"]), (&json!(format!("b3:{hash}")), &json!(false)));
    let check =
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "outboard").unwrap();
    assert!(check["status"] == "failed" && check["detail"].as_str().unwrap().contains("49152"), "{check}");
    let errors = report["errors"].as_array().unwrap();
    assert_eq!(
        errors,
        &[json!(format!(
            "tensor \"w\": bytes 49152 to 65536 are not those of b3:{hash}: the file is damaged, was changed, or is another one"
        ))]
    );
    // Without a pin, nothing would show the damage.
    let report = modelfmt_in(folder.path(), "verify m.safetensors --json").json();
    assert_eq!((&report["pin"], &report["ok"]), (&Value::Null, &json!(true)));
    // In JSON, the error has a code.
    flip(&folder.path().join("m.safetensors"), 5);
    let run = modelfmt_in(folder.path(), &format!("inspect m.safetensors --json {pin}"));
    let error: Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!((run.status, &error["code"]), (1, &json!("damaged")), "{error}");
}

/// Every damaged group is found, adjacent ones are a single finding, and each finding names the tensors whose
/// values it affects.
#[test]
fn damaged_ranges_name_their_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let (small, large) = (1000, 3_000_000);
    let names = ["a", "b", "c", "d", "e"];
    let mut header = serde_json::Map::new();
    for (number, name) in names.iter().enumerate() {
        let at = [number * small, (number + 1) * small];
        header.insert((*name).to_owned(), json!({"dtype": "U8", "shape": [small], "data_offsets": at}));
    }
    let at = [names.len() * small, names.len() * small + large];
    header.insert("w".to_owned(), json!({"dtype": "U8", "shape": [large], "data_offsets": at}));
    let mut text = serde_json::to_string(&header).unwrap();
    let group = 16 << 10;
    while text.len() < 3 * group - 8 {
        text.push(' '); // so that the header is in groups of its own
    }
    let values = (0..at[1]).map(|i| u8::try_from(i % 251).unwrap());
    let bytes: Vec<u8> =
        (text.len() as u64).to_le_bytes().into_iter().chain(text.bytes()).chain(values).collect();
    std::fs::write(&path, &bytes).unwrap();
    let hash = modelfmt_in(folder.path(), "outboard m.safetensors").ok().trim().to_owned();
    let pin = format!("--pin b3:{hash}");
    // The small tensors and the start of w; two adjacent groups, across pieces of 1 MiB; another in the same
    // piece; the last.
    for at in [50_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 5 * group, bytes.len() - 1] {
        flip(&path, at);
    }
    let run = modelfmt_in(folder.path(), &format!("verify m.safetensors --json {pin}"));
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let said = |names: &str, from: usize, to: usize| {
        format!(
            "{names}: bytes {from} to {to} are not those of b3:{hash}: the file is damaged, was changed, or is another one"
        )
    };
    let mib = 1 << 20;
    let last = (bytes.len() - 1) / group * group;
    assert_eq!(
        report["errors"],
        json!([
            said("6 tensors (\"a\", \"b\", \"c\" and 3 more)", 3 * group, 4 * group),
            said("tensor \"w\"", mib - group, mib + group),
            said("tensor \"w\"", mib + 5 * group, mib + 6 * group),
            said("tensor \"w\"", last, bytes.len()),
        ])
    );
    let run = modelfmt_in(folder.path(), &format!("verify m.safetensors {pin}"));
    assert!(run.stdout.contains("tensor \"w\": bytes 1032192 to 1064960"), "{}", run.stdout);
}

#[test]
fn an_outboard_of_another_file_says_so() {
    let (folder, hash) = model();
    let path = folder.path().join("m.safetensors.obao4");
    for (outboard, text) in [
        (vec![], "has 0 bytes, and that of such a file has 384"),
        (vec![0; 384], "the outboard's bytes 0 to 64 do not belong to bytes 0 to 100080"),
    ] {
        std::fs::write(&path, outboard).unwrap();
        let run = modelfmt_in(folder.path(), &format!("inspect m.safetensors --pin b3:{hash}"));
        assert!(run.stderr.contains("m.safetensors.obao4") && run.stderr.contains(text), "{}", run.stderr);
        run.error();
    }
}

#[test]
fn a_conversion_writes_outboards_of_what_it_writes() {
    let (folder, _) = model();
    let run = modelfmt_in(folder.path(), "convert m.safetensors m.aero --outboard");
    assert!(
        run.stderr.contains("note: m.aero.obao4 proves any range of a file with the pin b3:"),
        "{}",
        run.stderr
    );
    run.ok();
    let hash = blake3::hash(&std::fs::read(folder.path().join("m.aero")).unwrap()).to_hex();
    modelfmt_in(folder.path(), &format!("verify m.aero --pin b3:{hash}")).ok();
    let pins = modelfmt_in(folder.path(), "inspect m.aero --json").json()["pins"].clone();
    assert!(pins[0].as_str().unwrap().starts_with("aero:"), "{pins}");
    assert_eq!(pins[1], json!(format!("b3:{hash}")));
    // Nothing is written if the outboard could not be written.
    std::fs::write(folder.path().join("n.safetensors.obao4"), "x").unwrap();
    let error = modelfmt_in(folder.path(), "convert m.safetensors n.safetensors --outboard").error();
    assert_eq!(error, "error: n.safetensors.obao4: exists already; --force replaces it");
    assert!(!folder.path().join("n.safetensors").exists());
    // Without --outboard, an old outboard stays, and a note says that it belongs to another file.
    let run = modelfmt_in(folder.path(), "convert m.safetensors m.aero --force");
    assert!(run.stderr.contains("note: m.aero.obao4 is the outboard of another file"), "{}", run.stderr);
    let run = modelfmt_in(folder.path(), "convert m.safetensors s.aeroset.json --shard-size 1KiB --outboard");
    run.ok();
    for name in ["s.aeroset.json.obao4", "s.index.aero.obao4", "s.part-000.aero.obao4"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
    assert_eq!(modelfmt_in(folder.path(), "convert m.safetensors - --to aero --outboard").status, 2);
}

#[test]
fn pins_that_fit_no_such_file_are_refused() {
    let zeros = "0".repeat(64);
    let other = testdata("oinf/dtypes.oinf");
    let error = modelfmt(["inspect", other.to_str().unwrap(), "--pin", &format!("aero:{zeros}")]).error();
    assert!(error.contains("this kind of pin is for AERO files, and the file is oinf"), "{error}");
    let two = ["verify", "a", "b", "--pin", &format!("b3:{zeros}")].map(str::to_owned);
    assert_eq!(modelfmt(two).status, 2);
}

#[test]
fn the_head_of_an_aero_fixes_all_of_it() {
    let (folder, _) = model();
    modelfmt_in(folder.path(), "convert m.safetensors m.aero --page-hashes=16KiB").ok();
    let pins = modelfmt_in(folder.path(), "inspect m.aero --json").json()["pins"].clone();
    let pin = format!("--pin {}", pins[0].as_str().unwrap());
    let report = modelfmt_in(folder.path(), &format!("verify m.aero --json {pin}")).json();
    let check =
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "pin").unwrap().clone();
    assert_eq!(check["status"], "ok", "{check}");
    modelfmt_in(folder.path(), &format!("diff m.aero m.safetensors {pin}")).ok();
    let path = folder.path().join("m.aero");
    let good = std::fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(good.len() / 40) {
        flip(&path, at);
        let run = modelfmt_in(folder.path(), &format!("extract m.aero w -o w.bin --force --no-verify {pin}"));
        if run.status == 0 {
            let values = std::fs::read(folder.path().join("w.bin")).unwrap();
            assert!(good.windows(values.len()).any(|part| part == values), "byte {at}");
        } else {
            assert!(run.stderr.contains("m.aero"), "{}", run.stderr);
        }
        std::fs::write(&path, &good).unwrap();
    }
    flip(&path, good.len() - 50_000);
    let error = modelfmt_in(folder.path(), &format!("extract m.aero w -o v.bin --no-verify {pin}"));
    assert!(
        error.stderr.contains("are not those of aero:") || error.stderr.contains("and not aero:"),
        "{}",
        error.stderr
    );
    error.error();
    assert!(!folder.path().join("v.bin").exists());
}

#[test]
fn the_index_of_a_set_fixes_its_files_if_it_has_their_hashes() {
    let (folder, _) = model();
    let hash = |name: &str| {
        let hash = blake3::hash(&std::fs::read(folder.path().join(name)).unwrap()).to_hex();
        format!("--pin b3:{hash}")
    };
    modelfmt_in(folder.path(), "convert m.safetensors s.aeroset.json --shard-size 1KiB").ok();
    let pin = hash("s.aeroset.json");
    modelfmt_in(folder.path(), &format!("diff s.aeroset.json m.safetensors {pin}")).ok();
    modelfmt_in(folder.path(), &format!("verify s.aeroset.json {pin}")).ok();
    for name in ["s.part-000.aero", "s.index.aero"] {
        let path = folder.path().join(name);
        let len = std::fs::metadata(&path).unwrap().len();
        flip(&path, usize::try_from(len).unwrap() - 5);
        let run = modelfmt_in(folder.path(), &format!("extract s.aeroset.json w -o w.bin --no-verify {pin}"));
        assert!(
            run.stderr.contains(name) && run.stderr.contains("and not sha256:"),
            "{name}: {}",
            run.stderr
        );
        run.error();
        assert_eq!(modelfmt_in(folder.path(), &format!("verify s.aeroset.json {pin}")).status, 1);
        flip(&path, usize::try_from(len).unwrap() - 5);
    }
    flip(&folder.path().join("s.aeroset.json"), 10);
    assert_eq!(modelfmt_in(folder.path(), &format!("inspect s.aeroset.json {pin}")).status, 1);
    // Other indexes have no hashes of the files that they name.
    modelfmt_in(folder.path(), "convert m.safetensors t.safetensors.index.json --shard-size 1KiB").ok();
    let pin = hash("t.safetensors.index.json");
    let run = modelfmt_in(folder.path(), &format!("inspect t.safetensors.index.json --json {pin}"));
    let error: Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!((run.status, &error["code"]), (1, &json!("unpinnable")), "{error}");
}
