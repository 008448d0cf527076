//! Whatever is written reads back as it was, and the same input always gives the same bytes.
#![cfg(feature = "lz4")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{
    Tensor, aligned_32, check_shared, lz4, metadata, noise, text, threads, values, write, write_set,
};
use apr2::write::{Discard, MemoryFile, Overwrite, Sink};
use apr2::{
    Container, DType, Encoding, Execution, Flags, Index, Plan, Reader, SetPlan, SetReader, Source,
    TensorSpec, VerifyLevel, WriteOptions,
};
use modelfmt_core::AlignedBuf;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use testkit::{CountingSource, peak};

fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9._]{1,24}", "\\PC{1,12}", any::<String>()]
        .prop_filter("one byte or more", |name| !name.is_empty())
}

/// Generates shapes that give whole blocks for every dtype, with some dimensions of 0 and 1.
fn shapes() -> impl Strategy<Value = Vec<u64>> {
    (prop::collection::vec(0u64..5, 0..7), 1u64..4).prop_map(|(mut shape, blocks)| {
        shape.truncate(if shape.iter().product::<u64>() > 600 { 2 } else { 7 });
        shape.push(32 * blocks);
        shape
    })
}

fn any_shape() -> impl Strategy<Value = (DType, Vec<u64>)> {
    let all: Vec<DType> = DType::ALL.iter().copied().filter(|&dtype| apr2::can_hold(dtype)).collect();
    let plain: Vec<DType> = all.iter().copied().filter(|dtype| !dtype.is_quantized()).collect();
    prop_oneof![
        (prop::sample::select(all), shapes()),
        (prop::sample::select(plain), prop::collection::vec(0u64..6, 0..5)),
    ]
}

prop_compose! {
    fn tensors()(
        tensors in prop::collection::hash_map(names(), (any_shape(), any::<u64>(), any::<bool>()), 0..10)
    ) -> Vec<Tensor> {
        let mut tensors: Vec<Tensor> = tensors.into_iter().map(|(name, ((dtype, shape), seed, dense))| {
            let len = usize::try_from(dtype.nbytes(&shape).unwrap()).unwrap();
            let values = if dense { noise(len, seed) } else { vec![7; len] };
            Tensor::new(&name, dtype, &shape, values)
        }).collect();
        // A reproducible order that is sorted neither by name nor by type.
        tensors.sort_by_key(|tensor| (tensor.values.len() % 7, tensor.name.clone()));
        tensors
    }
}

fn options() -> impl Strategy<Value = WriteOptions> {
    let base = prop::sample::select(vec![WriteOptions::new(), aligned_32(), lz4(), lz4().streaming(true)]);
    (base, 0u64..3000).prop_map(|(options, cap)| options.shard_size(cap))
}

/// Returns the shape as written: a scalar gets one dimension.
fn written_shape(tensor: &Tensor) -> Vec<u64> {
    if tensor.shape.is_empty() { vec![1] } else { tensor.shape.clone() }
}

