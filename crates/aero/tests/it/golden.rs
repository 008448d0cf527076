//! Golden files, which never change: each reads as its text dump says, and is written again byte for byte.
#![cfg(all(feature = "set", feature = "zstd"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::fs;
use std::path::Path;

use aero::ReaderExt as _;
use aero::SetReaderExt as _;
use aero::modelfmt_core::value::Value;
use aero::modelfmt_core::{AlignedBuf, TensorError};
use aero::write::{MemoryFile, MemoryFolder};
use aero::{
    ChunkFlags, Execution, FourCC, NewChunk, Plan, Reader, SetPlan, SetReader, Source, TensorSpec,
    VerifyLevel, WriteOptions,
};

/// Files that our writer would lay out differently.
const NOT_OURS: &[&str] = &["foreign"];

#[test]
fn golden_files_hold_what_their_text_says() {
    for path in testkit::golden_files("aero", "aero") {
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        let found = testkit::dump(&Reader::open(&path).unwrap());
        assert_eq!(found, expected, "{}", path.display());
        let found = testkit::dump(&Reader::from_source(fs::read(&path).unwrap()).unwrap());
        assert_eq!(found, expected, "{} in memory", path.display());
    }
}

/// Returns the options that a file was written with, as far as the file shows them.
fn options<S: Source>(reader: &Reader<S>, shard_size: u64) -> WriteOptions {
    let index = reader.index();
    let compressed = index.chunks().any(|chunk| chunk.flags.is_compressed());
    let pages = index.chunks().find(|chunk| chunk.fourcc == FourCC::PHSH).map(|_| 64);
    let own = |chunk: &aero::Chunk<'_>| {
        !b"IHSH MJSN MMSG TIDX WTSH PHSH".windows(4).any(|known| known == chunk.fourcc.0)
    };
    let options = WriteOptions::new()
        .uuid(index.uuid())
        .zstd(compressed.then_some(3))
        .control_hash(index.chunks().any(|chunk| chunk.fourcc == FourCC::IHSH))
        .tensor_hashes(index.entry(0).is_some_and(|entry| entry.hash_b3.is_some()))
        .page_hashes(pages)
        .shard_size(shard_size);
    index.chunks().filter(own).fold(options, |options, chunk| {
        let content = reader.chunk(chunk.fourcc, chunk.name).unwrap().to_vec();
        options.chunk(NewChunk::new(chunk.fourcc, chunk.name).with_flags(chunk.flags), content)
    })
}

fn shard_size(path: &Path) -> u64 {
    match path.file_stem().unwrap().to_str().unwrap() {
        "shards" => 100,
        "hashes" | "zstd-hashes" => 200,
        _ => 2 << 30,
    }
}

#[test]
fn golden_files_are_written_again_byte_for_byte() {
    for path in testkit::golden_files("aero", "aero") {
        if NOT_OURS.contains(&path.file_stem().unwrap().to_str().unwrap()) {
            continue;
        }
        let reader = Reader::open(&path).unwrap();
        let options = options(&reader, shard_size(&path));
        let specs = reader.tensors().iter().map(TensorSpec::from);
        let plan = Plan::new(specs, &reader.metadata().unwrap(), &options).unwrap();
        let read = |position| reader.tensor(position).unwrap().bytes().to_vec();
        let values: Vec<_> = (0..reader.tensors().len()).map(read).collect();
        let file = MemoryFile::new();
        plan.write(&values, &file, &Execution::default()).unwrap();
        assert!(file.into_bytes() == fs::read(&path).unwrap(), "{}", path.display());
    }
}

#[test]
fn the_set_is_read_and_written_again() {
    let folder = testkit::testdata("aero").join("set");
    let set = SetReader::open(&folder).unwrap();
    assert_eq!(testkit::dump(&set), fs::read_to_string(folder.join("model.txt")).unwrap());
    let report = set.verify(VerifyLevel::Full);
    assert!(report.is_ok(), "{:?}", report.errors);
    let options =
        options(set.global().unwrap(), 100).tensor_hashes(true).page_hashes(Some(64)).shards_per_part(2);
    let tensors = set.global().unwrap().tensors();
    let specs = tensors.iter().map(TensorSpec::from);
    let plan = SetPlan::new("model.aeroset.json", specs, &set.metadata().unwrap(), &options).unwrap();
    let values: Vec<_> = tensors.iter().map(|info| set.tensor(info.name).unwrap().bytes().to_vec()).collect();
    let written = MemoryFolder::default();
    plan.write(&values, &written, &Execution::default()).unwrap();
    let files = written.files().0;
    assert_eq!(files.len(), fs::read_dir(&folder).unwrap().count() - 1, "all but the dump");
    for (path, bytes) in files {
        assert!(*bytes == *fs::read(folder.join(&path)).unwrap(), "{path}");
    }
}

