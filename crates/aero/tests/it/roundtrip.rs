//! Whatever is written reads back as it was, and the same input always gives the same bytes.
#![cfg(feature = "zstd")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that fails may panic"
)]

use aero::ReaderExt as _;
use aero::{DType, Execution, Plan, Reader, TensorSpec, VerifyLevel, WriteOptions};
use modelfmt_core::value::{Object, Value};
use modelfmt_write::MemoryFile;
use proptest::prelude::*;

fn metadata() -> Object {
    Object::from_iter([
        ("model_name", Value::from("tiny")),
        ("architecture", "demo".into()),
        ("layers", 2.into()),
    ])
}

const DTYPES: &[DType] = &[
    DType::F16,
    DType::F32,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
    DType::Bool,
    DType::Q4_0,
    DType::Q8_0,
    DType::Q4K,
];

#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
    values: Vec<u8>,
}

impl Tensor {
    fn spec(&self) -> TensorSpec<'_> {
        if self.dtype == DType::Packed {
            return TensorSpec::packed(&*self.name, &*self.shape, self.values.len() as u64);
        }
        TensorSpec::new(&*self.name, self.dtype, &*self.shape)
    }
}

fn values(nbytes: u64, seed: u64) -> Vec<u8> {
    (0..nbytes).map(|i| ((i ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let name = prop_oneof!["[a-z.]{1,12}", "\\PC{1,8}", Just("層/重み:0".to_owned())];
    let dtype = prop_oneof![9 => proptest::sample::select(DTYPES), 1 => Just(DType::Packed)];
    (name, dtype, prop::collection::vec(0u64..6, 0..4), any::<u64>()).prop_map(
        |(name, dtype, mut shape, seed)| {
            let nbytes = match dtype.block() {
                None => seed % 300,
                Some(block) => {
                    if block.elements > 1 {
                        shape.push(u64::from(block.elements));
                    }
                    dtype.nbytes(&shape).unwrap()
                }
            };
            Tensor { name, dtype, shape, values: values(nbytes, seed) }
        },
    )
}

fn tensors() -> impl Strategy<Value = Vec<Tensor>> {
    prop::collection::vec(tensor(), 0..12).prop_map(|mut tensors| {
        let mut names = std::collections::BTreeSet::new();
        tensors.retain(|tensor| names.insert(tensor.name.clone()));
        tensors
    })
}

fn options() -> impl Strategy<Value = WriteOptions> {
    let size = prop_oneof![Just(1u64), Just(100), Just(1000), Just(1 << 31)];
    let pages = prop_oneof![Just(None), Just(Some(1u64)), Just(Some(100)), Just(Some(4096))];
    let zstd = prop_oneof![Just(None), Just(Some(3)), Just(Some(19))];
    (size, pages, zstd, any::<[bool; 2]>(), any::<[u8; 16]>()).prop_map(
        |(size, pages, zstd, hashes, uuid)| {
            let options = WriteOptions::new().shard_size(size).page_hashes(pages).zstd(zstd).uuid(uuid);
            options.control_hash(hashes[0]).tensor_hashes(hashes[1])
        },
    )
}

fn write(tensors: &[Tensor], options: &WriteOptions, threads: usize) -> Vec<u8> {
    let plan = Plan::new(tensors.iter().map(Tensor::spec), &metadata(), options).unwrap();
    let data: Vec<&[u8]> = tensors.iter().map(|tensor| &*tensor.values).collect();
    let file = MemoryFile::new();
    plan.write(&data, &file, &Execution { threads, progress: None }).unwrap();
    let bytes = file.into_bytes();
    if let Some(len) = plan.file_len() {
        assert_eq!(len, bytes.len() as u64);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(tensors in tensors(), options in options()) {
        let bytes = write(&tensors, &options, 1);
        prop_assert_eq!(&bytes, &write(&tensors, &options, 3));
        let reader = Reader::from_source(&bytes[..]).unwrap();
        testkit::reference::compare("written", "aero", &bytes, &reader);
        prop_assert_eq!(reader.tensors().len(), tensors.len());
        for (position, (info, tensor)) in reader.tensors().iter().zip(&tensors).enumerate() {
            prop_assert_eq!((info.name, info.dtype, info.shape), (&*tensor.name, tensor.dtype, &*tensor.shape));
            let found = reader.tensor(&tensor.name).unwrap();
            prop_assert_eq!(found.bytes(), &*tensor.values);
            let location = reader.index().location(position).unwrap();
            prop_assert_eq!(location.offset.unwrap() % 64, 0);
            let len = tensor.values.len() as u64;
            let (from, to) = (len / 3, len - len / 4);
            let range = reader.read_range(position, from..to).unwrap();
            prop_assert_eq!(&*range, &tensor.values[from as usize..to as usize]);
            let has_pages = reader.page_hashes(reader.index().entry(position).unwrap().shard_id).unwrap().is_some();
            if has_pages {
                let range = reader.checked().read_range(position, from..to).unwrap();
                prop_assert_eq!(&*range, &tensor.values[from as usize..to as usize]);
            }
            if has_pages || reader.index().entry(position).unwrap().hash_b3.is_some() {
                let verified = reader.checked().tensor(position).unwrap();
                prop_assert_eq!(verified.bytes(), &*tensor.values);
            }
        }
        prop_assert_eq!(reader.metadata().unwrap(), metadata());
        let report = reader.verify(VerifyLevel::Full);
        prop_assert!(report.is_ok(), "{:?}", report.errors);
    }
}

#[test]
fn large_tensors_hash_the_same_in_one_pass_on_several_threads() {
    let sizes = [5u64, 9 << 20, 3, 4 << 20, (5 << 20) + 77, 1, 0];
    let tensors: Vec<Tensor> = (0u64..)
        .zip(sizes)
        .map(|(n, len)| Tensor {
            name: format!("t{n}"),
            dtype: DType::U8,
            shape: vec![len],
            values: values(len, n),
        })
        .collect();
    for shard_size in [1 << 31, 10 << 20] {
        let options = WriteOptions::new().uuid([1; 16]).tensor_hashes(true).page_hashes(Some(3_000_000));
        let options = options.control_hash(true).shard_size(shard_size);
        let bytes = write(&tensors, &options, 1);
        assert!(bytes == write(&tensors, &options, 4));
        let reader = Reader::from_source(bytes).unwrap();
        for (position, tensor) in tensors.iter().enumerate() {
            let entry = reader.index().entry(position).unwrap();
            assert_eq!(entry.hash_b3, Some(*blake3::hash(&tensor.values).as_bytes()));
        }
        assert!(reader.verify(VerifyLevel::Full).is_ok(), "{:?}", reader.verify(VerifyLevel::Full).errors);
    }
}

#[cfg(feature = "uuid")]
#[test]
fn random_identities_differ() {
    let plan = || Plan::new([], &metadata(), &WriteOptions::new()).unwrap();
    assert_ne!(plan().uuid(), plan().uuid());
}

#[test]
fn parameters_of_an_unknown_codec_come_back() {
    let params = Object::from_iter([("codec", Value::from("mine")), ("bits", Value::from(3u64))]);
    let options = WriteOptions::new().uuid([7; 16]).tensor_hashes(true).quant_params("p", &params).unwrap();
    let specs = [TensorSpec::packed("p", vec![4, 8], 5), TensorSpec::new("w", DType::U8, vec![3])];
    let values: [&[u8]; 2] = [&[1, 2, 3, 4, 5], &[6, 7, 8]];
    let file = MemoryFile::new();
    let plan =
        Plan::new(specs, &Object::from_iter([("model_name", "m"), ("architecture", "a")]), &options).unwrap();
    plan.write(&values, &file, &Execution::sequential()).unwrap();
    let reader = Reader::from_source(file.into_bytes()).unwrap();
    assert_eq!(reader.index().quant_params(0), Some(Value::Object(params)));
    assert_eq!(reader.index().quant_params(1), None);
    assert_eq!(reader.checked().tensor("p").unwrap().bytes(), values[0]);
    assert!(reader.verify(VerifyLevel::Full).is_ok());
}
