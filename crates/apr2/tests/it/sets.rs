//! Damaged sharded models: they open lazily and give one clear error, and verify finds all the damage.
#![cfg(feature = "lz4")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use crate::common::{Tensor, lz4, noise, patched_files, replaced, sealed, text, threads, write, write_set};
use apr2::{Container, Error, Fault, Limits, OpenOptions, Reader, SetReader, VerifyLevel, WriteOptions};
use modelfmt_core::source::MemoryFiles;
use modelfmt_core::{CommonFault, Status};
use testkit::patched;

const SHARDS: [&str; 3] =
    ["model-00001-of-00003.apr", "model-00002-of-00003.apr", "model-00003-of-00003.apr"];

fn tensors() -> Vec<Tensor> {
    vec![
        Tensor::bytes("a", noise(900, 1)),
        Tensor::bytes("b", noise(900, 2)),
        Tensor::bytes("c", text(900, 3)),
    ]
}

fn files() -> MemoryFiles {
    let files = write_set(&tensors(), &WriteOptions::new().shard_size(1000), &threads(2));
    assert!(files.0.keys().eq(SHARDS.iter().chain(&["model.apr"])));
    files
}

fn open(files: MemoryFiles) -> SetReader<MemoryFiles> {
    SetReader::from_files(files, "model.apr").unwrap()
}

/// Verifies the files, and expects findings of exactly these checks, one of them with these words.
fn check_found(name: &str, files: MemoryFiles, checks: &[&str], words: &str) {
    let report = open(files).verify_with(VerifyLevel::Full, &threads(2));
    let failed: Vec<_> =
        report.checks.iter().filter(|c| c.status == Status::Failed).map(|c| c.name).collect();
    assert_eq!(failed, checks, "{name}: {:?}", report.errors);
    assert!(report.errors.iter().any(|e| e.contains(words)), "{name}: {:?}", report.errors);
}

#[test]
fn a_good_model_has_every_check() {
    for options in [WriteOptions::new(), lz4()] {
        let set = open(write_set(&tensors(), &options.shard_size(1000), &threads(2)));
        let report = set.verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{:?}", report.errors);
        let names: Vec<_> = report.checks.iter().map(|check| check.name).collect();
        assert_eq!(names, ["structure", "crc", "shard-crcs", "lz4", "padding", "extents", "signature"]);
        let names: Vec<_> = set.verify(VerifyLevel::Header).checks.iter().map(|check| check.name).collect();
        assert_eq!(names, ["structure", "extents", "signature"]);
    }
}

#[test]
fn the_manifest_is_as_the_specification_shows_it() {
    let files = files();
    let text = String::from_utf8(files.0["model.apr"].to_vec()).unwrap();
    let crc = |name: &str| format!("{:08x}", testkit::crc32(&files.0[name]));
    let size = |name: &str| files.0[name].len();
    let entry = |name: &str| {
        let (size, crc) = (size(name), crc(name));
        format!(
            "    {{\n      \"file\": \"{name}\",\n      \"size\": {size},\n      \"crc32\": \"{crc}\"\n    }}"
        )
    };
    let entries = SHARDS.map(entry).join(",\n");
    let map = "    \"a\": 0,\n    \"b\": 1,\n    \"c\": 2\n";
    assert_eq!(
        text,
        format!(
            "{{\n  \"apr_version\": \"2.0.0\",\n  \"sharded\": true,\n  \"shard_count\": 3,\n  \"shards\": [\n{entries}\n  ],\n  \
             \"tensor_shard_map\": {{\n{map}  }}\n}}"
        )
    );
    let shard = Reader::from_source(&files.0[SHARDS[1]][..]).unwrap();
    assert!(shard.index().flags().names().eq(["ALIGNED_64", "SHARDED"]));
    let keys: Vec<_> = shard.index().metadata().object().keys().collect();
    assert_eq!(keys, ["apr_version", "architecture", "model_type"]);
}

#[test]
fn shards_are_opened_when_they_are_needed() {
    let mut missing = files();
    missing.0.remove(SHARDS[1]);
    let set = open(missing.clone());
    assert_eq!(set.tensor("a").unwrap().bytes(), tensors()[0].values);
    assert_eq!(set.tensor("c").unwrap().bytes(), tensors()[2].values);
    match set.tensor("b") {
        Err(Error::Open { path, .. }) => assert_eq!(path, SHARDS[1]),
        other => panic!("{other:?}"),
    }
    assert!(set.open_all().is_err());
    assert_eq!(set.tensors().filter(Result::is_ok).count(), 2);
    assert!(Container::info(&set, 1).is_none() && Container::info(&set, 2).is_some());
    check_found("missing", missing, &["structure", "shard-crcs"], "cannot open");
    let location = Container::location(&open(files()), 1).unwrap();
    assert_eq!(location.file.as_deref(), Some(SHARDS[1]));
}

