//! Files that break one rule each, with the error and its offset, and every way to cut a file short.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use modelfmt_gguf::modelfmt_core::author::{FileIndex, Parser};
use modelfmt_gguf::{Error, Index, Limits, OpenOptions, Reader, VerifyLevel};
use testkit::gguf::{Gguf, array, string};
use testkit::{CountingSource, FaultySource, patched, peak};

/// Returns a file with one entry and one tensor of two bytes, which is at byte 96.
fn good() -> Gguf {
    Gguf::new().entry("k", 4, &[1, 0, 0, 0]).tensor("w", 24, &[2], &[1, 2])
}

fn with_type(kind: u32, value: &[u8]) -> Vec<u8> {
    Gguf::new().entry("k", kind, value).build()
}

fn with_tensor(kind: u32, dims: &[u64], offset: u64) -> Vec<u8> {
    Gguf::new().record("w", kind, dims, offset).data(&[0; 64]).build()
}

/// Returns a file with big-endian numbers and a record of q8_0.
fn big_endian_blocks() -> Vec<u8> {
    let numbers = [&3u32.to_be_bytes()[..], &1u64.to_be_bytes(), &0u64.to_be_bytes()].concat();
    let record = [&1u64.to_be_bytes()[..], b"w", &1u32.to_be_bytes(), &32u64.to_be_bytes()].concat();
    let rest = [&8u32.to_be_bytes()[..], &0u64.to_be_bytes(), &[0; 64]].concat();
    [b"GGUF", &numbers[..], &record, &rest].concat()
}

