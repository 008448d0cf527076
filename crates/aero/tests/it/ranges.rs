//! How much is read, and how much memory is held.
#![cfg(feature = "zstd")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::sync::Arc;

use crate::common::{metadata, model, noise};
use aero::modelfmt_core::author::{FileIndex, Parser};
use aero::write::{BoxError, Discard, MemoryFile, TensorData};
use aero::{
    DType, Error, Execution, Fault, FourCC, Index, OpenOptions, Plan, Reader, TensorSpec, WriteOptions,
};
use testkit::{CountingSource, FaultySource, peak};

fn open(file: Vec<u8>) -> Reader<CountingSource<Vec<u8>>> {
    Reader::from_source(CountingSource::new(file)).unwrap()
}

#[test]
fn a_file_is_opened_with_at_most_four_reads() {
    let all = WriteOptions::new().control_hash(true).tensor_hashes(true).page_hashes(Some(4096));
    let mut sizes = vec![10; 3000];
    sizes.push(1 << 20);
    for (options, sizes) in [
        (WriteOptions::new(), &[1usize << 20][..]),
        (all.clone().zstd(None), &sizes),
        (all.clone(), &sizes),
        (all.shard_size(1000), &sizes), // a long TOC
    ] {
        let file = model(sizes, &options);
        let index: u64 = {
            let index = Index::parse(&file).unwrap();
            let tidx = index.chunks().find(|chunk| chunk.fourcc == FourCC::TIDX).unwrap();
            let first = index.chunks().map(|chunk| chunk.offset).min().unwrap();
            first + tidx.length
        };
        let reader = open(file);
        let (reads, nbytes) = (reader.source().reads(), reader.source().nbytes());
        assert!(reads <= 4, "{reads}");
        assert!(nbytes <= index + (64 << 10), "{nbytes} of {index}");
        reader.source().reset();
        let known = Arc::clone(reader.index());
        let again = Reader::with_index(known, reader.source()).unwrap();
        assert_eq!(again.source().reads(), 0, "a known index reads nothing");
        again.tensor(0).unwrap();
        assert_eq!((again.source().reads(), again.source().nbytes()), (1, sizes[0] as u64));
    }
    let other = Reader::with_index(Arc::clone(open(model(&[1], &WriteOptions::new())).index()), vec![0u8; 3]);
    assert!(matches!(other, Err(Error::Truncated { .. })));
}

#[test]
fn opening_reads_no_weight() {
    for options in [WriteOptions::new(), WriteOptions::new().tensor_hashes(true).page_hashes(Some(64))] {
        let file = model(&[100, 200], &options);
        let index = Index::parse(&file).unwrap();
        let weights = index.chunks().find(|chunk| chunk.fourcc == FourCC::WTSH).unwrap();
        let broken = weights.offset..weights.offset + weights.length;
        let reader = Reader::from_source(CountingSource::new(FaultySource::new(file, broken))).unwrap();
        // One read each for the header, the TOC with the names, MJSN, and TIDX.
        assert_eq!(reader.source().reads(), 4);
        assert!(reader.metadata().is_ok() && reader.tensor("t0").is_err());
    }
}

#[test]
fn a_parser_can_be_driven_by_anybody() {
    let file = model(&[10; 3000], &WriteOptions::new().zstd(None));
    let mut parser = Index::parser(file.len() as u64, OpenOptions::new().settings());
    while let Some(range) = parser.need() {
        assert!(!range.is_empty() && range.end <= file.len() as u64);
        parser.feed(&file[range.start as usize..range.end as usize]).unwrap();
    }
    assert_eq!(parser.finish().unwrap().tensors().len(), 3000);
}

