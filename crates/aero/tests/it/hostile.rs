//! One row for each rule that a file can break.
#![cfg(feature = "zstd")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use crate::common::{
    NAMES, entry, failed, file, good, index, malformed, msgpack, noise, number, object, open, rehashed, toc,
    with, with_index,
};
use aero::ReaderExt as _;
use aero::modelfmt_core::CommonFault;
use aero::modelfmt_core::value::{Object, Value};
use aero::{Error, Fault, FourCC, VerifyLevel};
use testkit::patched;

#[test]
fn every_rule_of_the_control_region_is_kept_at_open() {
    let good = good();
    let end = good.len() as u64;
    let u32s = |n: u32| n.to_le_bytes().to_vec();
    let u64s = |n: u64| n.to_le_bytes().to_vec();
    let out = |offset, len, end| Fault::from(CommonFault::OutOfBounds { offset, len, end });
    let length = |entry: usize| number(&good, toc(entry) + 16);
    let rows: Vec<(&str, usize, Vec<u8>, u64, Fault)> = vec![
        ("magic", 0, b"GGUF".to_vec(), 0, Fault::Magic(*b"GGUF")),
        ("major version", 4, vec![1, 0], 4, Fault::Version { major: 1, minor: 1 }),
        ("minor version 0", 6, vec![0, 0], 4, Fault::Version { major: 0, minor: 0 }),
        ("minor version 2", 6, vec![2, 0], 4, Fault::Version { major: 0, minor: 2 }),
        ("header size", 8, u32s(97), 8, Fault::HeaderSize(97)),
        ("file flags", 44, u64s(1 << 63), 44, Fault::FileFlags(1 << 63)),
        ("TOC over the header", 12, u64s(95), 12, Fault::Overlaps("header")),
        ("TOC behind the file", 12, u64s(end), 12, out(end, 416, end)),
        ("TOC near 2^64", 12, u64s(u64::MAX - 8), 12, out(u64::MAX - 8, 416, end)),
        ("TOC too short", 20, u64s(415), 20, Fault::TocLength { found: 415, entries: 5, expected: 416 }),
        ("TOC too long", 20, u64s(417), 28, Fault::Overlaps("TOC")),
        ("TOC of 2^63 bytes", 20, u64s(1 << 63), 12, out(96, 1 << 63, end)),
        ("fewer entries", 96, u32s(4), 20, Fault::TocLength { found: 416, entries: 4, expected: 336 }),
        (
            "2^32 - 1 entries",
            96,
            u32s(u32::MAX),
            20,
            Fault::TocLength { found: 416, entries: u32::MAX, expected: 16 + 80 * u64::from(u32::MAX) },
        ),
        ("names over the header", 28, u64s(90), 28, Fault::Overlaps("header")),
        ("names over the TOC", 28, u64s(511), 28, Fault::Overlaps("TOC")),
        ("names behind the file", 28, u64s(end - 1), 28, out(end - 1, number(&good, 36), end)),
        (
            "a name behind the table",
            toc(1) + 32,
            u32s(1000),
            toc(1) as u64 + 32,
            out(1000, 8, number(&good, 36)),
        ),
        ("a name over the table's end", toc(4) + 36, u32s(80), toc(4) as u64 + 32, {
            let at = u64::from(u32::from_le_bytes(good[toc(4) + 32..][..4].try_into().unwrap()));
            out(at, 80, number(&good, 36))
        }),
        ("a NUL in a name", NAMES + 3, vec![0], NAMES as u64, Fault::Nul),
        ("a name over two", toc(0) + 36, u32s(12), NAMES as u64, Fault::Nul),
        ("a name in Latin-1", NAMES + 3, vec![0xe9], NAMES as u64, CommonFault::Utf8.into()),
        ("a chunk behind the file", toc(0) + 8, u64s(end), toc(0) as u64 + 8, out(end, length(0), end)),
        ("a chunk near 2^64", toc(0) + 8, u64s(u64::MAX), toc(0) as u64 + 8, out(u64::MAX, length(0), end)),
        ("a shard behind the file", toc(4) + 16, u64s(1 << 40), toc(4) as u64 + 8, {
            out(number(&good, toc(4) + 8), 1 << 40, end)
        }),
        ("a second index", toc(1), b"TIDX".to_vec(), toc(2) as u64, Fault::SecondIndex),
        (
            "two shards of one name",
            toc(4) + 32,
            good[toc(3) + 32..][..8].to_vec(),
            toc(4) as u64,
            Fault::DuplicateChunk(FourCC::WTSH),
        ),
    ];
    for (rule, at, bytes, offset, fault) in rows {
        assert_eq!(malformed(rule, &patched(&good, at, &bytes)), (offset, fault), "{rule}");
    }
    let tidx = number(&good, toc(2) + 8);
    let (at, fault) = malformed("index", &patched(&good, tidx as usize + 20, &[0xff]));
    assert!(matches!(fault, Fault::Hash { stated: "TOC", .. }) && at == tidx, "{fault}");
    let (_, fault) = malformed("length", &patched(&good, toc(2) + 24, &u64s(7)));
    assert!(matches!(fault, Fault::PlainLength { ulen: 7, .. }), "{fault}");
}

