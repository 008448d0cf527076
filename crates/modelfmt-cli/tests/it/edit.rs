//! `modelfmt edit`, run by a user. `kills.rs` kills it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{modelfmt, modelfmt_in, program, testdata};
use serde_json::json;

fn folder(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let from = testdata(name);
        fs::copy(&from, folder.path().join(from.file_name().unwrap())).unwrap();
    }
    folder
}

fn metadata(folder: &Path, name: &str) -> serde_json::Value {
    modelfmt_in(folder, &format!("inspect --json {name}")).json()["metadata"].clone()
}

#[test]
fn values_are_json_or_text() {
    let folder = folder(&["gguf/scalars.gguf", "oinf/model.oinf"]);
    let file = folder.path().join("scalars.gguf");
    let file = file.to_str().unwrap();
    let sets = ["a.n=7", "a.text=seven", "a.quoted=\"7\"", "a.list=[1,2]", "a.b=c=d", "a.empty="];
    let mut args = vec!["edit", file];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    let run = modelfmt(&args);
    assert!(run.stderr.starts_with("edited ") && run.stderr.contains(", 6 set, "), "{}", run.stderr);
    run.ok();
    let found = metadata(folder.path(), "scalars.gguf");
    for (key, value) in [
        ("a.n", json!(7)),
        ("a.text", json!("seven")),
        ("a.quoted", json!("7")),
        ("a.list", json!([1, 2])),
        ("a.b", json!("c=d")),
        ("a.empty", json!("")),
    ] {
        assert_eq!(found[key], value, "{key}");
    }
    fs::write(folder.path().join("m.json"), r#"{"a.n": 8, "a.more": true}"#).unwrap();
    modelfmt_in(folder.path(), "edit scalars.gguf --metadata m.json --set a.n=9 --unset a.text --quiet").ok();
    let found = metadata(folder.path(), "scalars.gguf");
    assert_eq!((&found["a.n"], &found["a.more"], found.get("a.text")), (&json!(9), &json!(true), None));
    modelfmt_in(folder.path(), "verify scalars.gguf").ok();
}

#[test]
fn names_are_changed_and_tensors_go() {
    let folder = folder(&["reference/trained.mag"]);
    let names = || {
        let inspected = modelfmt_in(folder.path(), "inspect --json trained.mag").json();
        let names = inspected["tensors"].as_array().unwrap().iter();
        names.map(|tensor| tensor["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = names();
    let run = modelfmt_in(folder.path(), "edit trained.mag --rename *=model.* --dry-run");
    assert!(run.stderr.starts_with("would edit "), "{}", run.stderr);
    run.ok();
    assert_eq!(names(), before);
    modelfmt_in(folder.path(), "edit trained.mag --rename *=model.*").ok();
    let expected: Vec<String> = before.iter().map(|name| format!("model.{name}")).collect();
    assert_eq!(names(), expected);
    let drop = format!("edit trained.mag --drop {}", expected[0]);
    let run = modelfmt_in(folder.path(), &drop);
    assert!(run.stderr.contains("1 dropped, in a new file"), "{}", run.stderr);
    run.ok();
    assert_eq!(names(), expected[1..]);
    modelfmt_in(folder.path(), "verify trained.mag").ok();
    modelfmt_in(folder.path(), "edit trained.mag --rename model.*=* -o out.mag").ok();
    assert_eq!(names(), expected[1..]);
    let exists = modelfmt_in(folder.path(), "edit trained.mag --rename model.*=* -o out.mag").error();
    assert!(exists.contains("--force"), "{exists}");
    modelfmt_in(folder.path(), "edit trained.mag --rename model.*=* -o out.mag --force").ok();
}

/// Another set in the folder would be broken.
#[test]
fn an_output_replaces_no_file_of_a_set() {
    let folder = folder(&["reference/trained.mag"]);
    let run = |args: &str| modelfmt_in(folder.path(), args);
    run("convert trained.mag m.safetensors --lossy --quiet").ok();
    run("convert trained.mag set.safetensors.index.json --shard-size 400 --lossy --quiet").ok();
    let shard = folder.path().join("set-00001-of-00003.safetensors");
    let bytes = fs::read(&shard).unwrap();
    let name = run("inspect --json m.safetensors").json()["tensors"][0]["name"].clone();
    for change in ["--set a=b".to_owned(), format!("--drop {}", name.as_str().unwrap())] {
        for dry in ["", " --dry-run"] {
            let args = format!("edit m.safetensors {change} -o set-00001-of-00003.safetensors --force{dry}");
            let error = run(&args).error();
            assert!(error.contains("set-00001-of-00003.safetensors"), "{error}");
            assert!(fs::read(&shard).unwrap() == bytes, "{args}");
        }
    }
    run("verify set.safetensors.index.json").ok();
    run("edit m.safetensors --set a=b -o set-9.safetensors --force").ok();
}

#[cfg(unix)]
#[test]
fn a_file_with_other_names_is_changed_in_place_only_at_once() {
    let folder = folder(&["reference/trained.mag"]);
    let run = |args: &str| modelfmt_in(folder.path(), args);
    run("convert trained.mag m.safetensors --lossy --reserve 20000 --quiet").ok();
    let [file, other] = ["m.safetensors", "other.safetensors"].map(|name| folder.path().join(name));
    fs::hard_link(&file, &other).unwrap();
    let bytes = fs::read(&file).unwrap();
    let long = format!("edit m.safetensors --set a={}", "x".repeat(9000));
    for more in ["", " --dry-run"] {
        let run = run(&format!("{long}{more}"));
        assert!(run.status == 1 && run.stderr.contains("hard links"), "{}", run.stderr);
        assert!(fs::read(&other).unwrap() == bytes);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    run(&format!("{long} -o out.safetensors")).ok();
    let short = run("edit m.safetensors --set a=b");
    assert!(short.stderr.contains("in place"), "{}", short.stderr);
    assert_eq!(metadata(folder.path(), "other.safetensors")["a"], "b");
}

#[test]
fn errors_say_what_to_do() {
    let folder = folder(&["reference/trained.mag", "apr2/apr1.apr", "reference/one-shard.aero"]);
    for (args, expected) in [
        ("edit trained.mag --unset nothing", "has no key \"nothing\""),
        ("edit trained.mag --rename nothing=x", "--rename nothing: no tensor has a matching name"),
        ("edit trained.mag --drop nothing*", "--drop nothing*: no tensor has a matching name"),
        ("edit apr1.apr --set a=1", "only read"),
        ("edit missing --set a=1", "cannot be opened"),
        ("edit one-shard.aero --rename embed.weight=blk.0.q4_0", "one name"),
    ] {
        let error = modelfmt_in(folder.path(), args).error();
        assert!(error.contains(expected), "{args}: {error}");
    }
    for args in [
        "edit trained.mag",
        "edit - --set a=1",
        "edit trained.mag --set a",
        "edit trained.mag --force --set a=1",
    ] {
        assert_eq!(modelfmt_in(folder.path(), args).status, 2, "{args}");
    }
}

#[test]
fn a_journal_is_told_by_every_reader_and_put_back() {
    let folder = folder(&["reference/trained.mag"]);
    let path = folder.path().join("trained.mag");
    let before = fs::read(&path).unwrap();
    let journal = testkit::journal::of_one(before.len() as u64, 0, &before[..3], b"xyz");
    fs::write(folder.path().join("trained.mag.modelfmt-undo"), journal).unwrap();
    fs::write(&path, [b"xy", &before[2..]].concat()).unwrap();
    for command in ["inspect", "show", "verify", "convert --to aero", "diff trained.mag", "extract -o x.npy"]
    {
        let args = match command.split_once(' ') {
            Some(("convert", rest)) => format!("convert trained.mag x.aero {rest}"),
            Some(("extract", rest)) => format!("extract trained.mag x {rest}"),
            _ => format!("{command} trained.mag"),
        };
        let run = modelfmt_in(folder.path(), &args);
        let said = run.stderr.clone() + &run.stdout;
        assert!(said.contains("can undo or complete it") && run.status == 1, "{args}: {said}");
    }
    let run = modelfmt_in(folder.path(), "edit trained.mag --set a=1 --dry-run");
    assert!(run.stderr.contains("can undo or complete it") && run.status == 1, "{}", run.stderr);
    assert!(folder.path().join("trained.mag.modelfmt-undo").exists());
    let run = modelfmt_in(folder.path(), "edit trained.mag");
    assert!(run.stderr.starts_with("undid the edit"), "{}", run.stderr);
    run.ok();
    assert_eq!(fs::read(&path).unwrap(), before);
    modelfmt_in(folder.path(), "verify trained.mag").ok();
    // An incomplete journal does not say what it was about, and an empty one is about nothing.
    let place = folder.path().join("trained.mag.modelfmt-undo");
    fs::write(&place, "MFMTEDIT").unwrap();
    let error = modelfmt_in(folder.path(), "edit trained.mag").error();
    assert!(error.contains("is not the whole journal") && place.exists(), "{error}");
    fs::write(&place, "").unwrap();
    modelfmt_in(folder.path(), "verify trained.mag").ok();
    let run = modelfmt_in(folder.path(), "edit trained.mag");
    assert!(
        run.stderr.starts_with("removed the remains of an interrupted edit") && !place.exists(),
        "{}",
        run.stderr
    );
}

/// A file in the middle of an edit is not signed, and gets no outboard.
#[test]
fn nothing_is_signed_beside_a_journal() {
    let folder = folder(&["reference/trained.mag", "gguf/scalars.gguf"]);
    modelfmt_in(folder.path(), "keygen --type p256 -o me.key").ok();
    let path = folder.path().join("trained.mag");
    let bytes = fs::read(&path).unwrap();
    let place = folder.path().join("trained.mag.modelfmt-undo");
    fs::write(&place, testkit::journal::of_one(bytes.len() as u64, 0, &bytes[..3], b"xyz")).unwrap();
    let count = || fs::read_dir(folder.path()).unwrap().count();
    let before = count();
    for args in ["sign trained.mag --key me.key", "sign . --key me.key", "outboard trained.mag"] {
        let error = modelfmt_in(folder.path(), args).error();
        assert!(
            error.contains("trained.mag.modelfmt-undo") && error.contains("interrupted"),
            "{args}: {error}"
        );
        assert_eq!(count(), before, "{args}");
    }
    modelfmt_in(folder.path(), "sign scalars.gguf --key me.key").ok();
    modelfmt_in(folder.path(), "edit trained.mag").ok();
    modelfmt_in(folder.path(), "sign . --key me.key").ok();
    assert!(!fs::read_to_string(folder.path().join("model.sig")).unwrap().contains("undo"));
}

/// If there is no room for the signature, the file is still changed, and the error says so.
#[cfg(unix)]
#[test]
fn an_edit_that_cannot_be_signed_says_that_it_is_made() {
    let folder = folder(&[]);
    modelfmt_in(folder.path(), "keygen --type p256 -o me.key").ok();
    let header = br#"{"__metadata__":{"k":"one"},"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}   "#;
    let path = folder.path().join("m.safetensors");
    fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], header, b"abc"].concat()).unwrap();
    // The header is changed in place, and the limit of 512 bytes is too small for a signature.
    let command =
        format!("trap '' XFSZ; ulimit -f 1; exec {} edit m.safetensors --set k=two --sign me.key", program());
    let run =
        |command: &str| Command::new("sh").current_dir(folder.path()).args(["-c", command]).output().unwrap();
    for said in ["it has no signature", "is for the file before"] {
        let output = run(&command);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let expected =
            ["m.safetensors: the file was changed", said, "to sign it, use `modelfmt sign --force`"];
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(metadata(folder.path(), "m.safetensors")["k"], "two");
        modelfmt_in(folder.path(), "sign m.safetensors --key me.key --force").ok();
        modelfmt_in(folder.path(), "edit m.safetensors --set k=one --sign me.key").ok();
    }
}

/// A set whose edit needs everything that an edit can need: marks, new files, a journal and a new index.
#[cfg(unix)]
#[test]
fn a_set_whose_edit_was_killed_anywhere_is_edited_again() {
    let folder = folder(&[]);
    let tensors = |n: usize| {
        format!(r#""t{n}":{{"dtype":"I8","shape":[4000],"data_offsets":[{},{}]}}"#, n * 4000, n * 4000 + 4000)
    };
    let header = format!("{{{}}}", (0..3).map(tensors).collect::<Vec<_>>().join(","));
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[7; 12_000]].concat();
    fs::write(folder.path().join("in.safetensors"), bytes).unwrap();
    for (to, index) in [("apr2-sharded", "m.apr"), ("aeroset", "m.aeroset.json")] {
        let made = folder.path().join(to);
        fs::create_dir(&made).unwrap();
        modelfmt_in(&made, &format!("convert ../in.safetensors {index} --to {to} --shard-size 4000 --quiet"))
            .ok();
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&made).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = names();
        let long = "y".repeat(9000);
        // With the first limits not even the journal can be written, and the last ones are too large to
        // matter.
        let mut is_renamed = false;
        for blocks in (0..60).step_by(4) {
            let rename = if is_renamed { "x*=t*" } else { "t*=x*" };
            let command = format!(
                "ulimit -c 0; ulimit -f {blocks}; exec {} edit {index} --quiet --rename '{rename}' --set k={long}{blocks}",
                program()
            );
            Command::new("sh").current_dir(&made).args(["-c", &command]).output().unwrap();
            modelfmt_in(&made, &format!("edit {index} --set n={blocks}")).ok();
            assert_eq!(names(), before, "{to} {blocks}");
            modelfmt_in(&made, &format!("verify {index}")).ok();
            // The edit is undone or completed for all files alike.
            let model = modelfmt_in(&made, &format!("inspect --json {index}")).json();
            let names =
                model["tensors"].as_array().unwrap().iter().map(|tensor| tensor["name"].as_str().unwrap());
            let renamed = names.filter(|name| name.starts_with('x')).count();
            assert!([0, 3].contains(&renamed), "{to} {blocks}");
            is_renamed = renamed == 3;
        }
    }
}
