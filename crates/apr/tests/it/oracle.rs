//! Compares with apr-format 0.72, aprender's own crate, on random models: it reads what we write, and we read
//! what it writes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{Tensor, noise, write};
use apr::write::edit::Preview;
use apr::{DType, Flags, Metadata, Reader, Source as _, VerifyLevel, WriteOptions};
use serde_json::{Value, json};

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let count = all.len() as u64;
        &all[usize::try_from(self.below(count)).unwrap()]
    }
}

const NAMES: [&str; 8] = ["a", "model.layers.0.weight", "重み", "z", "b.bias", "tab\there", "Z", "a.b"];

fn tensor(random: &mut Random, name: &str) -> Tensor {
    let all: Vec<DType> = apr::dtypes().collect();
    let dtype = *random.pick(&all);
    let shape: Vec<u64> = match dtype {
        DType::Q4K => vec![random.below(4), random.below(600)],
        DType::Q6K => vec![random.below(3), 256 * random.below(3)],
        _ => (0..random.below(5)).map(|_| random.below(7)).collect(),
    };
    Tensor::new(name, dtype, &shape, random.below(u64::MAX))
}

fn model(seed: u64) -> (Vec<Tensor>, Value) {
    let mut random = Random(seed);
    let mut names = NAMES.to_vec();
    names.truncate(usize::try_from(random.below(9)).unwrap());
    let first = usize::try_from(random.below(8)).unwrap() % names.len().max(1);
    names.rotate_left(first);
    let tensors = names.iter().map(|name| tensor(&mut random, name)).collect();
    let all = json!({
        "model_type": "llama", "name": "modèle", "license": null, "architecture": "llama", "hidden_size": 64,
        "num_hidden_layers": 2, "rope_theta": 10000.5, "vocab_size": 17, "total_size": 5,
        "quantization": {"quant_type": "int8", "bits": 8, "block_size": null, "symmetric": true},
        "tokenizer.vocabulary": ["<s>", "あ", "\u{1b}"], "own": {"deep": [1, 2.5, null]}, "big": u64::MAX,
    });
    let mut metadata = json!({ "model_type": "m" });
    for (key, value) in all.as_object().unwrap() {
        if random.below(2) == 0 {
            metadata[key] = value.clone();
        }
    }
    (tensors, metadata)
}

fn ours(metadata: &Value) -> Metadata {
    apr::value::json::parse_object(metadata.to_string().as_bytes()).unwrap().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns aprender's name of a dtype, which has no prefix.
fn dtype_name(dtype: DType) -> &'static str {
    dtype.name().strip_prefix("apr_").unwrap_or(dtype.name())
}

/// Checks that every key of `expected` is kept with the same value. Floats may differ, because aprender keeps
/// them in single precision.
fn assert_kept(kept: &Value, expected: &Value, what: &str) {
    for (key, value) in expected.as_object().unwrap() {
        let found = &kept[key];
        let near = value.as_f64().zip(found.as_f64()).is_some_and(|(a, b)| (a - b).abs() <= a.abs() * 1e-6);
        assert!(found == value || near, "{what}, {key}: {found} is not {value}");
    }
}

#[test]
fn aprender_reads_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    let models: Vec<_> = (0..60).map(model).collect();
    let paths: Vec<String> = (0..models.len())
        .map(|number| folder.path().join(format!("{number}.apr")).to_str().unwrap().to_owned())
        .collect();
    for ((tensors, metadata), path) in models.iter().zip(&paths) {
        std::fs::write(path, write(tensors, &ours(metadata), &WriteOptions::new(), 2)).unwrap();
    }
    let arguments: Vec<&str> = ["read"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let printed = testkit::apr(&arguments);
    let found: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found.len(), models.len());
    for (number, (found, (tensors, metadata))) in found.iter().zip(&models).enumerate() {
        let what = format!("model {number}");
        assert_kept(&found["metadata"], metadata, &what);
        let flags = [&found["aligned"], &found["row_major"], &found["missing"]];
        assert_eq!(flags, [&json!(true), &json!(true), &json!(0)], "{what}");
        let mut sorted: Vec<&Tensor> = tensors.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let entry = |tensor: &&Tensor| {
            let Tensor { name, dtype, shape, values } = tensor;
            json!({ "name": name, "dtype": dtype_name(*dtype), "shape": shape, "bytes": hex(values) })
        };
        let expected: Vec<Value> = sorted.iter().map(entry).collect();
        assert_eq!(found["tensors"], Value::from(expected), "{what}");
    }
}