#[test]
fn every_rule_of_the_tensor_index_is_kept_at_open() {
    let one = |entry: Object| index([entry]);
    let missing = |key| {
        let mut without = entry("a");
        without.remove(key);
        one(without)
    };
    let shape = |dims: &[u64]| dims.iter().copied().collect::<Value>();
    let packed = |shape: Value, len: u64, params: Value| {
        one(with(
            with(with(with(entry("a"), "dtype", 0x8000), "shape", shape), "data_len", len),
            "quant_params",
            params,
        ))
    };
    let ggml = |number: u64| Value::from(object([("ggml_type", number.into())]));
    let out = |offset, len, end| Fault::from(CommonFault::OutOfBounds { offset, len, end });
    let twice = |key: &str| Fault::from(CommonFault::Duplicate(key.to_owned()));
    let mut trailing = one(entry("a"));
    trailing.push(0);
    let mut raw_twice = vec![0x81, 0xa7];
    raw_twice.extend(b"tensors\x91");
    let mut double = vec![0x8e];
    for _ in 0..2 {
        double.extend(&msgpack(entry("a"))[1..]);
    }
    raw_twice.extend(double);
    let rows: Vec<(&str, Vec<u8>, Fault)> = vec![
        ("no bytes", vec![], Fault::MessagePack("the MessagePack ends in the middle of a value")),
        ("no map", msgpack(1), Fault::MessagePack("a map is expected")),
        ("no tensors", msgpack(object([("x", 1.into())])), Fault::MissingKey("tensors")),
        (
            "tensors is no list",
            msgpack(object([("tensors", 1.into())])),
            Fault::MessagePack("a list is expected"),
        ),
        ("bytes behind it", trailing, Fault::MessagePack("bytes follow the MessagePack value")),
        ("a key twice", raw_twice, twice("name")),
        ("a name twice", index([entry("a"), entry("a")]), twice("a")),
        ("no name", missing("name"), Fault::MissingKey("name")),
        ("no dtype", missing("dtype"), Fault::MissingKey("dtype")),
        ("no shape", missing("shape"), Fault::MissingKey("shape")),
        ("no shard", missing("shard_id"), Fault::MissingKey("shard_id")),
        ("no offset", missing("data_off"), Fault::MissingKey("data_off")),
        ("no length", missing("data_len"), Fault::MissingKey("data_len")),
        ("a name that is a number", one(with(entry("a"), "name", 1)), Fault::MessagePack("text is expected")),
        ("dtype 13", one(with(entry("a"), "dtype", 13)), Fault::DTypeCode(13)),
        ("dtype 0x8001", one(with(entry("a"), "dtype", 0x8001)), Fault::DTypeCode(0x8001)),
        (
            "a negative offset",
            one(with(entry("a"), "data_off", -1)),
            Fault::MessagePack("an integer that is not negative is expected"),
        ),
        (
            "a length that does not fit the shape",
            one(with(entry("a"), "data_len", 20)),
            CommonFault::Nbytes { found: 20, expected: 24 }.into(),
        ),
        (
            "a product beyond 2^64",
            one(with(entry("a"), "shape", shape(&[1 << 62, 4]))),
            CommonFault::TooManyElements("[4611686018427387904, 4]".to_owned()).into(),
        ),
        ("an offset behind the shard", one(with(entry("a"), "data_off", 256)), out(256, 24, 256)),
        ("an end behind the shard", one(with(entry("a"), "data_off", 240)), out(240, 24, 256)),
        ("an offset near 2^64", one(with(entry("a"), "data_off", u64::MAX)), out(u64::MAX, 24, 256)),
        (
            "an offset near 2^64 in a shard that is elsewhere",
            one(with(with(entry("a"), "data_off", u64::MAX), "shard_id", 5)),
            out(u64::MAX, 24, i64::MAX as u64),
        ),
        (
            "blocks that do not fit the shape",
            packed(shape(&[31]), 18, ggml(2)),
            CommonFault::PartialBlock { dtype: aero::DType::Q4_0, shape: "[31]".to_owned() }.into(),
        ),
        (
            "blocks that do not fit",
            packed(shape(&[64]), 18, ggml(2)),
            CommonFault::Nbytes { found: 18, expected: 36 }.into(),
        ),
        (
            "parameters that are no map",
            packed(shape(&[32]), 18, 2.into()),
            CommonFault::Metadata("is an integer and not a map".to_owned()).into(),
        ),
    ];
    for (rule, content, fault) in rows {
        assert_eq!(malformed(rule, &with_index(&content)).1, fault, "{rule}");
    }
    // The offset in an error is that of the entry.
    let plain = with_index(&index([entry("a"), with(entry("b"), "dtype", 99)]));
    let tidx = number(&plain, toc(1) + 8);
    let (at, _) = malformed("dtype", &plain);
    assert_eq!(at, tidx + 1 + 8 + 1 + msgpack(entry("a")).len() as u64);
    let text = open(&plain).unwrap_err().to_string();
    assert!(text.contains("TIDX entry 1 \"b\", dtype"), "{text}");
}

