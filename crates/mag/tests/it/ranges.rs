//! Which ranges a reader requests from a source that returns only what is requested.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::sync::Arc;

use crate::common::{Tensor, metadata, write};
use mag::modelfmt_core::{
    Container,
    author::{FileIndex, Parser},
};
use mag::value::Value;
use mag::{Checksum, DType, Error, Index, OpenOptions, Reader, Source};
use testkit::CountingSource;

const WINDOW: u64 = 64 << 10;

fn records_end(tensors: &[Tensor]) -> u64 {
    24 + tensors.iter().map(|t| (24 + 8 * t.shape.len() + t.name.len()) as u64).sum::<u64>()
}

fn open_counted(tensors: &[Tensor]) -> (u64, u64) {
    let source = CountingSource::new(write(tensors, &metadata([]), Checksum::Crc32));
    let reader = Reader::from_source(source).unwrap();
    assert!(reader.tensors().iter().map(|t| t.name).eq(tensors.iter().map(|t| t.name.as_str())));
    (reader.source().reads(), reader.source().nbytes())
}

#[test]
fn opening_reads_the_records_of_many_tensors_once() {
    let tensor = |i| Tensor::counting(&format!("model.layers.{i}.weight"), DType::I8, &[1, 1], 0);
    let tensors: Vec<_> = (0..100_000).map(tensor).collect();
    let (reads, nbytes) = open_counted(&tensors);
    assert!(nbytes <= records_end(&tensors) + WINDOW, "{nbytes} bytes");
    assert!(reads <= 16, "{reads} reads");
}

/// Each of these records is longer than a single request, so the end of a read cuts each of them.
#[test]
fn opening_reads_records_longer_than_the_window_once() {
    let name = |i| format!("{i:02}{}", "x".repeat(65_533));
    let tensors: Vec<_> = (0..40).map(|i| Tensor::counting(&name(i), DType::I8, &[1; 255], 0)).collect();
    for count in [1, 2, 40] {
        let (reads, nbytes) = open_counted(&tensors[..count]);
        let records = records_end(&tensors[..count]);
        assert!(nbytes <= records + WINDOW, "{nbytes} bytes for {records} of records");
        assert!(reads <= records / WINDOW + 2, "{reads} reads");
    }
}

#[test]
fn opening_does_not_read_the_values() {
    let tensors = [Tensor::counting("a", DType::I8, &[10 << 20], 0)];
    let (reads, nbytes) = open_counted(&tensors);
    assert_eq!((reads, nbytes), (1, WINDOW));
}

/// The contract of [`Parser`]: ranges are never empty and are inside the file, and more bytes than requested
/// may be fed.
#[test]
fn the_parser_can_be_driven_by_hand() {
    let name = |i: u32| format!("{i}{}", "y".repeat(30_000));
    let tensors: Vec<_> = (0..20).map(|i| Tensor::counting(&name(i), DType::I8, &[2], 0)).collect();
    let file = write(&tensors, &metadata([("k", Value::from(1))]), Checksum::Crc32c);
    for more in [0, 1, 40_000] {
        let mut parser = Index::parser(file.len() as u64, OpenOptions::new().settings());
        let mut ranges = Vec::new();
        while let Some(range) = parser.need() {
            assert!(range.start < range.end && range.end <= file.len() as u64, "{range:?}");
            let end = (range.end as usize + more).min(file.len());
            parser.feed(&file[range.start as usize..end]).unwrap();
            ranges.push(range);
        }
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "no byte twice: {ranges:?}");
        let index = parser.finish().unwrap();
        assert!(index.tensors().iter().eq(Index::parse(&file).unwrap().tensors()));
        assert_eq!(index.checksum(), Some(Checksum::Crc32c));
    }
}

#[test]
fn a_known_index_opens_without_a_read() {
    let tensors = [Tensor::counting("a", DType::U32, &[5], 1), Tensor::counting("b", DType::U16, &[3], 2)];
    let file = write(&tensors, &metadata([("k", Value::from(1))]), Checksum::Crc32);
    let index = Arc::clone(Reader::from_source(file.as_slice()).unwrap().index());
    let reader = Reader::with_index(Arc::clone(&index), CountingSource::new(file.clone())).unwrap();
    assert_eq!(reader.source().reads(), 0);
    assert_eq!(reader.index().metadata().get("k"), Some(&Value::from(1)));
    assert_eq!(reader.tensor("b").unwrap().bytes(), tensors[1].values);
    assert_eq!((reader.source().reads(), reader.source().nbytes()), (1, 6));

    for len in [file.len() - 1, file.len() + 1] {
        let mut other = file.clone();
        other.resize(len, 0);
        let error = Reader::with_index(Arc::clone(&index), other).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "{error:?}");
    }
}

#[test]
fn a_range_of_a_tensor_reads_that_range() {
    let tensors =
        [Tensor::counting("a", DType::F32, &[2, 3], 10), Tensor::counting("e", DType::F32, &[0], 0)];
    let source = CountingSource::new(write(&tensors, &metadata([]), Checksum::Crc32));
    let reader = Reader::from_source(source).unwrap();
    for begin in 0..=24 {
        for end in begin..=24 {
            reader.source().reset();
            let mut out = vec![0; end - begin];
            reader.read_into(0, begin as u64, &mut out).unwrap();
            assert_eq!(out, tensors[0].values[begin..end]);
            assert_eq!((reader.source().reads(), reader.source().nbytes()), (1, (end - begin) as u64));
        }
    }
    for (offset, len) in [(0, 25), (24, 1), (25, 0), (u64::MAX, 0), (u64::MAX, 1), (u64::MAX - 23, 24)] {
        let error = reader.read_into(0, offset, &mut vec![0; len]).unwrap_err();
        let Error::OutOfRange { name, offset: at, len: n, nbytes: 24 } = error else { panic!("{error:?}") };
        assert_eq!((name.as_str(), at, n), ("a", offset, len as u64));
        assert!(Container::values_into(&reader, 0, offset, &mut vec![0; len], None).is_err());
    }
    assert!(reader.read_into(1, 0, &mut []).is_ok());
    assert!(matches!(reader.read_into(1, 0, &mut [0]), Err(Error::OutOfRange { .. })));
}

#[test]
fn what_is_not_there_is_an_error() {
    let file = write(&[Tensor::counting("a", DType::I8, &[1], 0)], &metadata([]), Checksum::Crc32);
    let reader = Reader::from_source(file.as_slice()).unwrap();
    assert!(matches!(reader.tensor("b"), Err(Error::NotFound { name }) if name == "b"));
    for position in [1, usize::MAX] {
        assert!(matches!(reader.tensor(position), Err(Error::NotFound { .. })));
        assert!(matches!(reader.read_into(position, 0, &mut []), Err(Error::NotFound { .. })));
        assert!(
            reader.index().tensors().info(position).is_none()
                && reader.index().tensors().location(position).is_none()
        );
        assert!(
            Container::read(&reader, position).is_err() && Container::location(&reader, position).is_err()
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.mag");
    let error = Reader::open(&missing).map(|_| ()).unwrap_err();
    assert!(matches!(&error, Error::Open { path, .. } if path.ends_with("missing.mag")), "{error:?}");
    assert!(matches!(Reader::open(folder.path()).map(|_| ()), Err(Error::Open { .. })), "a folder");
    assert_eq!(Source::len(reader.source()), 65);
}
