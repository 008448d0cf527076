//! Golden files, which never change: each reads as its text dump says, and is written again byte for byte.
//! Also files by aprender's own tools, compared with what an independent parser found in them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::PathBuf;

use apr::modelfmt_core::Container;
use apr::modelfmt_core::value::Value;
use apr::write::MemoryFile;
use apr::{Execution, Plan, Reader, TensorSpec, WriteOptions};

/// Files that our writer would lay out differently.
const NOT_OURS: &[&str] = &["foreign", "lz4", "zstd"];

#[test]
fn golden_files_hold_what_their_text_says() {
    for path in testkit::golden_files("apr", "apr") {
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        let found = testkit::dump(&Reader::open(&path).unwrap());
        assert_eq!(found, expected, "{}", path.display());
        let found = testkit::dump(&Reader::from_source(fs::read(&path).unwrap()).unwrap());
        assert_eq!(found, expected, "{} in memory", path.display());
    }
}

fn written_again(path: &PathBuf) -> Vec<u8> {
    let reader = Reader::open(path).unwrap();
    let options = WriteOptions::new().flags(reader.index().flags());
    // In the order of the values. A tensor without bytes comes before the one that begins at the same offset.
    let mut positions: Vec<usize> = (0..reader.tensors().len()).collect();
    let info = |position| reader.tensors().info(position).unwrap();
    positions.sort_by_key(|&position| (reader.tensors().offset(position), info(position).nbytes));
    let specs = positions.iter().map(|&position| TensorSpec::from(info(position)));
    let plan = Plan::new(specs, reader.index().metadata(), &options).unwrap();
    let read = |&position: &usize| reader.tensor(position).unwrap().bytes().to_vec();
    let values: Vec<_> = positions.iter().map(read).collect();
    let file = MemoryFile::new();
    plan.write(&values, &file, &Execution::default()).unwrap();
    file.into_bytes()
}

#[test]
fn golden_files_are_written_again_byte_for_byte() {
    for path in testkit::golden_files("apr", "apr") {
        if !NOT_OURS.contains(&path.file_stem().unwrap().to_str().unwrap()) {
            assert!(written_again(&path) == fs::read(&path).unwrap(), "{}", path.display());
        }
    }
}

/// Our writer makes the same bytes as aprender's own writer from the same content, for files that were not
/// patched.
#[test]
fn files_by_aprender_are_written_again_byte_for_byte() {
    for name in
        ["plain", "dtypes", "streaming", "stamped", "flags", "shard-00001-of-00002", "shard-00002-of-00002"]
    {
        let path = testkit::testdata("reference/apr").join(name).with_extension("apr");
        assert!(written_again(&path) == fs::read(&path).unwrap(), "{name}");
    }
}

#[test]
fn files_by_aprender_hold_what_was_put_there() {
    let mut count = 0;
    for path in testkit::golden_files("reference/apr", "apr") {
        let name = format!("apr/{}", path.file_name().unwrap().to_str().unwrap());
        let opened = Reader::open(&path);
        if name == "apr/column-major.apr" {
            let error = opened.map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("column-major"), "{error}");
            continue;
        }
        let reader = opened.unwrap();
        let expected = testkit::as_expected(&name, &reader);
        assert_eq!(Container::version(&reader).as_deref(), expected.get("version").and_then(Value::as_str));
        let details = Container::details(&reader).unwrap();
        assert_eq!(details.get("flags"), expected.get("flags"), "{name}");
        assert_eq!(details.get("magic"), expected.get("magic"), "{name}");
        assert_eq!(
            Container::metadata(&reader).unwrap(),
            expected.get("metadata").cloned().unwrap(),
            "{name}"
        );
        count += 1;
    }
    assert_eq!(count, 15);
}
