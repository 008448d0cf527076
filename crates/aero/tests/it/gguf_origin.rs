//! Files that the published tool converted from GGUF have shapes in ggml's order, padding after the values,
//! and descriptors in MJSN. Only files that say so are read this way.
#![cfg(feature = "zstd")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use crate::common::{
    entry, failed, file, index, malformed, metadata, noise, number, object, open, rehashed, toc, with,
};
use aero::modelfmt_core::CommonFault;
use aero::modelfmt_core::value::{Object, Value};
use aero::{DType, Fault, Plan, VerifyLevel, WriteOptions, is_from_gguf};
use testkit::patched;

const GGUF: &str = r#"{"source_format":"gguf"}"#;

/// Returns a file with this MJSN, a shard of 256 bytes and these tensors.
fn of(json: &str, entries: impl IntoIterator<Item = Object>) -> Vec<u8> {
    file(&[
        (b"MJSN", "meta.json", 0, json.as_bytes()),
        (b"WTSH", "weights.shard0", 2, &noise(256, 0)),
        (b"TIDX", "tensors", 4, &index(entries)),
    ])
}

/// Returns a packed tensor of 64 elements (36 bytes in q4_0, 68 in q8_0), with the fastest dimension first.
fn packed(shape: [u64; 2], nbytes: u64) -> Object {
    let entry = with(with(entry("p"), "dtype", 0x8000), "shape", shape.into_iter().collect::<Value>());
    with(entry, "data_len", nbytes)
}