#[test]
fn what_is_unusual_and_legal_opens() {
    let unknown = with(entry("a"), "more", Value::from(object([("x", [1u64].into_iter().collect())])));
    let nil =
        with(with(with(entry("a"), "hash_b3", Value::Null), "quant_id", Value::Null), "flags", u64::MAX);
    let packed = with(
        with(with(entry("a"), "dtype", 0x8000), "shape", [9u64].into_iter().collect::<Value>()),
        "data_len",
        5,
    );
    let known = |number: u64| {
        with(packed.clone(), "quant_params", Value::from(object([("ggml_type", number.into())])))
    };
    for entry in [
        unknown,
        nil,
        with(packed.clone(), "quant_id", 77),
        known(4), // a number that ggml has given up
        known(u64::MAX),
        with(entry("a"), "shard_id", 9),
        with(with(entry("a"), "shape", [0u64, u64::MAX].into_iter().collect::<Value>()), "data_len", 0),
    ] {
        let file = with_index(&index([entry.clone()]));
        assert!(open(&file).is_ok(), "{entry:?}");
    }
    let file = with_index(&index([packed]));
    let reader = open(&file).unwrap();
    let info = reader.index().tensors().info(0).unwrap();
    assert_eq!(
        (info.dtype, info.nbytes, reader.tensor("a").unwrap().bytes().len()),
        (aero::DType::Packed, 5, 5)
    );
}

#[test]
fn chunks_that_cannot_be_told_apart_are_reported_in_their_order() {
    let names: Vec<String> = (10..30).map(|n| format!("n{n}")).collect();
    let chunks: Vec<_> = names.iter().map(|name| (b"NOTE", name.as_str(), 0, &b"x"[..])).collect();
    let mut twins = file(&chunks);
    for entry in 10..20 {
        let name = twins[toc(entry - 10) + 32..][..8].to_vec();
        twins = patched(&twins, toc(entry) + 32, &name);
    }
    // Chunks are found through a seeded hash. The report must not depend on the seed.
    let errors = open(&twins).unwrap().verify(VerifyLevel::Header).errors;
    let expected: Vec<String> =
        (10..20).map(|entry| format!("at byte {}: there is another", toc(entry))).collect();
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    assert!(errors.iter().zip(&expected).all(|(error, part)| error.contains(part)), "{errors:#?}");
}

#[test]
fn a_tensor_whose_shard_is_elsewhere_is_listed_and_not_read() {
    let elsewhere = file(&[(b"TIDX", "tensors", 4, &index([with(entry("a"), "shard_id", 3)]))]);
    let reader = open(&elsewhere).unwrap();
    assert_eq!(reader.tensors().iter().next().unwrap().shape, [2, 3]);
    for error in [reader.tensor("a").unwrap_err(), reader.read_into(0, 0, &mut [0]).unwrap_err()] {
        let missing = matches!(error, Error::Malformed { fault: Fault::MissingShard { shard: 3 }, .. });
        assert!(missing, "{error}");
    }
    assert!(reader.verify(VerifyLevel::Full).is_ok(), "the index of a set");
    let beside = with_index(&index([with(entry("a"), "shard_id", 3)]));
    assert!(!open(&beside).unwrap().verify(VerifyLevel::Header).is_ok(), "another shard is there");
}

