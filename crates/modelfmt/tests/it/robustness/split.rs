//! A model split into several GGUF files: cut anywhere, every bit flipped, and work that grows no faster than
//! the numbers of tensors and files.

use std::collections::BTreeMap;
use std::sync::Arc;

use modelfmt::{Execution, Model, VerifyLevel};
use modelfmt_core::DType;
use modelfmt_core::source::{Files, MemoryFiles, shared_files};
use modelfmt_gguf::{MetaValue, Metadata, SetPlan, WriteOptions};
use modelfmt_write::{MemoryFolder, TensorSpec};
use testkit::{CountingSource, patched, peak};

use super::bitflips::{Uncovered, ranges};
use super::fuzz::open_bound;

type Set = BTreeMap<String, Arc<[u8]>>;

/// Returns a split whose files have at most this many bytes.
fn split(tensors: usize, shard_size: u64) -> Set {
    let specs = (0..tensors).map(|n| TensorSpec::new(format!("layers.{n}.weight"), DType::I8, vec![5]));
    let mut metadata = Metadata::new();
    metadata.push("general.name", MetaValue::String("split")).unwrap();
    let options = WriteOptions::new().shard_size(shard_size);
    let plan = SetPlan::new("m", specs, &metadata, &options).unwrap();
    let values: Vec<Vec<u8>> = (0..tensors).map(|n| vec![n as u8 % 100 + 1; 5]).collect();
    let folder = MemoryFolder::default();
    plan.write(&values, &folder, &Execution::sequential()).unwrap();
    folder.files().0
}

/// Returns three files of about 250 bytes.
fn small() -> Set {
    let set = split(3, 250);
    assert_eq!(set.len(), 3);
    set
}

/// Opens the split by the file of this name.
fn open(set: Set, name: &str) -> modelfmt::Result<Model> {
    let bytes: Arc<[u8]> = set[name].clone();
    let files = shared_files(MemoryFiles(set));
    modelfmt::OpenOptions::new().open_source(name, Box::new(bytes), Some(files))
}

fn is_ok(set: Set, name: &str) -> bool {
    let verify = |model: Model| model.container().verify(VerifyLevel::Full, &Execution::sequential());
    open(set, name).is_ok_and(|model| verify(model).is_ok())
}

/// Returns the set with another file under this name.
fn with(set: &Set, name: &str, bytes: Vec<u8>) -> Set {
    let mut set = set.clone();
    set.insert(name.to_owned(), bytes.into());
    set
}

#[test]
fn no_file_that_was_cut_is_good_and_opening_stays_within_the_bound() {
    let set = small();
    let mut most = 0;
    for (name, bytes) in &set {
        assert!(is_ok(set.clone(), name), "{name}");
        for len in 0..bytes.len() {
            let cut = with(&set, name, bytes[..len].to_vec());
            let total = cut.values().map(|file| file.len()).sum();
            for first in set.keys() {
                let (opened, held) = peak(|| open(cut.clone(), first).is_ok());
                assert!(held <= open_bound(total), "{name} of {len} bytes: {held} bytes");
                most = most.max(held);
                let is_good = opened && is_ok(cut.clone(), first);
                // Only the padding after the last values may be missing.
                assert!(!is_good || bytes[len..].iter().all(|&byte| byte == 0), "{name} of {len} bytes");
            }
        }
    }
    println!("{most} bytes at most");
}

/// The bytes that no check of a split can cover, whichever file opens it, for each file.
const UNFOUND: [(&str, Uncovered); 3] = [
    (
        "m-00001-of-00003.gguf",
        &[
            (4..5, "the version, 3 for 2"),
            (32..44, "a metadata key"),
            (56..61, "a metadata value"),
            (77..78, "a metadata type, where another has the same size"),
            (91..103, "split.count and its type: without it the file is a model of its own"),
            (106..107, "the number of files: the same, where it becomes 1"),
            (135..136, "a metadata type, as before"),
            (151..166, "a tensor's name"),
            (170..171, "a dimension that fits into the padding"),
            (178..179, "a tensor's type whose values fit"),
            (192..197, "values"),
        ],
    ),
    ("m-00002-of-00003.gguf", LATER),
    ("m-00003-of-00003.gguf", LATER),
];

