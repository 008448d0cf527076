//! Runs every input in the fuzzer's corpus, and every file in testdata/, through its fuzz target.

use std::fs;
use std::path::{Path, PathBuf};

use super::fuzz::{Depth, TARGETS, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(listed) = fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn kept_inputs_find_nothing() {
    let mut replayed = 0;
    for dir in files(&folder().join("corpus")) {
        let target = dir.file_name().unwrap().to_str().unwrap();
        for file in files(&dir) {
            println!("{}", file.display()); // shown if it fails
            run(target, &fs::read(&file).unwrap());
            replayed += 1;
        }
    }
    assert!(replayed >= TARGETS.len(), "every target keeps inputs, but there are {replayed}");
}

#[test]
fn files_of_testdata_find_nothing() {
    let testdata = testkit::testdata("");
    let folders = files(&testdata).into_iter().filter(|path| path.is_dir());
    let all: Vec<PathBuf> = folders.flat_map(|dir| files(&dir)).filter(|path| path.is_file()).collect();
    assert!(all.len() > 40, "{}", all.len());
    for file in all {
        let bytes = fs::read(&file).unwrap();
        for (target, run) in TARGETS.iter().filter(|(name, _)| name.ends_with("_parse")) {
            println!("{target} {}", file.display());
            run(&bytes, Depth::Whole);
        }
    }
}

#[test]
fn every_target_is_listed_and_keeps_inputs() {
    let mut listed: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    let programs = files(&folder().join("fuzz_targets"));
    let programs: Vec<&str> =
        programs.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    assert_eq!(programs, listed);
    let kept = files(&folder().join("corpus"));
    let kept: Vec<&str> = kept.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(kept, listed);
}
