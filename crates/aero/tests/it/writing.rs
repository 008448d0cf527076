//! What the writers refuse, and what they leave behind on errors.
#![cfg(feature = "zstd")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "helpers of tests")]

use std::io;
use std::ops::ControlFlow;

use crate::common::{metadata, model, object};
use aero::ReaderExt as _;
use aero::modelfmt_core::value::Object;
use aero::write::{BoxError, MemoryFile, Overwrite, Sink, TensorData};
use aero::{
    ChunkFlags, ChunkWriter, DType, Execution, Fault, FourCC, NewChunk, Plan, Reader, TensorSpec,
    VerifyLevel, WriteError, WriteOptions,
};

fn refused(specs: Vec<TensorSpec<'_>>, metadata: &Object, options: &WriteOptions) -> Fault {
    match Plan::new(specs, metadata, options) {
        Err(WriteError::Unsupported { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_aero_cannot_hold_is_refused() {
    let one = |dtype| vec![TensorSpec::new("a", dtype, vec![32])];
    let options = WriteOptions::new();
    assert_eq!(refused(one(DType::F8E4M3), &metadata(), &options), Fault::NoCode(DType::F8E4M3));
    assert_eq!(refused(one(DType::C64), &metadata(), &options), Fault::NoCode(DType::C64));
    let declared = vec![TensorSpec::declared("a", DType::F32, vec![2])];
    assert_eq!(refused(declared, &metadata(), &options), Fault::Declared);
    let twice = vec![TensorSpec::new("a", DType::F32, vec![2]), TensorSpec::new("a", DType::F32, vec![2])];
    assert!(matches!(refused(twice, &metadata(), &options), Fault::Common(_)));
    let huge = vec![TensorSpec::new("a", DType::F32, vec![1 << 62])];
    assert!(matches!(refused(huge, &metadata(), &options), Fault::Common(_)));
    let large = (0..3).map(|n| TensorSpec::new(n.to_string(), DType::U8, vec![1 << 62])).collect();
    assert!(matches!(refused(large, &metadata(), &options), Fault::TooMuch { .. }));
    let long = vec![TensorSpec::new("x".repeat(65_536), DType::F32, vec![2])];
    assert_eq!(refused(long, &metadata(), &options), Fault::TooMuch { found: 65_536, max: 65_535 });
    let rank = vec![TensorSpec::new("a", DType::F32, vec![1; 256])];
    assert_eq!(refused(rank, &metadata(), &options), Fault::TooMuch { found: 256, max: 255 });
    let nameless = object([("architecture", "demo".into())]);
    assert_eq!(refused(vec![], &nameless, &options), Fault::NoModelKey);
    let number = object([("architecture", "demo".into()), ("model_name", 1.into())]);
    assert_eq!(refused(vec![], &number, &options), Fault::NoModelKey);
    // Readers would reverse the shapes.
    let mut gguf = metadata();
    gguf.insert("source_format", "gguf");
    assert_eq!(refused(vec![], &gguf, &options), Fault::SourceFormat);
    assert_eq!(refused(vec![], &metadata(), &options.clone().shard_size(0)), Fault::Zero);
    assert_eq!(refused(vec![], &metadata(), &options.clone().page_hashes(Some(0))), Fault::Zero);
    let own = options.chunk(NewChunk::new(FourCC::TIDX, "mine"), "");
    assert_eq!(refused(vec![], &metadata(), &own), Fault::SecondIndex);
}

#[test]
fn chunks_that_readers_would_refuse_are_refused() {
    let sink = MemoryFile::new();
    let begin = |chunks: Vec<NewChunk>| match ChunkWriter::new(&sink, [0; 16], chunks) {
        Err(WriteError::Unsupported { fault, .. }) => fault,
        other => panic!("{:?}", other.map(|_| ())),
    };
    let chunk = |name: &str| NewChunk::new(FourCC(*b"DATA"), name);
    assert_eq!(begin(vec![chunk("a\0b")]), Fault::Nul);
    assert_eq!(begin(vec![chunk("a"), chunk("a")]), Fault::DuplicateChunk(FourCC(*b"DATA")));
    assert_eq!(begin(vec![chunk("ihsh")]), Fault::ControlName(FourCC(*b"DATA")));
    let shard = NewChunk::new(FourCC::WTSH, "w").with_flags(ChunkFlags::COMPRESSED_ZSTD);
    assert_eq!(begin(vec![shard]), Fault::Compressed(FourCC::WTSH));
    let many = (0..1_000_001).map(|n| chunk(&n.to_string())).collect();
    assert_eq!(begin(many), Fault::TooMuch { found: 1_000_001, max: 1_000_000 });
    let long = begin(vec![chunk(&"n".repeat(4_097))]);
    assert_eq!(long, Fault::TooMuch { found: 4_097, max: 4_096 });
    assert!(ChunkWriter::new(&sink, [0; 16], vec![chunk(&"n".repeat(4_096))]).is_ok());
    let zstd = chunk("a").with_flags(ChunkFlags::COMPRESSED_ZSTD);
    let mut writer = ChunkWriter::new(&sink, [0; 16], vec![zstd, chunk("b")]).unwrap();
    assert!(matches!(writer.place(0, 5), Err(WriteError::Unsupported { fault: Fault::ChunkUse(_), .. })));
    assert!(matches!(
        writer.seal(1, [0; 32]),
        Err(WriteError::Unsupported { fault: Fault::ChunkUse(_), .. })
    ));
    assert!(matches!(writer.put(2, ""), Err(WriteError::Unsupported { fault: Fault::NoChunk, .. })));
    let zeros = writer.put(0, vec![0; 64 << 20]);
    assert!(matches!(zeros, Err(WriteError::Unsupported { fault: Fault::Expansion { .. }, .. })));
    writer.put(1, "x").unwrap();
    assert!(matches!(writer.put(1, "x"), Err(WriteError::Unsupported { fault: Fault::ChunkUse(_), .. })));
    assert!(matches!(writer.finish(), Err(WriteError::Unsupported { fault: Fault::ChunkUse(_), .. })));
}

#[test]
fn own_chunks_go_beside_a_model_or_by_themselves() {
    let own = FourCC(*b"TOKN");
    let zstd = NewChunk::new(own, "z").with_flags(ChunkFlags::COMPRESSED_ZSTD);
    let options = WriteOptions::new().chunk(NewChunk::new(own, "a"), "abc").chunk(zstd, vec![7; 1000]);
    let reader = Reader::from_source(model(&[10], &options.control_hash(true))).unwrap();
    assert_eq!(*reader.chunk(own, "a").unwrap(), *b"abc");
    assert_eq!(*reader.chunk(own, "z").unwrap(), [7; 1000]);
    assert!(reader.verify(VerifyLevel::Full).is_ok());

    let file = MemoryFile::new();
    let mapped = NewChunk::new(own, "m").with_flags(ChunkFlags::CHUNK_IS_MMAP_CRITICAL);
    let mut writer = ChunkWriter::new(&file, [1; 16], vec![NewChunk::new(own, "a"), mapped]).unwrap();
    writer.put(0, "abc").unwrap();
    let at = writer.place(1, 5).unwrap();
    assert_eq!(at % 64, 0);
    file.write_at(at, b"12345").unwrap();
    writer.seal(1, *blake3::hash(b"12345").as_bytes()).unwrap();
    let len = writer.finish().unwrap();
    let bytes = file.into_bytes();
    assert_eq!(bytes.len() as u64, len);
    let reader = Reader::from_source(bytes).unwrap();
    assert_eq!(*reader.chunk(own, "m").unwrap(), *b"12345");
    assert!(reader.verify(VerifyLevel::Full).is_ok());
}

struct Failing;

impl TensorData for Failing {
    fn read(&self, tensor: usize, _: u64, out: &mut [u8]) -> Result<(), BoxError> {
        if tensor == 1 {
            return Err("the disk is gone".into());
        }
        out.fill(0);
        Ok(())
    }
}

struct Full;

impl Sink for Full {
    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.aero");
    let specs = ["a", "b"].map(|name| TensorSpec::new(name, DType::U8, vec![10]));
    let plan = Plan::new(specs, &metadata(), &WriteOptions::new()).unwrap();
    let error = plan.write_file(&path, Overwrite::Refuse, &Failing, &Execution::default()).unwrap_err();
    assert!(matches!(&error, WriteError::Data { name, .. } if name == "b"), "{error}");
    let stop = |_: u64| ControlFlow::Break(());
    let stopped = Execution { threads: 2, progress: Some(&stop) };
    let data = [[1u8; 10], [2; 10]];
    let error = plan.write_file(&path, Overwrite::Refuse, &data, &stopped).unwrap_err();
    assert!(matches!(error, WriteError::Cancelled), "{error}");
    assert!(matches!(plan.write(&data, &Full, &Execution::default()), Err(WriteError::Write { .. })));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    plan.write_file(&path, Overwrite::Refuse, &data, &Execution::default()).unwrap();
    assert!(matches!(
        plan.write_file(&path, Overwrite::Refuse, &data, &Execution::default()),
        Err(WriteError::Write { .. })
    ));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.tensor("b").unwrap().bytes(), [2; 10]);
    let report = reader.verify_with(VerifyLevel::Full, &stopped);
    assert!(!report.is_ok(), "what was stopped has not been verified");
}
