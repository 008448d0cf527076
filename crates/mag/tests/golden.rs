//! Files that never change: read as the text beside them says, and written again byte for byte.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::fs;

use mag::modelfmt_core::Container;
use mag::modelfmt_core::value::Value;
use mag::modelfmt_core::write::MemoryFile;
use mag::{Execution, Plan, Reader, TensorSpec, WriteOptions};

/// Files that our writer would lay out in another way.
const NOT_OURS: &[&str] = &["foreign"];

#[test]
fn golden_files_hold_what_their_text_says() {
    for path in testkit::golden_files("mag", "mag") {
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        let found = testkit::dump(&Reader::open(&path).unwrap());
        assert_eq!(found, expected, "{}", path.display());
        let found = testkit::dump(&Reader::from_source(fs::read(&path).unwrap()).unwrap());
        assert_eq!(found, expected, "{} in memory", path.display());
    }
}

#[test]
fn golden_files_are_written_again_byte_for_byte() {
    for path in testkit::golden_files("mag", "mag") {
        if NOT_OURS.contains(&path.file_stem().unwrap().to_str().unwrap()) {
            continue;
        }
        let reader = Reader::open(&path).unwrap();
        let options = WriteOptions::new().checksum(reader.index().checksum().unwrap());
        let specs = reader.tensors().iter().map(TensorSpec::from);
        let plan = Plan::new(specs, reader.index().metadata(), &options).unwrap();
        let read = |position| reader.tensor_at(position).unwrap().bytes().to_vec();
        let values: Vec<_> = (0..reader.tensors().len()).map(read).collect();
        let file = MemoryFile::new();
        plan.write(&values, &file, &Execution::default()).unwrap();
        assert!(file.into_bytes() == fs::read(&path).unwrap(), "{}", path.display());
    }
}

#[test]
fn files_by_magnetron_hold_what_magnetron_put_there() {
    for file in ["trained.mag", "metadata-only.mag"] {
        let reader = Reader::open(testkit::testdata("reference").join(file)).unwrap();
        let expected = testkit::as_expected(file, &reader);
        let checksum = reader.index().checksum().map(mag::Checksum::name);
        assert_eq!(checksum, expected.get("checksum").and_then(Value::as_str));
        // The file has them in the order of a hash table.
        let found = Container::metadata(&reader).unwrap().sorted();
        assert_eq!(Some(found), expected.get("metadata").cloned().map(Value::sorted), "{file}");
    }
}