fn read_again<S: Source>(source: S, tensors: &[Tensor]) {
    let reader = Reader::from_source(source).unwrap();
    assert_eq!(reader.index().metadata(), &metadata());
    assert_eq!(reader.tensors().len(), tensors.len());
    let alignment = reader.index().alignment().unwrap();
    for (position, (info, tensor)) in reader.tensors().iter().zip(tensors).enumerate() {
        let expected = (&*tensor.name, tensor.dtype, written_shape(tensor));
        assert_eq!((info.name, info.dtype, info.shape.to_vec()), expected);
        assert_eq!(reader.tensor(&tensor.name).unwrap().bytes(), tensor.values);
        assert_eq!(reader.index().tensors().find(&tensor.name), Some(position));
        let location = reader.index().location(position).unwrap();
        assert_eq!(location.offset.unwrap() % alignment, 0);
        if location.encoding == Encoding::Lz4 {
            assert!(location.stored_nbytes < info.nbytes, "what does not shrink is stored raw");
        }
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
    fn files_are_read_as_they_were_written(tensors in tensors(), options in options()) {
        let bytes = write(&tensors, &options, &threads(1));
        prop_assert!(write(&tensors, &options, &threads(3)) == bytes);
        read_again(bytes.as_slice(), &tensors);
        testkit::reference::compare("written", "apr2", &bytes, &Reader::from_source(bytes.as_slice()).unwrap());
        read_again(CountingSource::new(bytes.clone()), &tensors);
        let flags = Index::parse(&bytes).unwrap().flags();
        let quantized = tensors.iter().any(|tensor| tensor.dtype.is_quantized());
        prop_assert_eq!(flags.contains(Flags::QUANTIZED), quantized);
    }

    #[test]
    fn sets_are_read_as_they_were_written(tensors in tensors(), options in options(), cap in 0u64..3000) {
        let options = options.shard_size(cap);
        let files = write_set(&tensors, &options, &threads(1));
        prop_assert!(write_set(&tensors, &options, &threads(3)).0 == files.0);
        let total: u64 = files.0.values().map(|file| file.as_ref().len() as u64).sum();
        let set = SetReader::from_files(files.clone(), "model.apr").unwrap();
        set.open_all().unwrap();
        prop_assert_eq!(set.file_size(), total);
        prop_assert_eq!(set.shard(0).unwrap().index().metadata(), &metadata());
        prop_assert_eq!(set.index().names().len(), tensors.len());
        for (position, tensor) in tensors.iter().enumerate() {
            let view = set.tensor(&tensor.name).unwrap();
            prop_assert_eq!((view.dtype(), view.shape()), (tensor.dtype, &written_shape(tensor)[..]));
            prop_assert_eq!(view.bytes(), &tensor.values[..]);
            prop_assert_eq!(set.find(&tensor.name), Some(position));
        }
        for (number, shard) in set.index().shards().enumerate() {
            let bytes = &files.0[shard.path];
            prop_assert_eq!((shard.size, shard.crc32), (bytes.as_ref().len() as u64, Some(testkit::crc32(bytes))));
            prop_assert!(shard.size <= cap || set.shard(number).unwrap().tensors().len() <= 1);
        }
        let report = set.verify(VerifyLevel::Full);
        prop_assert!(report.is_ok(), "{:?}", report.errors);
    }
}

/// Returns tensors of several pieces: some get smaller, some do not, and one does only at first.
fn large() -> Vec<Tensor> {
    let mut late = vec![0; 5 << 20];
    late.extend(noise(9 << 20, 5));
    vec![
        Tensor::bytes("shrinks", text(11 << 20, 1)),
        Tensor::bytes("does not", noise((9 << 20) + 3, 2)),
        Tensor::bytes("empty", Vec::new()),
        Tensor::bytes("late", late),
        Tensor::bytes("small", text(100_001, 4)),
        Tensor::bytes("tiny", vec![1]),
    ]
}

#[test]
fn large_tensors_are_compressed_in_pieces_with_the_same_bytes_on_every_machine() {
    let tensors = large();
    let bytes = write(&tensors, &lz4(), &threads(1));
    assert!(write(&tensors, &lz4(), &threads(3)) == bytes);
    read_again(bytes.as_slice(), &tensors);
    let index = Index::parse(&bytes).unwrap();
    let encodings: Vec<_> =
        (0..6).map(|position| index.location(position).unwrap().encoding.name()).collect();
    assert_eq!(encodings, ["lz4", "raw", "raw", "lz4", "lz4", "raw"]);
    let report = Reader::from_source(bytes.as_slice()).unwrap().verify_with(VerifyLevel::Full, &threads(2));
    assert!(report.is_ok(), "{report:?}");
    check_shared("large", &bytes, &report);
}

#[test]
fn a_tensor_that_does_not_shrink_at_the_end_leaves_nothing_behind() {
    // Compression of the last tensor is tried, abandoned late, and the tensor is stored raw. The file must
    // end at the tensor's end.
    let tensors = [Tensor::bytes("noise", noise((8 << 20) + 1, 2))];
    let raw = write(&tensors, &WriteOptions::new(), &threads(2));
    assert!(write(&tensors, &lz4(), &threads(2)) == raw, "nothing is compressed, so the files are the same");
}

/// Counts the bytes that are written.
struct Counting<'a>(&'a MemoryFile, AtomicU64);

impl Sink for Counting<'_> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.1.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.0.write_at(offset, bytes)
    }
}

#[test]
fn what_does_not_shrink_is_written_once() {
    let noise = noise(5 << 20, 2);
    // Noise that begins to compress in its middle, only near its end, and never; and values that compress at
    // once.
    let zeros = |len: usize| vec![0; len];
    let tensors = [
        Tensor::bytes("middle", [&noise[..], &zeros(5 << 20)].concat()),
        Tensor::bytes("end", [&noise[..], &zeros(60_000)].concat()),
        Tensor::bytes("never", noise.clone()),
        Tensor::bytes("at once", [&zeros(5 << 20)[..], &noise].concat()),
    ];
    for threads_of in [1, 3] {
        let plan = Plan::new(tensors.iter().map(Tensor::spec), &metadata(), &lz4()).unwrap();
        let file = MemoryFile::new();
        let sink = Counting(&file, AtomicU64::new(0));
        plan.write(&values(&tensors), &sink, &threads(threads_of)).unwrap();
        let written = sink.1.into_inner();
        let bytes = file.into_bytes();
        assert_eq!(written, bytes.len() as u64);
        read_again(bytes.as_slice(), &tensors);
        let index = Index::parse(&bytes).unwrap();
        let encodings = [0, 1, 2, 3].map(|position| index.location(position).unwrap().encoding);
        assert_eq!(encodings, [Encoding::Lz4, Encoding::Lz4, Encoding::Raw, Encoding::Lz4]);
    }
}

