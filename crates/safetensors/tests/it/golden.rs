//! Golden files, which never change: each reads as its text dump says, and is written again byte for byte.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::collections::BTreeMap;
use std::fs;

use modelfmt_safetensors::source::MemoryFiles;
use modelfmt_safetensors::write::MemoryFolder;
use modelfmt_safetensors::{Execution, Reader, SetPlan, SetReader, TensorSpec, WriteOptions};

/// Files that our writer would lay out differently.
const NOT_OURS: &[&str] = &["foreign"];

/// The shard size with which the set `set.safetensors.index.json` was written.
const SHARD_SIZE: u64 = 600;

#[test]
fn golden_files_hold_what_their_text_says() {
    for path in testkit::golden_files("safetensors", "safetensors") {
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        let found = testkit::dump(&Reader::open(&path).unwrap());
        assert_eq!(found, expected, "{}", path.display());
        let found = testkit::dump(&Reader::from_source(fs::read(&path).unwrap()).unwrap());
        assert_eq!(found, expected, "{} in memory", path.display());
    }
}

#[test]
fn golden_files_are_written_again_byte_for_byte() {
    for path in testkit::golden_files("safetensors", "safetensors") {
        if NOT_OURS.contains(&path.file_stem().unwrap().to_str().unwrap()) {
            continue;
        }
        let reader = Reader::open(&path).unwrap();
        assert!(crate::common::rewrite(&reader) == fs::read(&path).unwrap(), "{}", path.display());
    }
}

#[test]
fn the_golden_set_holds_what_its_text_says_and_is_written_again_byte_for_byte() {
    let folder = testkit::testdata("safetensors");
    let index = "set.safetensors.index.json";
    let expected = fs::read_to_string(folder.join("set.txt")).unwrap();
    let set = SetReader::open(folder.join(index)).unwrap();
    assert_eq!(testkit::dump(&set), expected);
    let names = set.index().files().iter().chain([index]);
    let files: BTreeMap<_, _> =
        names.map(|name| (name.to_owned(), fs::read(folder.join(name)).unwrap().into())).collect();
    let in_memory = SetReader::from_files(MemoryFiles(files.clone()), index).unwrap();
    assert_eq!(testkit::dump(&in_memory), expected);

    set.open_all().unwrap();
    let infos = (0..set.index().names().len()).map(|position| set.info(position).unwrap());
    let options = WriteOptions::new().shard_size(SHARD_SIZE);
    let plan =
        SetPlan::new("set", infos.map(TensorSpec::from), Some(set.index().metadata()), &options).unwrap();
    let read = |position| set.tensor(position).unwrap().bytes().to_vec();
    let values: Vec<_> = (0..set.index().names().len()).map(read).collect();
    let written = MemoryFolder::default();
    plan.write(&values, &written, &Execution::default()).unwrap();
    assert!(written.files().0 == files);
}
