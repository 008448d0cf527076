//! Compares with the format's own implementations, in Rust and in Python: they read what we write, and we
//! read what they write.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::collections::HashMap;
use std::fs;

use crate::common::{Tensor, dtypes, strings, values, write};
use modelfmt_safetensors::value::{Object, Value, json};
use modelfmt_safetensors::write::Overwrite;
use modelfmt_safetensors::{DType, Execution, Reader, SetPlan, SetReader, WriteOptions};
use safetensors_oracle::tensor::TensorView;
use safetensors_oracle::{Dtype, SafeTensors, serialize};

/// The number of files that the Python oracle writes.
const FILES: usize = 60;

/// Returns the reference implementation's name of each dtype, spelled out instead of taken from the tested
/// crate.
fn reference(dtype: DType) -> Dtype {
    match dtype {
        DType::Bool => Dtype::BOOL,
        DType::I8 => Dtype::I8,
        DType::U8 => Dtype::U8,
        DType::I16 => Dtype::I16,
        DType::U16 => Dtype::U16,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::I64 => Dtype::I64,
        DType::U64 => Dtype::U64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::F8E4M3 => Dtype::F8_E4M3,
        DType::F8E5M2 => Dtype::F8_E5M2,
        DType::F8E8M0 => Dtype::F8_E8M0,
        DType::F8E4M3Fnuz => Dtype::F8_E4M3FNUZ,
        DType::F8E5M2Fnuz => Dtype::F8_E5M2FNUZ,
        DType::F6E2M3 => Dtype::F6_E2M3,
        DType::F6E3M2 => Dtype::F6_E3M2,
        DType::F4 => Dtype::F4,
        DType::C64 => Dtype::C64,
        other => unreachable!("{other}"),
    }
}

/// Returns tensors of every type and several shapes, in an order that the reference implementation would not
/// choose.
fn everything() -> Vec<Tensor> {
    let mut tensors = Vec::new();
    for (number, dtype) in dtypes().into_iter().enumerate() {
        for shape in [&[4u64][..], &[3, 0], &[2, 1, 4]] {
            tensors.push(Tensor::counting(&format!("{dtype}.é\"\n{shape:?}"), dtype, shape, number as u8));
        }
    }
    tensors.push(Tensor::counting("", DType::U8, &[1], 9));
    tensors.push(Tensor::counting("scalar", DType::F32, &[], 9));
    tensors
}

#[test]
fn the_rust_crate_reads_what_we_write() {
    let tensors = everything();
    let metadata = strings([("format", "pt"), ("a\u{1}\u{2028}", "\"\\\n"), ("", "")]);
    let bytes = write(&tensors, Some(&metadata), &Execution::default());
    let theirs = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.len(), tensors.len());
    for tensor in &tensors {
        let view = theirs.tensor(&tensor.name).unwrap();
        assert_eq!(view.dtype(), reference(tensor.dtype), "{}", tensor.name);
        assert!(view.shape().iter().map(|&dim| dim as u64).eq(tensor.shape.iter().copied()));
        assert_eq!(view.data(), tensor.values, "{}", tensor.name);
    }
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let read = header.metadata().as_ref().unwrap();
    assert_eq!(read.len(), metadata.len());
    assert!(read.iter().all(|(key, value)| metadata.get(key).and_then(Value::as_str) == Some(value)));
}

#[test]
fn what_the_rust_crate_writes_is_read_and_written_again_byte_for_byte() {
    let tensors = everything();
    let shapes: Vec<Vec<usize>> =
        tensors.iter().map(|tensor| tensor.shape.iter().map(|&dim| dim as usize).collect()).collect();
    let views = tensors.iter().zip(shapes).map(|(tensor, shape)| {
        (tensor.name.clone(), TensorView::new(reference(tensor.dtype), shape, &tensor.values).unwrap())
    });
    let views: Vec<_> = views.collect();
    let some: HashMap<String, String> =
        [("k", "v"), ("é\n", "\u{0}"), ("", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    for metadata in [None, Some(HashMap::new()), Some(some)] {
        let bytes = serialize(views.clone(), metadata.clone()).unwrap();
        let reader = Reader::from_source(bytes.as_slice()).unwrap();
        for tensor in &tensors {
            let view = reader.tensor(&tensor.name).unwrap();
            assert_eq!((view.dtype(), view.shape()), (tensor.dtype, &tensor.shape[..]));
            assert_eq!(view.bytes(), tensor.values);
        }
        assert_eq!(reader.index().metadata().map(Object::len), metadata.as_ref().map(HashMap::len));
        assert!(crate::common::rewrite(&reader) == bytes);
    }
}

#[test]
fn what_python_writes_is_read_and_written_again_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let _ = testkit::python(include_str!("../oracle/write.py"), &[path, &FILES.to_string()]);
    for number in 0..FILES {
        let path = folder.path().join(format!("{number}.safetensors"));
        let reader = Reader::open(&path).unwrap_or_else(|e| panic!("{number}: {e}"));
        let expected = json::parse(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        assert_eq!(seen(&reader), expected, "{number}");
        assert!(crate::common::rewrite(&reader) == fs::read(&path).unwrap(), "{number}: other bytes");
    }
}

#[test]
fn python_reads_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    let numpy = |tensor: &Tensor| match tensor.dtype {
        DType::C64 => true,
        dtype => dtype != DType::BF16 && modelfmt_core::SmallType::from_dtype(dtype).is_none(),
    };
    let tensors: Vec<Tensor> = everything().into_iter().filter(numpy).collect();
    let metadata = strings([("format", "pt"), ("é", "\"\\\n")]);
    let path = folder.path().join("m.safetensors");
    fs::write(&path, write(&tensors, Some(&metadata), &Execution::default())).unwrap();
    let reader = Reader::open(&path).unwrap();
    let expected = seen(&reader);
    assert_eq!(read(path.to_str().unwrap()), expected);

    let options = WriteOptions::new().shard_size(600);
    let plan = SetPlan::new("set", tensors.iter().map(Tensor::spec), Some(&metadata), &options).unwrap();
    assert!(plan.shards().len() > 5);
    plan.write_folder(folder.path(), Overwrite::Refuse, &values(&tensors), &Execution::default()).unwrap();
    let path = folder.path().join(plan.index_name());
    assert_eq!(read(path.to_str().unwrap()), expected);
    assert!(SetReader::open(&path).unwrap().open_all().is_ok());
}

/// Returns what Python sees in a file or a set, with our names of types.
fn read(path: &str) -> Value {
    let text = testkit::python(include_str!("../oracle/read.py"), &[path]);
    let mut text = text.replace("\"dtype\": \"complex64\"", "\"dtype\": \"c64\"");
    for (theirs, ours) in [("uint", "u"), ("int", "i"), ("float", "f")] {
        text = text.replace(&format!("\"dtype\": \"{theirs}"), &format!("\"dtype\": \"{ours}"));
    }
    json::parse(text.as_bytes()).unwrap()
}

/// Returns what a reader sees in a file, in the form of the oracle's scripts.
fn seen<S: modelfmt_safetensors::Source>(reader: &Reader<S>) -> Value {
    let mut tensors = Object::new();
    for tensor in reader.tensors() {
        let bytes = reader.tensor(tensor.name).unwrap().into_bytes();
        let mut object = Object::new();
        object.insert("dtype", tensor.dtype.name());
        object.insert("shape", tensor.shape.iter().copied().collect::<Value>());
        object.insert("values", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        tensors.insert(tensor.name, object);
    }
    let mut all = Object::new();
    all.insert("metadata", reader.index().metadata().cloned());
    all.insert("tensors", tensors);
    all.into()
}
