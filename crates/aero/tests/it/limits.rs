//! Files that claim more than they hold, refer to the same bytes many times, or end early.
#![cfg(feature = "zstd")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use crate::common::{
    entry, failed, file, good, index, malformed, model, msgpack, number, object, open, toc, with, with_index,
};
use aero::ReaderExt as _;
use aero::modelfmt_core::CommonFault;
use aero::modelfmt_core::value::Value;
use aero::{Error, Fault, Limits, OpenOptions, Reader, VerifyLevel, WriteOptions};
use testkit::{CountingSource, FaultySource, patched, peak};

/// The memory limit for opening and verifying a file of a few kilobytes.
const LITTLE: usize = 16 << 20;

fn opened_with_little(what: &str, file: &[u8]) {
    let (_, held) = peak(|| {
        if let Ok(reader) = Reader::from_source(CountingSource::new(file.to_vec())) {
            let _ = reader.verify_with(VerifyLevel::Full, &aero::Execution::sequential());
            let _ = reader.metadata();
        }
    });
    assert!(held < LITTLE + 20 * file.len(), "{what}: {held} bytes are held for {}", file.len());
}

#[test]
fn bombs_are_refused_with_little_memory() {
    let bomb = {
        let chunk = file(&[(b"DATA", "d", 1, &[0; 1 << 20])]);
        let (offset, length) = (number(&chunk, toc(0) + 8) as usize, number(&chunk, toc(0) + 16) as usize);
        chunk[offset..offset + length].to_vec()
    };
    for fourcc in [b"TIDX", b"MMSG", b"MJSN", b"DATA"] {
        for claim in [1u64 << 20, (1 << 20) - 1, 1 << 25, 1 << 31, 1 << 40, u64::MAX] {
            let file = patched(&file(&[(fourcc, "d", 0, &bomb)]), toc(0) + 4, &[1]);
            let file = patched(&file, toc(0) + 24, &claim.to_le_bytes());
            opened_with_little(&format!("{fourcc:?} of {claim}"), &file);
            if fourcc == b"TIDX" {
                // Without `open`: compressed content may expand (`Limits::expansion`) beyond what `open`
                // allows for an index.
                assert!(Reader::from_source(&file[..]).is_err(), "{claim}");
            }
        }
    }
    // What a claim may request is bounded by the stored bytes.
    let claims = patched(
        &patched(&file(&[(b"TIDX", "d", 0, &bomb)]), toc(0) + 4, &[1]),
        toc(0) + 24,
        &(1u64 << 30).to_le_bytes(),
    );
    assert!(matches!(open(&claims), Err(Error::Limit { .. })));
}

#[test]
fn claimed_lengths_and_depths_are_refused_with_little_memory() {
    let mut tensors = msgpack(object([("tensors", Value::from(Vec::<Value>::new()))]));
    tensors.pop();
    for head in
        [[0xdd, 0xff, 0xff, 0xff, 0xff], [0xdf, 0xff, 0xff, 0xff, 0xff], [0xdb, 0xff, 0xff, 0xff, 0xff]]
    {
        for content in
            [head.to_vec(), [&tensors[..], &head].concat(), [&tensors[..], &[0x91], &head].concat()]
        {
            let file = with_index(&content);
            assert!(open(&file).is_err(), "{content:x?}");
            opened_with_little("index", &file);
            for fourcc in [b"MMSG", b"PHSH"] {
                opened_with_little(
                    "chunk",
                    &crate::common::file(&[(fourcc, "weights.shard0.phsh", 0, &content)]),
                );
            }
        }
    }
    let deep = [vec![0x91; 10_000], vec![0xc0]].concat();
    let (_, fault) = malformed("deep", &with_index(&[&[0x81, 0xa1, b'x'], &deep[..]].concat()));
    assert_eq!(fault, Fault::MessagePack("the MessagePack is nested too deep"));
    let key = [&msgpack(entry("a"))[..], &[0xa1, b'x'], &deep].concat();
    let mut in_entry = [&tensors[..], &[0x91], &key].concat();
    in_entry[10] = 0x88;
    let (_, fault) = malformed("deep in an entry", &with_index(&in_entry));
    assert_eq!(fault, Fault::MessagePack("the MessagePack is nested too deep"));
    for fourcc in [b"MMSG", b"PHSH", b"IHSH"] {
        let plain = patched(&file(&[(b"XXXX", "weights.shard0.phsh", 0, &deep)]), toc(0), fourcc);
        assert!(!open(&plain).unwrap().verify(VerifyLevel::Full).is_ok());
    }
    let json = [vec![b'['; 10_000], vec![b']'; 10_000]].concat();
    let plain = file(&[(b"MJSN", "meta.json", 0, &json)]);
    assert!(!open(&plain).unwrap().verify(VerifyLevel::Control).is_ok());
}