fn rows() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let file = good().build();
    let head = |kind: u32, len: u64| [&kind.to_le_bytes()[..], &len.to_le_bytes()].concat();
    let deep = (0..126).fold(vec![0], |inner, depth| array(if depth == 0 { 0 } else { 9 }, &[inner]));
    let alignment = |n: u32| Gguf::new().entry("general.alignment", 4, &n.to_le_bytes()).build();
    vec![
        (
            "no bytes",
            vec![],
            "header, magic at byte 0 needs 4 bytes, but 0 are left: the file is cut short or not of this format",
        ),
        (
            "another magic",
            patched(&file, 0, b"GGML"),
            "header, magic at byte 0: is not `GGUF`: not a GGUF file",
        ),
        (
            "version 1",
            patched(&file, 4, &[1]),
            "header, version at byte 4: GGUF version 1 is not supported, versions 2 and 3 are; convert the model again",
        ),
        (
            "version 4",
            patched(&file, 4, &[4]),
            "header, version at byte 4: GGUF version 4 is not supported, versions 2 and 3 are",
        ),
        (
            "version 0",
            patched(&file, 4, &[0]),
            "header, version at byte 4: GGUF version 0 is not supported, versions 2 and 3 are",
        ),
        (
            "big-endian version 1",
            patched(&file, 4, &[0, 0, 0, 1]),
            "header, version at byte 4: GGUF version 1 is not supported, versions 2 and 3 are; convert the model again",
        ),
        (
            "big-endian version 4",
            patched(&file, 4, &[0, 0, 0, 4]),
            "header, version at byte 4: GGUF version 4 is not supported, versions 2 and 3 are",
        ),
        (
            "big-endian, but the counts are not",
            patched(&file, 4, &[0, 0, 0, 3]),
            "the number of tensors is 72057594037927936, the limit is 4294967295: raise it in Limits if the file is trusted",
        ),
        (
            "blocks in a big-endian file",
            big_endian_blocks(),
            "tensor 0 \"w\", type at byte 24: the file is big-endian, and blocks of q8_0 have no big-endian form; convert it with gguf's gguf-convert-endian",
        ),
        (
            "2^64 - 1 tensors",
            patched(&file, 8, &[255; 8]),
            "the number of tensors is 18446744073709551615, the limit is 4294967295: raise it in Limits if the file is trusted",
        ),
        (
            "2^32 - 1 tensors",
            patched(&file, 8, &[255, 255, 255, 255, 0, 0, 0, 0]),
            "tensor records at byte 24 needs 103079215080 bytes, but 74 are left: the file is cut short or not of this format",
        ),
        (
            "2^64 - 1 entries",
            patched(&file, 16, &[255; 8]),
            "the number of metadata entries is 18446744073709551615, the limit is 1000000: raise it in Limits if the file is trusted",
        ),
        (
            "a million entries",
            patched(&file, 16, &1_000_000u64.to_le_bytes()),
            "metadata at byte 24 needs 13000000 bytes, but 74 are left: the file is cut short or not of this format",
        ),
        (
            "one tensor more than there are",
            patched(&file, 8, &[2]),
            "tensor 0 \"w\", offset at byte 128: covers 2 bytes from byte 128, but the file ends at byte 98",
        ),
        (
            "one entry more than there are",
            patched(&file, 16, &[2]),
            "tensor 0, name at byte 63 needs 1729382256910270464 bytes, but 35 are left: the file is cut short or not of this format",
        ),
        (
            "a key of 2^64 - 1 bytes",
            patched(&file, 24, &[255; 8]),
            "metadata 0, key at byte 32 needs 18446744073709551615 bytes, but 66 are left: the file is cut short or not of this format",
        ),
        (
            "a key longer than the file",
            patched(&file, 24, &[200]),
            "metadata 0, key at byte 32 needs 200 bytes, but 66 are left: the file is cut short or not of this format",
        ),
        (
            "a key that is not UTF-8",
            patched(&file, 32, &[255]),
            "metadata 0, key at byte 32: is not valid UTF-8",
        ),
        (
            "a key twice",
            Gguf::new().entry("k", 0, &[1]).entry("k", 0, &[1]).build(),
            "metadata 1 \"k\" at byte 38: the name \"k\" is used twice",
        ),
        (
            "an unknown type of value",
            patched(&file, 33, &[13]),
            "metadata 0 \"k\", type at byte 33: 13 is no type of metadata value",
        ),
        (
            "a type of value near 2^32",
            patched(&file, 33, &[255; 4]),
            "metadata 0 \"k\", type at byte 33: 4294967295 is no type of metadata value",
        ),
        (
            "a value cut short",
            with_type(10, &[0; 7]),
            "metadata 0 \"k\", value at byte 37 needs 8 bytes, but 7 are left: the file is cut short or not of this format",
        ),
        (
            "text cut short",
            with_type(8, &[5, 0, 0, 0, 0, 0, 0, 0, b'a']),
            "metadata 0 \"k\", text at byte 45 needs 5 bytes, but 1 are left: the file is cut short or not of this format",
        ),
        (
            "text of 2^64 - 1 bytes",
            with_type(8, &[255; 8]),
            "metadata 0 \"k\", text at byte 45 needs 18446744073709551615 bytes, but 0 are left: the file is cut short or not of this format",
        ),
        (
            "an array of an unknown type",
            with_type(9, &head(13, 0)),
            "metadata 0 \"k\", type of members at byte 37: 13 is no type of metadata value",
        ),
        (
            "an array of 2^64 - 1 numbers",
            with_type(9, &head(10, u64::MAX)),
            "metadata 0 \"k\", members at byte 49 needs 18446744073709551615 bytes, but 0 are left: the file is cut short or not of this format",
        ),
        (
            "an array of 2^32 bytes",
            with_type(9, &head(0, 1 << 32)),
            "metadata 0 \"k\", members at byte 49 needs 4294967296 bytes, but 0 are left: the file is cut short or not of this format",
        ),
        (
            "an array of more text than fits",
            with_type(9, &[head(8, 2), string("")].concat()),
            "metadata 0 \"k\", members at byte 49 needs 16 bytes, but 8 are left: the file is cut short or not of this format",
        ),
        (
            "an array of more arrays than fit",
            with_type(9, &head(9, 1 << 61)),
            "metadata 0 \"k\", members at byte 49 needs 18446744073709551615 bytes, but 0 are left: the file is cut short or not of this format",
        ),
        (
            "arrays that nest too deep",
            with_type(9, &array(9, &[deep])),
            "the depth of metadata is 128, the limit is 127: raise it in Limits if the file is trusted",
        ),
        (
            "alignment 0",
            alignment(0),
            "metadata 0 \"general.alignment\" at byte 24: general.alignment is 0, which is not a power of two",
        ),
        (
            "alignment 24",
            alignment(24),
            "metadata 0 \"general.alignment\" at byte 24: general.alignment is 24, which is not a power of two",
        ),
        (
            "an alignment that is a u64",
            Gguf::new().entry("general.alignment", 10, &32u64.to_le_bytes()).build(),
            "metadata 0 \"general.alignment\" at byte 24: general.alignment must be a u32",
        ),
        (
            "a name of 2^64 - 1 bytes",
            patched(&file, 41, &[255; 8]),
            "tensor 0, name at byte 49 needs 18446744073709551615 bytes, but 49 are left: the file is cut short or not of this format",
        ),
        (
            "a name that is not UTF-8",
            patched(&file, 49, &[255]),
            "tensor 0, name at byte 49: is not valid UTF-8",
        ),
        (
            "a name twice",
            Gguf::new().record("w", 24, &[1], 0).record("w", 24, &[1], 0).data(&[0]).build(),
            "tensor 1 \"w\" at byte 57: the name \"w\" is used twice",
        ),
        (
            "5 dimensions",
            with_tensor(24, &[1; 5], 0),
            "the rank is 5, the limit is 4: raise it in Limits if the file is trusted",
        ),
        (
            "2^32 - 1 dimensions",
            patched(&file, 50, &[255; 4]),
            "the rank is 4294967295, the limit is 4: raise it in Limits if the file is trusted",
        ),
        (
            "a type that has been removed",
            with_tensor(4, &[32], 0),
            "tensor 0 \"w\", type at byte 24: ggml type 4 (Q4_2) has been removed from ggml; quantize the model again",
        ),
        (
            "another type that has been removed",
            with_tensor(36, &[32], 0),
            "tensor 0 \"w\", type at byte 24: ggml type 36 (IQ4_NL_4_4) has been removed from ggml; quantize the model again",
        ),
        (
            "an unknown type",
            with_tensor(43, &[32], 0),
            "tensor 0 \"w\", type at byte 24: ggml type 43 is unknown",
        ),
        (
            "a type near 2^32",
            with_tensor(u32::MAX, &[32], 0),
            "tensor 0 \"w\", type at byte 24: ggml type 4294967295 is unknown",
        ),
        (
            "rows that are not whole blocks",
            with_tensor(8, &[16, 2], 0),
            "tensor 0 \"w\", dimensions at byte 24: rows of 16 elements do not divide into whole blocks of q8_0",
        ),
        (
            "a scalar of blocks",
            with_tensor(8, &[], 0),
            "tensor 0 \"w\" at byte 24: the shape [] does not divide into whole blocks of q8_0",
        ),
        (
            "dimensions that overflow",
            with_tensor(24, &[1 << 33, 1 << 33], 0),
            "tensor 0 \"w\" at byte 24: the shape [8589934592, 8589934592] has more elements than a file can hold",
        ),
        (
            "bytes that overflow",
            with_tensor(28, &[1 << 61], 0),
            "tensor 0 \"w\" at byte 24: the shape [2305843009213693952] has more elements than a file can hold",
        ),
        (
            "a tensor beyond the file",
            with_tensor(24, &[64], 32),
            "tensor 0 \"w\", offset at byte 96: covers 64 bytes from byte 96, but the file ends at byte 128",
        ),
        (
            "an empty tensor beyond the file",
            with_tensor(24, &[0], 96),
            "tensor 0 \"w\", offset at byte 160: covers 0 bytes from byte 160, but the file ends at byte 128",
        ),
        (
            "an offset near 2^64",
            with_tensor(24, &[1], u64::MAX - 31),
            "tensor 0 \"w\", offset at byte 18446744073709551615: covers 1 bytes from byte 18446744073709551615, but the file ends at byte 128",
        ),
        (
            "an offset of 2^64 - 1",
            with_tensor(24, &[1], u64::MAX),
            "tensor 0 \"w\", offset at byte 18446744073709551615: covers 1 bytes from byte 18446744073709551615, but the file ends at byte 128",
        ),
        (
            "data before the padding ends",
            Gguf::new().record("w", 24, &[1], 0).build(),
            "tensor 0 \"w\", offset at byte 64: covers 1 bytes from byte 64, but the file ends at byte 57",
        ),
    ]
}

