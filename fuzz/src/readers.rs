//! Raw bytes: any input, every reader, from memory and by ranges.

use std::fmt::Display;
use std::sync::Arc;

use modelfmt::Model;
use tensor_core::Container;
use tensor_core::source::{MemoryFiles, any_files};
use testkit::{CountingAllocator, CountingSource, peak};

use super::drill::{drill, limits};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// What a reader may hold while it opens `len` bytes. The factor is that of JSON, of which two bytes can be a value;
/// indexes take far less: docs/ROBUSTNESS.md has the measurements.
#[must_use]
pub fn open_bound(len: usize) -> usize {
    (16 << 10) + 40 * len
}

/// What compressed metadata may expand to under [`limits`], several times over while it grows.
const EXPANSION: usize = 4 << 20;

/// The source that gives ranges only, and counts them.
pub(crate) type Ranges<'a> = CountingSource<&'a [u8]>;

/// Opens the bytes from memory and by ranges, and puts both readers through the drill: they must see the same.
pub(crate) fn both<'a, M, R, E>(
    bytes: &'a [u8],
    bound: usize,
    from_memory: impl FnOnce(&'a [u8]) -> Result<M, E>,
    by_ranges: impl FnOnce(Ranges<'a>) -> Result<R, E>,
    source: impl FnOnce(&R) -> &Ranges<'a>,
) -> Option<String>
where
    M: Container,
    R: Container,
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
            let seen = drill(&memory);
            assert_eq!(seen, drill(&ranges), "memory and ranges agree");
            Some(seen)
        }
        (Err(memory), Err(ranges)) => {
            assert_eq!(memory.to_string(), ranges.to_string(), "memory and ranges agree");
            None
        }
        (memory, ranges) => {
            panic!("from memory {:?}, by ranges {:?}", refusal(memory), refusal(ranges));
        }
    }
}

fn refusal<T, E: Display>(opened: Result<T, E>) -> Option<String> {
    opened.err().map(|error| error.to_string())
}

pub(crate) fn aero(bytes: &[u8]) {
    let options = aero::OpenOptions::new().limits(limits());
    both(
        bytes,
        EXPANSION + 64 * open_bound(bytes.len()),
        |b| options.open_source(b),
        |r| options.open_source(r),
        aero::Reader::source,
    );
}

pub(crate) fn apr2(bytes: &[u8]) {
    let options = apr2::OpenOptions::new().limits(limits());
    both(
        bytes,
        open_bound(bytes.len()),
        |b| options.open_source(b),
        |r| options.open_source(r),
        apr2::Reader::source,
    );
}

pub(crate) fn gguf(bytes: &[u8]) {
    let options = modelfmt_gguf::OpenOptions::new().limits(limits());
    both(
        bytes,
        open_bound(bytes.len()),
        |b| options.open_source(b),
        |r| options.open_source(r),
        modelfmt_gguf::Reader::source,
    );
}

/// Also without its checksum, which stops nearly every mutation.
pub(crate) fn mag(bytes: &[u8]) {
    for ignore in [false, true] {
        let options = mag::OpenOptions::new().limits(limits()).ignore_checksum(ignore);
        both(
            bytes,
            open_bound(bytes.len()),
            |b| options.open_source(b),
            |r| options.open_source(r),
            mag::Reader::source,
        );
    }
}

pub(crate) fn oinf(bytes: &[u8]) {
    let options = oinf::OpenOptions::new().limits(limits());
    both(
        bytes,
        open_bound(bytes.len()),
        |b| options.open_source(b),
        |r| options.open_source(r),
        oinf::Reader::source,
    );
}

pub(crate) fn safetensors(bytes: &[u8]) {
    let options = modelfmt_safetensors::OpenOptions::new().limits(limits());
    both(
        bytes,
        open_bound(bytes.len()),
        |b| options.open_source(b),
        |r| options.open_source(r),
        modelfmt_safetensors::Reader::source,
    );
}

/// Through the umbrella, which tells the format by itself; beside the input there is nothing.
pub(crate) fn model(bytes: &[u8]) {
    let options = modelfmt::OpenOptions::new().limits(limits());
    let files = || Some(any_files(MemoryFiles::default()));
    let memory = options.open_source("input", Box::new(bytes.to_vec()), files());
    let ranges =
        options.open_source("input", Box::new(CountingSource::new(Arc::<[u8]>::from(bytes))), files());
    match (memory, ranges) {
        (Ok(memory), Ok(ranges)) => assert_eq!(listed(&memory), listed(&ranges)),
        (memory, ranges) => assert_eq!(refusal(memory), refusal(ranges)),
    }
}

fn listed(model: &Model) -> String {
    format!(
        "{} {:?} {}",
        model.format(),
        model.open_all().map_err(|e| e.to_string()),
        drill(model.container())
    )
}