const LATER: Uncovered = &[
    (4..5, "the version, 3 for 2"),
    (40..41, "a metadata type, where another has the same size"),
    (54..66, "split.count and its type, if this file opens the split"),
    (69..70, "the number of files, where it becomes 1, if this file opens the split"),
    (98..99, "a metadata type, as before"),
    (114..129, "a tensor's name"),
    (133..134, "a dimension that fits into the padding"),
    (141..142, "a tensor's type whose values fit"),
    (160..165, "values"),
];

#[test]
fn every_bit_of_every_file() {
    let set = small();
    for (name, expected) in UNFOUND {
        let bytes = &set[name];
        let is_unfound = |&at: &usize| {
            (0..8).any(|bit| {
                let flipped = patched(bytes, at, &[bytes[at] ^ (1 << bit)]);
                let flipped = with(&set, name, flipped);
                set.keys().any(|first| is_ok(flipped.clone(), first))
            })
        };
        let unfound: Vec<usize> = (0..bytes.len()).filter(is_unfound).collect();
        println!("{name}: {} of {} bytes: {:?}", unfound.len(), bytes.len(), ranges(&unfound));
        let expected: Vec<usize> = expected.iter().flat_map(|(range, _)| range.clone()).collect();
        assert_eq!(ranges(&unfound), ranges(&expected), "{name}");
    }
}

/// Files that count the bytes that are read, and the reads.
struct Counted(BTreeMap<String, Arc<CountingSource<Arc<[u8]>>>>);

impl Files for &Counted {
    type Source = Arc<CountingSource<Arc<[u8]>>>;
    fn open(&self, path: &str) -> std::io::Result<Self::Source> {
        self.0.get(path).cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}

/// Returns the bytes read, the reads, and the bytes held, to open a set.
fn opened(set: Set) -> [u64; 3] {
    let count = |(name, bytes)| (name, Arc::new(CountingSource::new(bytes)));
    let files = Counted(set.into_iter().map(count).collect());
    let name = files.0.keys().next().unwrap();
    let options = modelfmt_gguf::OpenOptions::new();
    let (set, held) = peak(|| modelfmt_gguf::SetReader::from_files_with(&files, name, &options).unwrap());
    assert!(set.tensors().len() > 1000);
    let sum = |what: fn(&CountingSource<Arc<[u8]>>) -> u64| files.0.values().map(|file| what(file)).sum();
    [sum(CountingSource::nbytes), sum(CountingSource::reads), held as u64]
}

#[test]
fn opening_is_linear_in_tensors_and_in_files() {
    // 50 tensors in each file, so that twice the tensors are twice the files.
    let size = |tensors: usize| (tensors, 6000);
    for [one, two] in [[size(2000), size(4000)], [(20_000, 1_500_000), (40_000, 3_000_000)]] {
        let [few, many] = [one, two].map(|(tensors, shard_size)| {
            let set = split(tensors, shard_size);
            (set.len(), opened(set))
        });
        println!("{few:?}, {many:?}");
        for (a, b) in few.1.into_iter().zip(many.1) {
            assert!(b <= a * 21 / 10 + (256 << 10), "{few:?}, {many:?}");
        }
    }
}

#[test]
fn an_open_split_holds_a_small_multiple_of_its_records() {
    for shard_size in [1_500_000, 1 << 20, 10_000] {
        let set = split(20_000, shard_size);
        let files = set.len();
        let [nbytes, reads, held] = opened(set);
        let times = held as f64 / nbytes as f64;
        println!("{files} files: {held} bytes held, {nbytes} read in {reads} reads: {times:.2} times");
        assert!(held <= (16 << 10) + 4 * nbytes, "{files} files: {times:.2} times the records");
    }
}
