//! Golden files, which never change: each reads as its text dump says, and is written again byte for byte.
#![cfg(feature = "v0_3")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::fs;

use mag::modelfmt_core::Container;
use mag::modelfmt_core::value::{Value, json};
use mag::write::MemoryFile;
use mag::{Execution, ManifestOptions, Plan, Reader, TensorSpec, Version, WriteOptions};

/// Files that our writer would lay out differently.
const NOT_OURS: &[&str] = &["foreign", "0.3-big-endian"];

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
        let specs = reader.tensors().iter().map(TensorSpec::from);
        let plan = match reader.index().manifest() {
            None => {
                let options = WriteOptions::new().checksum(reader.index().checksum().unwrap());
                Plan::new(specs, reader.index().metadata(), &options).unwrap()
            }
            Some(_) => Plan::v0_3(specs, reader.index().metadata(), &ManifestOptions::new()).unwrap(),
        };
        let read = |position| reader.tensor(position).unwrap().bytes().to_vec();
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

/// Each generation of magnetron wrote its own file. The text in a file names the generation.
#[test]
fn files_by_later_magnetrons_hold_what_they_put_there() {
    for (file, version) in [
        ("mag/magnetron-0.1.6.mag", Version::V0_1),
        ("mag/magnetron-0.1.9.mag", Version::V0_2),
        ("mag/magnetron-0.2.2-a.mag", Version::V0_3),
        ("mag/magnetron-0.2.2-edge.mag", Version::V0_3),
        ("mag/magnetron-0.2.2-nonfinite.mag", Version::V0_3),
    ] {
        let path = testkit::testdata("reference").join(file);
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.index().version(), version);
        let expected = testkit::as_expected(file, &reader);
        assert_eq!(Container::version(&reader).as_deref(), expected.get("version").and_then(Value::as_str));
        let text = json::to_string(&Container::metadata(&reader).unwrap()).unwrap();
        assert_eq!(Some(&json::parse(text.as_bytes()).unwrap()), expected.get("metadata"), "{file}");
        for (position, tensor) in expected.get("tensors").unwrap().as_array().unwrap().iter().enumerate() {
            let offset = Container::location(&reader, position).unwrap().offset;
            assert_eq!(offset, tensor.get("offset").and_then(Value::as_u64), "{file}, tensor {position}");
        }
        testkit::reference::compare(file, "mag", &fs::read(&path).unwrap(), &reader);
        let checksum = reader.index().checksum().map(mag::Checksum::name);
        assert_eq!(checksum, (version != Version::V0_3).then_some("crc32c"), "{file}");
    }
}