#[test]
fn compressing_takes_as_much_memory_for_many_tensors_as_for_few() {
    let (text, empty) = (text(512 << 10, 1), Vec::new());
    let held = |count: usize| {
        let values: Vec<&[u8]> = (0..count).map(|n| if n % 2 == 0 { &text[..] } else { &empty }).collect();
        let names: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let shapes: Vec<[u64; 1]> = values.iter().map(|values| [values.len()]).collect();
        let specs =
            names.iter().zip(&shapes).map(|(name, shape)| TensorSpec::new(name, DType::U8, &shape[..]));
        let plan = Plan::new(specs, &metadata(), &lz4()).unwrap();
        peak(|| plan.write(&values, &Discard::default(), &threads(1)).unwrap()).1
    };
    let [few, many] = [4, 200].map(held);
    assert!(few > 100 << 10, "{few} bytes: this counts nothing");
    assert!(many < few + (256 << 10), "{many} bytes held for 200 tensors, {few} for 4");
}

#[test]
fn progress_adds_up_to_all_values() {
    let noise = noise(5 << 20, 2);
    let mut tensors = large();
    // Compression of these tensors is abandoned before their last piece, which is never processed.
    tensors.extend(
        [0, 1, 100, 4096]
            .map(|more| Tensor::bytes(&format!("noise {more}"), noise[..(1 << 20) + more].to_vec())),
    );
    let nbytes: usize = tensors.iter().map(|tensor| tensor.values.len()).sum();
    for threads in [1, 2, 4] {
        let told = AtomicU64::new(0);
        let progress = |more| {
            told.fetch_add(more, Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let mut plan = Plan::new(tensors.iter().map(Tensor::spec), &metadata(), &lz4()).unwrap();
        plan.keep_raw(4);
        let work = Execution { threads, progress: Some(&progress) };
        plan.write(&values(&tensors), &MemoryFile::new(), &work).unwrap();
        assert_eq!(told.into_inner(), nbytes as u64, "{threads} threads");
    }
}

#[test]
fn tensors_can_be_kept_raw() {
    let tensors = [Tensor::bytes("a", vec![0; 5000]), Tensor::bytes("b", vec![0; 5000])];
    let mut plan = Plan::new(tensors.iter().map(Tensor::spec), &metadata(), &lz4()).unwrap();
    plan.keep_raw(0);
    let file = MemoryFile::new();
    plan.write(&values(&tensors), &file, &threads(2)).unwrap();
    let reader = Reader::from_source(file.into_bytes()).unwrap();
    let encoding = |position| reader.index().location(position).unwrap().encoding;
    assert_eq!((encoding(0), encoding(1)), (Encoding::Raw, Encoding::Lz4));
    assert!(reader.verify(VerifyLevel::Full).is_ok());
}

#[test]
fn any_range_of_a_compressed_tensor_can_be_read() {
    let tensors = large();
    let bytes = write(&tensors, &lz4(), &threads(2));
    let values = &tensors[0].values;
    for source in [false, true] {
        let counting = CountingSource::new(bytes.clone());
        let source: Box<dyn Source> = if source { Box::new(bytes.clone()) } else { Box::new(counting) };
        let reader = Reader::from_source(source).unwrap();
        let ranges = [
            0..1,
            65_535..65_537,
            10 << 20..11 << 20,
            3_000_000..8_000_000,
            131_072..196_608,
            (11 << 20) - 1..11 << 20,
            5..5,
        ];
        for range in ranges {
            let mut out = vec![0; range.len()];
            reader.read_into(0, range.start as u64, &mut out).unwrap();
            assert!(out == values[range.clone()], "{range:?}");
        }
        assert!(reader.tensor(0).unwrap().bytes() == values);
    }
}

#[test]
fn reading_in_sequence_reads_every_byte_about_once() {
    let tensors = large();
    let bytes = write(&tensors, &lz4(), &threads(2));
    let source = CountingSource::new(bytes);
    let reader = Reader::from_source(&source).unwrap();
    let stored = reader.index().location(0).unwrap().stored_nbytes;
    for piece in [4 << 20, 1 << 20, 64 << 10, 100_000] {
        let reader = Reader::with_index(Arc::clone(reader.index()), &source).unwrap();
        source.reset();
        let mut at = 0;
        while at < tensors[0].values.len() {
            let mut out = vec![0; piece.min(tensors[0].values.len() - at)];
            reader.read_into(0, at as u64, &mut out).unwrap();
            assert!(out == tensors[0].values[at..at + out.len()]);
            at += out.len();
        }
        let blocks = tensors[0].values.len().div_ceil(64 << 10) as u64;
        let calls = tensors[0].values.len().div_ceil(piece) as u64;
        // Blocks that two pieces share are read twice, and some bytes after the last block of a piece are
        // read too.
        assert!(
            source.nbytes() < 3 * stored + calls * (16 << 10),
            "{piece}: {} of {stored}",
            source.nbytes()
        );
        assert!(source.reads() < 4 * calls + blocks, "{piece}: {} reads", source.reads());
    }
}

#[test]
fn a_range_far_behind_reads_headers_and_its_blocks_only() {
    let values = text(24 << 20, 3);
    let bytes = write(&[Tensor::bytes("a", values.clone())], &lz4(), &threads(2));
    let source = CountingSource::new(bytes);
    let reader = Reader::from_source(&source).unwrap();
    source.reset();
    let mut out = [0; 10];
    reader.read_into(0, 20 << 20, &mut out).unwrap();
    assert_eq!(out, values[20 << 20..][..10]);
    assert!(source.nbytes() < 200 << 10, "{}", source.nbytes());
    source.reset();
    reader.read_into(0, (20 << 20) + 5, &mut out).unwrap();
    assert!(source.reads() <= 3, "the place is known now: {} reads", source.reads());
}

#[test]
fn opening_reads_the_control_region_and_nothing_else() {
    let tensors = [Tensor::bytes("a", noise(1 << 20, 0)), Tensor::bytes("b", vec![1, 2, 3])];
    let bytes = write(&tensors, &WriteOptions::new(), &threads(1));
    let source = CountingSource::new(bytes.clone());
    let reader = Reader::from_source(&source).unwrap();
    assert!(source.reads() <= 2 && source.nbytes() <= 64 << 10, "{} {}", source.reads(), source.nbytes());
    source.reset();
    assert_eq!(reader.tensor("b").unwrap().bytes(), [1, 2, 3]);
    assert_eq!((source.reads(), source.nbytes()), (1, 3));
    source.reset();
    let again = Reader::with_index(Arc::clone(reader.index()), &source).unwrap();
    assert_eq!(source.reads(), 0);
    assert_eq!(again.tensor("b").unwrap().bytes(), [1, 2, 3]);
    assert!(Reader::with_index(Arc::clone(reader.index()), [0u8; 5].as_slice()).is_err());

    // An index of many tensors is read once, with at most 64 KiB of unneeded bytes.
    let tensors: Vec<Tensor> = (0..20_000).map(|i| Tensor::bytes(&format!("t{i}"), vec![1])).collect();
    let bytes = write(&tensors, &WriteOptions::new(), &threads(1));
    let source = CountingSource::new(bytes);
    let reader = Reader::from_source(&source).unwrap();
    let control = reader.index().sections().index.end() + 16;
    assert!(source.nbytes() <= control + (64 << 10), "{} of {control}", source.nbytes());
    assert!(source.reads() <= 3);
}

#[test]
fn tensors_in_memory_are_slices_without_a_copy() {
    let floats: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensors = [
        Tensor::bytes("odd", vec![9; 3]),
        Tensor::new("f", DType::F32, &[2], floats),
        Tensor::bytes("z", vec![0; 9000]),
    ];
    for options in [lz4(), lz4().alignment(apr2::Alignment::Bytes32)] {
        let bytes = AlignedBuf::copy_from_slice(&write(&tensors, &options, &threads(1))).unwrap();
        let reader = Reader::from_source(&bytes).unwrap();
        let view = reader.tensor("f").unwrap();
        #[cfg(target_endian = "little")]
        assert_eq!(view.as_slice::<f32>().unwrap(), [1.5, -2.0]);
        assert_eq!(view.to_vec::<f32>().unwrap(), [1.5, -2.0]);
        let slice = reader.tensor_slice("f").unwrap();
        let place = slice.as_ptr() as usize - bytes.as_ptr() as usize;
        assert_eq!(Some(place as u64), reader.index().location(1).unwrap().offset);
        assert!(reader.tensor_slice("z").unwrap_err().to_string().contains("compressed"));
        assert!(reader.tensor_slice("y").is_err());
        let far = Reader::from_source(CountingSource::new(bytes.clone())).unwrap();
        assert!(far.tensor_slice("f").unwrap_err().to_string().contains("not in memory"));
    }
}

#[test]
fn files_and_sets_appear_complete_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = [Tensor::bytes("a", vec![0; 100]), Tensor::bytes("b", vec![1; 100])];
    let list = || {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let short: [&[u8]; 2] = [&[0; 100], &[0; 99]];
    let specs = || tensors.iter().map(Tensor::spec);
    let path = folder.path().join("x.apr");
    for options in [WriteOptions::new(), lz4()] {
        let plan = Plan::new(specs(), &metadata(), &options).unwrap();
        let failed = plan.write_file(&path, Overwrite::Refuse, &short, &threads(2));
        assert!(failed.unwrap_err().to_string().contains("\"b\""));
        let set = SetPlan::new("m.apr", specs(), &metadata(), &options.shard_size(1)).unwrap();
        let failed = set.write_folder(folder.path(), Overwrite::Refuse, &short, &threads(2));
        assert!(failed.unwrap_err().to_string().contains("\"b\""));
        assert!(list().is_empty(), "{:?}", list());
    }
    let plan = Plan::new(specs(), &metadata(), &lz4()).unwrap();
    plan.write_file(&path, Overwrite::Refuse, &values(&tensors), &threads(2)).unwrap();
    assert!(plan.write_file(&path, Overwrite::Refuse, &values(&tensors), &threads(2)).is_err());
    plan.write_file(&path, Overwrite::Replace, &values(&tensors), &threads(2)).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.tensor("b").unwrap().bytes(), [1; 100]);
    assert!(reader.verify(VerifyLevel::Full).is_ok());
    let set = SetPlan::new("m.apr", specs(), &metadata(), &lz4().shard_size(1)).unwrap();
    set.write_folder(folder.path(), Overwrite::Refuse, &values(&tensors), &threads(2)).unwrap();
    assert_eq!(list(), ["m-00001-of-00002.apr", "m-00002-of-00002.apr", "m.apr", "x.apr"]);
    let set = SetReader::open(folder.path().join("m.apr")).unwrap();
    assert_eq!(set.tensor("b").unwrap().bytes(), [1; 100]);
    assert!(set.verify(VerifyLevel::Full).is_ok());
}

#[test]
fn what_apr2_cannot_hold_is_named() {
    let long = "x".repeat(65_536);
    let spec = TensorSpec::new;
    let plan = |spec| Plan::new([spec], &metadata(), &WriteOptions::new()).unwrap_err().to_string();
    for (text, words) in [
        (plan(spec("w", DType::F64, vec![1])), "tensor 0 \"w\": APR2 has no code for f64"),
        (plan(spec("", DType::F32, vec![1])), "the name is empty"),
        (plan(spec(&long, DType::F32, vec![1])), "65536 bytes"),
        (plan(spec("w", DType::F32, vec![1; 9])), "9 dimensions"),
        (plan(spec("w", DType::Q8_0, vec![33])), "whole blocks of q8_0"),
        (plan(spec("w", DType::F32, vec![1 << 62])), "more elements"),
        (plan(spec("w", DType::U8, vec![(1 << 63) - 1])), "2^63"),
        (plan(TensorSpec::declared("w", DType::F32, vec![1])), "without values"),
    ] {
        assert!(text.contains(words), "{text}");
    }
    let twice = Plan::new(["a", "a"].map(|n| spec(n, DType::U8, vec![1])), &metadata(), &WriteOptions::new());
    assert!(twice.unwrap_err().to_string().contains("twice"));
    let two = [spec("a", DType::U8, vec![1]), spec("a", DType::U8, vec![1])];
    let twice = SetPlan::new("m.apr", two, &metadata(), &WriteOptions::new().shard_size(1));
    assert!(twice.unwrap_err().to_string().contains("twice"));
    for (key, words) in [("model_type", "model_type"), ("architecture", "architecture")] {
        let mut object = metadata().into_object();
        object.remove(key);
        let error = Plan::new([], &object.into(), &WriteOptions::new()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    // The writer adds the version.
    let mut object = metadata().into_object();
    object.remove("apr_version");
    Plan::new([], &object.into(), &WriteOptions::new()).unwrap();
    assert!(SetPlan::new("../m.apr", [], &metadata(), &WriteOptions::new()).is_err());
}
