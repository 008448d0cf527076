//! Split models: any file opens all files, and missing or contradicting files are refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use modelfmt_gguf::modelfmt_core::source::{Folder, MemoryFiles};
use modelfmt_gguf::value::Value;
use modelfmt_gguf::{Container, Reader, SetReader, VerifyLevel};
use testkit::gguf::{Gguf, string};
use testkit::patched;

fn path(number: u32) -> std::path::PathBuf {
    testkit::testdata("reference/gguf").join(format!("split-0000{number}-of-00003.gguf"))
}

#[test]
fn any_file_by_another_writer_opens_the_whole_model() {
    for number in 1..=3 {
        let set = SetReader::open(path(number)).unwrap();
        let name = format!("gguf/split-0000{number}-of-00003.gguf");
        let expected = testkit::as_expected(&name, &set);
        assert_eq!(Container::version(&set).as_deref(), expected.get("version").and_then(Value::as_str));
        let metadata = Value::Object(set.metadata().unwrap().to_object());
        assert_eq!(Some(&metadata), expected.get("metadata"), "{name}");
        let files = set.index().shards().iter().map(|shard| shard.file_len()).sum::<u64>();
        assert_eq!(Container::file_size(&set), files);
        for (position, tensor) in
            expected.get("tensors").and_then(Value::as_array).unwrap().iter().enumerate()
        {
            let location = Container::location(&set, position).unwrap();
            assert_eq!(location.file.as_deref(), tensor.get("file").and_then(Value::as_str));
        }
        assert!(Reader::open(path(number)).unwrap().index().is_split());
    }
}

/// Returns a file of a split with `no`, `count` and `sum`, and a tensor of one byte.
fn part(no: u16, count: u16, sum: i32, tensor: &str) -> Gguf {
    Gguf::new()
        .entry("split.no", 2, &no.to_le_bytes())
        .entry("split.count", 2, &count.to_le_bytes())
        .entry("split.tensors.count", 5, &sum.to_le_bytes())
        .tensor(tensor, 24, &[1], &[7])
}

fn files(all: &[(&str, Vec<u8>)]) -> MemoryFiles {
    MemoryFiles(all.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone().into())).collect())
}

const A: &str = "m-00001-of-00002.gguf";
const B: &str = "m-00002-of-00002.gguf";

