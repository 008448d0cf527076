//! Golden files (`testdata/apr2/`), which never change: each reads as its text dump says, and is written
//! again byte for byte. `cargo xtask fixtures` makes the files and the dumps.
#![cfg(feature = "lz4")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::fs;
use std::path::Path;

use crate::common::threads;
use apr2::write::{MemoryFile, MemoryFolder};
use apr2::{
    Alignment, Compression, DType, Flags, Generation, Plan, Reader, SetPlan, SetReader, Source, TensorSpec,
    VerifyLevel, WriteOptions,
};

/// Files made by hand, or of a generation that this crate does not write.
const NOT_OURS: [&str; 2] = ["foreign", "apr1"];

/// Returns the options that a file's flags show.
fn options(flags: Flags) -> WriteOptions {
    let alignment = if flags.contains(Flags::ALIGNED_64) { Alignment::Bytes64 } else { Alignment::Bytes32 };
    let compression = if flags.contains(Flags::COMPRESSED) { Compression::Lz4 } else { Compression::None };
    let streaming = flags.contains(Flags::STREAMING);
    WriteOptions::new().alignment(alignment).compression(compression).streaming(streaming)
}

/// Reads the values of all tensors.
fn values(reader: &Reader<impl Source>) -> Vec<Vec<u8>> {
    reader.tensors().iter().map(|t| reader.tensor(t.name).unwrap().bytes().to_vec()).collect()
}

fn rewrite(path: &Path) -> Vec<u8> {
    let reader = Reader::open(path).unwrap();
    let plan = Plan::new(
        reader.tensors().iter().map(TensorSpec::from),
        reader.index().metadata(),
        &options(reader.index().flags()),
    );
    let values = values(&reader);
    let file = MemoryFile::new();
    plan.unwrap().write(&values, &file, &threads(2)).unwrap();
    file.into_bytes()
}

#[test]
fn files_hold_what_their_dumps_say() {
    for path in testkit::golden_files("apr2", "apr") {
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert!(testkit::dump(&reader) == expected, "{}:\n{}", path.display(), testkit::dump(&reader));
        let report = reader.verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{}: {:?}", path.display(), report.errors);
        let bytes = fs::read(&path).unwrap();
        assert!(testkit::dump(&Reader::from_source(bytes).unwrap()) == expected, "{}", path.display());
    }
}

#[test]
fn files_of_our_writer_are_written_again() {
    let mut count = 0;
    for path in testkit::golden_files("apr2", "apr") {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if NOT_OURS.contains(&stem) {
            continue;
        }
        let (expected, found) = (fs::read(&path).unwrap(), rewrite(&path));
        let reader = Reader::from_source(&expected[..]).unwrap();
        // To find repeats, lz4_flex reads numbers in the machine's word size and byte order.
        let depends_on_machine = reader.index().flags().contains(Flags::COMPRESSED)
            && cfg!(not(all(target_pointer_width = "64", target_endian = "little")));
        if depends_on_machine {
            let again = Reader::from_source(&found[..]).unwrap();
            assert!(values(&again) == values(&reader), "{}", path.display());
        } else {
            assert!(found == expected, "{}", path.display());
        }
        count += 1;
    }
    assert!(count >= 6);
}

#[test]
fn the_set_is_read_and_written_again() {
    let folder = testkit::testdata("apr2").join("set");
    let set = SetReader::open(folder.join("sharded.apr")).unwrap();
    assert_eq!(testkit::dump(&set), fs::read_to_string(folder.join("sharded.txt")).unwrap());
    let report = set.verify(VerifyLevel::Full);
    assert!(report.is_ok(), "{:?}", report.errors);
    let infos: Vec<_> = set.tensors().map(Result::unwrap).collect();
    let values: Vec<_> = infos.iter().map(|t| set.tensor(t.name).unwrap().bytes().to_vec()).collect();
    let options = WriteOptions::new().shard_size(2500);
    let specs = infos.iter().copied().map(TensorSpec::from);
    let plan =
        SetPlan::new("sharded.apr", specs, set.shard(0).unwrap().index().metadata(), &options).unwrap();
    let again = MemoryFolder::default();
    plan.write(&values, &again, &threads(2)).unwrap();
    let files = again.files().0;
    assert!(files.len() > 3);
    for (name, bytes) in files {
        assert!(*bytes == *fs::read(folder.join(&name)).unwrap(), "{name}");
    }
}

#[test]
fn a_file_by_another_hand_is_read() {
    let folder = testkit::testdata("apr2");
    let reader = Reader::open(folder.join("foreign.apr")).unwrap();
    assert_eq!((reader.index().version(), reader.index().alignment()), ((2, 9), None));
    assert_eq!(reader.tensor("lz4").unwrap().bytes(), [9; 6]);
    assert_eq!(reader.tensor("tied").unwrap().bytes(), [5, 6, 7]);
    assert_eq!(reader.tensor("early").unwrap().to_vec::<i16>().unwrap(), [0x201, 0x403]);
    let old = Reader::open(folder.join("apr1.apr")).unwrap();
    assert_eq!(old.index().generation(), Generation::Apr1);
    let weights = old.tensor("w").unwrap();
    assert_eq!(
        (weights.dtype(), weights.to_f32().unwrap()),
        (DType::F16, vec![1.0, -2.0, f32::INFINITY, 5.960_464_5e-8])
    );
}