/// A byte of MessagePack must not become the 32 bytes of a tree node, wherever it is.
#[test]
fn trees_in_the_index_take_no_tree() {
    let nils = |count: usize| Value::from(vec![Value::Null; count]);
    let params = |count| Value::from(object([("ggml_type", 8.into()), ("x", nils(count))]));
    let plain = with_index(&index([with(entry("a"), "quant_params", params(500_000))]));
    assert!(open(&plain).is_ok()); // which counts what is held
    // A manifest that a packed tensor refers to.
    let descriptors = object([("quant_descriptors", Value::from(Vec::<Value>::new())), ("x", nils(500_000))]);
    let packed = with(with(entry("a"), "dtype", 0x8000), "quant_id", 1);
    let manifest =
        file(&[(b"MMSG", "manifest", 0, &msgpack(descriptors)), (b"TIDX", "tensors", 4, &index([packed]))]);
    assert!(open(&manifest).is_ok());
    // A compressed index is bounded by its expanded length.
    let compressed =
        file(&[(b"TIDX", "tensors", 5, &index([with(entry("a"), "quant_params", params(1 << 20))]))]);
    assert!(compressed.len() < 2000);
    let (opened, held) = peak(|| Reader::from_source(&*compressed).is_ok());
    assert!(opened && held < 4 << 20, "{held}");
    // Keys that the specification does not define, inside and outside an entry: equal ones, and different
    // ones.
    let head = |pairs: usize| [&[0xdf][..], &u32::try_from(pairs).unwrap().to_be_bytes()].concat();
    let same = [head(300_000), b"\xa0\xc0".repeat(300_000)].concat();
    let different: Vec<u8> = (0..60_000u16)
        .flat_map(|n| [&[0xa2][..], &(n.to_be_bytes().map(|b| b & 0x7f)), &[0xc0]].concat())
        .collect();
    let different = [head(60_000), different].concat();
    for keys in [same, different] {
        let _ = open(&with_index(&keys));
        let list = [&b"\x81\xa7tensors\x91"[..], &keys].concat();
        let _ = open(&with_index(&list));
    }
}

/// Names of chunks may share bytes.
#[test]
fn chunk_names_over_the_same_bytes_are_bounded() {
    let names: Vec<String> = (0..2000).map(|n| format!("{n:0>64}")).collect();
    let chunks: Vec<_> = names.iter().map(|name| (b"DATA", name.as_str(), 0, &b""[..])).collect();
    let mut file = file(&chunks);
    for n in 0..2000 {
        file[toc(n) + 32..][..4].fill(0);
        file[toc(n) + 36..][..4].copy_from_slice(&60_000u32.to_le_bytes());
    }
    // The NULs between the names become text.
    let strings = number(&file, 28) as usize..(number(&file, 28) + number(&file, 36)) as usize;
    file[strings].iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'x');
    assert!(matches!(open(&file), Err(Error::Limit { what: "the length of all chunk names", .. })));
}

