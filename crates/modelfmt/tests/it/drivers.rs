//! Every golden file through every driver: a source that never waits, a future over a source that waits, and
//! bytes fed by hand in pieces of any size and order. All see the same tensors, values, reports and errors,
//! and the same as the slow reference of the format.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cell::RefCell;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use modelfmt::modelfmt_core::plan::Slice;
use modelfmt::modelfmt_core::proof::{AsyncVerifiedSource, VerifiedSource};
use modelfmt::modelfmt_core::{AsyncReader, Bytes, Fetch, OpenFile, Reader, Source, author::FileIndex};
use modelfmt::{Execution, VerifyLevel};
use testkit::{Step, SteppedSource, Steps, block_on, error_text, reference, report_lines};

/// What a reader sees of a file.
#[derive(Debug, PartialEq)]
struct Seen {
    tensors: Vec<String>,
    values: Vec<Result<Vec<u8>, String>>,
    /// A few bytes from the middle of each tensor.
    slices: Vec<Result<Vec<u8>, String>>,
    /// Every second row without the first column; and a slice from the end. Each unchecked and checked.
    parts: Vec<Result<Vec<u8>, String>>,
    report: Vec<String>,
}

type Outcome = Result<Seen, String>;

fn middle(nbytes: u64) -> (u64, usize) {
    (nbytes / 3, usize::try_from(nbytes / 2).unwrap().min(100_000))
}

/// Returns parts of a tensor of this shape that are not contiguous.
fn parts_of(shape: &[u64]) -> Vec<Slice> {
    let texts: &[&str] = if shape.len() > 1 { &["::2,1:", "-2:,::3"] } else { &["1::2"] };
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn by_source<I: FileIndex>(bytes: &[u8]) -> Outcome {
    by_source_of::<I, _>(bytes)
}

fn by_source_of<I: FileIndex, S: Source>(source: S) -> Outcome {
    let reader = Reader::<OpenFile<I, _>>::from_source(source).map_err(error_text)?;
    let positions = 0..reader.tensors().len();
    let slice = |position: usize| {
        let (offset, len) = middle(reader.tensors().info(position).unwrap().nbytes);
        let mut out = vec![0; len];
        let slice = reader.read_into(position, offset, &mut out).map(|()| out).map_err(error_text);
        let range = reader.read_range(position, offset..offset + len as u64).map(|bytes| bytes.to_vec());
        assert_eq!(range.map_err(error_text), slice);
        slice
    };
    let parts = |position: usize| {
        let reader = &reader;
        let slices = parts_of(reader.tensors().info(position).unwrap().shape).into_iter();
        slices.flat_map(move |slice| {
            [reader.slice(position, &slice), reader.checked().slice(position, &slice)]
                .map(|part| part.map(|part| part.bytes().to_vec()).map_err(error_text))
        })
    };
    Ok(Seen {
        tensors: reader.tensors().iter().map(|info| format!("{info:?}")).collect(),
        parts: positions.clone().flat_map(parts).collect(),
        values: positions
            .clone()
            .map(|n| reader.tensor(n).map(|t| t.bytes().to_vec()).map_err(error_text))
            .collect(),
        slices: positions.map(slice).collect(),
        report: report_lines(&reader.verify_with(VerifyLevel::Full, &Execution::default())),
    })
}

async fn by_future<I: FileIndex, S: Fetch>(source: S) -> Outcome {
    let reader = AsyncReader::<OpenFile<I, _>>::from_source(source).await.map_err(error_text)?;
    let (mut values, mut slices, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for position in 0..reader.tensors().len() {
        values.push(reader.tensor(position).await.map(|tensor| tensor.bytes().to_vec()).map_err(error_text));
        let (offset, len) = middle(reader.tensors().info(position).unwrap().nbytes);
        let mut out = vec![0; len];
        let slice = reader.read_into(position, offset, &mut out).await.map(|()| out).map_err(error_text);
        let name = reader.tensors().info(position).unwrap().name;
        if reader.tensors().find(name) == Some(position) {
            let range = reader.read_range(name, offset..offset + len as u64).await;
            assert_eq!(range.map(|bytes| bytes.to_vec()).map_err(error_text), slice);
        }
        slices.push(slice);
        for slice in parts_of(reader.tensors().info(position).unwrap().shape) {
            let part = reader.slice(position, &slice).await;
            parts.push(part.map(|part| part.bytes().to_vec()).map_err(error_text));
            let part = reader.checked().slice(position, &slice).await;
            parts.push(part.map(|part| part.bytes().to_vec()).map_err(error_text));
        }
    }
    let tensors = reader.tensors().iter().map(|info| format!("{info:?}")).collect();
    Ok(Seen { tensors, values, slices, parts, report: report_lines(&reader.verify(VerifyLevel::Full).await) })
}

/// Feeds the needed bytes in pieces of at most `piece` bytes. `order` chooses which piece comes next.
fn by_hand<I: FileIndex>(bytes: &[u8], piece: u64, order: impl FnMut(usize) -> usize) -> Outcome {
    fed(bytes, piece, order, async |fed| by_future::<I, _>(fed).await)
}

fn fed<'a>(
    bytes: &[u8],
    piece: u64,
    mut order: impl FnMut(usize) -> usize,
    task: impl AsyncFnOnce(SteppedSource) -> Outcome + 'a,
) -> Outcome {
    let mut steps = Steps::new(bytes.len() as u64, task);
    loop {
        match steps.step() {
            Step::Done(outcome) => return outcome,
            Step::Need(ranges) => {
                let mut pieces: Vec<Range<u64>> =
                    ranges.into_iter().flat_map(|range| cut(range, piece)).collect();
                while !pieces.is_empty() {
                    let Range { start, end } = pieces.remove(order(pieces.len()) % pieces.len());
                    steps.feed(start, &bytes[index(start)..index(end)]);
                }
            }
        }
    }
}

fn cut(range: Range<u64>, piece: u64) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = range;
    (start..end).step_by(index(piece)).map(move |at| at..(at + piece).min(end))
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

/// A source that makes the reader wait twice for every range, and records the requested ranges.
struct Slow<'a> {
    bytes: &'a [u8],
    asked: RefCell<Vec<Range<u64>>>,
}

