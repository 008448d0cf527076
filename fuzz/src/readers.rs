//! Passes any bytes to every reader, from memory and by ranges.

use std::fmt::Display;
use std::sync::Arc;

use modelfmt::Model;
use modelfmt_core::source::{MemoryFiles, shared_files};
use modelfmt_core::{Container, Execution, OpenOptions, VerifyLevel, author::FileIndex};
use testkit::{CountingAllocator, CountingSource, peak};

use super::drill::{Depth, drill, limits};
use super::{differ, drivers};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns the memory that a reader may hold while it opens `len` bytes: four times as much, the bytes that
/// it has fetched, and a little.
#[must_use]
pub fn open_bound(len: usize) -> usize {
    (16 << 10) + 5 * len
}

/// The expansion of compressed metadata under [`limits`], several times over while the buffer grows.
const EXPANSION: usize = 4 << 20;

/// The most bytes of a file's tensors that are read with verification.
const MAX_VERIFIED: u64 = 1 << 20;

/// A source that only returns ranges, and counts them.
pub(crate) type Ranges<'a> = CountingSource<&'a [u8]>;

/// Opens the bytes from memory and by ranges, and puts both readers through the drill: they must return the
/// same. Returns whether the bytes can be opened.
pub(crate) fn both<'a, M, R, E>(
    bytes: &'a [u8],
    depth: Depth,
    bound: usize,
    from_memory: impl FnOnce(&'a [u8]) -> Result<M, E>,
    by_ranges: impl FnOnce(Ranges<'a>) -> Result<R, E>,
    source: impl FnOnce(&R) -> &Ranges<'a>,
) -> bool
where
    M: Container + Sync,
    R: Container + Sync,
    E: Display,
{
    let (memory, held) = peak(|| from_memory(bytes));
    assert!(held <= bound, "{held} bytes were held to open {} bytes", bytes.len());
    let (ranges, held) = peak(|| by_ranges(CountingSource::new(bytes)));
    assert!(held <= bound, "{held} bytes were held to open {} bytes by ranges", bytes.len());
    match (memory, ranges) {
        (Ok(memory), Ok(ranges)) => {
            let read = source(&ranges).nbytes();
            assert!(read <= 2 * bytes.len() as u64, "{read} bytes were read to open {}", bytes.len());
            drill(&memory, depth).assert_same(&drill(&ranges, depth), depth);
            true
        }
        (Err(memory), Err(ranges)) => {
            assert_eq!(memory.to_string(), ranges.to_string(), "memory and ranges agree");
            false
        }
        (memory, ranges) => {
            panic!("from memory {:?}, by ranges {:?}", refusal(memory), refusal(ranges));
        }
    }
}

fn refusal<T, E: Display>(opened: Result<T, E>) -> Option<String> {
    opened.err().map(|error| error.to_string())
}

/// Tests a format whose files are an index and values.
fn file<I>(bytes: &[u8], depth: Depth, ignore_checksum: bool) -> bool
where
    I: FileIndex + Send + Sync,
{
    bounded_file::<I>(bytes, depth, ignore_checksum, open_bound(bytes.len()))
}

/// Like [`file`], with another bound for the memory of opening.
fn bounded_file<I>(bytes: &[u8], depth: Depth, ignore_checksum: bool, bound: usize) -> bool
where
    I: FileIndex + Send + Sync,
{
    let options = OpenOptions::<I>::new().limits(limits()).ignore_checksum(ignore_checksum);
    if depth.is_whole() {
        drivers::same::<I>(bytes, options.settings());
    }
    both(
        bytes,
        depth,
        bound,
        |b| options.open_source(b),
        |r| options.open_source(r),
        |reader| reader.source(),
    )
}

pub fn aero(bytes: &[u8], depth: Depth) {
    let options = aero::OpenOptions::new().limits(limits());
    if depth.is_whole() {
        drivers::same::<aero::Index>(bytes, options.settings());
        if let Ok(reader) = options.open_source(bytes) {
            verified(&reader);
        }
    }
    both(
        bytes,
        depth,
        EXPANSION + 256 * bytes.len(),
        |b| options.open_source(b),
        |r| options.open_source(r),
        |reader| reader.source(),
    );
}

/// Values that are verified while they are read are the same, and whatever fails is also found by `verify`.
fn verified(reader: &aero::Reader<&[u8]>) {
    let report = reader.verify_with(VerifyLevel::Full, &Execution::sequential());
    let mut budget = MAX_VERIFIED;
    for position in 0..reader.tensor_count() {
        let Ok(plain) = reader.tensor(position) else { continue };
        let nbytes = plain.bytes().len() as u64;
        let Some(rest) = budget.checked_sub(nbytes) else { break };
        budget = rest;
        let third = nbytes / 3..nbytes - nbytes / 3;
        let whole = reader.checked().tensor(position).map(|tensor| tensor.bytes().to_vec());
        let part = reader.checked().read_range(position, third.clone()).map(|bytes| bytes.to_vec());
        let third = third.start as usize..third.end as usize;
        for (found, expected) in [(whole, plain.bytes()), (part, &plain.bytes()[third])] {
            match found {
                Ok(found) => assert!(found == expected, "the values of tensor {position}"),
                Err(aero::Error::NoHash { .. }) => {}
                Err(error) => assert!(!report.is_ok(), "verify finds nothing, but {error}"),
            }
        }
    }
}

/// Also ignores the checksum of the header, which would stop nearly every mutation, and tests files of the
/// first generation.
pub fn apr(bytes: &[u8], depth: Depth) {
    if bytes.starts_with(b"APRN") {
        file::<apr::v1::Index>(bytes, depth, false);
    }
    // Opening expands content that is compressed as a whole, if a flag says that it may be.
    let is_compressed = bytes.get(6).is_some_and(|flags| flags & 3 != 0);
    let expanded = if is_compressed { EXPANSION + 256 * bytes.len() } else { 0 };
    bounded_file::<apr::Index>(bytes, depth, true, open_bound(bytes.len()) + expanded);
}

/// Also tests the reader that does not know seals.
pub fn apr2(bytes: &[u8], depth: Depth) {
    file::<apr2_seal::Index>(bytes, depth, false);
    file::<apr2::Index>(bytes, depth, false);
}

pub fn gguf(bytes: &[u8], depth: Depth) {
    file::<modelfmt_gguf::Index>(bytes, depth, false);
}

/// Also ignores the checksum, which would stop nearly every mutation.
pub fn mag(bytes: &[u8], depth: Depth) {
    // A file that opens with its checksum has already been drilled.
    if !file::<mag::Index>(bytes, depth, false) || depth.is_whole() {
        file::<mag::Index>(bytes, depth, true);
    }
}

pub fn oinf(bytes: &[u8], depth: Depth) {
    file::<oinf::Index>(bytes, depth, false);
}

pub fn safetensors(bytes: &[u8], depth: Depth) {
    file::<modelfmt_safetensors::Index>(bytes, depth, false);
}

/// Tests a format that is read in several windows, which overlap in a short file, and whose values are
/// located by the index.
fn archive<I>(bytes: &[u8], depth: Depth)
where
    I: FileIndex + Send + Sync,
{
    let options = OpenOptions::<I>::new().limits(limits());
    if depth.is_whole() {
        drivers::same::<I>(bytes, options.settings());
    }
    let bound = EXPANSION + 256 * bytes.len();
    let (memory, held) = peak(|| options.open_source(bytes));
    assert!(held <= bound, "{held} bytes were held to open {} bytes", bytes.len());
    let (ranges, held) = peak(|| options.open_source(CountingSource::new(bytes)));
    assert!(held <= bound, "{held} bytes were held to open {} bytes by ranges", bytes.len());
    match (memory, ranges) {
        (Ok(memory), Ok(ranges)) => {
            let read = ranges.source().nbytes();
            assert!(
                read <= (4 << 10) + 6 * bytes.len() as u64,
                "{read} bytes were read to open {}",
                bytes.len()
            );
            drill(&memory, depth).assert_same(&drill(&ranges, depth), depth);
        }
        (Err(memory), Err(ranges)) => {
            assert_eq!(memory.to_string(), ranges.to_string(), "memory and ranges agree");
        }
        (memory, ranges) => {
            panic!("from memory {:?}, by ranges {:?}", refusal(memory), refusal(ranges));
        }
    }
}

pub fn npy(bytes: &[u8], depth: Depth) {
    archive::<modelfmt::npy::Index>(bytes, depth);
}

pub fn pytorch(bytes: &[u8], depth: Depth) {
    archive::<modelfmt::pytorch::Index>(bytes, depth);
}

/// Tests the pickle alone, in a valid archive with storages of some sizes, and in a valid stream.
pub fn pickle(bytes: &[u8], depth: Depth) {
    let (long, short) = ([7; 96], [9; 12]);
    pytorch(&testkit::torch_zip(bytes, &[("0", &long), ("1", &short)]).build(), depth);
    pytorch(&testkit::torch_stream(bytes, &[("0", 24, &long), ("1", 3, &short)]), depth);
}

/// Tests the umbrella crate, which detects the format itself. There are no other files.
pub fn model(bytes: &[u8], depth: Depth) {
    let options = modelfmt::OpenOptions::new().limits(limits());
    let files = || Some(shared_files(MemoryFiles::default()));
    let memory = options.open_source("input", Box::new(bytes.to_vec()), files());
    let ranges =
        options.open_source("input", Box::new(CountingSource::new(Arc::<[u8]>::from(bytes))), files());
    match (memory, ranges) {
        (Ok(memory), Ok(ranges)) => {
            assert_eq!(memory.format(), ranges.format());
            assert_eq!(opened_all(&memory), opened_all(&ranges));
            let flat =
                |model: &Model| modelfmt::diff::flat_metadata(model).map_err(|error| error.to_string());
            assert_eq!(flat(&memory), flat(&ranges));
            if depth.is_whole() {
                differ::alone(&memory);
            }
            let (memory, ranges) = (memory.container(), ranges.container());
            drill(memory, depth).assert_same(&drill(ranges, depth), depth);
        }
        (memory, ranges) => assert_eq!(refusal(memory), refusal(ranges)),
    }
}

fn opened_all(model: &Model) -> Option<String> {
    refusal(model.open_all())
}
