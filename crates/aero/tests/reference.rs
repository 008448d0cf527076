//! Files by the format's own tool agree with what is known of them, and verify.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that fails may panic"
)]

use std::path::{Path, PathBuf};

use aero::{Level, Reader};
use tensor_core::value::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/reference")
}

fn expected(file: &str) -> Value {
    let text = std::fs::read(folder().join("expected.json")).unwrap();
    json::parse(&text).unwrap().get(file).unwrap().clone()
}

/// What is listed of a tensor: name, dtype, shape, nbytes, BLAKE3 of the values.
type Listed = (String, String, Vec<u64>, u64, String);

fn listed(expected: &Value) -> Vec<Listed> {
    let text = |tensor: &Value, key| tensor.get(key).and_then(Value::as_str).unwrap().to_owned();
    let tensors = expected.get("tensors").and_then(Value::as_array).unwrap();
    tensors
        .iter()
        .map(|tensor| {
            let shape = tensor.get("shape").and_then(Value::as_array).unwrap();
            let shape = shape.iter().map(|dim| dim.as_u64().unwrap()).collect();
            let nbytes = tensor.get("nbytes").and_then(Value::as_u64).unwrap();
            (text(tensor, "name"), text(tensor, "dtype"), shape, nbytes, text(tensor, "blake3"))
        })
        .collect()
}

#[test]
fn files_by_the_formats_own_tool_agree_and_verify() {
    for file in ["one-shard.aero", "many-shards.aero"] {
        let reader = Reader::open(folder().join(file)).unwrap();
        let in_memory = std::fs::read(folder().join(file)).unwrap();
        let in_memory = Reader::from_source(in_memory).unwrap();
        let mut found = Vec::new();
        for (position, info) in reader.tensors().enumerate() {
            let tensor = reader.tensor(info.name).unwrap();
            assert_eq!(tensor.bytes(), in_memory.tensor_at(position).unwrap().bytes());
            let hash = blake3::hash(tensor.bytes()).to_hex().to_string();
            found.push((
                info.name.to_owned(),
                info.dtype.name().to_owned(),
                info.shape.to_vec(),
                info.nbytes,
                hash,
            ));
        }
        assert_eq!(found, listed(&expected(file)), "{file}");
        for level in [Level::Header, Level::Control, Level::Full] {
            let report = reader.verify(level);
            assert!(report.is_ok(), "{file}: {:?}", report.errors);
        }
        assert_eq!(reader.json().unwrap().unwrap().required_str("model_name"), Ok("reference"));
        let manifest = Value::from(reader.manifest().unwrap().unwrap());
        assert_eq!(manifest.path(["model", "architecture"]).and_then(Value::as_str), Some("demo"));
    }
}

#[test]
fn unaligned_tensors_say_so_and_can_be_copied() {
    let bytes =
        tensor_core::AlignedBuf::copy_of(&std::fs::read(folder().join("one-shard.aero")).unwrap()).unwrap();
    let reader = Reader::from_source(bytes).unwrap();
    let tensor = reader.tensor("after.odd.f32").unwrap();
    assert!(matches!(tensor.as_slice::<f32>(), Err(tensor_core::ViewError::Unaligned { .. })));
    assert_eq!(tensor.to_vec::<f32>().unwrap().len(), 5);
}
