//! Whatever is written reads back as it was, and the same input always gives the same bytes.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "test code"
)]

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{DTYPES, Random};
use modelfmt_core::CommonFault;
use oinf::ReaderExt as _;
use oinf::write::{BoxError, MemoryFile, Overwrite, TensorData};
use oinf::{
    Bitset, DType, Error, Execution, Fault, MetaValue, Metadata, NdArray, Plan, Reader, TensorSpec,
    VerifyLevel, WriteError, WriteOptions,
};
use proptest::prelude::*;

const NAME: &str = "[A-Za-z0-9._-]{1,20}";

fn specs() -> impl Strategy<Value = Vec<TensorSpec<'static>>> {
    let shape = prop::collection::vec(prop_oneof![4 => 0u64..6, 1 => Just(1)], 0..5);
    let spec = (0..DTYPES.len(), shape, prop::bool::weighted(0.8));
    prop::collection::btree_map(NAME, spec, 0..12).prop_map(|specs| {
        let spec = |(name, (dtype, shape, has_data)): (String, (usize, Vec<u64>, bool))| {
            let mut spec = TensorSpec::new(name, DTYPES[dtype], shape);
            spec.has_data = has_data;
            spec
        };
        specs.into_iter().map(spec).collect()
    })
}

fn metadata() -> impl Strategy<Value = Metadata<'static>> {
    let sizevars = prop::collection::btree_map(NAME, any::<u64>(), 0..6);
    let values = prop::collection::btree_map(NAME, any::<u64>(), 0..10);
    (sizevars, values).prop_map(|(sizevars, values)| Metadata {
        sizevars: sizevars.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        values: values.into_iter().map(|(key, seed)| (key.into(), Random(seed).value())).collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn what_is_written_is_read(specs in specs(), metadata in metadata(), seed in any::<u64>()) {
        let mut random = Random(seed);
        let data: Vec<_> = specs.iter().map(|spec| random.values(spec)).collect();
        let file = crate::common::write(&specs, &metadata, &data, 1);
        let reader = Reader::from_source(&file[..]).unwrap();
        prop_assert!(reader.verify(VerifyLevel::Full).is_ok());
        testkit::reference::compare("written", "oinf", &file, &reader);
        // The maps that these came from are sorted, and so is the file.
        prop_assert_eq!(reader.index().to_metadata(), metadata.clone());
        prop_assert_eq!(reader.tensors().iter().map(TensorSpec::from).collect::<Vec<_>>(), specs.clone());
        for (spec, data) in specs.iter().zip(&data).filter(|(spec, _)| spec.has_data) {
            let tensor = reader.tensor(&spec.name).unwrap();
            prop_assert_eq!(tensor.bytes(), &data[..]);
        }
        for value in reader.index().metadata().map(|(_, value)| value) {
            prop_assert_eq!(&MetaValue::from_value(&value.to_value()).unwrap(), &value);
            prop_assert_eq!(&MetaValue::from_value(&value.to_value_exact()).unwrap(), &value);
        }

        // The reverse order, on more threads, gives the same bytes.
        let reversed: Vec<_> = specs.into_iter().rev().collect();
        let data: Vec<_> = data.into_iter().rev().collect();
        let mut metadata = metadata;
        metadata.sizevars.reverse();
        metadata.values.reverse();
        prop_assert!(crate::common::write(&reversed, &metadata, &data, 3) == file);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    /// Version 2: all types in tensors and metadata, quant payloads, also of tensors without values.
    #[test]
    fn what_is_written_as_version_2_is_read(
        names in prop::collection::btree_set(NAME, 0..12),
        metadata in metadata(),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let mut options = WriteOptions::new().version(oinf::Version::V2);
        let (mut specs, mut quants) = (Vec::new(), Vec::new());
        for name in names {
            let spec = if random.below(3) > 0 { random.later_spec(name) } else { random.spec(name) };
            let quant = (random.below(2) == 0).then(|| random.quant(&spec.shape));
            options = quant.iter().cloned().fold(options, |options, quant| options.quant(&*spec.name, quant));
            quants.push(quant);
            specs.push(spec);
        }
        let mut metadata = metadata;
        for (key, value) in &mut metadata.values {
            if key.len() % 2 == 0 {
                *value = random.later_value();
            }
        }
        let data: Vec<_> = specs.iter().map(|spec| random.values(spec)).collect();
        let file = crate::common::write_as(&specs, &metadata, &data, 1, &options);
        let reader = Reader::from_source(&file[..]).unwrap();
        prop_assert_eq!(reader.index().version(), oinf::Version::V2);
        let report = reader.verify(VerifyLevel::Full);
        prop_assert!(report.is_ok(), "{:?}", report.errors);
        testkit::reference::compare("written", "oinf", &file, &reader);
        prop_assert_eq!(reader.index().to_metadata(), metadata.clone());
        prop_assert_eq!(reader.tensors().iter().map(TensorSpec::from).collect::<Vec<_>>(), specs.clone());
        for (position, (spec, data)) in specs.iter().zip(&data).enumerate() {
            if spec.has_data {
                let tensor = reader.tensor(position).unwrap();
                prop_assert_eq!(tensor.bytes(), &data[..]);
            }
            prop_assert_eq!(&reader.quant(position).unwrap(), &quants[position]);
        }
        for value in reader.index().metadata().map(|(_, value)| value) {
            prop_assert_eq!(&MetaValue::from_value(&value.to_value_exact()).unwrap(), &value);
        }
        prop_assert!(crate::common::rewrite(&reader) == file);
        let (specs, data): (Vec<_>, Vec<_>) = specs.into_iter().zip(data).rev().unzip();
        prop_assert!(crate::common::write_as(&specs, &metadata, &data, 3, &options) == file);
    }
}

/// Several pieces of 4 MiB, tensors that end inside them, and any number of threads.
#[test]
fn large_files_do_not_depend_on_threads() {
    let lens = [9 << 20, 5, 4 << 20, 0, (1 << 20) + 1];
    let names = ["a", "b", "c", "d", "e"];
    let specs: Vec<_> =
        names.iter().zip(lens).map(|(name, len)| TensorSpec::new(*name, DType::Bool, vec![len])).collect();
    let mut random = Random(7);
    let data: Vec<Vec<u8>> =
        lens.iter().map(|&len| (0..len).map(|_| random.next() as u8 & 1).collect()).collect();
    let files = [1, 2, 5].map(|threads| crate::common::write(&specs, &Metadata::new(), &data, threads));
    assert!(files[0] == files[1] && files[1] == files[2]);
    let reader = Reader::from_source(&files[0][..]).unwrap();
    assert!(names.iter().zip(&data).all(|(name, data)| reader.tensor(name).unwrap().bytes() == &data[..]));
    assert!(reader.verify_with(VerifyLevel::Full, &Execution { threads: 3, progress: None }).is_ok());
    assert!(reader.tensor("c").unwrap().into_bytes().is_borrowed());
}

#[test]
fn a_plan_says_where_everything_goes() {
    let specs = [
        TensorSpec::new("z", DType::F32, vec![3]),
        TensorSpec::declared("y", DType::F32, vec![3]),
        TensorSpec::new("x", DType::U8, vec![1]),
    ];
    let plan = Plan::new(specs, &Metadata::new(), &WriteOptions::new()).unwrap();
    assert!(plan.tensors().map(|tensor| tensor.name).eq(["x", "y", "z"]));
    // 72, then 3 records of 8 + 28 + 8, rounded up to a multiple of 8. x is there, z 8 bytes later.
    assert_eq!((plan.offset(2), plan.offset(1), plan.offset(0)), (Some(208), None, Some(216)));
    assert_eq!(plan.file_len(), 232);
}

#[test]
fn what_oinf_cannot_hold_is_refused_with_its_name() {
    let unfit = |specs: Vec<TensorSpec<'_>>, metadata: &Metadata<'_>| match Plan::new(
        specs,
        metadata,
        &WriteOptions::new(),
    )
    .map(|_| ())
    {
        Err(WriteError::Unsupported { part, fault }) => (part.to_string(), fault),
        other => panic!("{other:?}"),
    };
    let tensor = |name: &'static str, dtype| vec![TensorSpec::new(name, dtype, vec![2])];
    let none = Metadata::new();
    let character = |found: &str, position| Fault::Character { found: found.to_owned(), position };
    for dtype in [DType::C64, DType::Q8_0, DType::F8E4M3, DType::Packed] {
        assert_eq!(unfit(tensor("w", dtype), &none), ("tensor \"w\"".to_owned(), Fault::NoCode(dtype)));
    }
    let (part, fault) = unfit(tensor("重み", DType::F32), &none);
    assert_eq!((part.as_str(), fault), ("tensor \"重み\"", character("'重'", 0)));
    let (part, fault) = unfit(tensor("a b", DType::F32), &none);
    assert_eq!((part.as_str(), fault), ("tensor \"a b\"", character("' '", 1)));
    assert_eq!(unfit(tensor("", DType::F32), &none).1, Fault::EmptyString);
    let twice = [tensor("w", DType::F32), tensor("w", DType::U8)].concat();
    assert_eq!(unfit(twice, &none).1, Fault::Common(CommonFault::Duplicate("w".to_owned())));
    let huge = vec![TensorSpec::declared("w", DType::F32, vec![u64::MAX])];
    assert!(matches!(unfit(huge, &none).1, Fault::Common(CommonFault::TooManyElements(_))));

    let sizevar = |name: &'static str| unfit(vec![], &Metadata::new().sizevar(name, 1));
    assert_eq!(sizevar("D/2"), ("size variable \"D/2\"".to_owned(), character("'/'", 1)));
    let twice = unfit(vec![], &Metadata::new().sizevar("D", 1).sizevar("B", 1).sizevar("D", 2));
    assert_eq!(
        twice,
        ("size variable \"D\"".to_owned(), Fault::Common(CommonFault::Duplicate("D".to_owned())))
    );
    let key = unfit(vec![], &Metadata::new().value("", true));
    assert_eq!(key, ("metadata entry \"\"".to_owned(), Fault::EmptyString));
    let text = unfit(vec![], &Metadata::new().value("k", "hello world"));
    assert_eq!(text, ("metadata value \"k\"".to_owned(), character("' '", 5)));
    let bools = NdArray::new(DType::Bool, vec![2], vec![1, 2]).unwrap();
    let bools = unfit(vec![], &Metadata::new().value("k", bools));
    assert_eq!(bools.1, Fault::Bool { value: 2, count: 1 });
}

#[test]
fn nothing_is_left_of_a_file_that_cannot_be_written() {
    struct Broken;
    impl TensorData for Broken {
        fn read(&self, _: usize, _: u64, _: &mut [u8]) -> Result<(), BoxError> {
            Err("the disk is gone".into())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m.oinf");
    // Descriptions are numbered as given, and errors name the right one.
    let specs = [TensorSpec::new("b", DType::Bool, vec![2]), TensorSpec::declared("a", DType::U8, vec![])];
    let plan = Plan::new(specs, &Metadata::new().sizevar("D", 1), &WriteOptions::new()).unwrap();
    let work = Execution::default();
    let error = plan.write_file(&target, Overwrite::Refuse, &Broken, &work).unwrap_err();
    assert!(matches!(error, WriteError::Data { name, .. } if name == "b"));
    let error = plan.write_file(&target, Overwrite::Refuse, &[vec![0, 3], vec![]], &work).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor \"b\": is boolean and must be 0 or 1, but is 3 (1 such bytes in all)"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    plan.write_file(&target, Overwrite::Refuse, &[vec![0, 1], vec![]], &work).unwrap();
    let again = plan.write_file(&target, Overwrite::Refuse, &[vec![1, 1], vec![]], &work);
    assert!(matches!(again, Err(WriteError::Write { .. })));
    assert_eq!(Reader::open(&target).unwrap().tensor("b").unwrap().bytes(), [0, 1]);
    plan.write_file(&target, Overwrite::Replace, &[vec![1, 1], vec![]], &work).unwrap();
    assert_eq!(Reader::open(&target).unwrap().tensor("b").unwrap().bytes(), [1, 1]);
    assert!(matches!(Reader::open(folder.path().join("no.oinf")), Err(Error::Open { .. })));
}

/// Values are requested once each, whatever their size.
#[test]
fn values_are_pulled_once() {
    struct Zeros(AtomicU64);
    impl TensorData for Zeros {
        fn read(&self, _: usize, _: u64, out: &mut [u8]) -> Result<(), BoxError> {
            out.fill(0);
            self.0.fetch_add(out.len() as u64, Ordering::Relaxed);
            Ok(())
        }
    }
    let specs = [TensorSpec::new("a", DType::U8, vec![5_000_001]), TensorSpec::new("b", DType::F64, vec![7])];
    let plan = Plan::new(specs, &Metadata::new(), &WriteOptions::new()).unwrap();
    let zeros = Zeros(AtomicU64::new(0));
    plan.write(&zeros, &MemoryFile::new(), &Execution::default()).unwrap();
    assert_eq!(zeros.0.into_inner(), 5_000_001 + 56);
}

#[test]
fn tensors_stand_in_the_order_that_was_given() {
    let specs = ["b", "c", "a"].map(|name| TensorSpec::new(name, DType::U8, vec![1]));
    let names = |options: &WriteOptions| {
        let file =
            crate::common::write_as(&specs, &Metadata::new(), &[vec![1], vec![2], vec![3]], 1, options);
        let reader = Reader::from_source(file).unwrap();
        assert_eq!(reader.tensor("c").unwrap().bytes(), [2]);
        assert!(reader.verify(VerifyLevel::Full).is_ok());
        reader.tensors().iter().map(|tensor| tensor.name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&WriteOptions::new()), ["a", "b", "c"]);
    assert_eq!(names(&WriteOptions::new().order_as_given(true)), ["b", "c", "a"]);
}

#[test]
fn bits_beyond_a_bitset_are_not_written() {
    let stray = Bitset::new(3, vec![0xff]).unwrap();
    let file = crate::common::write(&[], &Metadata::new().value("k", stray.clone()), &[], 1);
    let reader = Reader::from_source(&file[..]).unwrap();
    assert!(reader.verify(VerifyLevel::Full).is_ok());
    assert_eq!(crate::common::value(&reader, "k"), MetaValue::from(stray));
}