impl Fetch for Slow<'_> {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        self.asked.borrow_mut().push(range.clone());
        for _ in 0..2 {
            testkit::wait().await;
        }
        self.bytes.fetch(range).await
    }
}

/// With sources that check what they read, every driver sees the same as without a proof. For a damaged file
/// with the outboard and the hash of the good one, it sees the good values or an error.
fn proved<I: FileIndex>(name: &str, good: &[u8], damaged: &[u8]) {
    let (hash, outboard) = blake3_tree::outboard(good);
    let expected = by_source::<I>(good);
    let slow = |bytes| Slow { bytes, asked: RefCell::default() };
    let async_of = |fetch| AsyncVerifiedSource::by_outboard(fetch, hash, slow(&outboard)).unwrap();
    let by_hand = |piece: u64, order: fn(usize) -> usize| {
        fed(damaged, piece, order, async |fed| {
            by_future::<I, _>(AsyncVerifiedSource::by_outboard(fed, hash, &outboard).unwrap()).await
        })
    };
    for (driver, found) in [
        ("an outboard", by_source_of::<I, _>(VerifiedSource::by_outboard(damaged, hash, &outboard).unwrap())),
        ("a hash", by_source_of::<I, _>(VerifiedSource::by_hash(damaged, hash))),
        ("a future", block_on(by_future::<I, _>(async_of(slow(damaged))))),
        ("ascending pieces", by_hand(4096, |_| 0)),
        ("descending pieces", by_hand(997, |left| left - 1)),
    ] {
        if good == damaged {
            assert_eq!(found, expected, "{name}: {driver}");
            continue;
        }
        let (Ok(found), Ok(expected)) = (&found, &expected) else { continue };
        assert_eq!(found.tensors, expected.tensors, "{name}: {driver}");
        let pairs =
            found.values.iter().zip(&expected.values).chain(found.slices.iter().zip(&expected.slices));
        for (found, expected) in pairs {
            assert!(found.is_err() || found == expected, "{name}: {driver}");
        }
    }
}

/// Checks that the drivers agree on a file, intact or damaged, with each other and with the slow reference.
fn agree<I: FileIndex>(name: &str, format: &str, bytes: &[u8]) {
    damaged_as_the_reference::<I>(name, format, bytes);
    let expected = by_source::<I>(bytes);
    let slow = Slow { bytes, asked: RefCell::default() };
    assert_eq!(block_on(by_future::<I, _>(slow)), expected, "{name}: a future");
    let small = bytes.len() < 1500;
    assert_eq!(by_hand::<I>(bytes, if small { 1 } else { 997 }, |_| 0), expected, "{name}: ascending pieces");
    assert_eq!(
        by_hand::<I>(bytes, if small { 3 } else { 4096 }, |left| left - 1),
        expected,
        "{name}: descending"
    );
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let random = |left: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % left as u64).unwrap()
    };
    assert_eq!(by_hand::<I>(bytes, if small { 7 } else { 1500 }, random), expected, "{name}: random order");
}

/// The files that must be refused.
const REFUSED: &str = "column-major.apr";

/// Returns the golden files of a folder with this ending.
fn golden(folder: &str, ending: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder);
    let entries = std::fs::read_dir(&root).into_iter().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.extension().is_some_and(|end| end == ending))
        .filter(|path| path.file_name().is_none_or(|name| name != REFUSED))
        .map(|path| (path.clone(), std::fs::read(&path).unwrap()))
        .collect();
    found.sort();
    assert!(!found.is_empty() || folder.starts_with("reference"), "no files in {}", root.display());
    found
}

/// Checks that a file that can be opened, intact or damaged, has the content that the slow reference finds.
fn damaged_as_the_reference<I: FileIndex>(name: &str, format: &str, bytes: &[u8]) {
    if let Ok(reader) = Reader::<OpenFile<I, _>>::from_source(bytes) {
        reference::compare_damaged(name, format, bytes, &reader);
    }
}

