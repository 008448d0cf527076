//! Whatever is written reads back as it was, and the same input always gives the same bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use crate::common::{Tensor, checksum_of, write, write_with};
use mag::modelfmt_core::{AlignedBuf, Container};
use mag::value::{Object, Value};
use mag::{Checksum, DType, Execution, Reader, Source, VerifyLevel};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use testkit::CountingSource;

const DTYPES: [DType; 10] = [
    DType::F32,
    DType::F16,
    DType::Bool,
    DType::I32,
    DType::I8,
    DType::U16,
    DType::I16,
    DType::U32,
    DType::U64,
    DType::I64,
];

fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9._]{1,24}", "\\PC{1,12}", any::<String>()]
        .prop_filter("1 byte", |name| !name.is_empty())
}

prop_compose! {
    fn tensors()(
        tensors in prop::collection::btree_map(
            names(),
            (prop::sample::select(&DTYPES[..]), prop::collection::vec(0u64..6, 0..5), any::<u8>()),
            0..12,
        )
    ) -> Vec<Tensor> {
        tensors.iter().map(|(name, (dtype, shape, first))| Tensor::counting(name, *dtype, shape, *first)).collect()
    }
}

fn numbers() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(|bits| Value::from(f64::from_bits(bits))),
    ]
}

prop_compose! {
    fn metadata()(entries in prop::collection::btree_map(names(), numbers(), 0..8)) -> Object {
        entries.into_iter().collect()
    }
}

fn read_again<S: Source>(source: S, tensors: &[Tensor], metadata: &Object, checksum: Checksum) {
    let reader = Reader::from_source(source).unwrap();
    assert_eq!(reader.index().checksum(), Some(checksum));
    assert!(reader.metadata().unwrap().iter().eq(metadata.iter())); // floats are equal if their bits are
    assert_eq!(reader.tensors().len(), tensors.len());
    for (position, (info, tensor)) in reader.tensors().iter().zip(tensors).enumerate() {
        // A scalar is written as shape [1].
        let shape: &[u64] = if tensor.shape.is_empty() { &[1] } else { &tensor.shape };
        assert_eq!((info.name, info.dtype, info.shape), (tensor.name.as_str(), tensor.dtype, shape));
        assert_eq!(reader.tensor(&tensor.name).unwrap().bytes(), tensor.values);
        assert_eq!(reader.index().tensors().find(&tensor.name), Some(position));
        let mut half = vec![0; tensor.values.len() / 2];
        let begin = tensor.values.len() - half.len();
        reader.read_into(position, begin as u64, &mut half).unwrap();
        assert_eq!(half, tensor.values[begin..]);
    }
    assert!(reader.verify(VerifyLevel::Full).is_ok(), "{:?}", reader.verify(VerifyLevel::Full));
}

/// Checks what the document says about the bytes, without our reader.
fn laid_out_as_documented(file: &[u8], tensors: &[Tensor], metadata: &Object, checksum: Checksum) {
    let keys: usize = metadata.iter().map(|(key, _)| 16 + key.len()).sum();
    let records = |t: &Tensor| 24 + 8 * t.shape.len().max(1) + t.name.len();
    let end = 24 + keys + tensors.iter().map(records).sum::<usize>();
    assert_eq!(file[8..12], checksum_of(file, end, checksum).to_le_bytes());
    let mut at = end;
    for tensor in tensors {
        let begin = at.next_multiple_of(64);
        assert!(file[at..begin].iter().all(|&byte| byte == 0xff), "padding before {:?}", tensor.name);
        at = begin + tensor.values.len();
        assert_eq!(file[begin..at], tensor.values);
    }
    assert_eq!(file.len(), at);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_written_is_read(
        tensors in tensors(),
        metadata in metadata(),
        castagnoli in any::<bool>(),
        threads in 1usize..4,
    ) {
        let checksum = if castagnoli { Checksum::Crc32c } else { Checksum::Crc32 };
        let file = write(&tensors, &metadata, checksum);
        laid_out_as_documented(&file, &tensors, &metadata, checksum);
        read_again(file.as_slice(), &tensors, &metadata, checksum);
        testkit::reference::compare("written", "mag", &file, &Reader::from_source(file.as_slice()).unwrap());
        read_again(CountingSource::new(file.clone()), &tensors, &metadata, checksum);
        let again = write_with(&tensors, &metadata, checksum, &Execution { threads, progress: None });
        prop_assert!(again == file, "the same input gives the same bytes");
    }
}

/// Tensors that are longer than the pieces that are written at once, from several threads.
#[test]
fn large_tensors_are_written_in_pieces() {
    let sizes = [(5 << 20) + 3, 1, (9 << 20) - 7, 0, 4 << 20];
    let tensor = |(i, &n): (usize, &u64)| Tensor::counting(&format!("t{i}"), DType::I8, &[n], i as u8);
    let tensors: Vec<_> = sizes.iter().enumerate().map(tensor).collect();
    let one = write_with(&tensors, &Object::new(), Checksum::Crc32, &Execution::sequential());
    let many =
        write_with(&tensors, &Object::new(), Checksum::Crc32, &Execution { threads: 4, progress: None });
    assert!(one == many);
    let reader = Reader::from_source(one.as_slice()).unwrap();
    for tensor in &tensors {
        assert!(reader.tensor(&tensor.name).unwrap().bytes() == tensor.values);
    }
}

#[test]
fn memory_is_borrowed_and_aligned_values_are_slices() {
    let values = [1.5f32, -0.0, f32::INFINITY, 4.0];
    let tensor = Tensor {
        name: "w".to_owned(),
        dtype: DType::F32,
        shape: vec![2, 2],
        values: values.map(f32::to_le_bytes).concat(),
    };
    let file = AlignedBuf::copy_from_slice(&write(&[tensor], &Object::new(), Checksum::Crc32)).unwrap();
    let reader = Reader::from_source(&file[..]).unwrap();
    let view = reader.tensor("w").unwrap();
    assert!(file.as_ptr_range().contains(&view.bytes().as_ptr()), "no copy");
    #[cfg(target_endian = "little")]
    assert_eq!(view.as_slice::<f32>().unwrap(), values);
    assert_eq!(view.to_vec::<f32>().unwrap(), values);
    assert!(view.as_slice::<i32>().is_err());
    assert!(Container::read(&reader, 0).unwrap().is_borrowed());

    // A source that is not in memory returns aligned copies.
    let reader = Reader::from_source(CountingSource::new(file.to_vec())).unwrap();
    let view = reader.tensor("w").unwrap();
    #[cfg(target_endian = "little")]
    assert_eq!(view.as_slice::<f32>().unwrap(), values);
    assert_eq!(view.to_vec::<f32>().unwrap(), values);
}

#[test]
fn a_tensor_and_an_entry_may_have_one_key() {
    let tensors = [Tensor::counting("a", DType::U16, &[3], 0)];
    let metadata = crate::common::metadata([("a", Value::from(5))]);
    read_again(write(&tensors, &metadata, Checksum::Crc32).as_slice(), &tensors, &metadata, Checksum::Crc32);
}
