//! Compares with gguf 0.19, the format's own Python package: its files read as what it put there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::fs;

use modelfmt_gguf::value::{Object, Value, json};
use modelfmt_gguf::{Reader, VerifyLevel};
use testkit::CountingSource;

/// The number of files that the oracle writes.
const FILES: usize = 12;

#[test]
fn files_of_the_oracle_hold_what_it_put_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let _ = testkit::python(include_str!("../oracle/write.py"), &[path, &FILES.to_string()]);
    for number in 0..FILES {
        let path = folder.path().join(format!("{number}.gguf"));
        let reader = Reader::open(&path).unwrap_or_else(|e| panic!("{number}: {e}"));
        let expected = json::parse(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        assert_eq!(seen(&reader), expected, "{number}");
        let report = reader.verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{number}: {:?}", report.errors);
        let bytes = fs::read(&path).unwrap();
        let source = CountingSource::new(bytes.clone());
        assert_eq!(seen(&Reader::from_source(source).unwrap()), expected, "{number} by ranges");
        for tensor in reader.tensors() {
            if let Ok(values) = ggml_quant::to_f32(&reader.tensor(tensor.name).unwrap()) {
                assert_eq!(values.len() as u64, tensor.elements());
            }
        }
    }
    // The same model, which has only numbers, in both byte orders.
    let little = Reader::open(folder.path().join("little-endian.gguf")).unwrap();
    let bytes = fs::read(folder.path().join("big-endian.gguf")).unwrap();
    let big = Reader::from_source(bytes.as_slice()).unwrap();
    assert!(big.index().is_big_endian() && !little.index().is_big_endian());
    assert!(big.tensors().len() > 10);
    assert_eq!(seen(&big), seen(&little));
    assert!(big.verify(VerifyLevel::Full).is_ok());
    for tensor in big.tensors() {
        let whole = little.tensor(tensor.name).unwrap();
        let part = big.read_range(tensor.name, 1..tensor.nbytes).unwrap();
        assert_eq!(*part, whole.bytes()[1..], "{}", tensor.name);
    }
    assert_eq!(seen(&Reader::from_source(CountingSource::new(bytes)).unwrap()), seen(&little));
}

/// Returns what a reader sees in a file, in the form of the oracle's script.
fn seen<S: modelfmt_gguf::Source>(reader: &Reader<S>) -> Value {
    let tensors = reader.tensors().iter().map(|tensor| {
        let bytes = reader.tensor(tensor.name).unwrap().into_bytes();
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let shape = tensor.shape.iter().copied().collect::<Value>();
        Value::from(vec![tensor.name.into(), tensor.dtype.name().into(), shape, hex.into()])
    });
    let mut all = Object::new();
    all.insert("metadata", reader.index().metadata().to_object());
    all.insert("tensors", tensors.collect::<Value>());
    all.into()
}