fn sound() -> [(&'static str, Vec<u8>); 2] {
    [(A, part(0, 2, 2, "a").entry("k", 8, &string("v")).build()), (B, part(1, 2, 2, "b").build())]
}

#[test]
fn every_rule_is_checked_and_says_which_file() {
    let first = || part(0, 2, 2, "a").build();
    let second = || part(1, 2, 2, "b").build();
    let without_sum = Gguf::new().entry("split.no", 2, &[1, 0]).entry("split.count", 2, &[2, 0]);
    let negative = Gguf::new().entry("split.count", 5, &(-2i32).to_le_bytes());
    type Row = (&'static str, Vec<(&'static str, Vec<u8>)>, &'static str);
    let rows: Vec<Row> = vec![
        ("a file that is missing", vec![(A, first())], "cannot open \"m-00002-of-00002.gguf\""),
        (
            "a name that says nothing",
            vec![("m.gguf", first()), (B, second())],
            "metadata 1 \"split.count\" at byte 46: the file is one of a split of 2 files, but its name is not of the form NAME-00001-of-00002.gguf",
        ),
        (
            "a name with another count",
            vec![("m-00001-of-00003.gguf", first()), (B, second())],
            "metadata 1 \"split.count\" at byte 46: the file is one of a split of 2 files, but its name is not of the form NAME-00001-of-00002.gguf",
        ),
        (
            "files in each other's place",
            vec![(A, second()), (B, first())],
            "file 0 \"m-00001-of-00002.gguf\" at byte 24: metadata 0 \"split.no\": is 1, where 0 is expected",
        ),
        (
            "another count in the second",
            vec![(A, first()), (B, part(1, 3, 2, "b").build())],
            "file 1 \"m-00002-of-00002.gguf\" at byte 46: metadata 1 \"split.count\": is 3, where 2 is expected",
        ),
        (
            "more tensors than there are",
            vec![(A, part(0, 2, 3, "a").build()), (B, second())],
            "file 0 \"m-00001-of-00002.gguf\" at byte 71: metadata 2 \"split.tensors.count\": is 3, where 2 is expected",
        ),
        (
            "no number of tensors",
            vec![(A, part(0, 2, 1, "a").build()), (B, without_sum.build())],
            "file 1 \"m-00002-of-00002.gguf\" at byte 0: metadata \"split.tensors.count\": every file of a split has the number split.tensors.count",
        ),
        (
            "a count below zero",
            vec![(A, negative.build()), (B, second())],
            "metadata 0 \"split.count\" at byte 24: the file is not one of a split: split.count is no number of files",
        ),
        (
            "a tensor in two files",
            vec![(A, first()), (B, part(1, 2, 2, "a").build())],
            "file 1 \"m-00002-of-00002.gguf\" at byte 160: tensor 0 \"a\": the name \"a\" is used twice",
        ),
        (
            "a second file that is none",
            vec![(A, first()), (B, b"GGUX".to_vec())],
            "file 1 \"m-00002-of-00002.gguf\" at byte 0: header, magic: is not `GGUF`: not a GGUF file",
        ),
        (
            "one file of a model that is not split",
            vec![(A, Gguf::new().build())],
            "metadata \"split.count\" at byte 0: the file is not one of a split: split.count is no number of files",
        ),
    ];
    let mut wrong = Vec::new();
    for (what, all, expected) in rows {
        let opened = SetReader::from_files(files(&all), all[0].0);
        let found = opened.map(|_| ()).expect_err(what).to_string();
        if found != expected {
            wrong.push(format!("{what}:\n  found    {found}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(SetReader::from_files(files(&sound()), A).is_ok());
}

#[test]
fn the_first_file_may_have_no_tensors_and_be_in_a_folder() {
    let keys = |no: u16| {
        let file = Gguf::new().entry("split.no", 2, &no.to_le_bytes()).entry("split.count", 2, &[2, 0]);
        file.entry("split.tensors.count", 5, &1i32.to_le_bytes())
    };
    let all = [
        ("x/m-00001-of-00002.gguf", keys(0).entry("k", 8, &string("v")).build()),
        ("x/m-00002-of-00002.gguf", keys(1).tensor("w", 24, &[1], &[7]).build()),
    ];
    for (name, _) in &all {
        let set = SetReader::from_files(files(&all), name).unwrap();
        assert_eq!(set.tensor("w").unwrap().bytes(), [7]);
        assert_eq!(set.metadata().unwrap().keys().collect::<Vec<_>>(), ["k"]);
        assert!(set.verify(VerifyLevel::Full).is_ok());
    }
}

#[test]
fn verify_looks_into_every_file() {
    let report = |all: &[(&str, Vec<u8>)]| {
        SetReader::from_files(files(all), A).unwrap().verify(VerifyLevel::Full).errors
    };
    let [a, b] = sound();
    assert!(report(&[a.clone(), b.clone()]).is_empty());
    // The padding before the data of the second file.
    let at = b.1.len() - 2;
    let damaged = report(&[a.clone(), (B, patched(&b.1, at, &[1]))]);
    assert_eq!(damaged.len(), 1);
    assert!(damaged[0].starts_with("\"m-00002-of-00002.gguf\": padding after"), "{damaged:?}");
    let stranger = part(1, 2, 2, "b").entry("k", 8, &string("w")).build();
    let same = part(1, 2, 2, "b").entry("k", 8, &string("v")).build();
    assert!(report(&[a.clone(), (B, same)]).is_empty());
    let found = report(&[a, (B, stranger)]);
    assert_eq!(
        found,
        [
            "\"m-00002-of-00002.gguf\": metadata \"k\": only the first file of a split has metadata of the model"
        ]
    );
}

#[test]
fn a_file_that_is_cut_short_or_goes_away_is_an_error() {
    let [a, b] = sound();
    for len in 0..b.1.len() {
        let all = files(&[a.clone(), (B, b.1[..len].to_vec())]);
        assert!(SetReader::from_files(all, A).is_err(), "{len}");
    }
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=3 {
        std::fs::copy(path(number), folder.path().join(path(number).file_name().unwrap())).unwrap();
    }
    let second = folder.path().join(path(2).file_name().unwrap());
    let set = SetReader::<Folder>::open(&second).unwrap();
    std::fs::write(&second, b"GGUF").unwrap();
    assert!(set.tensor("blk.0.attn_q.weight").is_err());
    assert!(!set.verify(VerifyLevel::Full).is_ok());
    assert!(set.tensor("norm.weight").is_ok());
}
