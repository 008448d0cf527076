//! Whatever is written reads back as it was, and the same input always gives the same bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::ops::ControlFlow;

use crate::common::{Tensor, metadata, write};
use apr::write::MemoryFile;
use apr::{
    DType, Execution, Fault, Flags, Metadata, Overwrite, Plan, Reader, Source, TensorSpec, WriteError,
};
use apr::{VerifyLevel, WriteOptions, value::Object};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use testkit::CountingSource;

fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9._]{1,24}", "\\PC{1,12}", any::<String>()]
        .prop_filter("1 to 256 bytes", |name| (1..=256).contains(&name.len()))
}

/// Generates a dtype and a shape that it can have: whole blocks where required, partial ones where allowed.
fn any_shape() -> impl Strategy<Value = (DType, Vec<u64>)> {
    let all: Vec<DType> = apr::dtypes().collect();
    (prop::sample::select(all), prop::collection::vec(0u64..6, 0..9), 0u64..700).prop_map(
        |(dtype, mut shape, columns)| match dtype {
            DType::Q4K => (dtype, vec![shape.len() as u64, columns]),
            DType::Q6K => {
                shape.truncate(3);
                shape.push(256 * (columns % 3));
                (dtype, shape)
            }
            _ => {
                shape.truncate(if shape.iter().product::<u64>() > 600 { 3 } else { 8 });
                (dtype, shape)
            }
        },
    )
}

prop_compose! {
    fn tensors()(
        tensors in prop::collection::hash_map(names(), (any_shape(), any::<u64>()), 0..10)
    ) -> Vec<Tensor> {
        let tensor = |(name, ((dtype, shape), seed)): (String, ((DType, Vec<u64>), u64))| {
            Tensor::new(&name, dtype, &shape, seed)
        };
        let mut tensors: Vec<Tensor> = tensors.into_iter().map(tensor).collect();
        // A reproducible order that is sorted neither by name nor by type.
        tensors.sort_by_key(|tensor| (tensor.values.len() % 7, tensor.name.clone()));
        tensors
    }
}

fn read_again<S: Source>(source: S, tensors: &[Tensor]) {
    let reader = Reader::from_source(source).unwrap();
    assert_eq!(reader.index().metadata(), &metadata());
    assert_eq!(reader.tensors().len(), tensors.len());
    assert!(reader.tensors().iter().is_sorted_by_key(|info| info.name));
    let mut end = 0;
    for tensor in tensors {
        let position = reader.tensors().find(&tensor.name).unwrap();
        let info = reader.tensors().info(position).unwrap();
        assert_eq!((info.dtype, info.shape), (tensor.dtype, &*tensor.shape));
        assert_eq!(reader.tensor(&tensor.name).unwrap().bytes(), tensor.values);
        let offset = reader.index().location(position).unwrap().offset.unwrap();
        assert!(offset.is_multiple_of(64) && offset >= end, "values stand in the order that was given");
        end = offset;
        let mut half = vec![0; tensor.values.len() / 2];
        let begin = tensor.values.len() - half.len();
        reader.read_into(position, begin as u64, &mut half).unwrap();
        assert_eq!(half, tensor.values[begin..]);
        assert!(reader.read_into(position, tensor.values.len() as u64, &mut [0]).is_err());
    }
    let report = reader.verify(VerifyLevel::Full);
    assert!(report.is_ok(), "{:?}", report.errors);
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
    fn files_are_read_as_they_were_written(tensors in tensors()) {
        let bytes = write(&tensors, &metadata(), &WriteOptions::new(), 1);
        prop_assert!(write(&tensors, &metadata(), &WriteOptions::new(), 3) == bytes);
        testkit::reference::compare("written", "apr", &bytes, &Reader::from_source(bytes.as_slice()).unwrap());
        read_again(bytes.as_slice(), &tensors);
        read_again(CountingSource::new(bytes.clone()), &tensors);
        // The index is the same for any order of the descriptions.
        let reversed: Vec<Tensor> = tensors.iter().rev().cloned().collect();
        let other = write(&reversed, &metadata(), &WriteOptions::new(), 1);
        let (a, b) = (Reader::from_source(bytes).unwrap(), Reader::from_source(other).unwrap());
        prop_assert!(a.tensors().iter().eq(b.tensors().iter()));
    }
}

#[test]
fn large_tensors_are_written_and_summed_in_pieces() {
    let tensors = [
        Tensor::new("b", DType::U8, &[9 << 20], 1),
        Tensor::new("empty", DType::F32, &[0, 3], 1),
        Tensor::new("a", DType::I8, &[(5 << 20) + 3], 2),
    ];
    let bytes = write(&tensors, &metadata(), &WriteOptions::new(), 1);
    assert!(write(&tensors, &metadata(), &WriteOptions::new(), 3) == bytes);
    read_again(bytes.as_slice(), &tensors);
}