#[test]
fn what_other_writers_leave_is_kept_for_who_asks() {
    let reader = Reader::open(testkit::testdata("aero").join("foreign.aero")).unwrap();
    let index = reader.index();
    assert_eq!(index.entry(0).unwrap().flags, 5);
    let unknown = index.unknown_keys(1).unwrap();
    assert_eq!(unknown.get("zone"), Some(&Value::from(vec![Value::Bool(true)])));
    assert_eq!(unknown.len(), 1);
    // quant_params are absent, so the descriptor says what the blocks are.
    let blocks = index.tensors().tensor("blocks").unwrap();
    assert_eq!((blocks.dtype, blocks.shape), (aero::DType::Q4_0, &[1, 32][..]));
    assert_eq!((index.entry(3).unwrap().quant_id, index.quant_params(3)), (Some(3), None));
    assert_eq!(reader.tensor("a").unwrap().bytes(), reader.tensor("tied to a").unwrap().bytes());
    assert_eq!(index.chunk(0).unwrap().flags, ChunkFlags(0x8000_0010));
    assert_eq!(index.location(0).unwrap().offset, index.location(2).unwrap().offset);
}

#[test]
fn files_by_the_formats_own_tool_hold_what_it_put_there() {
    for file in ["one-shard.aero", "many-shards.aero"] {
        let reader = Reader::open(testkit::testdata("reference").join(file)).unwrap();
        let _ = testkit::as_expected(file, &reader);
        let json = reader.metadata().unwrap();
        assert_eq!(json.required_str("model_name"), Ok("reference"));
        let manifest = Value::from(reader.manifest().unwrap().unwrap());
        assert_eq!(manifest.path(["model", "architecture"]).and_then(Value::as_str), Some("demo"));
    }
    for path in ["aeroset", "aeroset/model.aeroset.json"] {
        let set = SetReader::open(testkit::testdata("reference").join(path)).unwrap();
        let _ = testkit::as_expected("aeroset/model.aeroset.json", &set);
        assert_eq!(set.index().version(), (0, 1));
    }
}

#[test]
fn files_of_later_revisions_hold_what_was_put_there() {
    let mut seen = 0;
    for entry in testkit::testdata("reference/aero").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = format!("aero/{}", path.file_name().unwrap().to_str().unwrap());
        let reader = Reader::open(&path).unwrap();
        let expected = testkit::as_expected(&name, &reader);
        let json = Value::from(reader.metadata().unwrap());
        assert_eq!(Some(&json), expected.path(["metadata", "json"]), "{name}");
        // Files that were converted from GGUF have its padding after the values.
        let stored = |position| reader.index().location(position).unwrap().stored_nbytes;
        let info = reader.index().tensors().info(0).unwrap();
        let is_gguf = json.get("source_format").and_then(Value::as_str) == Some("gguf");
        assert_eq!(stored(0), if is_gguf { 32 } else { info.nbytes }, "{name}");
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn unaligned_tensors_say_so_and_can_be_copied() {
    let bytes = fs::read(testkit::testdata("reference").join("one-shard.aero")).unwrap();
    let reader = Reader::from_source(AlignedBuf::copy_from_slice(&bytes).unwrap()).unwrap();
    let tensor = reader.tensor("after.odd.f32").unwrap();
    let refused = tensor.as_slice::<f32>().unwrap_err();
    // Aligned or not, a big-endian machine cannot borrow the values.
    let expected = if cfg!(target_endian = "big") {
        TensorError::Endianness
    } else {
        TensorError::Unaligned { alignment: align_of::<f32>() }
    };
    assert_eq!(refused, expected);
    assert_eq!(tensor.to_vec::<f32>().unwrap().len(), 5);
}
