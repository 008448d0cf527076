//! Files that break one rule each, with the error and its offset, also for the reference implementation if it
//! has the rule, and every way to cut a file short.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use crate::common::{Tensor, entry, file, header, raw, strings, write};
use modelfmt_core::AnyError;
use modelfmt_core::author::{FileIndex, parse_source};
use modelfmt_safetensors::{Error, Execution, Index, Limits, OpenOptions, Reader, SetIndex, VerifyLevel};
use safetensors_oracle::SafeTensors;
use testkit::{CountingSource, FaultySource, peak};

/// The reaction of the reference implementation to the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reference {
    Refuses,
    /// It has no such rule. The comment at the row says why this crate does.
    Reads,
}
use Reference::{Reads, Refuses};

fn length(len: u64, rest: &[u8]) -> Vec<u8> {
    [&len.to_le_bytes(), rest].concat()
}

fn rows() -> Vec<(&'static str, Vec<u8>, Reference, &'static str)> {
    let a = entry("a", "U8", "[2]", "[0,2]");
    let b = entry("b", "U8", "[2]", "[2,4]");
    let one = |entry: String| file(&header(&[&entry]), &[0; 4]);
    let two = |second: String| file(&header(&[&a, &second]), &[0; 4]);
    let deep = format!("{}1{}", "[".repeat(126), "]".repeat(126));
    vec![
        (
            "no bytes",
            vec![],
            Refuses,
            "header, length at byte 0 needs 8 bytes, but 0 are left: the file is cut short or not of this format",
        ),
        (
            "half a length",
            vec![2, 0, 0],
            Refuses,
            "header, length at byte 0 needs 8 bytes, but 3 are left: the file is cut short or not of this format",
        ),
        (
            "no header",
            length(0, b""),
            Refuses,
            "header at byte 8: does not begin with `{`: not a safetensors file",
        ),
        (
            "length beyond the file",
            length(3, b"{}"),
            Refuses,
            "header at byte 8 needs 3 bytes, but 2 are left: the file is cut short or not of this format",
        ),
        (
            "length near 2^64",
            length(u64::MAX - 7, b"{}"),
            Refuses,
            "header at byte 8 needs 18446744073709551608 bytes, but 2 are left: the file is cut short or not of this format",
        ),
        ("not UTF-8", raw(b"{\"\xff\":1}", &[]), Refuses, "header at byte 10: is not valid UTF-8"),
        // The document says that the header must begin with `{`.
        (
            "space first",
            file(" {}", &[]),
            Reads,
            "header at byte 8: does not begin with `{`: not a safetensors file",
        ),
        (
            "a list",
            file("[]", &[]),
            Refuses,
            "header at byte 8: does not begin with `{`: not a safetensors file",
        ),
        ("not JSON", file("{\"a\" 1}", &[]), Refuses, "header at byte 13: is not good JSON: expected `:`"),
        (
            "JSON cut short",
            file("{\"a\":", &[]),
            Refuses,
            "header at byte 12: is not good JSON: EOF while parsing a value",
        ),
        (
            "more after it",
            file("{}x", &[]),
            Refuses,
            "header at byte 10: is not good JSON: trailing characters",
        ),
        (
            "bytes after the data",
            file("{}", &[0; 3]),
            Refuses,
            "data at byte 10: 3 bytes follow the last tensor, which must end the file",
        ),
        (
            "a tensor that is a number",
            file("{\"a\":5}", &[]),
            Refuses,
            "header at byte 13: invalid type: integer `5`, expected an object with dtype, shape and data_offsets",
        ),
        (
            "no dtype",
            file(r#"{"a":{"shape":[2],"data_offsets":[0,2]}}"#, &[0; 2]),
            Refuses,
            "tensor 0 \"a\" at byte 9: has no key `dtype`",
        ),
        (
            "no shape",
            file(r#"{"a":{"dtype":"U8","data_offsets":[0,2]}}"#, &[0; 2]),
            Refuses,
            "tensor 0 \"a\" at byte 9: has no key `shape`",
        ),
        (
            "no data_offsets",
            file(r#"{"a":{"dtype":"U8","shape":[2]}}"#, &[0; 2]),
            Refuses,
            "tensor 0 \"a\" at byte 9: has no key `data_offsets`",
        ),
        (
            "dtype twice",
            file(r#"{"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#, &[0; 2]),
            Refuses,
            "tensor 0 \"a\" at byte 9: the name \"dtype\" is used twice",
        ),
        (
            "shape twice",
            file(r#"{"a":{"dtype":"U8","shape":[2],"shape":[2],"data_offsets":[0,2]}}"#, &[0; 2]),
            Refuses,
            "tensor 0 \"a\" at byte 9: the name \"shape\" is used twice",
        ),
        (
            "an unknown dtype",
            one(entry("a", "Q4", "[4]", "[0,4]")),
            Refuses,
            "tensor 0 \"a\", dtype at byte 9: \"Q4\" is no dtype of safetensors",
        ),
        (
            "a dtype in lower case",
            one(entry("a", "u8", "[4]", "[0,4]")),
            Refuses,
            "tensor 0 \"a\", dtype at byte 9: \"u8\" is no dtype of safetensors",
        ),
        (
            "a dtype that is null",
            file(r#"{"a":{"dtype":null,"shape":[2],"data_offsets":[0,2]}}"#, &[0; 2]),
            Refuses,
            "header at byte 25: invalid type: null, expected the name of a dtype",
        ),
        (
            "a negative dimension",
            one(entry("a", "U8", "[-1]", "[0,4]")),
            Refuses,
            "header at byte 37: invalid value: integer `-1`, expected u64",
        ),
        (
            "a dimension with a point",
            one(entry("a", "U8", "[4.0]", "[0,4]")),
            Refuses,
            "header at byte 38: invalid type: floating point `4.0`, expected u64",
        ),
        (
            "a dimension of 2^64",
            one(entry("a", "U8", "[18446744073709551616]", "[0,4]")),
            Refuses,
            "header at byte 55: invalid type: floating point `1.8446744073709552e+19`, expected u64",
        ),
        (
            "one offset",
            one(entry("a", "U8", "[4]", "[0]")),
            Refuses,
            "header at byte 56: invalid length 1, expected a tuple of size 2",
        ),
        (
            "three offsets",
            one(entry("a", "U8", "[4]", "[0,4,4]")),
            Refuses,
            "header at byte 59: is not good JSON: trailing characters",
        ),
        (
            "an end before the beginning",
            one(entry("a", "U8", "[4]", "[4,0]")),
            Refuses,
            "tensor 0 \"a\" at byte 9: ends at byte 0 of the data, before it begins at byte 4",
        ),
        (
            "too few bytes",
            file(&header(&[&entry("a", "F32", "[2]", "[0,4]")]), &[0; 4]),
            Refuses,
            "tensor 0 \"a\" at byte 9: is 4 bytes long, but dtype and shape imply 8",
        ),
        (
            "half a byte",
            one(entry("a", "F4", "[7]", "[0,4]")),
            Refuses,
            "tensor 0 \"a\" at byte 9: the shape [7] does not divide into whole blocks of f4",
        ),
        (
            "data beyond the file",
            one(entry("a", "U8", "[5]", "[0,5]")),
            Refuses,
            "tensor 0 \"a\" at byte 9: covers 5 bytes from byte 61, but the file ends at byte 65",
        ),
        (
            "data near 2^64",
            one(entry("a", "U8", "[1]", "[18446744073709551614,18446744073709551615]")),
            Refuses,
            "tensor 0 \"a\" at byte 9: covers 1 bytes from byte 18446744073709551614, but the file ends at byte 103",
        ),
        (
            "a product that overflows",
            one(entry("a", "U8", "[4294967296,4294967296]", "[0,4]")),
            Refuses,
            "tensor 0 \"a\" at byte 9: the shape [4294967296, 4294967296] has more elements than a file can hold",
        ),
        (
            "a product that overflows on the way",
            file(&header(&[&entry("a", "U8", "[4294967296,4294967296,0]", "[0,0]")]), &[]),
            Refuses,
            "tensor 0 \"a\" at byte 9: the shape [4294967296, 4294967296, 0] has more elements than a file can hold",
        ),
        (
            "bytes that overflow",
            one(entry("a", "U64", "[2305843009213693952]", "[0,4]")),
            Refuses,
            "tensor 0 \"a\" at byte 9: the shape [2305843009213693952] has more elements than a file can hold",
        ),
        (
            "a hole at the start",
            one(entry("a", "U8", "[3]", "[1,4]")),
            Refuses,
            "tensor 0 \"a\", data_offsets at byte 62: begins at byte 1 of the data, but the tensors before it end at byte 0: holes and overlaps are not allowed",
        ),
        (
            "a hole between",
            two(entry("b", "U8", "[1]", "[3,4]")),
            Refuses,
            "tensor 1 \"b\", data_offsets at byte 116: begins at byte 3 of the data, but the tensors before it end at byte 2: holes and overlaps are not allowed",
        ),
        (
            "an overlap",
            two(entry("b", "U8", "[3]", "[1,4]")),
            Refuses,
            "tensor 1 \"b\", data_offsets at byte 114: begins at byte 1 of the data, but the tensors before it end at byte 2: holes and overlaps are not allowed",
        ),
        (
            "tied weights",
            file(&header(&[&a, &entry("b", "U8", "[2]", "[0,2]")]), &[0; 2]),
            Refuses,
            "tensor 1 \"b\", data_offsets at byte 113: begins at byte 0 of the data, but the tensors before it end at byte 2: holes and overlaps are not allowed",
        ),
        (
            "an empty tensor inside another",
            two(entry("b", "U8", "[0]", "[1,1]")),
            Refuses,
            "tensor 1 \"b\", data_offsets at byte 114: begins at byte 1 of the data, but the tensors before it end at byte 2: holes and overlaps are not allowed",
        ),
        (
            "bytes that no tensor has",
            two(entry("b", "U8", "[1]", "[2,3]")),
            Refuses,
            "data at byte 116: 1 bytes follow the last tensor, which must end the file",
        ),
        // A duplicate name is refused. The reference implementation keeps the last tensor.
        (
            "a name twice",
            file(&header(&[&a, &entry("a", "U8", "[2]", "[0,2]")]), &[0; 2]),
            Reads,
            "tensor 1 \"a\" at byte 61: the name \"a\" is used twice",
        ),
        (
            "a name twice, once with escapes",
            file(&header(&[&a, &entry("\\u0061", "U8", "[2]", "[0,2]")]), &[0; 2]),
            Reads,
            "tensor 1 \"a\" at byte 116: the name \"a\" is used twice",
        ),
        (
            "metadata twice",
            file(r#"{"__metadata__":{},"__metadata__":{}}"#, &[]),
            Refuses,
            "header at byte 27: the name \"__metadata__\" is used twice",
        ),
        (
            "a key twice",
            file(r#"{"__metadata__":{"k":"1","k":"1"}}"#, &[]),
            Reads,
            "metadata at byte 33: the name \"k\" is used twice",
        ),
        (
            "metadata with a number",
            file(r#"{"__metadata__":{"k":1}}"#, &[]),
            Refuses,
            "header at byte 29: invalid type: integer `1`, expected a string",
        ),
        (
            "metadata with an object",
            file(r#"{"__metadata__":{"k":{}}}"#, &[]),
            Refuses,
            "header at byte 28: invalid type: map, expected a string",
        ),
        (
            "metadata that are a list",
            file(r#"{"__metadata__":[]}"#, &[]),
            Refuses,
            "header at byte 23: invalid type: sequence, expected an object of strings as `__metadata__`",
        ),
        (
            "metadata with a null",
            file(r#"{"__metadata__":{"k":null}}"#, &[]),
            Refuses,
            "header at byte 32: invalid type: null, expected a string",
        ),
        (
            "null and metadata",
            file(r#"{"__metadata__":null,"__metadata__":{}}"#, &[]),
            Refuses,
            "header at byte 29: the name \"__metadata__\" is used twice",
        ),
        (
            "null twice",
            file(r#"{"__metadata__":null,"__metadata__":null}"#, &[]),
            Refuses,
            "header at byte 29: the name \"__metadata__\" is used twice",
        ),
        (
            "half a surrogate",
            file(r#"{"__metadata__":{"k":"\ud800"}}"#, &[]),
            Refuses,
            "header at byte 36: is not good JSON: unexpected end of hex escape",
        ),
        // JSON may be nested up to 127 levels deep.
        (
            "an unknown key that nests too deep",
            file(
                &format!(r#"{{"a":{{"x":{deep},"dtype":"U8","shape":[2],"data_offsets":[0,2]}}}}"#),
                &[0; 2],
            ),
            Refuses,
            "the depth of JSON is 128, the limit is 127: raise it in Limits if the file is trusted",
        ),
        (
            "a second tensor that is broken",
            file(&header(&[&a, &b, "\"c\":{}"]), &[0; 4]),
            Refuses,
            "tensor 2 \"c\" at byte 113: has no key `dtype`",
        ),
    ]
}

#[test]
fn every_rule_is_checked_and_says_where() {
    let mut wrong = Vec::new();
    for (name, bytes, reference, expected) in rows() {
        let (result, peak) = peak(|| Index::parse(&bytes).map(|_| ()));
        let found = result.map_err(|error| error.to_string()).expect_err(name);
        if found != expected {
            wrong.push(format!("{name}:\n  found    {found}\n  expected {expected}"));
        }
        let in_ranges = Reader::from_source(CountingSource::new(bytes.clone())).unwrap_err();
        assert_eq!(in_ranges.to_string(), found, "{name}, by ranges");
        assert!(peak < 20_000, "{name}: {peak} bytes");
        let refused = SafeTensors::deserialize(&bytes).is_err();
        if refused != (reference == Refuses) {
            wrong.push(format!("{name}: the reference does not do so"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns whether this crate is stricter than the reference implementation, or closer to the document.
fn is_ours_alone(error: &Error) -> bool {
    let text = error.to_string();
    text.ends_with("is used twice")
        || text.contains("does not begin with `{`")
        || text.contains("as `__metadata__`")
}

/// This crate reads exactly what the reference implementation reads: tries every byte of a header with every
/// other byte that has a meaning in JSON.
#[test]
fn a_damaged_header_is_read_if_and_only_if_the_reference_reads_it() {
    let tensors = [
        Tensor::counting("a", modelfmt_safetensors::DType::F16, &[2, 1], 0),
        Tensor::counting("b\n", modelfmt_safetensors::DType::U8, &[], 0),
        Tensor::counting("c", modelfmt_safetensors::DType::F4, &[0, 3], 0),
    ];
    let good = write(&tensors, Some(&strings([("k", "v")])), &Execution::default());
    let header_end = 8 + usize::from(good[0]);
    let (mut read, mut refused) = (0, 0);
    for at in 0..header_end {
        for &byte in b"\0 !\"+,-./0123456789:BEFU[\\]_abcdefnstu{}\x7f\x80\xc3\xff" {
            let damaged = testkit::patched(&good, at, &[byte]);
            let (ours, reference) = (Index::parse(&damaged), SafeTensors::deserialize(&damaged));
            match (&ours, &reference) {
                (Ok(_), Ok(_)) => read += 1,
                (Err(_), Err(_)) => refused += 1,
                (Err(error), Ok(_)) if is_ours_alone(error) => refused += 1,
                _ => panic!("byte {at} as {:?}: {ours:?}, the reference {reference:?}", char::from(byte)),
            }
        }
    }
    assert!(read > 300 && refused > 3000, "{read} read, {refused} refused");
}

#[test]
fn a_file_that_is_cut_short_is_refused_wherever() {
    let tensors = [
        Tensor::counting("a", modelfmt_safetensors::DType::F32, &[2], 0),
        Tensor::counting("b", modelfmt_safetensors::DType::U8, &[3], 0),
    ];
    let good = write(&tensors, Some(&strings([("k", "v")])), &Execution::default());
    for len in 0..good.len() {
        let error = AnyError::from(Index::parse(&good[..len]).unwrap_err());
        assert!(error.is_end_missing(), "{len} bytes: fetching it again helps");
        assert!(
            Reader::from_source(CountingSource::new(good[..len].to_vec())).is_err(),
            "{len} bytes by ranges"
        );
    }
    let mut longer = good.clone();
    longer.push(0);
    let error = AnyError::from(Index::parse(&longer).unwrap_err());
    assert!(!error.is_end_missing(), "fetching it again does not help");
    assert!(Index::parse(&good).is_ok());
}

#[test]
fn what_is_legal_is_read() {
    let foreign = r#"{"b":{"dtype":"U8","extra":[{"x":null}],"shape":[1],"data_offsets":[2,3]},
        "none":{"shape":[0,9],"dtype":"F64","data_offsets":[2,2]},
        "a\u00e9":{"data_offsets":[0,2],"dtype":"F16","shape":[]} , "__metadata__":{ "k" : "v" }}   "#;
    let bytes = file(foreign, &[1, 2, 3]);
    let reader = Reader::from_source(bytes.as_slice()).unwrap();
    // The order of the header, which differs from the order of the data.
    assert!(reader.tensors().iter().map(|t| t.name).eq(["b", "none", "aé"]));
    assert_eq!(reader.tensor("aé").unwrap().bytes(), [1, 2]);
    assert_eq!(reader.tensor("b").unwrap().bytes(), [3]);
    assert!(reader.verify(VerifyLevel::Full).is_ok());
    assert!(SafeTensors::deserialize(&bytes).is_ok());
    assert!(Index::parse(&file("{}", &[])).unwrap().metadata().is_none());
    assert!(Index::parse(&file(r#"{"__metadata__":{}}"#, &[])).unwrap().metadata().unwrap().is_empty());
    // The reference implementation treats null as no metadata.
    let null = file(r#"{"__metadata__":null}"#, &[]);
    assert!(Index::parse(&null).unwrap().metadata().is_none());
    assert!(SafeTensors::deserialize(&null).is_ok());
}

fn lowered(lower: impl FnOnce(&mut Limits)) -> OpenOptions {
    let mut limits = Index::default_limits();
    lower(&mut limits);
    OpenOptions::new().limits(limits)
}

#[test]
fn each_limit_is_kept() {
    let tensors = [
        Tensor::counting("aa", modelfmt_safetensors::DType::F32, &[2, 1], 0),
        Tensor::counting("b", modelfmt_safetensors::DType::U8, &[3], 0),
    ];
    let bytes = write(&tensors, Some(&strings([("k", "v"), ("l", "w")])), &Execution::default());
    let what = |options: OpenOptions| match options.open_source(bytes.as_slice()) {
        Err(Error::Limit { what, found, max }) => format!("{what}: {found} > {max}"),
        other => format!("{other:?}"),
    };
    assert_eq!(what(lowered(|l| l.tensors = 1)), "the number of tensors: 2 > 1");
    assert_eq!(what(lowered(|l| l.entries = 1)), "the number of metadata entries: 2 > 1");
    assert_eq!(what(lowered(|l| l.name_len = 1)), "the length of a name: 2 > 1");
    assert_eq!(what(lowered(|l| l.name_len = 0)), "the length of a metadata key: 1 > 0");
    assert_eq!(what(lowered(|l| l.rank = 1)), "the rank: 2 > 1");
    assert_eq!(what(lowered(|l| l.metadata_len = 3)), "the length of the metadata: 4 > 3");
    assert_eq!(what(lowered(|l| l.index_len = 50)), "the length of the header: 144 > 50");
    assert_eq!(what(lowered(|l| l.depth = 2)), "the depth of JSON: 3 > 2");
    assert!(lowered(|l| (l.tensors, l.rank, l.depth) = (2, 2, 3)).open_source(bytes.as_slice()).is_ok());
    // The reference implementation reads headers of up to 100,000,000 bytes.
    let long = CountingSource::new(length(100_000_001, &vec![b' '; 100_000_001]));
    assert!(matches!(
        Reader::from_source(&long),
        Err(Error::Limit { found: 100_000_001, max: 100_000_000, .. })
    ));
    assert_eq!(long.nbytes(), 8);
    let limits = |max| {
        let mut limits = Index::default_limits();
        limits.index_len = max;
        limits
    };
    assert!(matches!(SetIndex::parse(br#"{"weight_map":{}}"#, &limits(16)), Err(Error::Limit { .. })));
    assert!(SetIndex::parse(br#"{"weight_map":{}}"#, &limits(17)).is_ok());
}

#[test]
fn errors_of_the_source_say_where() {
    let bytes = write(
        &[Tensor::counting("a", modelfmt_safetensors::DType::U8, &[9], 0)],
        None,
        &Execution::default(),
    );
    let open = |broken| {
        let source = FaultySource::new(bytes.clone(), broken);
        parse_source(Index::parser(bytes.len() as u64, OpenOptions::new().settings()), &source)
            .map(|_| source)
    };
    assert_eq!(open(0..1).unwrap_err().to_string(), "cannot read 8 bytes at byte 0");
    assert_eq!(open(8..9).unwrap_err().to_string(), "cannot read 56 bytes at byte 8");
    let reader = Reader::from_source(open(64..65).unwrap()).unwrap();
    assert_eq!(reader.tensor("a").unwrap_err().to_string(), "cannot read 9 bytes at byte 64");
    assert_eq!(reader.tensor("b").unwrap_err().to_string(), "no tensor is named \"b\"");
    let error = reader.read_into(0, 8, &mut [0; 2]).unwrap_err();
    assert_eq!(error.to_string(), "bytes 8..8+2 are outside tensor \"a\" of 9 bytes");
    assert!(reader.tensor(1).is_err());
}