#[test]
fn a_part_is_verified_by_the_pages_that_it_touches() {
    let len = 1_000_000usize;
    let options = WriteOptions::new().page_hashes(Some(4096)).tensor_hashes(true);
    let file = model(&[100, len, 5000], &options);
    let start = Index::parse(&file).unwrap().location(1).unwrap().offset.unwrap() as usize;
    let reader = open(file.clone());
    assert_eq!(*reader.checked().read_range(1, 0..1).unwrap(), noise(len, 1)[..1]); // reads PHSH too
    for (from, to) in [(0usize, 1usize), (5000, 20_000), (len - 1, len), (777, 777), (3968, 3969)] {
        reader.source().reset();
        let bytes = reader.checked().read_range(1, from as u64..to as u64).unwrap();
        assert_eq!(*bytes, noise(len, 1)[from..to]);
        let begin = 128; // of the tensor in its shard
        let touched = if from == to { 0 } else { (begin + to).div_ceil(4096) - (begin + from) / 4096 };
        assert_eq!(reader.source().reads(), u64::from(touched > 0), "{from}..{to}");
        assert!(reader.source().nbytes() <= 4096 * touched as u64);
    }
    // A whole tensor is verified by its own hash, in one read.
    reader.source().reset();
    assert_eq!(reader.checked().tensor("t1").unwrap().bytes(), noise(len, 1));
    assert_eq!((reader.source().reads(), reader.source().nbytes()), (1, len as u64));
    // Only a read that touches a damaged byte's page notices the damage.
    let mut damaged = file;
    damaged[start + 500_000] ^= 1;
    for reader in [&Reader::from_source(damaged.clone()).unwrap() as &dyn Ranges, &open(damaged)] {
        assert!(reader.verified(0..1000).is_ok());
        assert!(reader.verified(505_000..len as u64).is_ok());
        let error = reader.verified(499_000..501_000).unwrap_err();
        assert!(
            matches!(error, Error::Malformed { fault: Fault::Hash { stated: "PHSH chunk", .. }, .. }),
            "{error}"
        );
        let error = reader.verified(0..len as u64).unwrap_err();
        assert!(
            matches!(error, Error::Malformed { fault: Fault::Hash { stated: "hash_b3", .. }, .. }),
            "{error}"
        );
    }
}

trait Ranges {
    fn verified(&self, range: std::ops::Range<u64>) -> aero::Result<usize>;
}

impl<S: aero::Source> Ranges for Reader<S> {
    fn verified(&self, range: std::ops::Range<u64>) -> aero::Result<usize> {
        self.checked().read_range(1, range).map(|bytes| bytes.len())
    }
}

#[test]
fn ranges_outside_a_tensor_are_refused() {
    let reader = open(model(&[100, 200], &WriteOptions::new()));
    #[allow(clippy::reversed_empty_ranges, reason = "a caller's mistake must be an error, not a panic")]
    for range in [0..101, 100..101, 101..101, 5..4, 0..u64::MAX, u64::MAX..u64::MAX] {
        assert!(matches!(reader.read_range(0, range.clone()), Err(Error::OutOfRange { .. })), "{range:?}");
    }
    assert_eq!(reader.read_range(0, 100..100).unwrap().len(), 0);
    assert!(matches!(reader.read_into(0, u64::MAX, &mut [0]), Err(Error::OutOfRange { .. })));
    assert!(matches!(reader.tensor(2), Err(Error::NotFound { .. })));
    assert!(matches!(reader.checked().read_range(0, 0..101), Err(Error::OutOfRange { .. })));
}

#[test]
fn without_hashes_of_its_own_a_tensor_is_checked_by_that_of_its_shard() {
    let file = model(&[100, 200], &WriteOptions::new());
    let reader = open(file.clone());
    assert_eq!(reader.checked().tensor("t0").unwrap().bytes(), noise(100, 0));
    assert_eq!(*reader.checked().read_range(0, 7..9).unwrap(), noise(100, 0)[7..9]);
    let mut damaged = file;
    *damaged.last_mut().unwrap() ^= 1; // of the other tensor
    let reader = open(damaged);
    for error in [reader.checked().tensor("t0").map(drop), reader.checked().read_range(0, 7..9).map(drop)] {
        let error = error.unwrap_err();
        assert!(
            matches!(error, Error::Malformed { fault: Fault::Hash { stated: "TOC", .. }, .. }),
            "{error}"
        );
    }
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
        sizes.iter().enumerate().map(|(n, &len)| TensorSpec::new(n.to_string(), DType::U8, vec![len]));
    let options = WriteOptions::new().tensor_hashes(true).page_hashes(Some(1 << 20)).shard_size(64 << 20);
    let plan = Plan::new(specs, &metadata(), &options).unwrap();
    let (written, held) = peak(|| plan.write(&Endless, &Discard::default(), &Execution::sequential()));
    written.unwrap();
    assert!(held < 8 << 20, "{held}");
}

#[test]
fn an_index_of_a_million_tensors_stays_below_270_mib() {
    // A fifth of a million tensors, with names of 20 bytes, rank 2 and a hash each.
    let count = 200_000u64;
    let specs = (0..count).map(|n| TensorSpec::new(format!("model.layers.{n:07}"), DType::F32, vec![0, 4]));
    let options = WriteOptions::new().tensor_hashes(true).zstd(None);
    let plan = Plan::new(specs, &metadata(), &options).unwrap();
    let file = MemoryFile::new();
    plan.write(&Endless, &file, &Execution::sequential()).unwrap();
    let file = file.into_bytes();
    let (index, held) = peak(|| Index::parse(&file).unwrap());
    assert_eq!(index.tensors().len() as u64, count);
    assert!(index.entry(7).unwrap().hash_b3.is_some());
    assert!(index.heap_size() < (270 << 20) / 5, "{}", index.heap_size());
    assert!(held < (270 << 20) / 5, "{held}");
}