#[test]
fn every_rule_is_checked_and_says_where() {
    let mut wrong = Vec::new();
    for (name, bytes, expected) in rows() {
        let (result, peak) = peak(|| Index::parse(&bytes).map(|_| ()));
        let found = result.map_err(|error| error.to_string()).expect_err(name);
        if found != expected {
            wrong.push(format!("{name}:\n  found    {found}\n  expected {expected}"));
        }
        let by_ranges = Reader::from_source(CountingSource::new(bytes.clone())).unwrap_err();
        assert_eq!(by_ranges.to_string(), found, "{name}, by ranges");
        assert!(peak < 20_000, "{name}: {peak} bytes");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_that_is_cut_short_is_refused_wherever() {
    let entries = good().entry("text", 8, &string("some")).entry(
        "list",
        9,
        &array(9, &[array(8, &[string("a")]), array(2, &[vec![1, 2]])]),
    );
    let bytes = entries.tensor("v", 0, &[2], &[1; 8]).build();
    assert!(Index::parse(&bytes).is_ok());
    for len in 0..bytes.len() {
        let in_memory = Index::parse(&bytes[..len]).expect_err("cut short").to_string();
        let by_ranges =
            Reader::from_source(CountingSource::new(bytes[..len].to_vec())).unwrap_err().to_string();
        assert_eq!(in_memory, by_ranges, "{len} bytes");
    }
}

/// Every byte before the data, replaced by some other bytes, gives an error or an index, and the same by
/// ranges.
#[test]
fn a_damaged_listing_is_read_or_refused() {
    let file = good().entry("list", 9, &array(9, &[array(8, &[string("a")]), array(2, &[vec![1, 2]])]));
    let (listing, bytes) = (file.listing().len(), file.build());
    let mut read = 0;
    for at in 0..listing {
        for byte in [0, 1, 2, 3, 7, 8, 9, 12, 13, 32, 127, 128, 255] {
            let damaged = patched(&bytes, at, &[byte]);
            let (in_memory, held) = peak(|| Reader::from_source(damaged.as_slice()));
            assert!(held < 20_000, "byte {at} as {byte}: {held} bytes");
            let by_ranges = Reader::from_source(CountingSource::new(damaged.clone()));
            match (in_memory, by_ranges) {
                (Ok(a), Ok(b)) => {
                    assert_eq!(a.index().metadata().to_object(), b.index().metadata().to_object());
                    assert_eq!(a.verify(VerifyLevel::Full), b.verify(VerifyLevel::Full));
                    for position in 0..a.tensors().len() {
                        assert_eq!(a.tensor(position).unwrap().bytes(), b.tensor(position).unwrap().bytes());
                    }
                    read += 1;
                }
                (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
                (a, b) => panic!("byte {at} as {byte}: {a:?} in memory, {b:?} by ranges"),
            }
        }
    }
    assert!(read > 100, "{read}");
}

/// The index is the same for any division of the bytes.
#[test]
fn a_parser_can_be_fed_in_pieces_of_any_length() {
    let texts: Vec<_> = (0..9000).map(|n| string(&format!("text {n}"))).collect();
    let numbers: Vec<_> = (0..30_000u64).map(|n| n.to_le_bytes().to_vec()).collect();
    let file = Gguf::new().entry("texts", 9, &array(8, &texts)).entry("numbers", 9, &array(10, &numbers));
    let file = file.entry("long", 8, &string(&"x".repeat(200_000))).tensor("w", 24, &[2], &[1, 2]);
    let bytes = file.build();
    let expected = Index::parse(&bytes).unwrap().metadata().to_object();
    for more in [0, 1, 1000, 1 << 20] {
        let mut parser = Index::parser(bytes.len() as u64, OpenOptions::new().settings());
        let mut fed = 0;
        while let Some(range) = parser.need() {
            assert!(range.start >= fed, "no byte twice");
            fed = range.end;
            let end = (range.end as usize + more).min(bytes.len());
            parser.feed(&bytes[range.start as usize..end]).unwrap();
        }
        let index = parser.finish().unwrap();
        assert_eq!(index.metadata().to_object(), expected);
        assert_eq!(index.tensors().len(), 1);
    }
}

#[test]
fn what_is_legal_is_read() {
    // 126 nested arrays: with the object of all keys, 127 levels.
    let deep = (0..126).fold(vec![7], |inner, depth| array(if depth == 0 { 0 } else { 9 }, &[inner]));
    let bytes = with_type(9, &deep);
    assert_eq!(Index::parse(&bytes).unwrap().metadata().to_object().len(), 1);
    // A file without tensors need not be padded, whatever the alignment.
    let bytes = Gguf::new().entry("general.alignment", 4, &(1u32 << 31).to_le_bytes()).build();
    let reader = Reader::from_source(bytes.as_slice()).unwrap();
    assert!(reader.verify(VerifyLevel::Full).is_ok());
    assert_eq!(reader.index().alignment(), 1 << 31);
    let bytes = good().build();
    let reader = Reader::from_source(bytes.as_slice()).unwrap();
    assert!(reader.verify(VerifyLevel::Full).is_ok());
    assert_eq!((reader.index().version(), reader.index().data_start()), (3, 96));
}

#[test]
fn each_limit_is_kept() {
    let file =
        good().entry("list", 9, &array(9, &[array(8, &[string("abc")])])).tensor("vv", 24, &[2, 1], &[1, 2]);
    let bytes = file.build();
    let what = |lower: fn(&mut Limits)| {
        let mut limits = Index::default_limits();
        lower(&mut limits);
        match OpenOptions::new().limits(limits).open_source(bytes.as_slice()) {
            Err(Error::Limit { what, found, max }) => format!("{what}: {found} > {max}"),
            other => format!("{:?}", other.map(|_| "read")),
        }
    };
    assert_eq!(what(|l| l.tensors = 1), "the number of tensors: 2 > 1");
    assert_eq!(what(|l| l.entries = 1), "the number of metadata entries: 2 > 1");
    assert_eq!(what(|l| l.name_len = 1), "the length of a metadata key: 4 > 1");
    assert_eq!(what(|l| l.rank = 1), "the rank: 2 > 1");
    assert_eq!(what(|l| l.metadata_len = 2), "the length of metadata: 4 > 2");
    assert_eq!(what(|l| l.index_len = 100), "the length of the header: 167 > 100");
    assert_eq!(what(|l| l.depth = 2), "the depth of metadata: 3 > 2");
    assert_eq!(
        what(|l| (l.tensors, l.entries, l.rank, l.depth, l.name_len) = (2, 2, 2, 3, 4)),
        "Ok(\"read\")"
    );
}

#[test]
fn errors_of_the_source_say_where() {
    let bytes = good().build();
    let open = |broken| Reader::from_source(FaultySource::new(bytes.clone(), broken));
    assert_eq!(open(0..1).unwrap_err().to_string(), "cannot read 98 bytes at byte 0");
    let reader =
        Reader::with_index(Index::parse(&bytes).unwrap().into(), FaultySource::new(bytes.clone(), 90..97))
            .unwrap();
    assert_eq!(reader.tensor("w").unwrap_err().to_string(), "cannot read 2 bytes at byte 96");
    assert_eq!(reader.verify(VerifyLevel::Full).errors, ["cannot read 22 bytes at byte 74"]);
    assert_eq!(reader.tensor("b").unwrap_err().to_string(), "no tensor is named \"b\"");
    let error = reader.read_into(0, 1, &mut [0; 2]).unwrap_err();
    assert_eq!(error.to_string(), "bytes 1..1+2 are outside tensor \"w\" of 2 bytes");
    assert!(reader.tensor(1).is_err());
}
