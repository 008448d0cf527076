//! What cannot be written is refused before a byte is written, and leaves nothing behind.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;

use crate::common::{Tensor, metadata};
use mag::modelfmt_core::{CommonFault, Source as _};
use mag::value::{Object, Value};
use mag::write::edit::Preview;
use mag::write::{MemoryFile, Overwrite};
use mag::{
    DType, Execution, Fault, Part, Plan, Reader, TensorSpec, VerifyLevel, WriteError, WriteOptions, can_hold,
};

fn plan(specs: Vec<TensorSpec<'_>>) -> Result<Plan, WriteError> {
    Plan::new(specs, &metadata([]), &WriteOptions::new())
}

/// Returns the name in the error, and the fault.
fn unfit(specs: Vec<TensorSpec<'_>>) -> (String, Fault) {
    match plan(specs) {
        Err(WriteError::Unsupported { part, fault }) => (part.name.unwrap_or_default().into(), fault),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_mag_cannot_hold_is_refused_by_name() {
    for &dtype in DType::ALL.iter().filter(|&&dtype| !can_hold(dtype)) {
        let found =
            unfit(vec![TensorSpec::new("ok", DType::F32, vec![1]), TensorSpec::new("w", dtype, vec![256])]);
        assert_eq!(found, ("w".to_owned(), Fault::NoCode(dtype)));
    }
    assert_eq!(DType::ALL.iter().filter(|&&dtype| can_hold(dtype)).count(), 10);
    let spec = |name: &'static str, shape: Vec<u64>| TensorSpec::new(name, DType::I16, shape);
    let long = "n".repeat(65_536);
    let rows = [
        (vec![TensorSpec::declared("w", DType::F32, vec![1])], "w", Fault::Declared),
        (vec![spec("", vec![1])], "", Fault::EmptyKey),
        (vec![TensorSpec::new(&long, DType::I8, vec![1])], &long, Fault::KeyLength(65_536)),
        (vec![spec("w", vec![1; 256])], "w", Fault::Rank { found: 256, max: 255 }),
        (vec![spec("w", vec![0, 1 << 63])], "w", Fault::Dimension(1 << 63)),
        (
            vec![spec("w", vec![1 << 62])],
            "w",
            CommonFault::TooManyElements("[4611686018427387904]".to_owned()).into(),
        ),
        (vec![spec("w", vec![1]), spec("w", vec![2])], "w", CommonFault::Duplicate("w".to_owned()).into()),
    ];
    for (specs, name, fault) in rows {
        assert_eq!(unfit(specs), (name.to_owned(), fault));
    }
    let vast = |name| TensorSpec::new(name, DType::I8, vec![1 << 62]);
    let (name, fault) = unfit(vec![vast("a"), vast("b")]);
    assert!(
        name == "b" && matches!(fault, Fault::Common(CommonFault::OutOfBounds { .. })),
        "{name}: {fault:?}"
    );
}

#[test]
fn keys_of_metadata_are_checked_too() {
    let long = "k".repeat(65_536);
    for (key, fault) in [("", Fault::EmptyKey), (long.as_str(), Fault::KeyLength(65_536))] {
        let result = Plan::new([], &metadata([(key, Value::from(0))]), &WriteOptions::new());
        assert!(matches!(result, Err(WriteError::Unsupported { fault: found, .. }) if found == fault));
    }
    for value in [Value::from("text"), true.into(), Value::Null, (1u64 << 63).into(), Object::new().into()] {
        let kind = value.kind();
        let result = Plan::new([], &metadata([("k", value)]), &WriteOptions::new());
        let Err(WriteError::Unsupported { part, fault }) = result else { panic!("{kind} is written") };
        assert_eq!(
            (part.to_string(), fault),
            (Part::named("metadata key", "k").to_string(), Fault::NoNumber(kind))
        );
    }
}

#[test]
fn the_longest_key_and_the_highest_rank_are_written() {
    let name = "n".repeat(65_535);
    let tensor = Tensor::counting(&name, DType::I8, &[1; 255], 9);
    let metadata = metadata([(name.as_str(), Value::from(0.5))]);
    let file = crate::common::write(std::slice::from_ref(&tensor), &metadata, mag::Checksum::Crc32);
    let reader = Reader::from_source(file).unwrap();
    assert_eq!(reader.tensor(&name).unwrap().bytes(), [9]);
    assert_eq!(reader.index().metadata().get(&name), Some(&Value::from(0.5)));
}

#[test]
fn values_that_end_early_name_their_tensor() {
    let specs = vec![TensorSpec::new("a", DType::I8, vec![4]), TensorSpec::new("b", DType::I8, vec![4])];
    let error =
        plan(specs).unwrap().write(&[vec![0; 4], vec![0; 3]], &MemoryFile::new(), &Execution::default());
    assert!(matches!(&error, Err(WriteError::Data { name, .. }) if name == "b"), "{error:?}");
}

#[test]
fn a_file_appears_complete_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.mag");
    let names = || fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    let plan = plan(vec![TensorSpec::new("a", DType::I8, vec![4])]).unwrap();

    let short = plan.write_file(&path, Overwrite::Refuse, &[[0; 3]], &Execution::default());
    assert!(matches!(short, Err(WriteError::Data { .. })) && names().is_empty(), "{short:?}, {:?}", names());
    let stop = |_| ControlFlow::Break(());
    let stopped = Execution { threads: 1, progress: Some(&stop) };
    let stopped = plan.write_file(&path, Overwrite::Refuse, &[[0; 4]], &stopped);
    assert!(
        matches!(stopped, Err(WriteError::Cancelled)) && names().is_empty(),
        "{stopped:?}, {:?}",
        names()
    );

    plan.write_file(&path, Overwrite::Refuse, &[[1, 2, 3, 4]], &Execution::default()).unwrap();
    assert_eq!(names(), ["m.mag"]);
    let refused = plan.write_file(&path, Overwrite::Refuse, &[[0; 4]], &Execution::default()).unwrap_err();
    assert!(matches!(&refused, WriteError::Write { path, .. } if path.ends_with("m.mag")), "{refused:?}");
    assert_eq!(Reader::open(&path).unwrap().tensor("a").unwrap().bytes(), [1, 2, 3, 4]);
    plan.write_file(&path, Overwrite::Replace, &[[5; 4]], &Execution::default()).unwrap();
    assert_eq!(Reader::open(&path).unwrap().tensor("a").unwrap().bytes(), [5; 4]);
    assert_eq!(names(), ["m.mag"]);
}

/// A file without values, to which somebody has appended bytes.
#[test]
fn an_empty_tensor_stays_aligned_when_the_file_is_edited() {
    let out = MemoryFile::new();
    let specs = vec![TensorSpec::new("a", DType::I8, vec![0])];
    plan(specs).unwrap().write(&[[0; 0]], &out, &Execution::default()).unwrap();
    let written = out.into_bytes();
    for more in [8, 64, 90] {
        let file = [&written[..], &vec![1; more]].concat();
        let metadata = Object::from_iter([("k", 1.0)]);
        let reader = Reader::from_source(&*file).unwrap();
        let new = reader.index().edit(&&*file, &BTreeMap::new(), Some(&metadata)).unwrap();
        let edited = Preview::new(new, &*file);
        let edited = edited.read(0..edited.len()).unwrap().to_vec();
        let report = Reader::from_source(edited).unwrap().verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{more}: {:?}", report.errors);
    }
}
