//! Whatever is written reads back as it was, and the same input always gives the same bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::sync::Arc;

use crate::common::{Tensor, dtypes, strings, values, write};
use modelfmt_core::AlignedBuf;
use modelfmt_safetensors::value::{Object, Value};
use modelfmt_safetensors::write::{MemoryFolder, Overwrite};
use modelfmt_safetensors::{
    Container, DType, Execution, Index, Plan, Reader, SetPlan, SetReader, Source, TensorSpec, VerifyLevel,
    WriteOptions,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use testkit::CountingSource;

fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9._]{0,24}", "\\PC{1,12}", any::<String>()]
        .prop_filter("not the metadata's", |name| name != "__metadata__")
}

/// Generates shapes that give whole bytes for every dtype.
fn shapes() -> impl Strategy<Value = Vec<u64>> {
    (prop::collection::vec(0u64..6, 0..5), 1u64..3).prop_map(|(mut shape, quads)| {
        shape.push(4 * quads);
        shape
    })
}

fn any_shape() -> impl Strategy<Value = (DType, Vec<u64>)> {
    let whole = (prop::sample::select(dtypes()), shapes());
    let bytes = dtypes().into_iter().filter(|dtype| dtype.size().is_some()).collect::<Vec<_>>();
    prop_oneof![whole, (prop::sample::select(bytes), prop::collection::vec(0u64..6, 0..5))]
}

prop_compose! {
    fn tensors()(
        tensors in prop::collection::hash_map(names(), (any_shape(), any::<u8>()), 0..12)
    ) -> Vec<Tensor> {
        let tensor = |(name, ((dtype, shape), first)): (&String, &((DType, Vec<u64>), u8))| {
            Tensor::counting(name, *dtype, shape, *first)
        };
        let mut tensors: Vec<Tensor> = tensors.iter().map(tensor).collect();
        // A reproducible order that is sorted neither by name nor by type.
        tensors.sort_by_key(|tensor| (tensor.values.len() % 7, tensor.name.clone()));
        tensors
    }
}

fn metadata() -> impl Strategy<Value = Option<Object>> {
    let object = prop::collection::vec((names(), any::<String>()), 0..6);
    prop::option::of(object.prop_map(|entries| entries.into_iter().collect()))
}

