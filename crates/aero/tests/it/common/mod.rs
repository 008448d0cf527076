//! Good and bad files for the tests.
#![allow(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "lengths of test inputs"
)]

use aero::modelfmt_core::Status;
use aero::modelfmt_core::value::{Object, Value};
use aero::write::MemoryFile;
use aero::{
    ChunkFlags, ChunkWriter, DType, Error, Execution, Fault, FourCC, NewChunk, Plan, Reader, Report,
    TensorSpec, WriteOptions,
};
use testkit::{CountingSource, bounded};

/// Returns the MJSN of a small model.
pub(crate) fn metadata() -> Object {
    object([("model_name", "tiny".into()), ("architecture", "demo".into()), ("layers", 2.into())])
}

/// Returns an object with these pairs.
pub(crate) fn object<const N: usize>(pairs: [(&str, Value); N]) -> Object {
    Object::from_iter(pairs)
}

/// Returns bytes without a pattern.
pub(crate) fn noise(nbytes: usize, seed: usize) -> Vec<u8> {
    let byte = |i: u64| ((i ^ seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
    (0..nbytes as u64).map(byte).collect()
}

/// Writes a model with byte tensors of these sizes, named `t0` and so on.
pub(crate) fn model(sizes: &[usize], options: &WriteOptions) -> Vec<u8> {
    let specs = sizes
        .iter()
        .enumerate()
        .map(|(n, &len)| TensorSpec::new(format!("t{n}"), DType::U8, vec![len as u64]));
    let plan = Plan::new(specs, &metadata(), &options.clone().uuid([7; 16])).unwrap();
    let data: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(n, &len)| noise(len, n)).collect();
    let file = MemoryFile::new();
    plan.write(&data, &file, &Execution::sequential()).unwrap();
    file.into_bytes()
}

/// Writes a file with these chunks (type, name, flags, content) and correct hashes.
pub(crate) fn file(chunks: &[(&[u8; 4], &str, u32, &[u8])]) -> Vec<u8> {
    let new = |&(fourcc, name, flags, _): &(&[u8; 4], &str, u32, &[u8])| {
        NewChunk::new(FourCC(*fourcc), name).with_flags(ChunkFlags(flags))
    };
    let file = MemoryFile::new();
    let mut writer = ChunkWriter::new(&file, [7; 16], chunks.iter().map(new).collect()).unwrap();
    for (number, (fourcc, _, _, content)) in chunks.iter().enumerate() {
        if *fourcc != b"IHSH" {
            writer.put(number, *content).unwrap();
        }
    }
    writer.finish().unwrap();
    file.into_bytes()
}

/// Returns a file with a shard of 256 bytes and this tensor index.
pub(crate) fn with_index(content: &[u8]) -> Vec<u8> {
    file(&[(b"WTSH", "weights.shard0", 2, &noise(256, 0)), (b"TIDX", "tensors", 4, content)])
}

/// Encodes a tree as MessagePack.
pub(crate) fn msgpack(tree: impl Into<Value>) -> Vec<u8> {
    rmp_serde::to_vec(&tree.into()).unwrap()
}

/// Returns an entry of a tensor index: f32 [2, 3] at byte 64 of shard 0.
pub(crate) fn entry(name: &str) -> Object {
    object([
        ("name", name.into()),
        ("dtype", 1.into()),
        ("shape", [2u64, 3].into_iter().collect()),
        ("shard_id", 0.into()),
        ("data_off", 64.into()),
        ("data_len", 24.into()),
        ("flags", 0.into()),
    ])
}

/// Returns the entry with another value under a key.
pub(crate) fn with(mut entry: Object, key: &str, value: impl Into<Value>) -> Object {
    entry.insert(key, value);
    entry
}

/// Encodes a tensor index with these entries.
pub(crate) fn index(entries: impl IntoIterator<Item = Object>) -> Vec<u8> {
    msgpack(object([("tensors", entries.into_iter().collect())]))
}

/// Returns the offset of TOC entry `n` in a file that this crate wrote.
pub(crate) const fn toc(n: usize) -> usize {
    112 + 80 * n
}

/// Corrects the hash of TOC entry `n` for what the chunk, uncompressed, now holds.
pub(crate) fn rehashed(mut file: Vec<u8>, n: usize) -> Vec<u8> {
    let number = |file: &[u8], at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (offset, length) = (number(&file, toc(n) + 8), number(&file, toc(n) + 16));
    let hash = blake3::hash(&file[offset..offset + length]);
    file[toc(n) + 48..toc(n) + 80].copy_from_slice(hash.as_bytes());
    file
}

/// Opens the file in memory and by ranges. Both must agree.
pub(crate) fn open(file: &[u8]) -> Result<Reader<&[u8]>, Error> {
    let in_memory = bounded(file.len(), || Reader::from_source(file));
    let source = CountingSource::new(file.to_vec());
    let by_ranges = bounded(file.len(), || Reader::from_source(source));
    match (&in_memory, &by_ranges) {
        (Ok(_), Ok(_)) => {}
        (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string(), "ranges and memory disagree"),
        _ => panic!("ranges and memory disagree: {:?}, {:?}", in_memory.is_ok(), by_ranges.is_ok()),
    }
    in_memory
}

pub(crate) fn malformed(rule: &str, file: &[u8]) -> (u64, Fault) {
    match open(file) {
        Err(Error::Malformed { at, fault, .. }) => (at, fault),
        Err(other) => panic!("{rule}: {other}"),
        Ok(_) => panic!("{rule}: opens"),
    }
}

pub(crate) fn number(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap())
}

/// Returns a good file. Its entries are 0 MJSN, 1 MMSG, 2 TIDX, 3 WTSH, 4 WTSH, and its names begin at byte
/// 512.
pub(crate) fn good() -> Vec<u8> {
    let file = model(&[100, 200], &WriteOptions::new().zstd(None).shard_size(100));
    assert_eq!((&file[toc(0)..][..4], &file[toc(4)..][..4]), (&b"MJSN"[..], &b"WTSH"[..]));
    assert_eq!(&file[NAMES..][..9], b"meta.json");
    file
}
pub(crate) const NAMES: usize = 512;

pub(crate) fn failed(report: &Report, check: &str) -> bool {
    report.check(check).is_some_and(|check| check.status == Status::Failed)
}