fn check<I: FileIndex>(format: &str, ending: &str) {
    let own = format!("reference/{format}");
    let files = [format, "reference", &own].into_iter().flat_map(|folder| golden(folder, ending));
    for (path, bytes) in files {
        let name = path.display().to_string();
        reference::compare(
            &name,
            format,
            &bytes,
            &Reader::<OpenFile<I, _>>::from_source(&bytes[..]).unwrap(),
        );
        agree::<I>(&name, format, &bytes);
        proved::<I>(&name, &bytes, &bytes);
        for damage in 1..6 {
            let mut damaged = bytes.clone();
            let at = damaged.len() * damage / 6;
            if let Some(byte) = damaged.get_mut(at) {
                *byte ^= 0x41;
            }
            agree::<I>(&format!("{name} with byte {at} changed"), format, &damaged);
            proved::<I>(&format!("{name} with byte {at} changed, pinned"), &bytes, &damaged);
            damaged.truncate(at);
            agree::<I>(&format!("{name} cut at {at}"), format, &damaged);
        }
        let mut damaged = bytes.clone();
        for at in (0..bytes.len()).step_by(bytes.len() / 400 + 1) {
            for bit in [0x01, 0x20, 0x80] {
                damaged[at] = bytes[at] ^ bit;
                damaged_as_the_reference::<I>(&format!("{name}, byte {at} ^ {bit:#x}"), format, &damaged);
            }
            damaged[at] = bytes[at];
        }
    }
}

#[test]
fn every_driver_reads_mag() {
    check::<mag::Index>("mag", "mag");
}

#[test]
fn every_driver_reads_oinf() {
    check::<oinf::Index>("oinf", "oinf");
}

#[test]
fn every_driver_reads_apr2() {
    check::<apr2::Index>("apr2", "apr");
    check::<apr2_seal::Index>("apr2", "apr");
}

#[test]
fn every_driver_reads_apr() {
    check::<apr::Index>("apr", "apr");
}

#[test]
fn every_driver_reads_safetensors() {
    check::<modelfmt::safetensors::Index>("safetensors", "safetensors");
}

#[test]
fn every_driver_reads_gguf() {
    check::<modelfmt::gguf::Index>("gguf", "gguf");
}

#[test]
fn every_driver_reads_npy() {
    check::<modelfmt::npy::Index>("npy", "npy");
    check::<modelfmt::npy::Index>("npy", "npz");
}

#[test]
fn every_driver_reads_pytorch() {
    check::<modelfmt::pytorch::Index>("pytorch", "pt");
    for (path, bytes) in golden("pytorch", "pt").into_iter().chain(golden("reference/pytorch", "pt")) {
        let name = path.display().to_string();
        let mut damaged = bytes.clone();
        for at in (0..bytes.len()).step_by(bytes.len() / 400 + 1) {
            for bit in [0x01, 0x20, 0x80] {
                damaged[at] = bytes[at] ^ bit;
                let memory = by_source::<modelfmt::pytorch::Index>(&damaged);
                let ranges = testkit::CountingSource::new(&damaged[..]);
                let ranges = by_source_of::<modelfmt::pytorch::Index, _>(ranges);
                assert_eq!(memory, ranges, "{name}, byte {at} ^ {bit:#x}");
            }
            damaged[at] = bytes[at];
        }
    }
}

#[test]
fn every_driver_reads_aero() {
    check::<aero::Index>("aero", "aero");
}

#[test]
fn a_proved_source_takes_its_bytes_in_any_order() {
    let file: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let index = |at: u64| usize::try_from(at).unwrap();
    let (hash, outboard) = blake3_tree::outboard(&file);
    let mut damaged = file.clone();
    damaged[50_000] ^= 1;
    for (file, range, is_good) in
        [(&file, 40_000u64..70_000, true), (&damaged, 0..16_000, true), (&damaged, 40_000..70_000, false)]
    {
        for piece in [7, 1000, 200_000] {
            let (outboard, range) = (outboard.clone(), range.clone());
            let expected = file[index(range.start)..index(range.end)].to_vec();
            let mut steps = Steps::new(file.len() as u64, async |fed| {
                let source = AsyncVerifiedSource::by_outboard(fed, hash, outboard)?;
                Ok::<_, io::Error>(source.fetch(range).await?.to_vec())
            });
            let found = loop {
                match steps.step() {
                    Step::Done(found) => break found,
                    Step::Need(ranges) => {
                        for range in ranges.into_iter().rev() {
                            let mut end = range.end;
                            while end > range.start {
                                let start = end.saturating_sub(piece).max(range.start);
                                steps.feed(start, &file[index(start)..index(end)]);
                                end = start;
                            }
                        }
                    }
                }
            };
            assert_eq!(found.is_ok(), is_good);
            assert!(found.map_or(true, |found| found == expected));
        }
    }
}