#[test]
fn flags_of_the_content_can_be_set_and_no_others() {
    let all = [Flags::LZ4, Flags::ZSTD, Flags::ENCRYPTED, Flags::SIGNED, Flags::LAYOUT_COLUMN_MAJOR];
    let all = all.into_iter().fold(Flags::STREAMING.with(Flags::HAS_VOCAB), Flags::with);
    let bytes = write(&[], &metadata(), &WriteOptions::new().flags(all), 1);
    let reader = Reader::from_source(bytes).unwrap();
    assert!(reader.index().flags().names().eq(["STREAMING", "HAS_VOCAB", "LAYOUT_ROW_MAJOR"]));
}

#[test]
fn what_apr_cannot_hold_is_refused() {
    let plan = |spec: TensorSpec<'_>| Plan::new([spec], &metadata(), &WriteOptions::new()).map(|_| ());
    let fault = |spec| match plan(spec) {
        Err(WriteError::Unsupported { fault, .. }) => fault,
        other => panic!("{other:?}"),
    };
    let spec = |name, dtype, shape: &[u64]| TensorSpec::new(String::from(name), dtype, shape.to_vec());
    for &dtype in DType::ALL.iter().filter(|&&dtype| !apr::can_hold(dtype)) {
        assert_eq!(fault(spec("a", dtype, &[256])), Fault::NoDTypeCode(dtype));
    }
    assert_eq!(DType::ALL.iter().filter(|&&dtype| apr::can_hold(dtype)).count(), 12);
    assert_eq!(fault(spec("", DType::U8, &[1])), Fault::NameLen(0));
    let long = "x".repeat(257);
    assert_eq!(fault(spec(&long, DType::U8, &[1])), Fault::NameLen(257));
    assert!(plan(spec(&long[1..], DType::U8, &[1])).is_ok());
    assert_eq!(fault(spec("a", DType::U8, &[1; 9])), Fault::Rank(9));
    assert_eq!(fault(TensorSpec::declared("a", DType::U8, vec![1])), Fault::NoValues);
    assert!(matches!(fault(spec("a", DType::Q6K, &[2, 44])), Fault::Common(_)));
    assert!(matches!(fault(spec("a", DType::U8, &[1 << 40, 1 << 40])), Fault::Common(_)));
    assert_eq!(fault(spec("a", DType::U8, &[i64::MAX as u64])), Fault::TooLong);
    let twice = [spec("a", DType::U8, &[1]), spec("a", DType::U8, &[1])];
    assert!(Plan::new(twice, &metadata(), &WriteOptions::new()).is_err());
}

#[test]
fn metadata_that_aprender_could_not_read_is_refused() {
    let refused = |key: &str, value: apr::value::Value| {
        let metadata = Metadata::new("x", Object::from_iter([(key, value)]));
        match Plan::new([], &metadata, &WriteOptions::new()).map(|_| ()) {
            Err(WriteError::Unsupported { part, fault }) => format!("{part}: {fault}"),
            other => panic!("{other:?}"),
        }
    };
    let text = refused("architecture", Object::new().into());
    assert!(text.starts_with("metadata key \"architecture\": must be a string or null"), "{text}");
    let none = Plan::new([], &Object::new().into(), &WriteOptions::new()).map(|_| ()).unwrap_err();
    assert!(none.to_string().contains("model_type"), "{none}");
}

#[test]
fn a_file_appears_when_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.apr");
    let names = || std::fs::read_dir(folder.path()).unwrap().count();
    let specs = [TensorSpec::new("a", DType::I8, vec![4])];
    let plan = Plan::new(specs, &metadata(), &WriteOptions::new()).unwrap();
    let short = plan.write_file(&path, Overwrite::Refuse, &[[0; 3]], &Execution::default());
    assert!(matches!(short, Err(WriteError::Data { .. })) && names() == 0, "{short:?}");
    let stop = |_| ControlFlow::Break(());
    let stopped = Execution { threads: 1, progress: Some(&stop) };
    let stopped = plan.write_file(&path, Overwrite::Refuse, &[[0; 4]], &stopped);
    assert!(matches!(stopped, Err(WriteError::Cancelled)) && names() == 0, "{stopped:?}");
    plan.write_file(&path, Overwrite::Refuse, &[[1, 2, 3, 4]], &Execution::default()).unwrap();
    assert!(plan.write_file(&path, Overwrite::Refuse, &[[0; 4]], &Execution::default()).is_err());
    assert_eq!(Reader::open(&path).unwrap().tensor("a").unwrap().bytes(), [1, 2, 3, 4]);
    let file = MemoryFile::new();
    plan.write(&[[1, 2, 3, 4]], &file, &Execution::default()).unwrap();
    assert_eq!(file.into_bytes(), std::fs::read(&path).unwrap());
}
