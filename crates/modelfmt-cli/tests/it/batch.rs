//! `convert -r`: converts a folder of models into another folder.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::Path;

use crate::common::{Run, modelfmt_in, testdata};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str, to: &str| {
        let to = folder.path().join("in").join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(testdata(name), to).unwrap();
    };
    copy("reference/trained.mag", "trained.mag");
    copy("reference/simple_model.oinf", "sub/simple.oinf");
    fs::create_dir(folder.path().join("in/hub")).unwrap();
    let set = "convert in/trained.mag in/hub/set.safetensors --shard-size 400 --lossy -q";
    modelfmt_in(folder.path(), set).ok();
    fs::write(folder.path().join("in/hub/config.json"), "{}").unwrap();
    folder
}

fn last(run: &Run) -> &str {
    run.stderr.lines().last().unwrap_or_default()
}

fn files(folder: &Path) -> Vec<String> {
    let mut files: Vec<String> = walkdir::WalkDir::new(folder)
        .into_iter()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.path().strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/"))
        .collect();
    files.sort_unstable();
    files
}

#[test]
fn a_folder_of_models_becomes_another_and_what_is_done_is_skipped() {
    let folder = folder();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let dry = run("convert -r in out --to aero --dry-run");
    assert_eq!((dry.status, dry.stdout.lines().count()), (0, 3), "{}", dry.stderr);
    assert_eq!(last(&dry), "3 models would be converted, 0 failed; 1 other file skipped");
    assert!(!folder.path().join("out").exists());
    let first = run("convert -r in out --to aero");
    assert_eq!(
        (first.status, last(&first)),
        (0, "3 models converted, 0 failed; 1 other file skipped"),
        "{}",
        first.stderr
    );
    let made = files(&folder.path().join("out"));
    assert_eq!(made, [".modelfmt-convert.jsonl", "hub/set.aero", "sub/simple.aero", "trained.aero"]);
    run("diff in/hub/set.safetensors.index.json out/hub/set.aero").ok();
    run("verify -r out").ok();
    let again = run("convert -r in out --to aero");
    assert_eq!(
        (again.status, last(&again)),
        (0, "0 models converted, 3 done before, 0 failed; 1 other file skipped")
    );
    // A model whose output has changed since is not treated as done, and the output is not replaced silently.
    fs::remove_file(folder.path().join("out/sub/simple.aero")).unwrap();
    fs::write(folder.path().join("out/trained.aero"), "x").unwrap();
    let again = run("convert -r in out --to aero");
    assert_eq!(
        (again.status, last(&again)),
        (1, "1 model converted, 1 done before, 1 failed; 1 other file skipped")
    );
    assert!(again.stderr.contains("error: out/trained.aero: exists already; --force"), "{}", again.stderr);
    let forced = run("convert -r in out --to aero --force");
    assert_eq!((forced.status, last(&forced)), (0, "3 models converted, 0 failed; 1 other file skipped"));
    // Other options produce other outputs.
    let other = run("convert -r in out --to aero --tensor-hashes");
    assert_eq!(
        (other.status, last(&other)),
        (1, "0 models converted, 3 failed; 1 other file skipped"),
        "{}",
        other.stderr
    );
    // So does another input.
    fs::copy(testdata("reference/metadata-only.mag"), folder.path().join("in/trained.mag")).unwrap();
    let other = run("convert -r in out --to aero");
    assert_eq!(
        (other.status, last(&other)),
        (1, "0 models converted, 2 done before, 1 failed; 1 other file skipped")
    );
}