#[test]
fn what_opens_and_is_wrong_is_found_by_verify() {
    let good = good();
    let u64s = |n: u64| n.to_le_bytes().to_vec();
    let mjsn = number(&good, toc(0) + 8);
    let weights = number(&good, toc(3) + 8);
    let rows: Vec<(&str, Vec<u8>, VerifyLevel, &str)> = vec![
        ("reserved bytes of the header", patched(&good, 95, &[1]), VerifyLevel::Header, "structure"),
        ("reserved0 of the TOC", patched(&good, 100, &[1]), VerifyLevel::Header, "structure"),
        ("reserved1 of the TOC", patched(&good, 111, &[1]), VerifyLevel::Header, "structure"),
        ("reserved0 of an entry", patched(&good, toc(2) + 40, &[1]), VerifyLevel::Header, "structure"),
        ("two lengths", patched(&good, toc(0) + 24, &u64s(3)), VerifyLevel::Header, "structure"),
        ("a compressed shard", patched(&good, toc(3) + 4, &[3]), VerifyLevel::Header, "structure"),
        (
            "two chunks of one name",
            {
                let file = patched(&good, toc(1), b"MJSN");
                patched(&file, toc(1) + 32, &good[toc(0) + 32..][..8])
            },
            VerifyLevel::Header,
            "structure",
        ),
        ("chunks that overlap", patched(&good, toc(0) + 8, &u64s(mjsn + 16)), VerifyLevel::Header, "extents"),
        (
            "chunks over the same bytes",
            patched(&good, toc(1) + 8, &good[toc(0) + 8..][..24]),
            VerifyLevel::Header,
            "extents",
        ),
        ("a chunk over the header", patched(&good, toc(0) + 8, &u64s(0)), VerifyLevel::Header, "extents"),
        ("a chunk over the TOC", patched(&good, toc(0) + 8, &u64s(400)), VerifyLevel::Header, "extents"),
        ("a chunk over the names", patched(&good, toc(0) + 8, &u64s(520)), VerifyLevel::Header, "extents"),
        (
            "a shard that is not aligned",
            patched(&good, toc(3) + 8, &u64s(weights - 8)),
            VerifyLevel::Header,
            "extents",
        ),
        ("no JSON", rehashed(patched(&good, mjsn as usize, b"}"), 0), VerifyLevel::Control, "structure"),
        (
            "JSON that is no object",
            file(&[(b"MJSN", "meta.json", 0, b"[]")]),
            VerifyLevel::Control,
            "structure",
        ),
        (
            "a key twice",
            file(&[(b"MJSN", "meta.json", 0, br#"{"a":1,"a":2}"#)]),
            VerifyLevel::Control,
            "structure",
        ),
        ("no manifest", file(&[(b"MMSG", "manifest", 0, &[0xc1])]), VerifyLevel::Control, "structure"),
        ("damaged JSON", patched(&good, mjsn as usize, b"x"), VerifyLevel::Control, "chunk-hashes"),
        (
            "damaged weights",
            patched(&good, weights as usize, &[!good[weights as usize]]),
            VerifyLevel::Full,
            "chunk-hashes",
        ),
        ("padding", patched(&good, weights as usize - 1, &[1]), VerifyLevel::Full, "padding"),
        ("bytes behind the last chunk", [&good[..], &[1]].concat(), VerifyLevel::Full, "padding"),
        (
            "tensors that overlap",
            with_index(&index([entry("a"), with(entry("b"), "data_off", 70)])),
            VerifyLevel::Header,
            "extents",
        ),
        (
            "a hash that is none",
            with_index(&index([with(entry("a"), "hash_b3", "0123")])),
            VerifyLevel::Full,
            "tensor-hashes",
        ),
        (
            "an upper-case hash",
            {
                let hash = blake3::hash(&noise(256, 0)[64..88]).to_hex().to_uppercase();
                with_index(&index([with(entry("a"), "hash_b3", hash)]))
            },
            VerifyLevel::Full,
            "tensor-hashes",
        ),
        (
            "another hash",
            with_index(&index([with(entry("a"), "hash_b3", "0".repeat(64))])),
            VerifyLevel::Full,
            "tensor-hashes",
        ),
    ];
    for (rule, file, level, check) in rows {
        let report = open(&file).unwrap_or_else(|e| panic!("{rule}: {e}")).verify(level);
        assert!(failed(&report, check), "{rule}: {report:?}");
        if level > VerifyLevel::Header {
            let below = if level == VerifyLevel::Full { VerifyLevel::Control } else { VerifyLevel::Header };
            let report = open(&file).unwrap().verify(below);
            assert!(report.is_ok(), "{rule} needs {level:?}: {report:?}");
        }
    }
    assert!(open(&good).unwrap().verify(VerifyLevel::Full).is_ok());
    // Zeros after the last chunk hide nothing.
    assert!(open(&[&good[..], &[0; 100]].concat()).unwrap().verify(VerifyLevel::Full).is_ok());
}

#[test]
fn all_findings_are_reported() {
    let good = good();
    let (first, second) = (number(&good, toc(3) + 8) as usize, number(&good, toc(4) + 8) as usize);
    let file = patched(&patched(&good, first, &[!good[first]]), second, &[!good[second]]);
    let file = patched(&patched(&file, 70, &[1]), 100, &[1]);
    let report = open(&file).unwrap().verify(VerifyLevel::Full);
    assert_eq!(report.errors.len(), 4, "{:?}", report.errors);
    assert!(
        report.errors[2].contains("weights.shard0") && report.errors[2].contains(&format!("byte {first}"))
    );
}

#[test]
fn chunks_that_are_refused_when_they_are_read() {
    let frame = file(&[(b"DATA", "d", 1, &[7; 5000])]);
    let (offset, length) = (number(&frame, toc(0) + 8) as usize, number(&frame, toc(0) + 16));
    let u64s = |n: u64| n.to_le_bytes();
    let read = |file: &[u8]| match open(file).unwrap().chunk(FourCC(*b"DATA"), "d") {
        Ok(_) => panic!("it is read"),
        Err(Error::Malformed { fault, .. }) => fault,
        Err(other) => panic!("{other}"),
    };
    assert!(open(&frame).unwrap().chunk(FourCC(*b"DATA"), "d").is_ok());
    assert_eq!(read(&patched(&frame, toc(0) + 24, &u64s(4999))), Fault::ZstdLength("more", 4999));
    assert_eq!(read(&patched(&frame, toc(0) + 24, &u64s(5001))), Fault::ZstdLength("fewer", 5001));
    assert!(matches!(read(&patched(&frame, offset, b"PK")), Fault::Zstd(_)));
    assert!(matches!(read(&patched(&frame, toc(0) + 48, &[1; 32])), Fault::Hash { .. }));
    let longer = patched(&[&frame[..], &[0; 8]].concat(), toc(0) + 16, &u64s(length + 8));
    assert!(matches!(read(&longer), Fault::Zstd(_)), "bytes behind the frame");
    let missing = open(&frame).unwrap().chunk(FourCC(*b"DATA"), "e").unwrap_err();
    assert!(matches!(missing, Error::Malformed { fault: Fault::NoChunk, .. }));
    // A shard that claims to be compressed.
    let good = good();
    let shard = patched(&good, toc(3) + 4, &[3]);
    let error = open(&shard).unwrap().tensor("t0").unwrap_err();
    assert!(matches!(error, Error::Malformed { fault: Fault::Compressed(FourCC::WTSH), .. }), "{error}");
    let error = open(&shard).unwrap().chunk(FourCC::WTSH, "weights.shard0").unwrap_err();
    assert!(matches!(error, Error::Malformed { fault: Fault::Compressed(FourCC::WTSH), .. }), "{error}");
    let shard = patched(&good, toc(4) + 24, &u64s(1000));
    let shard = open(&shard).unwrap();
    let error = shard.tensor("t1").unwrap_err();
    assert!(matches!(error, Error::Malformed { fault: Fault::PlainLength { .. }, .. }), "{error}");
    // Its claimed length may end outside the file, so no location is returned for its tensor.
    let t1 = shard.tensors().find("t1").unwrap();
    assert_eq!(shard.index().location(t1), None);
    assert!(open(&good).unwrap().index().location(t1).is_some());
}
