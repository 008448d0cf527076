//! Compares with later generations of magnetron: each writes random models, and 0.2.2 loads the models that
//! we write.
#![cfg(feature = "v0_3")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::fs;
use std::path::Path;

use mag::modelfmt_core::source::FileSource;
use mag::modelfmt_core::value::{Value, json};
use mag::write::MemoryFile;
use mag::{Execution, ManifestOptions, Plan, Reader, TensorSpec, VerifyLevel};

const SEEDS: std::ops::Range<u32> = 0..12;

/// Formats a tensor as the scripts print it: name, dtype in magnetron's words, shape and values.
fn line(reader: &Reader<FileSource>, position: usize) -> String {
    let tensor = reader.tensor(position).unwrap();
    let shape: Vec<_> = tensor.shape().iter().map(u64::to_string).collect();
    let values: String = tensor.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let dtype = match tensor.dtype().name() {
        "bf16" => "bfloat16".to_owned(),
        "bool" => "boolean".to_owned(),
        "f8_e4m3" => "float8_e4m3fn".to_owned(),
        name => match name.split_at(1) {
            ("f", bits) => format!("float{bits}"),
            ("u", bits) => format!("uint{bits}"),
            (_, bits) => format!("int{bits}"),
        },
    };
    format!("{:?}\t{dtype}\t{}\t{values}", tensor.name(), shape.join(","))
}

/// Returns the lines of a script, with names as Rust prints them.
fn lines(printed: &str) -> Vec<String> {
    let line = |line: &str| {
        let (name, rest) = line.split_once('\t').unwrap();
        let name = json::parse(name.as_bytes()).unwrap();
        format!("{:?}\t{rest}", name.as_str().unwrap())
    };
    printed.lines().map(line).collect()
}

fn found(reader: &Reader<FileSource>) -> Vec<String> {
    assert!(reader.verify(VerifyLevel::Full).is_ok(), "{:?}", reader.verify(VerifyLevel::Full));
    (0..reader.tensors().len()).map(|position| line(reader, position)).collect()
}

#[test]
fn snapshots_of_0_1_6_and_0_1_9_are_read_right() {
    let folder = tempfile::tempdir().unwrap();
    for (magnetron, version) in [("magnetron-0.1.6", "0.1.0"), ("magnetron-0.1.9", "0.2.0")] {
        for seed in SEEDS {
            let path = folder.path().join(format!("{magnetron}-{seed}.mag"));
            let arguments = [path.to_str().unwrap(), &seed.to_string()];
            let printed =
                testkit::python_with(magnetron, include_str!("../oracle/snapshot_write.py"), &arguments);
            let reader = Reader::open(&path).unwrap();
            assert_eq!(reader.index().version().name(), version);
            // The file has them in the order of a hash table.
            let (mut found, mut expected) = (found(&reader), lines(&printed));
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{magnetron}, seed {seed}");
        }
    }
}

/// Returns the metadata and the tensors, in order.
fn manifest(printed: &str) -> (Value, Vec<String>) {
    let (metadata, tensors) = printed.split_once('\n').unwrap();
    (json::parse_with_bare_words(metadata.as_bytes()).unwrap(), lines(tensors))
}

fn load(path: &Path) -> String {
    testkit::python_with(
        "magnetron-0.2.2",
        include_str!("../oracle/manifest_read.py"),
        &[path.to_str().unwrap()],
    )
}

#[test]
fn manifests_of_0_2_2_are_read_right_and_it_loads_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    for seed in SEEDS {
        let path = folder.path().join(format!("{seed}.mag"));
        let arguments = [path.to_str().unwrap(), &seed.to_string()];
        let printed =
            testkit::python_with("magnetron-0.2.2", include_str!("../oracle/manifest_write.py"), &arguments);
        let (metadata, expected) = manifest(&printed);
        let reader = Reader::open(&path).unwrap();
        let stated = reader.index().manifest().unwrap();
        assert_eq!(Value::from(reader.index().metadata().clone()), metadata, "seed {seed}");
        assert_eq!(found(&reader), expected, "seed {seed}");
        // The same time and version give the same bytes.
        let options = ManifestOptions::new()
            .timestamp(stated.timestamp())
            .magnetron_version(stated.magnetron_version());
        let specs = reader.tensors().iter().map(TensorSpec::from);
        let plan = Plan::v0_3(specs, reader.index().metadata(), &options).unwrap();
        let read = |position| reader.tensor(position).unwrap().bytes().to_vec();
        let values: Vec<_> = (0..reader.tensors().len()).map(read).collect();
        let file = MemoryFile::new();
        plan.write(&values, &file, &Execution::default()).unwrap();
        let ours = folder.path().join(format!("ours-{seed}.mag"));
        fs::write(&ours, file.into_bytes()).unwrap();
        let (metadata_again, tensors_again) = manifest(&load(&ours));
        assert_eq!((metadata_again, tensors_again), (metadata, expected), "seed {seed}");
    }
}

/// All dtypes, scalars, empty tensors, 16 dimensions, names and metadata of every kind.
#[test]
fn magnetron_0_2_2_loads_the_golden_files() {
    for name in ["0.3-dtypes", "0.3-shapes", "0.3-names"] {
        let path = testkit::testdata("mag").join(format!("{name}.mag"));
        let reader = Reader::open(&path).unwrap();
        let (metadata, tensors) = manifest(&load(&path));
        assert_eq!(Value::from(reader.index().metadata().clone()), metadata, "{name}");
        assert_eq!(found(&reader), tensors, "{name}");
    }
}