#[test]
fn shards_that_are_not_what_the_manifest_says_are_found() {
    let good = files();
    let shard = |number: usize| good.0[SHARDS[number]].to_vec();
    let swapped = replaced(&replaced(&good, SHARDS[0], shard(1)), SHARDS[1], shard(0));
    let set = open(swapped.clone());
    let error = set.tensor("a").unwrap_err();
    let Error::Malformed {
        fault: Fault::Common(CommonFault::NotInShard(_) | CommonFault::ShardSize { .. }),
        ..
    } = error
    else {
        panic!("{error}")
    };
    let report = set.verify(VerifyLevel::Full);
    assert!(report.check("structure").is_some_and(|c| c.status == Status::Failed), "{report:?}");
    assert!(report.errors.iter().any(|e| e.contains("does not have tensor \"a\"")), "{report:?}");

    let mut cut = shard(2);
    cut.truncate(cut.len() - 1);
    let cut = replaced(&good, SHARDS[2], cut);
    let error = open(cut.clone()).tensor("c").unwrap_err();
    assert!(
        matches!(error, Error::Malformed { fault: Fault::Common(CommonFault::ShardSize { .. }), .. }),
        "{error}"
    );
    check_found("truncated", cut, &["structure", "shard-crcs"], "manifest says");

    let bytes = shard(0);
    let last = bytes.len() - 20;
    let flipped = patched(&bytes, last, &[bytes[last] ^ 1]);
    check_found("flipped", replaced(&good, SHARDS[0], flipped.clone()), &["crc", "shard-crcs"], SHARDS[0]);
    // The CRC of bytes that end in their own CRC depends only on their length, so the manifest's CRC says no
    // more than the footer's: an intact shard of the same size passes, and only its tensors can show the
    // difference.
    let resealed = sealed(&flipped);
    assert_eq!(testkit::crc32(&resealed), testkit::crc32(&bytes));
    assert!(open(replaced(&good, SHARDS[0], resealed)).verify(VerifyLevel::Full).is_ok());

    let no_flag = sealed(&patched(&bytes, 8, &[bytes[8] & !8]));
    check_found("SHARDED", replaced(&good, SHARDS[0], no_flag), &["structure"], "SHARDED");
}

/// Replaces `from` in the manifest.
fn manifest(from: &str, to: &str) -> MemoryFiles {
    patched_files(&files(), "model.apr", from, to)
}

#[test]
fn the_map_is_checked_both_ways() {
    check_found("lacks", manifest("\"b\": 1", "\"b\": 0"), &["structure"], "does not have tensor \"b\"");
    check_found("has more", manifest("\"b\": 1,\n", ""), &["structure"], "does not map to it");
    let error = open(manifest("\"b\": 1", "\"b\": 0")).tensor("b").unwrap_err();
    assert!(
        matches!(error, Error::Malformed { fault: Fault::Common(CommonFault::NotInShard(_)), .. }),
        "{error}"
    );
    check_found(
        "a CRC in capitals",
        manifest("crc32\": \"", "crc32\": \"X"),
        &["structure", "shard-crcs"],
        "hex",
    );
    check_found("no version", manifest("\"apr_version\": \"2.0.0\",", ""), &["structure"], "apr_version");
}

#[test]
fn manifests_that_break_a_rule_are_refused_at_open() {
    let refused = |name: &str, from: &str, to: &str| {
        let error = SetReader::from_files(manifest(from, to), "model.apr").unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{name}: {error}");
        error.to_string()
    };
    refused("absolute", SHARDS[1], "/etc/passwd");
    assert!(refused("parent", SHARDS[1], "../model-00002-of-00003.apr").contains("`..`"));
    assert!(refused("same file", SHARDS[1], SHARDS[0]).contains("lists this file twice"));
    assert!(
        refused("other spelling", SHARDS[1], &format!("./{}", SHARDS[0])).contains("lists this file twice")
    );
    refused("drive", SHARDS[1], "C:/x");
    refused("backslash", SHARDS[1], "..\\\\x");
    refused("empty", SHARDS[1], "");
    refused("count", "\"shard_count\": 3", "\"shard_count\": 4294967295");
    assert!(refused("shard", "\"b\": 1", "\"b\": 3").contains("3 shards"));
    refused("twice", "\"b\": 1", "\"a\": 1");
    refused("no map", "tensor_shard_map", "map");
    refused("depth", "\"b\": 1", &format!("\"b\": {}{}", "[".repeat(100_000), "]".repeat(100_000)));
    let text = files().0["model.apr"].to_vec();
    for len in 0..text.len() {
        assert!(apr2::SetIndex::parse(&text[..len], &Limits::default()).is_err(), "{len}");
    }
    let changes: [fn(&mut Limits); 4] =
        [|l| l.tensors = 2, |l| l.entries = 2, |l| l.index_len = 100, |l| l.name_len = 0];
    for change in changes {
        let mut limits = Limits::default();
        change(&mut limits);
        let opened = SetReader::from_source(&text, files(), &OpenOptions::new().limits(limits));
        assert!(matches!(opened.map(|_| ()), Err(Error::Limit { .. })));
    }
}

#[test]
fn errors_name_the_shard() {
    let good = files();
    let bytes = good.0[SHARDS[1]].to_vec();
    let broken = replaced(&good, SHARDS[1], patched(&bytes, 8, &[0x10]));
    let error = open(broken).tensor("b").unwrap_err().to_string();
    assert!(error.contains(SHARDS[1]) && (error.contains("encrypted") || error.contains("seal")), "{error}");
}

#[test]
fn shards_are_files_by_themselves() {
    // A model that fits into one shard, and a model without tensors.
    for tensors in [tensors(), Vec::new()] {
        let files = write_set(&tensors, &WriteOptions::new(), &threads(1));
        assert_eq!(files.0.len(), 2);
        let set = open(files.clone());
        assert_eq!(set.shard(0).unwrap().index().metadata(), &crate::common::metadata());
        assert!(set.verify(VerifyLevel::Full).is_ok());
        let shard = &files.0["model-00001-of-00001.apr"];
        let alone = write(&tensors, &WriteOptions::new(), &threads(1));
        assert_eq!(shard.len(), alone.len());
        let different = shard.iter().zip(&alone).filter(|(a, b)| a != b).count();
        assert!(different <= 5, "the flag and the CRC");
    }
}
