//! Compares with a reader and a writer in Python, written from the specification with only the standard
//! library. There is no published tool for this format to compare with.
#![cfg(feature = "lz4")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::fs;

use crate::common::{Tensor, aligned_32, lz4, noise, text, threads};
use apr2::modelfmt_core::value::{Object, Value, json};
use apr2::{DType, Reader, Source, TensorInfo, VerifyLevel};

/// Files that the oracle writes.
const FILES: usize = 60;

fn tensor(info: TensorInfo<'_>, values: &[u8]) -> Object {
    let mut object = Object::new();
    object.insert("name", info.name);
    object.insert("dtype", info.dtype.name());
    object.insert("shape", info.shape.iter().copied().collect::<Value>());
    object.insert("values", values.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    object
}

fn tensors<S: Source>(reader: &Reader<S>) -> Value {
    reader.tensors().iter().map(|info| tensor(info, reader.tensor(info.name).unwrap().bytes())).collect()
}

#[test]
fn files_of_the_oracle_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let _ = testkit::python(include_str!("../oracle/write.py"), &[path, &FILES.to_string()]);
    let mut compressed = 0;
    for number in 0..FILES {
        let path = folder.path().join(format!("{number}.apr"));
        let reader = Reader::open(&path).unwrap_or_else(|e| panic!("{number}: {e}"));
        let expected = json::parse(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        assert!(Some(&tensors(&reader)) == expected.get("tensors"), "{number}");
        assert_eq!(
            Some(&Value::from(reader.index().metadata().object().clone())),
            expected.get("metadata"),
            "{number}"
        );
        let report = reader.verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{number}: {:?}", report.errors);
        compressed += usize::from(reader.index().flags().contains(apr2::Flags::COMPRESSED));
    }
    assert!(compressed > FILES / 4);
}

#[test]
fn files_of_ours_are_read_by_the_oracle() {
    let folder = tempfile::tempdir().unwrap();
    let can_hold = DType::ALL.iter().copied().filter(|&dtype| apr2::can_hold(dtype));
    let mut all: Vec<Tensor> = can_hold
        .map(|dtype| {
            let shape = [2, 64];
            let len = usize::try_from(dtype.nbytes(&shape).unwrap()).unwrap();
            Tensor::new(&format!("重み.{dtype}"), dtype, &shape, noise(len, len as u64))
        })
        .collect();
    all.push(Tensor::bytes("text", text(150_000, 7)));
    all.push(Tensor::new("zeros", DType::F32, &[40_000], vec![0; 160_000]));
    all.push(Tensor::new("empty", DType::I64, &[3, 0], Vec::new()));
    let plain: Vec<Tensor> = all.iter().filter(|t| !t.dtype.is_quantized()).cloned().collect();
    let mut paths = Vec::new();
    let mut expected = Vec::new();
    let none = Vec::new();
    for (number, tensors) in [&all, &plain, &none].into_iter().enumerate() {
        for (name, options) in [("raw", aligned_32()), ("lz4", lz4()), ("streaming", lz4().streaming(true))] {
            let path = folder.path().join(format!("{number}.{name}"));
            fs::write(&path, crate::common::write(tensors, &options, &threads(2))).unwrap();
            paths.push(path.to_str().unwrap().to_owned());
            expected.push((tensors, name));
        }
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let seen = json::parse(
        testkit::python(concat!(include_str!("../oracle/lz4.py"), include_str!("../oracle/read.py")), &paths)
            .as_bytes(),
    )
    .unwrap();
    let seen = seen.as_array().unwrap();
    assert_eq!(seen.len(), expected.len());
    for (file, (written, name)) in seen.iter().zip(expected) {
        let written: Value = written
            .iter()
            .map(|t| tensor(TensorInfo::new(&t.name, t.dtype, &t.shape).unwrap(), &t.values))
            .collect();
        assert!(file.get("tensors") == Some(&written), "{name}");
        assert_eq!(file.get("metadata"), Some(&Value::from(crate::common::metadata().into_object())));
        let flags = file.get("flags").and_then(Value::as_array).unwrap();
        assert_eq!(flags.iter().any(|flag| flag == Value::from("STREAMING")), name == "streaming");
        assert_eq!(flags.iter().any(|flag| flag == Value::from("ALIGNED_32")), name == "raw");
    }
}