#[test]
fn shapes_are_turned_where_the_file_says_so() {
    for (json, shape) in [
        (GGUF, [3, 2]),
        (r#"{"x":{"y":[1,{}]},"source_format":"gguf"}"#, [3, 2]),
        (r#"{"source_format":"safetensors"}"#, [2, 3]),
        (r#"{"modelfmt":{"source_format":"gguf"}}"#, [2, 3]),
        (r#"{"source_format":{"gguf":"gguf"}}"#, [2, 3]),
        // A key that occurs twice is ambiguous. Requesting the metadata is an error then.
        (r#"{"source_format":"gguf","source_format":"gguf"}"#, [2, 3]),
        (r#"{"source_format":"gguf"}{"#, [2, 3]),
        ("", [2, 3]),
    ] {
        let file = of(json, [entry("a")]);
        let reader = open(&file).unwrap();
        let tensor = reader.tensor("a").unwrap();
        assert_eq!((tensor.shape(), tensor.bytes()), (&shape[..], &noise(256, 0)[64..88]), "{json}");
    }
}

#[test]
fn a_damaged_mjsn_says_nothing_and_is_found() {
    let good = of(GGUF, [entry("a")]);
    let damaged = patched(&good, number(&good, toc(0) + 8) as usize + 1, b"\t");
    let reader = open(&damaged).unwrap();
    assert_eq!(reader.index().tensors().info(0).unwrap().shape, [2, 3]);
    assert!(reader.metadata().is_err());
    assert!(failed(&reader.verify(VerifyLevel::Control), "chunk-hashes"));
    // If the hash is not recorded, nothing shows that the chunk was changed, and the report does not claim to
    // have checked it.
    let zeroed = patched(&damaged, toc(0) + 48, &[0; 32]);
    let report = open(&zeroed).unwrap().verify(VerifyLevel::Full);
    assert!(!report.is_ok() || report.check("chunk-hashes").unwrap().is_partial);
}

#[test]
fn padding_is_not_values() {
    for (offset, nbytes) in [(64, 25u64), (64, 55), (64, 192), (232, 24), (200, 56)] {
        let stored = noise(256, 0)[offset..][..nbytes as usize].to_vec();
        let padded = with(with(entry("a"), "data_len", nbytes), "data_off", offset as u64);
        let hashed = with(padded.clone(), "hash_b3", blake3::hash(&stored).to_hex().to_string());
        for entry in [padded, hashed.clone()] {
            let file = of(GGUF, [entry]);
            let reader = open(&file).unwrap();
            assert!(reader.verify(VerifyLevel::Full).is_ok());
            let location = reader.index().location(0).unwrap();
            assert_eq!((reader.index().entry(0).unwrap().data_len, location.stored_nbytes), (nbytes, nbytes));
            assert_eq!(reader.index().tensors().info(0).unwrap().nbytes, 24);
            assert_eq!(reader.tensor("a").unwrap().bytes(), &stored[..24]);
            assert_eq!(reader.checked().tensor("a").unwrap().bytes(), &stored[..24]);
            assert_eq!(*reader.checked().read_range("a", 20..24).unwrap(), stored[20..24]);
            assert!(reader.checked().read_range("a", 20..25).is_err(), "padding is not to be read");
            let mut out = [0; 25];
            assert!(reader.read_into(0, 0, &mut out).is_err());
        }
        // The tensor's hash covers the padding. The shard's hash is corrected.
        let file = of(GGUF, [hashed]);
        let at = number(&file, toc(1) + 8) as usize + offset + nbytes as usize - 1;
        let file = rehashed(patched(&file, at, &[file[at] ^ 1]), 1);
        let reader = open(&file).unwrap();
        assert!(failed(&reader.verify(VerifyLevel::Full), "tensor-hashes"));
        assert!(reader.checked().tensor("a").is_err());
    }
}

#[test]
fn what_is_no_padding_is_refused() {
    let lens = |found, expected| Fault::from(CommonFault::Nbytes { found, expected });
    let at = |offset: u64, nbytes: u64| with(with(entry("a"), "data_len", nbytes), "data_off", offset);
    let outside = |offset, len| Fault::from(CommonFault::OutOfBounds { offset, len, end: 256 });
    for (rule, json, entry, fault) in [
        ("nothing says GGUF", r#"{"source_format":"safetensors"}"#, at(64, 25), lens(25, 24)),
        ("no MJSN to speak of", "{}", at(64, 192), lens(192, 24)),
        ("it says so twice", r#"{"source_format":0,"source_format":"gguf"}"#, at(64, 25), lens(25, 24)),
        ("the alignment", GGUF, at(64, 56), lens(56, 24)),
        ("nearly to the end", GGUF, at(64, 191), lens(191, 24)),
        ("beyond the end", GGUF, at(64, 193), lens(193, 24)),
        ("less than the values", GGUF, at(64, 23), lens(23, 24)),
        ("padding outside the shard", GGUF, at(230, 30), outside(230, 30)),
        ("near 2^64", GGUF, at(u64::MAX - 8, 25), outside(u64::MAX - 8, 25)),
        ("a length near 2^64", GGUF, at(64, u64::MAX), lens(u64::MAX, 24)),
        ("a shard that is elsewhere", GGUF, with(at(64, 56), "shard_id", 7), lens(56, 24)),
        ("its end", GGUF, with(at(0, i64::MAX as u64), "shard_id", 7), lens(i64::MAX as u64, 24)),
    ] {
        assert_eq!(malformed(rule, &of(json, [entry])).1, fault, "{rule}");
    }
}

#[test]
fn descriptors_stand_in_mjsn() {
    let json = |list: &str| format!(r#"{{"quant_descriptors":{list},"source_format":"gguf"}}"#);
    let descriptor = r#"{"codec":"ggml","id":3,"params":{"ggml_type":2},"quant_name":"Q4_0"}"#;
    let one = format!("[{descriptor}]");
    let dtype = |json: &str, entry: Object| {
        let file = of(json, [entry]);
        let reader = open(&file).unwrap();
        let info = reader.index().tensors().info(0).unwrap();
        (info.dtype, info.shape.to_vec(), info.nbytes)
    };
    let blocks = with(packed([32, 2], 36), "quant_id", 3);
    assert_eq!(dtype(&json(&one), blocks.clone()), (DType::Q4_0, vec![2, 32], 36));
    // With padding, and with parameters, which take precedence.
    assert_eq!(dtype(&json(&one), with(blocks.clone(), "data_len", 64)), (DType::Q4_0, vec![2, 32], 36));
    let params = with(packed([32, 2], 70), "quant_params", object([("ggml_type", 8.into())]));
    assert_eq!(dtype(&json(&one), with(params, "quant_id", 3)), (DType::Q8_0, vec![2, 32], 68));
    // For an unknown codec, all bytes are values.
    let unknown = (DType::Packed, vec![2, 32], 36);
    for list in
        ["[]", "5", r#"[{"codec":"x","id":3,"params":{"ggml_type":2}}]"#, r#"[{"codec":"ggml","id":3}]"#]
    {
        assert_eq!(dtype(&json(list), blocks.clone()), unknown, "{list}");
    }
    // A file that does not name GGUF has its descriptors in the manifest.
    let other = format!(r#"{{"quant_descriptors":{one}}}"#);
    assert_eq!(dtype(&other, blocks.clone()), (DType::Packed, vec![32, 2], 36));
    let wrong = with(packed([31, 2], 36), "quant_id", 3);
    malformed("62 elements", &of(&json(&one), [wrong]));
    let many = vec![descriptor; 2000].join(",");
    assert_eq!(dtype(&json(&format!("[{many}]")), blocks).0, DType::Q4_0);
}

#[test]
fn what_is_written_is_not_taken_for_it() {
    let mut said = metadata();
    assert!(!is_from_gguf(&said));
    said.insert("source_format", "gguf");
    assert!(is_from_gguf(&said));
    let options = WriteOptions::new().uuid([7; 16]);
    let error = Plan::new(Vec::new(), &said, &options).unwrap_err().to_string();
    assert!(error.contains("source_format") && error.contains("ggml's order"), "{error}");
    said.insert("source_format", "safetensors");
    assert!(Plan::new(Vec::new(), &said, &options).is_ok());
}