/// Each may claim a megabyte beyond what its bytes allow, but all of them together may claim it only once.
#[test]
fn many_small_bombs_are_no_large_one() {
    let zeros = vec![0; 1 << 20];
    let chunks: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let chunks: Vec<_> = chunks.iter().map(|name| (b"DATA", name.as_str(), 1, &zeros[..])).collect();
    let file = file(&chunks);
    assert!(file.len() < 20_000, "{}", file.len());
    let reader = open(&file).unwrap();
    assert!(reader.chunk_at(99).is_ok(), "alone it is read");
    let report = reader.verify(VerifyLevel::Full);
    let refused = report.errors.iter().filter(|error| error.contains("the compressed chunks claim")).count();
    assert!(refused > 90, "{refused}");
}

#[test]
fn a_toc_of_a_million_entries_needs_a_million_entries() {
    let good = good();
    let length = 16 + 80 * 1_000_000u64;
    let file = patched(&patched(&good, 96, &1_000_000u32.to_le_bytes()), 20, &length.to_le_bytes());
    assert!(matches!(
        open(&file),
        Err(Error::Malformed { fault: Fault::Common(CommonFault::OutOfBounds { .. }), .. })
    ));
    opened_with_little("TOC", &file);
    // Even if its bytes exist, one more entry is too many.
    let mut file = patched(&good[..96], 20, &(length + 80).to_le_bytes());
    file = patched(&patched(&file, 28, &96u64.to_le_bytes()), 36, &0u64.to_le_bytes());
    file.extend(1_000_001u32.to_le_bytes());
    file.resize(96 + (length + 80) as usize, 0);
    assert!(matches!(Reader::from_source(file), Err(Error::Limit { found: 1_000_001, max: 1_000_000, .. })));
}

/// aerotensor reads names of up to 4,096 bytes. The specification has no limit.
#[test]
fn a_name_that_aerotensor_does_not_read_is_a_finding() {
    let name = "n".repeat(4_096);
    let good =
        file(&[(b"WTSH", "weights.shard0", 2, b""), (b"DATA", &name, 1, b"x"), (b"DATA", "m", 1, b"y")]);
    let report = open(&good).unwrap().verify(VerifyLevel::Header);
    assert!(!report.errors.iter().any(|error| error.contains("aerotensor")), "{report:?}");
    // The NUL after the name becomes a part of it.
    let end = good.windows(name.len()).position(|bytes| bytes == name.as_bytes()).unwrap() + name.len();
    let long = patched(&patched(&good, end, b"n"), toc(1) + 36, &4_097u32.to_le_bytes());
    let reader = open(&long).unwrap();
    assert_eq!(reader.index().chunks().nth(1).unwrap().name.len(), 4_097);
    let report = reader.verify(VerifyLevel::Header);
    let finding = "the name has 4097 bytes, and aerotensor reads at most 4096";
    assert!(report.errors.iter().any(|error| error.contains(finding)), "{report:?}");
}

#[test]
fn files_that_ask_for_the_same_bytes_again_and_again_are_not_quadratic() {
    // 20,000 tensors that each cover nearly all of a shard of 1 MiB, each with a hash.
    let len = 1u64 << 20;
    let entries = (0..20_000u64).map(|n| {
        let of = with(with(entry(&format!("t{n}")), "data_off", n), "data_len", len - n);
        with(
            with(with(of, "dtype", 5), "shape", [len - n].into_iter().collect::<Value>()),
            "hash_b3",
            "0".repeat(64),
        )
    });
    let content = index(entries);
    let file =
        file(&[(b"WTSH", "weights.shard0", 2, &vec![0; len as usize]), (b"TIDX", "tensors", 4, &content)]);
    let report = Reader::from_source(&*file).unwrap().verify(VerifyLevel::Full);
    assert!(failed(&report, "extents") && report.errors.len() >= 19_999);
    // 20,000 chunks over the same bytes.
    let names: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let chunks: Vec<_> = names.iter().map(|name| (b"DATA", name.as_str(), 0, &b""[..])).collect();
    let mut file = crate::common::file(&chunks);
    file.resize(file.len() + (1 << 20), 0);
    let (offset, length) = (1000u64.to_le_bytes(), (file.len() as u64 - 1000).to_le_bytes());
    for n in 0..20_000 {
        file[toc(n) + 8..][..8].copy_from_slice(&offset);
        file[toc(n) + 16..][..8].copy_from_slice(&length);
        file[toc(n) + 24..][..8].copy_from_slice(&length);
    }
    let report = Reader::from_source(&*file).unwrap().verify(VerifyLevel::Full);
    assert!(failed(&report, "extents"));
}

