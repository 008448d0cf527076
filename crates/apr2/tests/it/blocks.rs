//! Faulty LZ4 blocks: errors when a tensor is read, and findings of verify.
#![cfg(feature = "lz4")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use crate::common::{
    Entry, File, blocks, changed, check_found, compressed_values, headed, literals, stored, threads,
};
use apr2::{Error, Fault, Reader, VerifyLevel};
use testkit::{CountingSource, patched};

#[test]
fn lz4_blocks_that_lie_are_errors_when_read_and_found_by_verify() {
    let values = compressed_values();
    let (first, last) = values.split_at(65_536);
    let good = File::compressed();
    let data = good.data_offset() as u64;
    let second = data + 4 + literals(first).len() as u64;
    assert_eq!(Reader::from_source(good.build()).unwrap().tensor("z").unwrap().bytes(), values);
    let raw = 65_546;
    let with_header = |len: u32| {
        let mut data = good.data.clone();
        data[..4].copy_from_slice(&len.to_le_bytes());
        data
    };
    // A match that begins before the block.
    let reaching_back = [&[0x0f, 9, 0][..], &[255; 300], &[0]].concat();
    // A block that expands to 65,537 bytes: one too many, from few bytes.
    let mut expanding = vec![0x1f, 0, 1, 0];
    expanding.extend([255; 256]);
    expanding.extend([255, 0x50, 0, 0, 0, 0, 0]);
    for (name, data, at, rule) in [
        (
            "an empty block",
            with_header(0),
            data,
            (|f| matches!(f, Fault::BlockLen { block: 0, len: 0, .. })) as fn(&Fault) -> bool,
        ),
        ("a block of 4 GiB", with_header(u32::MAX), data, |f| {
            matches!(f, Fault::BlockLen { len: 0xffff_ffff, .. })
        }),
        ("a block to the end", with_header(65_900), data, |f| matches!(f, Fault::BlockLen { .. })),
        ("a block too short", with_header(600), data + 604, |f| matches!(f, Fault::BlockLen { .. })),
        ("one block only", blocks(&[first]), second, |f| {
            matches!(f, Fault::MissingBlocks { block: 1, blocks: 2 })
        }),
        ("half a header", [blocks(&[first]), vec![1, 0]].concat(), second, |f| {
            matches!(f, Fault::MissingBlocks { block: 1, .. })
        }),
        (
            "half a block",
            {
                let mut d = good.data.clone();
                d.truncate(d.len() - 3);
                d
            },
            second,
            |f| matches!(f, Fault::BlockLen { block: 1, .. }),
        ),
        ("a block more", blocks(&[first, last, &[1]]), second + 4 + 11, |f| {
            matches!(f, Fault::TrailingBlocks(6))
        }),
        ("bytes after", [good.data.clone(), vec![0]].concat(), second + 15, |f| {
            matches!(f, Fault::TrailingBlocks(1))
        }),
        ("a first block too short", blocks(&[&first[1..], last]), data, |f| {
            matches!(f, Fault::BlockSize { block: 0, found: 65_535, expected: 65_536 })
        }),
        ("a first block too long", blocks(&[&values[..65_537], last]), data, |f| {
            matches!(f, Fault::BlockData { block: 0, .. })
        }),
        ("a last block too short", blocks(&[first, &last[1..]]), second, |f| {
            matches!(f, Fault::BlockSize { block: 1, found: 9, expected: 10 })
        }),
        ("a last block too long", blocks(&[first, &values[..11]]), second, |f| {
            matches!(f, Fault::BlockData { block: 1, .. })
        }),
        ("literals past the end", [headed(&[0xff; 65_536]), blocks(&[last])].concat(), data, |f| {
            matches!(f, Fault::BlockData { block: 0, .. })
        }),
        ("reaching back", [headed(&reaching_back), blocks(&[last])].concat(), data, |f| {
            matches!(f, Fault::BlockData { block: 0, .. })
        }),
        ("expanding", [headed(&expanding), blocks(&[last])].concat(), data, |f| {
            matches!(f, Fault::BlockData { .. } | Fault::BlockSize { .. })
        }),
    ] {
        let file = stored(data, raw);
        let check = |error: Error| match error {
            Error::Malformed { at: place, fault, .. } => {
                assert!(rule(&fault) && place == at, "{name}: {fault} at {place}, not {at}");
            }
            other => panic!("{name}: {other}"),
        };
        let reader = Reader::from_source(&file[..]).unwrap();
        check(reader.tensor("z").map(|_| ()).unwrap_err());
        let far = Reader::from_source(CountingSource::new(file.clone())).unwrap();
        check(far.tensor("z").map(|_| ()).unwrap_err());
        let mut all = vec![0; 65_546];
        check(far.read_into(0, 0, &mut all).unwrap_err());
        check_found(name, &file, "lz4", "LZ4");
    }
    // Flipped bytes in the blocks give an error or other values, never a panic.
    let (file, start) = (good.build(), good.data_offset());
    let len = good.data.len();
    for at in (0..len).step_by(97).chain(0..40).chain(len - 40..len) {
        let file = patched(&file, start + at, &[file[start + at] ^ 0x55]);
        let reader = Reader::from_source(&file[..]).unwrap();
        let _ = reader.tensor("z").is_ok();
        assert!(!reader.verify_with(VerifyLevel::Full, &threads(1)).is_ok());
    }
}

#[test]
fn compressed_tensors_that_overlap_are_found_and_checked() {
    let good = File::compressed();
    let tied = changed(&good, |file| {
        let mut other = file.entries[0].clone();
        other.name = b"tied".to_vec();
        file.entries.push(other);
    });
    let reader = Reader::from_source(&tied[..]).unwrap();
    assert_eq!(reader.tensor("tied").unwrap().bytes(), compressed_values());
    let report = reader.verify(VerifyLevel::Full);
    assert!(report.is_ok(), "{:?}", report.errors);
    let other_size = changed(&good, |file| {
        let other =
            Entry { name: b"tied".to_vec(), dims: vec![65_545], raw_size: 65_545, ..file.entries[0].clone() };
        file.entries.push(other);
    });
    check_found("the same blocks, another size", &other_size, "lz4", "over the same blocks");
    // One tensor begins at the second block of the other.
    let overlap = changed(&good, |file| {
        file.flags = 1;
        let start = 4 + literals(&compressed_values()[..65_536]).len() as u64;
        let size = file.data.len() as u64 - start;
        let inner = Entry { offset: start, size, dims: vec![10], raw_size: 10, ..file.entries[0].clone() };
        file.entries.insert(0, Entry { name: b"inner".to_vec(), ..inner });
    });
    let reader = Reader::from_source(&overlap[..]).unwrap();
    assert_eq!(reader.tensor("inner").unwrap().bytes(), &compressed_values()[65_536..]);
    check_found("overlap", &overlap, "extents", "overlaps");
}