fn read_again<S: Source>(source: S, tensors: &[Tensor], metadata: Option<&Object>) {
    let reader = Reader::from_source(source).unwrap();
    assert_eq!(reader.index().metadata(), metadata);
    let keys = |object: Option<&Object>| object.map(|o| o.keys().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(keys(reader.index().metadata()), keys(metadata), "order is kept");
    assert_eq!(reader.tensors().len(), tensors.len());
    for (position, (info, tensor)) in reader.tensors().iter().zip(tensors).enumerate() {
        assert_eq!((info.name, info.dtype, info.shape), (&*tensor.name, tensor.dtype, &*tensor.shape));
        assert_eq!(reader.tensor(&tensor.name).unwrap().bytes(), tensor.values);
        assert_eq!(reader.index().tensors().find(&tensor.name), Some(position));
        let mut half = vec![0; tensor.values.len() / 2];
        let begin = tensor.values.len() - half.len();
        reader.read_into(position, begin as u64, &mut half).unwrap();
        assert_eq!(half, tensor.values[begin..]);
        assert!(reader.read_into(position, tensor.values.len() as u64, &mut [0]).is_err());
    }
    assert!(reader.verify(VerifyLevel::Full).is_ok());
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 150,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn files_are_read_as_they_were_written(tensors in tensors(), metadata in metadata()) {
        let bytes = write(&tensors, metadata.as_ref(), &Execution::sequential());
        for threads in [1, 3] {
            let again = write(&tensors, metadata.as_ref(), &Execution { threads, progress: None });
            prop_assert!(again == bytes, "{threads} threads");
        }
        read_again(bytes.as_slice(), &tensors, metadata.as_ref());
        read_again(CountingSource::new(bytes.clone()), &tensors, metadata.as_ref());
        let reader = Reader::from_source(bytes.as_slice()).unwrap();
        prop_assert!(crate::common::rewrite(&reader) == bytes);
        testkit::reference::compare("written", "safetensors", &bytes, &reader);
        // The data begin at a multiple of 8.
        prop_assert_eq!(reader.index().header_len() % 8, 0);
    }

    #[test]
    fn sets_are_read_as_they_were_written(
        tensors in tensors(), metadata in metadata(), cap in 0u64..2000, threads in 1usize..4
    ) {
        let options = WriteOptions::new().shard_size(cap);
        let plan = SetPlan::new("m", tensors.iter().map(Tensor::spec), metadata.as_ref(), &options).unwrap();
        let folder = MemoryFolder::default();
        plan.write(&values(&tensors), &folder, &Execution { threads, progress: None }).unwrap();
        let files = folder.files();
        let total: u64 = files.0.values().map(|file| file.as_ref().len() as u64).sum();
        prop_assert_eq!(total, plan.total_len());
        for (name, shard) in plan.shards() {
            prop_assert_eq!(files.0[name].as_ref().len() as u64, shard.file_len());
            prop_assert!(shard.file_len() <= cap || shard.tensors().len() == 1, "{} > {cap}", shard.file_len());
        }

        let set = SetReader::from_files(files, plan.index_name()).unwrap();
        set.open_all().unwrap();
        prop_assert_eq!(set.index().names().len(), tensors.len());
        for (position, tensor) in tensors.iter().enumerate() {
            let view = set.tensor(&tensor.name).unwrap();
            prop_assert_eq!((view.dtype(), view.shape()), (tensor.dtype, &tensor.shape[..]));
            prop_assert_eq!(view.bytes(), &tensor.values[..]);
            prop_assert_eq!(set.find(&tensor.name), Some(position));
            prop_assert_eq!(set.info(position).unwrap().name, &tensor.name);
        }
        prop_assert_eq!(set.file_size(), total);
        let report = set.verify(VerifyLevel::Full);
        prop_assert!(report.is_ok(), "{:?}", report.errors);
        let nbytes: u64 = tensors.iter().map(|tensor| tensor.values.len() as u64).sum();
        prop_assert_eq!(set.index().metadata().get("total_size"), Some(&Value::from(nbytes)));
        for (key, value) in metadata.iter().flatten() {
            prop_assert_eq!(set.index().metadata().get(key), Some(value));
        }
    }
}

#[test]
fn opening_reads_the_header_and_nothing_else() {
    let tensors =
        [Tensor::counting("a", DType::F32, &[100_000], 0), Tensor::counting("b", DType::U8, &[3], 0)];
    let bytes = write(&tensors, None, &Execution::default());
    let source = CountingSource::new(bytes);
    let reader = Reader::from_source(&source).unwrap();
    assert_eq!((source.reads(), source.nbytes()), (2, 8 + reader.index().header_len()));
    source.reset();
    let _ = reader.verify(VerifyLevel::Full);
    let again = Reader::with_index(Arc::clone(reader.index()), &source).unwrap();
    assert_eq!(source.reads(), 0);
    again.tensor("b").unwrap();
    assert_eq!((source.reads(), source.nbytes()), (1, 3));
    assert!(Reader::with_index(Arc::clone(reader.index()), [0u8; 5].as_slice()).is_err());
}

#[test]
fn aligned_tensors_are_slices_and_others_say_so() {
    let tensors = [
        Tensor::counting("a", DType::F32, &[2], 0),
        Tensor::counting("odd", DType::U8, &[1], 0),
        Tensor::counting("b", DType::F32, &[2], 0),
    ];
    let bytes = AlignedBuf::copy_from_slice(&write(&tensors, None, &Execution::default())).unwrap();
    let reader = Reader::from_source(bytes).unwrap();
    let a = reader.tensor("a").unwrap();
    #[cfg(target_endian = "little")]
    assert_eq!(a.as_slice::<f32>().unwrap(), a.to_vec::<f32>().unwrap());
    let b = reader.tensor("b").unwrap();
    assert!(b.as_slice::<f32>().is_err());
    assert_eq!(b.to_vec::<f32>().unwrap(), a.to_vec::<f32>().unwrap());
}

#[test]
fn files_and_sets_appear_complete_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = [Tensor::counting("a", DType::U8, &[10], 0), Tensor::counting("b", DType::U8, &[10], 9)];
    let list = || {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let short: [&[u8]; 2] = [&[0; 10], &[0; 9]];
    let path = folder.path().join("x.safetensors");
    let plan = Plan::new(tensors.iter().map(Tensor::spec), None, &WriteOptions::new()).unwrap();
    let failed = plan.write_file(&path, Overwrite::Refuse, &short, &Execution::default());
    assert!(failed.unwrap_err().to_string().contains("\"b\""));
    let options = WriteOptions::new().shard_size(1);
    let set = SetPlan::new("x", tensors.iter().map(Tensor::spec), None, &options).unwrap();
    let failed = set.write_folder(folder.path(), Overwrite::Refuse, &short, &Execution::default());
    assert!(failed.unwrap_err().to_string().contains("\"b\""));
    assert!(list().is_empty(), "{:?}", list());

    plan.write_file(&path, Overwrite::Refuse, &values(&tensors), &Execution::default()).unwrap();
    assert!(plan.write_file(&path, Overwrite::Refuse, &values(&tensors), &Execution::default()).is_err());
    plan.write_file(&path, Overwrite::Replace, &values(&tensors), &Execution::default()).unwrap();
    set.write_folder(folder.path(), Overwrite::Refuse, &values(&tensors), &Execution::default()).unwrap();
    let parts = ["x-00001-of-00002.safetensors", "x-00002-of-00002.safetensors"];
    assert_eq!(list(), [parts[0], parts[1], "x.safetensors", "x.safetensors.index.json"]);
    assert_eq!(Reader::open(&path).unwrap().tensor("b").unwrap().bytes(), tensors[1].values);
    let set = SetReader::open(folder.path().join("x.safetensors.index.json")).unwrap();
    assert_eq!(set.tensor("b").unwrap().bytes(), tensors[1].values);
}

#[test]
fn metadata_of_a_set_stand_in_the_index_and_strings_in_every_file() {
    let tensors = [Tensor::counting("a", DType::U8, &[10], 0), Tensor::counting("b", DType::U8, &[10], 9)];
    let mut metadata = strings([("format", "pt")]);
    metadata.insert("layers", 4);
    metadata.insert("total_size", 99); // is counted anew
    let options = WriteOptions::new().shard_size(1);
    let plan = SetPlan::new("m", tensors.iter().map(Tensor::spec), Some(&metadata), &options).unwrap();
    let folder = MemoryFolder::default();
    plan.write(&values(&tensors), &folder, &Execution::default()).unwrap();
    let text = String::from_utf8(folder.files().0[plan.index_name()].to_vec()).unwrap();
    let expected = r#"{
  "metadata": {
    "format": "pt",
    "layers": 4,
    "total_size": 20
  },
  "weight_map": {
    "a": "m-00001-of-00002.safetensors",
    "b": "m-00002-of-00002.safetensors"
  }
}
"#;
    assert_eq!(text, expected);
    let set = SetReader::from_files(folder.files(), plan.index_name()).unwrap();
    for number in 0..2 {
        assert_eq!(set.shard(number).unwrap().index().metadata(), Some(&strings([("format", "pt")])));
    }
    // A key of the source that we would also add keeps its value.
    metadata.insert("total_size", "mine");
    let plan = SetPlan::new("m", tensors.iter().map(Tensor::spec), Some(&metadata), &options).unwrap();
    plan.write(&values(&tensors), &folder, &Execution::default()).unwrap();
    let set = SetReader::from_files(folder.files(), plan.index_name()).unwrap();
    assert_eq!(set.index().metadata().get("total_size").and_then(Value::as_str), Some("mine"));
}

