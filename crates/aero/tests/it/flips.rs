//! `verify` finds every changed byte.
#![cfg(feature = "zstd")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use aero::ReaderExt as _;
use aero::{Execution, Reader, VerifyLevel, WriteOptions};

/// Returns a small file with every kind of hash, two shards, and every kind of gap.
fn file(options: &WriteOptions) -> Vec<u8> {
    let options =
        options.clone().control_hash(true).tensor_hashes(true).page_hashes(Some(100)).shard_size(150);
    crate::common::model(&[100, 3, 0, 130, 1], &options)
}

/// Returns the bytes, each with the changed bits, whose change `verify` does not notice.
fn unseen(file: &[u8]) -> Vec<(usize, u8)> {
    let mut unseen = Vec::new();
    for at in 0..file.len() {
        for bits in [0x01, 0x08, 0x80, 0xff] {
            let mut changed = file.to_vec();
            changed[at] ^= bits;
            let reader = Reader::from_source(changed);
            if reader
                .is_ok_and(|reader| reader.verify_with(VerifyLevel::Full, &Execution::sequential()).is_ok())
            {
                unseen.push((at, bits));
            }
        }
    }
    unseen
}

#[test]
fn without_zstd_every_flip_is_found() {
    let file = file(&WriteOptions::new().zstd(None));
    assert!(Reader::from_source(&*file).unwrap().verify(VerifyLevel::Full).is_ok());
    assert_eq!(unseen(&file), []);
}

#[test]
fn with_zstd_only_flips_remain_that_decode_to_the_same_bytes() {
    let file = file(&WriteOptions::new());
    let reader = Reader::from_source(&*file).unwrap();
    let compressed: Vec<_> = reader.index().chunks().filter(|chunk| chunk.flags.is_compressed()).collect();
    let mut found = Vec::new();
    for (at, bits) in unseen(&file) {
        let inside =
            |chunk: &&aero::Chunk<'_>| (chunk.offset..chunk.offset + chunk.length).contains(&(at as u64));
        let chunk =
            compressed.iter().find(|chunk| inside(chunk)).unwrap_or_else(|| panic!("byte {at} ^ {bits:#x}"));
        let mut changed = file.clone();
        changed[at] ^= bits;
        let changed = Reader::from_source(&*changed).unwrap();
        let [before, after] =
            [&reader, &changed].map(|r| r.chunk(chunk.fourcc, chunk.name).unwrap().to_vec());
        assert_eq!(before, after);
        found.push((chunk.name, at as u64 - chunk.offset, bits));
    }
    assert_eq!(found, REMAINING, "byte of the frame and the bits that change");
}

/// The changes that remain unnoticed in the frames of this zstd version: bits in the descriptions of their
/// Huffman trees, where two encodings of a tree give the same codes to the symbols that occur.
const REMAINING: &[(&str, u64, u8)] =
    &[("manifest", 16, 0x80), ("manifest", 17, 0x01), ("tensors", 17, 0x08), ("tensors", 17, 0x80)];