/// Lets aprender's crate write models, and returns the folder of the files.
fn written_by_aprender(specs: &[Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("specs.json");
    std::fs::write(&list, Value::from(specs.to_vec()).to_string()).unwrap();
    let printed = testkit::apr(&["write", list.to_str().unwrap(), folder.path().to_str().unwrap()]);
    assert!(printed.is_empty(), "{printed}");
    folder
}

fn check(path: &Path, tensors: &[Tensor], metadata: &Value, what: &str) {
    let reader = Reader::open(path).unwrap();
    assert!(reader.verify(VerifyLevel::Full).is_ok(), "{what}: {:?}", reader.verify(VerifyLevel::Full));
    let text = apr::value::json::to_string(reader.index().metadata().object()).unwrap();
    assert_kept(&serde_json::from_str(&text).unwrap(), metadata, what);
    assert_eq!(reader.tensors().len(), tensors.len(), "{what}");
    for tensor in tensors {
        let found = reader.tensor(&tensor.name).unwrap();
        assert_eq!((found.dtype(), found.shape()), (tensor.dtype, &*tensor.shape), "{what}");
        assert_eq!(found.bytes(), tensor.values, "{what}, {:?}", tensor.name);
    }
}

#[test]
fn we_read_what_aprender_writes() {
    let models: Vec<_> = (100..160).map(model).collect();
    let spec = |(number, (tensors, metadata)): (usize, &(Vec<Tensor>, Value))| {
        let entry = |tensor: &Tensor| {
            let Tensor { name, dtype, shape, values } = tensor;
            json!({ "name": name, "dtype": dtype.name(), "shape": shape, "bytes": hex(values) })
        };
        let tensors: Vec<Value> = tensors.iter().map(entry).collect();
        json!({ "metadata": metadata, "tensors": tensors, "streaming": number % 2 == 1 })
    };
    let specs: Vec<Value> = models.iter().enumerate().map(spec).collect();
    let folder = written_by_aprender(&specs);
    for (number, (tensors, metadata)) in models.iter().enumerate() {
        let path = folder.path().join(format!("{number}.apr"));
        check(&path, tensors, metadata, &format!("model {number}"));
    }
}

/// Values that aprender quantizes have the same bytes as those by `ggml-quant`.
#[test]
fn quantized_values_have_the_same_bytes() {
    let floats = |seed: u64, count: usize| -> Vec<f32> {
        let bytes = noise(count * 2, seed);
        bytes.as_chunks::<2>().0.iter().map(|b| f32::from(i16::from_le_bytes(*b)) / 300.0).collect()
    };
    let mut cases = Vec::new();
    for (number, count) in [0usize, 1, 2, 31, 32, 33, 64, 100, 500].into_iter().enumerate() {
        for dtype in [DType::AprQ4, DType::AprQ8] {
            cases.push((dtype, floats(number as u64 + 3, count)));
        }
    }
    cases.push((DType::AprQ4, vec![0.0; 40]));
    cases.push((DType::AprQ8, vec![0.0; 40]));
    let spec = |(dtype, values): &(DType, Vec<f32>)| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        json!({ "metadata": {}, "tensors": [
            { "name": "w", "dtype": dtype.name(), "shape": [values.len()], "bytes": hex(&bytes), "encode": true }
        ]})
    };
    let specs: Vec<Value> = cases.iter().map(spec).collect();
    let folder = written_by_aprender(&specs);
    for (number, (dtype, values)) in cases.iter().enumerate() {
        let reader = Reader::open(folder.path().join(format!("{number}.apr"))).unwrap();
        let found = reader.tensor("w").unwrap();
        let mut expected = vec![0; found.bytes().len()];
        ggml_quant::encode(*dtype, values, &mut expected).unwrap();
        assert_eq!(hex(found.bytes()), hex(&expected), "{dtype}, {} values", values.len());
    }
}

/// `apr run` looks for a tokenizer only in a file with the flag. An edit that adds tokens sets the flag.
#[test]
fn aprender_finds_the_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let with =
        ours(&json!({ "model_type": "m", "tokenizer.vocabulary": ["a", "b"], "tokenizer.vocab_size": 2 }));
    let without = ours(&json!({ "model_type": "m", "tokenizer.vocabulary": [] }));
    let tensors = [Tensor::new("a", DType::F32, &[3], 1)];
    let plain = write(&tensors, &without, &WriteOptions::new(), 1);
    let reader = Reader::from_source(&plain[..]).unwrap();
    let edited = reader.index().edit(&&plain[..], &BTreeMap::new(), Some(&with)).unwrap();
    let edited = Preview::new(edited, &plain[..]);
    let edited = edited.read(0..edited.len()).unwrap().to_vec();
    let files = [
        ("with", write(&tensors, &with, &WriteOptions::new().flags(Flags::HAS_VOCAB), 1), true),
        ("plain", plain.clone(), false),
        ("edited", edited, true),
    ];
    for (name, bytes, has_vocab) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let found: Value = serde_json::from_str(&testkit::apr(&["read", path.to_str().unwrap()])).unwrap();
        assert_eq!(found["has_vocab"], json!(has_vocab), "{name}");
        assert_eq!(found["missing"], json!(0), "{name}");
    }
}