#[test]
fn one_that_fails_does_not_stop_the_others() {
    let folder = folder();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    fs::write(folder.path().join("in/bad.mag"), b"MAG!cut").unwrap();
    fs::copy(testdata("reference/trained.mag"), folder.path().join("in/trained.gguf")).unwrap();
    let done = run("convert -r in out --to aero --json");
    assert_eq!((done.status, done.stdout.lines().count()), (1, 3));
    assert_eq!(last(&done), "3 models converted, 2 failed; 1 other file skipped");
    assert!(
        done.stderr.contains("broken-file")
            && done.stderr.contains("it would be written to out/trained.aero, like in/trained.gguf"),
        "{}",
        done.stderr
    );
    // The output folder may be within the input folder.
    let within = run("convert -r in in/out --to aero -q");
    assert_eq!((within.status, files(&folder.path().join("in/out")).len()), (1, 4), "{}", within.stderr);
    let again = run("convert -r in in/out --to aero");
    assert_eq!(last(&again), "0 models converted, 3 done before, 2 failed; 1 other file skipped");
    for wrong in [
        "convert -r in out",
        "convert -r in - --to aero",
        "convert -r in in out --to aero",
        "convert -r in out --to aero --compress lz4",
    ] {
        assert_eq!(run(wrong).status, 2, "{wrong}");
    }
    assert!(run("convert -r in/trained.mag out --to aero").error().contains("-r takes folders"));
    assert!(run("convert -r in in --to aero").error().contains("OUT is the folder to read"));
    fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(run("convert -r empty out --to aero").error().contains("no model to convert"));
}

#[test]
fn a_folder_is_verified_in_several_runs() {
    let folder = folder();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let first = run("verify -r in --resume done.jsonl");
    assert_eq!(
        first.stdout.lines().last(),
        Some("3 files: 3 ok, 0 failed; 1 other file skipped"),
        "{}",
        first.stderr
    );
    let again = run("verify -r in --resume done.jsonl");
    let expected = "0 files: 0 ok, 0 failed, 3 ok before; 1 other file skipped\n";
    assert_eq!((again.status, again.stdout.as_str()), (0, expected), "{}", again.stderr);
    // A changed file, a failed file, and another level are verified again.
    let part = folder.path().join("in/trained.mag");
    let mut bytes = fs::read(&part).unwrap();
    bytes[20] ^= 1;
    fs::write(&part, bytes).unwrap();
    for _ in 0..2 {
        let broken = run("verify -r in --resume done.jsonl");
        assert_eq!(broken.status, 1);
        assert!(
            broken.stdout.ends_with("1 file: 0 ok, 1 failed, 2 ok before; 1 other file skipped\n"),
            "{}",
            broken.stdout
        );
    }
    let header = run("verify -r in --resume done.jsonl --level header");
    assert_eq!(header.stdout.lines().filter(|line| line.starts_with("ok")).count(), 2, "{}", header.stdout);
    assert_eq!(run("verify in --resume done.jsonl").status, 2);
}

/// An adapter needs its base, and the other models are still converted.
#[test]
fn an_adapter_without_its_base_does_not_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let adapter = folder.path().join("in/adapter");
    fs::create_dir_all(&adapter).unwrap();
    fs::copy(testdata("reference/trained.mag"), folder.path().join("in/trained.mag")).unwrap();
    fs::write(adapter.join("adapter_config.json"), r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 2}"#)
        .unwrap();
    let names = ["lora_A", "lora_B"]
        .map(|part| format!("base_model.model.model.layers.0.self_attn.q_proj.{part}.weight"));
    let header = format!(
        r#"{{"{}":{{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}},"{}":{{"dtype":"F32","shape":[4,2],"data_offsets":[32,64]}}}}"#,
        names[0], names[1]
    );
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 64]].concat();
    fs::write(adapter.join("adapter_model.safetensors"), file).unwrap();
    let run = modelfmt_in(folder.path(), "convert -r in out --to gguf --lossy --stringify --widen");
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("its base is no folder here") && run.stderr.contains("--base FOLDER"),
        "{}",
        run.stderr
    );
    assert!(last(&run).starts_with("1 model converted, 1 failed"), "{}", run.stderr);
    assert_eq!(files(&folder.path().join("out")), [".modelfmt-convert.jsonl", "trained.gguf"]);
}

#[test]
fn one_shard_of_several_says_so() {
    let folder = folder();
    let shard =
        files(&folder.path().join("in/hub")).into_iter().find(|name| name.starts_with("set-")).unwrap();
    let run = modelfmt_in(folder.path(), &format!("convert in/hub/{shard} part.aero"));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let note =
        "note: this is one of the files of set.safetensors.index.json; name that to convert all of them";
    assert!(run.stderr.contains(note), "{}", run.stderr);
}
