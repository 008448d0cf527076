//! Whatever a file holds is read, in memory and by ranges, and no more is read than necessary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::sync::Arc;

use modelfmt_gguf::value::{Object, Value};
use modelfmt_gguf::write::{BoxError, Discard};
use modelfmt_gguf::{
    DType, Execution, Index, MetaValue, Metadata, Plan, Reader, SetPlan, Source, TensorData, TensorSpec,
    ValueType, WriteOptions,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use testkit::gguf::{Gguf, array, string};
use testkit::{CountingSource, peak};

/// A value: the number of its type, its bytes, and the tree that it should become.
type Encoded = (u32, Vec<u8>, Value);

fn scalars() -> impl Strategy<Value = Encoded> + Clone {
    prop_oneof![
        any::<u8>().prop_map(|n| (0, n.to_le_bytes().to_vec(), n.into())),
        any::<i8>().prop_map(|n| (1, n.to_le_bytes().to_vec(), n.into())),
        any::<u16>().prop_map(|n| (2, n.to_le_bytes().to_vec(), n.into())),
        any::<i16>().prop_map(|n| (3, n.to_le_bytes().to_vec(), n.into())),
        any::<u32>().prop_map(|n| (4, n.to_le_bytes().to_vec(), n.into())),
        any::<i32>().prop_map(|n| (5, n.to_le_bytes().to_vec(), n.into())),
        any::<f32>().prop_map(|x| (6, x.to_le_bytes().to_vec(), x.into())),
        any::<bool>().prop_map(|b| (7, vec![u8::from(b)], b.into())),
        any::<String>().prop_map(|text| (8, string(&text), text.into())),
        any::<u64>().prop_map(|n| (10, n.to_le_bytes().to_vec(), n.into())),
        any::<i64>().prop_map(|n| (11, n.to_le_bytes().to_vec(), n.into())),
        any::<f64>().prop_map(|x| (12, x.to_le_bytes().to_vec(), x.into())),
    ]
}

/// Returns an array of those elements that have the type of the first one.
fn array_of(members: Vec<Encoded>) -> Encoded {
    let kind = members.first().map_or(4, |member| member.0);
    let members = members.into_iter().filter(|member| member.0 == kind);
    let (bytes, trees): (Vec<_>, Vec<_>) = members.map(|(_, bytes, tree)| (bytes, tree)).unzip();
    (9, array(kind, &bytes), Value::from(trees))
}

fn values() -> impl Strategy<Value = Encoded> {
    scalars().prop_recursive(4, 40, 6, |inner| prop::collection::vec(inner, 0..6).prop_map(array_of))
}

/// A tensor: name, type, shape (slowest first), values.
type Tensor = (String, DType, Vec<u64>, Vec<u8>);

prop_compose! {
    fn tensor()(
        name in any::<String>(),
        dtype in prop::sample::select(DType::ALL.iter().copied().filter(|d| d.ggml_type().is_some()).collect::<Vec<_>>()),
        mut shape in prop::collection::vec(0u64..4, 0..4),
        blocks in 1u64..3,
        first in any::<u8>(),
    ) -> Tensor {
        match dtype.block().unwrap().elements {
            1 => {}
            elements => shape.push(blocks * u64::from(elements)),
        }
        let values = (0..dtype.nbytes(&shape).unwrap()).map(|i| first.wrapping_add(i as u8)).collect();
        (name, dtype, shape, values)
    }
}

fn build(metadata: &[(String, Encoded)], tensors: &[Tensor], alignment: Option<u32>, version: u32) -> Gguf {
    let mut file = Gguf::new().version(version);
    if let Some(alignment) = alignment {
        file = file.entry("general.alignment", 4, &alignment.to_le_bytes()).alignment(alignment as usize);
    }
    for (key, (kind, bytes, _)) in metadata {
        file = file.entry(key, *kind, bytes);
    }
    for (name, dtype, shape, values) in tensors {
        let dims: Vec<u64> = shape.iter().rev().copied().collect();
        file = file.tensor(name, dtype.ggml_type().unwrap(), &dims, values);
    }
    file
}

fn read_again<S: Source>(source: S, metadata: &Object, tensors: &[Tensor]) {
    let reader = Reader::from_source(source).unwrap();
    let found = reader.index().metadata().to_object();
    assert_eq!(&found, metadata);
    assert!(found.keys().eq(metadata.keys()), "order is kept");
    for (key, value) in metadata {
        assert_eq!(reader.index().metadata().get(key).map(|found| found.to_value()).as_ref(), Some(value));
        let members = reader.index().metadata().get(key).and_then(|found| found.as_array());
        let members = members.map(|array| array.iter().map(|member| member.to_value()).collect::<Vec<_>>());
        let expected = value.as_array().map(|items| items.iter().collect::<Vec<_>>());
        assert_eq!(members, expected);
    }
    assert_eq!(reader.tensors().len(), tensors.len());
    for (position, (info, (name, dtype, shape, values))) in reader.tensors().iter().zip(tensors).enumerate() {
        assert_eq!((info.name, info.dtype, info.shape), (name.as_str(), *dtype, shape.as_slice()));
        assert_eq!(reader.tensor(name).unwrap().bytes(), values);
        let mut half = vec![0; values.len() / 2];
        let begin = values.len() - half.len();
        reader.read_into(position, begin as u64, &mut half).unwrap();
        assert_eq!(half, values[begin..]);
        assert!(reader.read_into(position, values.len() as u64, &mut [0]).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn whatever_a_file_holds_is_read(
        metadata in prop::collection::hash_map(any::<String>(), values(), 0..8),
        tensors in prop::collection::hash_map(any::<String>(), tensor(), 0..8),
        alignment in prop::option::of(prop::sample::select(vec![1u32, 2, 4, 8, 32, 64, 4096])),
        version in 2u32..4,
    ) {
        let mut metadata: Vec<_> = metadata.into_iter().filter(|(key, _)| key != "general.alignment").collect();
        metadata.sort_by(|(a, _), (b, _)| b.cmp(a));
        let mut tensors: Vec<Tensor> = tensors.into_iter().map(|(key, tensor)| (key, tensor.1, tensor.2, tensor.3)).collect();
        tensors.sort_by(|a, b| b.0.cmp(&a.0));
        let file = build(&metadata, &tensors, alignment, version);
        // An empty tensor after all others is at the end of the padding.
        let bytes = file.data(&[0; 4096]).build();
        let mut expected = Object::new();
        expected.extend(alignment.map(|n| ("general.alignment".to_owned(), Value::from(n))));
        expected.extend(metadata.iter().map(|(key, (_, _, tree))| (key.clone(), tree.clone())));
        read_again(bytes.as_slice(), &expected, &tensors);
        testkit::reference::compare("built", "gguf", &bytes, &Reader::from_source(bytes.as_slice()).unwrap());
        read_again(CountingSource::new(bytes), &expected, &tensors);
    }
}

/// Returns a file with a vocabulary like those of real models, and a thousand tensors.
fn large() -> Gguf {
    let texts: Vec<Vec<u8>> = (0..128_000).map(|n| string(&format!("▁token{n}"))).collect();
    let scores: Vec<Vec<u8>> = (0..128_000).map(|n| (n as f32).to_le_bytes().to_vec()).collect();
    let file = Gguf::new()
        .entry("general.architecture", 8, &string("llama"))
        .entry("tokenizer.ggml.tokens", 9, &array(8, &texts))
        .entry("tokenizer.ggml.scores", 9, &array(6, &scores))
        .entry("tokenizer.chat_template", 8, &string(&"{% x %}".repeat(30_000)));
    (0..1000)
        .fold(file, |file, n| file.record(&format!("blk.{n}.attn_q.weight"), 0, &[1], 32 * n))
        .data(&[0; 32_000])
}

#[test]
fn opening_reads_the_listing_once_and_little_more() {
    let file = large();
    let (listing, bytes) = (file.listing().len() as u64, file.build());
    let source = CountingSource::new(bytes.clone());
    let reader = Reader::from_source(&source).unwrap();
    assert!(source.nbytes() <= listing + (64 << 10), "{} of {listing}", source.nbytes());
    assert!(source.reads() <= 20, "{} reads", source.reads());
    assert_eq!(reader.index().listing_end(), listing);
    let tokens =
        reader.index().metadata().get("tokenizer.ggml.tokens").and_then(|value| value.as_array()).unwrap();
    assert_eq!((tokens.value_type(), tokens.len()), (ValueType::String, 128_000));
    assert_eq!(tokens.iter().last(), Some(MetaValue::String("▁token127999")));
    let scores =
        reader.index().metadata().get("tokenizer.ggml.scores").and_then(|value| value.as_array()).unwrap();
    assert_eq!(scores.bytes().len(), 512_000);
    source.reset();
    let again = Reader::with_index(Arc::clone(reader.index()), &source).unwrap();
    assert_eq!(again.tensors().len(), 1000);
    assert_eq!(source.reads(), 0);
    assert!(Reader::with_index(Arc::clone(reader.index()), bytes[1..].to_vec()).is_err());
}

#[test]
fn memory_is_in_proportion_to_the_file() {
    let file = large();
    let (listing, bytes) = (file.listing().len(), file.build());
    let (index, held) = peak(|| Index::parse(&bytes).unwrap());
    // While growing, the old and the new buffer may exist at once.
    assert!(held < 3 * listing + 200_000, "{held} for {listing}");
    assert!(index.heap_size() < listing + 200_000, "{} for {listing}", index.heap_size());
    // An array of booleans must not become 32 times its bytes in a tree.
    let file = Gguf::new().entry(
        "b",
        9,
        &[&7u32.to_le_bytes()[..], &1_000_000u64.to_le_bytes(), &[1; 1_000_000]].concat(),
    );
    let bytes = file.build();
    let (_, held) = peak(|| Index::parse(&bytes).unwrap());
    assert!(held < 2_100_000, "{held}");
}

#[test]
fn the_index_is_flat() {
    let mut bytes = Gguf::new().counts(100_000, 0).listing();
    for n in 0..100_000u32 {
        bytes.extend(string(&format!("model.layers.{n:07}.weight")));
        // One dimension of 1, type i8, offset 0.
        bytes.extend([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.push(7);
    let index = Index::parse(&bytes).unwrap();
    assert_eq!(
        (index.tensors().len(), index.tensors().find("model.layers.0099999.weight")),
        (100_000, Some(99_999))
    );
    assert!(index.heap_size() < 10 << 20, "{}", index.heap_size());
}

/// Values that are made on request.
struct Endless;

impl TensorData for Endless {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        out.fill((tensor as u64 ^ offset >> 22) as u8);
        Ok(())
    }
}

#[test]
fn writing_holds_little_whatever_the_size() {
    let sizes = [70 << 20, 3, 100 << 20, 5000, 30 << 20];
    let specs =
        sizes.iter().enumerate().map(|(n, &len)| TensorSpec::new(n.to_string(), DType::I8, vec![len]));
    let plan = Plan::new(specs, &Metadata::new(), &WriteOptions::new()).unwrap();
    let (written, held) = peak(|| plan.write(&Endless, &Discard::default(), &Execution::sequential()));
    written.unwrap();
    println!("{held} bytes held to write 200 MiB");
    assert!(held < 8 << 20, "{held}");
}

#[test]
fn planning_is_linear_in_tensors_and_keys() {
    const N: usize = 20_000;
    let plan = |tensors: usize, keys: usize, files: bool| {
        let mut metadata = Metadata::new();
        (0..keys).for_each(|n| metadata.push(&format!("key.{n:07}"), MetaValue::U32(7)).unwrap());
        let specs =
            (0..tensors).map(|n| TensorSpec::new(format!("blk.{n:07}.weight"), DType::F32, vec![2, 4]));
        let (len, held) = peak(|| {
            let options = WriteOptions::new().shard_size(1 << 20);
            if files {
                SetPlan::new("m", specs, &metadata, &options).unwrap().total_len()
            } else {
                Plan::new(specs, &metadata, &options).unwrap().file_len()
            }
        });
        let hints = peak(|| metadata.hints()).1;
        (held, hints, len)
    };
    for files in [false, true] {
        for (tensors, keys) in [(N, 0), (0, N)] {
            let (one, one_hints, len) = plan(tensors, keys, files);
            let (two, two_hints, _) = plan(2 * tensors, 2 * keys, files);
            println!(
                "{tensors} tensors, {keys} keys: {one} and {two} bytes; {one_hints} and {two_hints} for hints; file of {len}"
            );
            // A vector that doubles its capacity holds up to twice what it needs, at one size or the other.
            assert!(two <= 4 * one + (64 << 10) && two_hints <= 4 * one_hints + (64 << 10));
            assert!(one as u64 <= 4 * len + (64 << 10), "{one} for a file of {len}");
        }
    }
}