#[test]
fn every_length_of_a_file_opens_or_is_refused() {
    for options in
        [WriteOptions::new().zstd(None), WriteOptions::new().control_hash(true).tensor_hashes(true)]
    {
        let file = model(&[100, 3, 0, 50], &options.page_hashes(Some(64)).shard_size(100));
        for len in 0..file.len() {
            let error = open(&file[..len]).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. } | Error::Malformed { .. }), "{len}: {error}");
        }
    }
}

#[test]
fn dimensions_beyond_the_limit_take_no_memory() {
    let shape: Value = std::iter::repeat_n(1u64, 100_000).collect();
    let file = with_index(&index([with(entry("a"), "shape", shape)]));
    assert!(matches!(open(&file), Err(Error::Limit { .. }))); // which counts what is held
}

#[test]
fn limits_can_be_lowered() {
    let file = model(&[100, 200], &WriteOptions::new().shard_size(100));
    type Lower = fn(&mut Limits);
    let rows: &[(&str, Lower)] = &[
        ("tensors", |limits| limits.tensors = 1),
        ("entries", |limits| limits.entries = 4),
        ("name_len of chunks", |limits| limits.name_len = 5),
        ("index_len", |limits| limits.index_len = 100),
        ("metadata_len", |limits| limits.metadata_len = 50),
    ];
    for (what, lower) in rows {
        let mut limits = Limits::default();
        lower(&mut limits);
        let opened = OpenOptions::new().limits(limits).open_source(&*file);
        assert!(matches!(opened, Err(Error::Limit { .. })), "{what}: {:?}", opened.map(|_| ()));
    }
    let limited = |content: &[u8], lower: Lower| {
        let mut limits = Limits::default();
        lower(&mut limits);
        OpenOptions::new().limits(limits).open_source(with_index(content)).map(|_| ())
    };
    let long = index([entry("a name that is longer than that of any chunk")]);
    assert!(matches!(limited(&long, |limits| limits.name_len = 20), Err(Error::Limit { .. })));
    assert!(matches!(limited(&long, |limits| limits.rank = 1), Err(Error::Limit { .. })));
    let nested = index([with(entry("a"), "x", Value::from(vec![Value::from(Vec::<Value>::new())]))]);
    assert!(limited(&nested, |_| ()).is_ok());
    let nested = index([with(entry("a"), "x", Value::from(vec![Value::from(vec![1.into()])]))]);
    let error = limited(&nested, |limits| limits.depth = 4).unwrap_err();
    assert!(matches!(error, Error::Malformed { fault: Fault::MessagePack(_), .. }), "{error}");
    // More than 1 MiB of zeros.
    let zeros = model(&[10; 30_000], &WriteOptions::new());
    assert!(open(&zeros).is_ok());
    let mut limits = Limits::default();
    limits.expansion = 1;
    assert!(matches!(OpenOptions::new().limits(limits).open_source(&*zeros), Err(Error::Limit { .. })));
}

#[test]
fn a_source_that_fails_is_an_io_error() {
    let good = good();
    let weights = number(&good, toc(3) + 8);
    let reader = Reader::from_source(FaultySource::new(good.clone(), weights..weights + 1)).unwrap();
    let error = reader.tensor("t0").unwrap_err();
    assert!(matches!(error, Error::Io { at, len: 100, .. } if at == weights), "{error}");
    assert!(reader.tensor("t1").is_ok());
    let report = reader.verify(VerifyLevel::Full);
    assert!(failed(&report, "chunk-hashes") && report.errors.len() == 1, "{report:?}");
    assert!(
        report.errors[0].contains("weights.shard0") && report.errors[0].contains("this sector is broken")
    );
    assert!(matches!(Reader::from_source(FaultySource::new(good, 0..1)), Err(Error::Io { .. })));
}