#[test]
fn what_the_format_cannot_hold_is_refused() {
    let refused = |spec: TensorSpec<'_>| {
        let first = TensorSpec::new("first", DType::U8, vec![1]);
        Plan::new([first, spec], None, &WriteOptions::new()).unwrap_err().to_string()
    };
    let new = |dtype, shape: &[u64]| TensorSpec::new("w", dtype, shape.to_vec());
    for (spec, expected) in [
        (new(DType::Q8_0, &[32]), "tensor 1 \"w\": safetensors has no dtype for q8_0, convert it first"),
        (
            TensorSpec::packed("w", vec![3], 5),
            "tensor 1 \"w\": safetensors has no dtype for packed, convert it first",
        ),
        (
            TensorSpec::declared("w", DType::F32, vec![3]),
            "tensor 1 \"w\": has no values, and safetensors cannot hold a tensor without",
        ),
        (
            TensorSpec::new("__metadata__", DType::F32, vec![3]),
            "tensor 1 \"__metadata__\": the name `__metadata__` is reserved, rename the tensor",
        ),
        (
            TensorSpec::new("first", DType::F32, vec![3]),
            "tensor 1 \"first\": the name \"first\" is used twice",
        ),
        (new(DType::F4, &[3]), "tensor 1 \"w\": the shape [3] does not divide into whole blocks of f4"),
        (
            new(DType::F32, &[1 << 63, 2, 0]),
            "tensor 1 \"w\": the shape [9223372036854775808, 2, 0] has more elements than a file can hold",
        ),
    ] {
        assert_eq!(refused(spec), expected);
    }
    let mut metadata = Object::new();
    metadata.insert("n", 5);
    let error = Plan::new([], Some(&metadata), &WriteOptions::new()).unwrap_err();
    assert_eq!(error.to_string(), "metadata \"n\": is an integer, but metadata of safetensors are strings");
    let options = WriteOptions::new().max_header_len(55);
    let error = Plan::new([new(DType::F32, &[1])], None, &options).unwrap_err();
    assert!(error.to_string().starts_with("header: would be 56 bytes long, readers accept 55"), "{error}");
    let twice = [new(DType::U8, &[1]), new(DType::U8, &[1])];
    let error = SetPlan::new("m", twice, None, &WriteOptions::new().shard_size(1)).unwrap_err();
    assert_eq!(error.to_string(), "tensor 1 \"w\": the name \"w\" is used twice");
    assert!(SetPlan::new("../m", [], None, &WriteOptions::new()).is_err());
}

#[test]
fn a_million_tensors_are_a_flat_index() {
    let entry = |n: u32| {
        format!("\"model.layers.{n:07}.weight\":{{\"dtype\":\"U8\",\"shape\":[0,4],\"data_offsets\":[0,0]}}")
    };
    let header: Vec<String> = (0..1_000_000).map(entry).collect();
    let header = format!("{{{}}}", header.join(","));
    assert!((header.len() as u64) < modelfmt_safetensors::MAX_HEADER_LEN);
    let index = Index::parse(&crate::common::file(&header, &[])).unwrap();
    assert_eq!(
        (index.tensors().len(), index.tensors().find("model.layers.0999999.weight")),
        (1_000_000, Some(999_999))
    );
    assert!(index.heap_size() < 100 << 20, "{}", index.heap_size());
}
