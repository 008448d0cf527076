//! Compares with magnetron 0.1.2, whose format this is, and with checksums computed in Python.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::fs;
use std::path::Path;

use crate::common::{Tensor, metadata, write};
use mag::modelfmt_core::source::FileSource;
use mag::value::{Object, Value};
use mag::{Checksum, DType, Reader, VerifyLevel};

/// Formats `kind`, key and value as the scripts print them.
fn line((key, value): (&str, &Value)) -> String {
    match value {
        Value::Float(x) => format!("f64\t{key}\t{:016x}", x.to_bits()),
        other => format!("i64\t{key}\t{}", other.as_i64().unwrap()),
    }
}

fn tensor_line(reader: &Reader<FileSource>, name: &str) -> String {
    let tensor = reader.tensor(name).unwrap();
    let shape: Vec<_> = tensor.shape().iter().map(u64::to_string).collect();
    let values: String = tensor.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("tensor\t{name}\t{}\t{}\t{values}", tensor.dtype(), shape.join(","))
}

/// Returns the file's checksum, the CRC-32 and CRC-32C of its records, and the end of the records.
fn checksums(path: &Path) -> [u32; 4] {
    let printed = testkit::python(include_str!("../oracle/checksum.py"), &[path.to_str().unwrap()]);
    let numbers: Vec<u32> = printed.split_whitespace().map(|n| n.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn what_magnetron_writes_is_read_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("by-magnetron.mag");
    let printed = testkit::python(include_str!("../oracle/write.py"), &[path.to_str().unwrap()]);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.index().checksum(), Some(Checksum::Crc32c));
    assert!(reader.verify(VerifyLevel::Full).is_ok(), "{:?}", reader.verify(VerifyLevel::Full));
    let mut expected: Vec<_> = printed.lines().map(str::to_owned).collect();
    let mut found: Vec<_> = reader.tensors().iter().map(|info| tensor_line(&reader, info.name)).collect();
    found.extend(reader.index().metadata().iter().map(line));
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    assert_eq!((reader.tensors().len(), reader.index().metadata().len()), (8, 8));
    let [stored, _, castagnoli, _] = checksums(&path);
    assert_eq!(stored, castagnoli);
}

fn sample() -> (Vec<Tensor>, Object) {
    let tensors = vec![
        Tensor::counting("w", DType::F32, &[3, 5], 1),
        Tensor::counting("h", DType::F16, &[7], 2),
        Tensor::counting("mask", DType::Bool, &[2], 0),
        Tensor::counting("i", DType::I32, &[1, 1, 2], 3),
    ];
    let entries = [
        ("epoch", Value::from(-7)),
        ("most", Value::from(i64::MAX)),
        ("rate", Value::from(0.1)),
        ("inf", Value::from(f64::NEG_INFINITY)),
        ("重み", Value::from(1)),
    ];
    (tensors, metadata(entries))
}

/// magnetron 0.1.2 cannot load tensors, not even its own, so only what it can read is compared.
#[test]
fn magnetron_reads_the_metadata_that_we_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("by-us.mag");
    let (tensors, metadata) = sample();
    fs::write(&path, write(&tensors, &metadata, Checksum::Crc32c)).unwrap();
    let printed = testkit::python(include_str!("../oracle/read.py"), &[path.to_str().unwrap()]);
    let mut expected: Vec<_> = metadata.iter().map(line).collect();
    let mut found: Vec<_> = printed.lines().map(str::to_owned).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn both_checksums_are_those_that_python_computes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.mag");
    let (tensors, metadata) = sample();
    for checksum in [Checksum::Crc32, Checksum::Crc32c] {
        fs::write(&path, write(&tensors, &metadata, checksum)).unwrap();
        let [stored, crc32, crc32c, _] = checksums(&path);
        assert_ne!(crc32, crc32c);
        assert_eq!(stored, if checksum == Checksum::Crc32 { crc32 } else { crc32c }, "{}", checksum.name());
    }
}
