//! Version 0.3.0: one row per rule that a file can break, every truncation, and round trips.
#![cfg(feature = "v0_3")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use crate::common::{Tensor, malformed, open, with_manifest, write_0_3};
use mag::modelfmt_core::value::{Object, Value, json};
use mag::modelfmt_core::{CommonFault, Container, Encoding};
use mag::{
    DType, Error, Fault, Limits, ManifestOptions, OpenOptions, Plan, Reader, Status, TensorSpec, VerifyLevel,
    Version, WriteError,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use testkit::{patched, peak};

/// The keys of a manifest except for the tensors.
const FRONT: &str = r#""manifest_ver":1,"timestamp":"t","magnetron_ver":"0.2.2","snapshot_ver":"0.3.0","usr_metadata":{"k":NaN}"#;
const A: &str = r#""a":{"shape":[2,3],"dtype":"float32","dtype_id":0,"offset":0,"nbytes":24}"#;
const B: &str = r#""b":{"shape":[4],"dtype":"int16","dtype_id":8,"offset":4096,"nbytes":8}"#;
const VALUES: usize = 4096 + 8;

fn manifest() -> String {
    format!(r#"{{{FRONT},"tensor_map":{{{A},{B}}}}}"#)
}

/// Returns a file with f32 [2, 3] and i16 [4], with zeros between them.
fn good() -> Vec<u8> {
    file(&manifest())
}

fn file(manifest: &str) -> Vec<u8> {
    let mut file = with_manifest(manifest.as_bytes(), VALUES);
    file[4096 + 24..8192].fill(0);
    file
}

#[test]
fn the_rules_of_the_header_are_kept_at_open() {
    let end = good().len() as u64;
    let out = |offset, len| CommonFault::OutOfBounds { offset, len, end }.into();
    let rows: Vec<(&str, usize, u64, u64, Fault)> = vec![
        ("an unknown bit", 8, 2 | 44 << 32, 8, Fault::Reserved(2)),
        ("a manifest over the header", 12, 43, 12, place(43, "the manifest is after the header of 44 bytes")),
        ("a manifest behind the file", 20, 1 << 40, 20, out(44, 1 << 40)),
        ("a manifest that wraps", 12, u64::MAX, 20, out(u64::MAX, manifest().len() as u64)),
        ("values over the manifest", 28, 0, 28, place(0, BEHIND)),
        ("values that are not aligned", 28, 4097, 28, place(4097, BEHIND)),
        ("no values", 36, 0, 36, place(0, "values take from 1 byte to 2^63 - 1")),
        ("2^63 bytes of values", 36, 1 << 63, 36, place(1 << 63, "values take from 1 byte to 2^63 - 1")),
        ("values behind the file", 36, VALUES as u64 + 1, 36, out(4096, VALUES as u64 + 1)),
        ("values that begin behind the file", 28, 1 << 40, 36, out(1 << 40, VALUES as u64)),
    ];
    for (rule, at, number, offset, fault) in rows {
        let found = malformed(&patched(&good(), at, &number.to_le_bytes()));
        assert_eq!(found, (offset, fault), "{rule}");
    }
}

const BEHIND: &str = "values begin after the manifest, at a multiple of 4,096";

fn place(found: u64, rule: &'static str) -> Fault {
    Fault::Place { found, rule }
}

/// Each row has a text in the manifest of [`good`], its replacement, the offset of the fault, and the fault.
#[test]
fn the_rules_of_the_manifest_are_kept_at_open() {
    let entry = manifest().find(A).unwrap() as u64 + 44;
    let second = manifest().find(B).unwrap() as u64 + 44;
    let metadata = manifest().find("{\"k\"").unwrap() as u64 + 44;
    let missing = Fault::Missing;
    let twice = |name: &str| CommonFault::Duplicate(name.to_owned()).into();
    let dtype = |code| Fault::DType { code, version: Version::V0_3 };
    let nbytes = |found, expected| CommonFault::Nbytes { found, expected }.into();
    let out = |offset, len| CommonFault::OutOfBounds { offset, len, end: VALUES as u64 }.into();
    let many = |shape: &str| CommonFault::TooManyElements(shape.to_owned()).into();
    let no_object = || CommonFault::Metadata("is an array and not an object".to_owned()).into();
    let rows: Vec<(&str, &str, u64, Fault)> = vec![
        (r#""manifest_ver":1"#, r#""manifest_ver":2"#, 44, Fault::ManifestVersion(2)),
        (
            r#""snapshot_ver":"0.3.0""#,
            r#""snapshot_ver":"0.3.1""#,
            44,
            Fault::SnapshotVersion("0.3.1".to_owned()),
        ),
        (r#""manifest_ver""#, r#""manifest""#, 44, missing("manifest_ver")),
        (r#""timestamp""#, r#""time""#, 44, missing("timestamp")),
        (r#""magnetron_ver""#, r#""magnetron""#, 44, missing("magnetron_ver")),
        (r#""snapshot_ver""#, r#""snapshot""#, 44, missing("snapshot_ver")),
        (r#""usr_metadata""#, r#""metadata""#, 44, missing("usr_metadata")),
        (r#""tensor_map""#, r#""tensors""#, 44, missing("tensor_map")),
        (r#""timestamp""#, r#""snapshot_ver":"0.3.0","timestamp""#, 44, twice("snapshot_ver")),
        (r#"{"k":NaN}"#, "[]", metadata, no_object()),
        (r#""shape":[2,3],"#, "", entry, missing("shape")),
        (r#""dtype":"float32","#, "", entry, missing("dtype")),
        (r#""dtype_id":0,"#, "", entry, missing("dtype_id")),
        (r#""offset":0,"#, "", entry, missing("offset")),
        (r#","nbytes":24"#, "", entry, missing("nbytes")),
        (r#""offset":0,"#, r#""offset":0,"offset":0,"#, entry, twice("offset")),
        (r#""dtype_id":8"#, r#""dtype_id":13"#, second, dtype(13)),
        (r#""dtype_id":8"#, r#""dtype_id":18446744073709551615"#, second, dtype(u64::MAX)),
        (r#""b":"#, r#""a":"#, second, twice("a")),
        ("[4]", "[5]", second, nbytes(8, 10)),
        ("[4]", "[]", second, nbytes(8, 2)),
        (r#""nbytes":8"#, r#""nbytes":7"#, second, nbytes(7, 8)),
        ("[4]", "[9223372036854775808]", second, Fault::Dimension(1 << 63)),
        ("[4]", "[4611686018427387904]", second, many("[4611686018427387904]")),
        ("[2,3]", "[4611686018427387904,8]", entry, many("[4611686018427387904, 8]")),
        (r#""offset":4096"#, r#""offset":4097"#, second, out(4097, 8)),
        (r#""offset":4096"#, r#""offset":18446744073709551615"#, second, out(u64::MAX, 8)),
    ];
    for (old, new, offset, fault) in rows {
        let changed = manifest().replacen(old, new, 1);
        assert_ne!(changed, manifest(), "{old}");
        assert_eq!(malformed(&file(&changed)), (offset, fault), "{old} to {new}");
    }
    let at = manifest().find("0.2.2").unwrap();
    let nul = patched(&good(), 44 + at, &[0]);
    assert_eq!(malformed(&nul), (44 + at as u64, Fault::Nul));
    let latin = patched(&good(), 44 + at, &[0xe9]);
    assert_eq!(malformed(&latin), (44 + at as u64, CommonFault::Utf8.into()));
}

#[test]
fn what_is_no_manifest_is_refused_with_its_place() {
    for (old, new, expected) in [
        ("\"tensor_map\":{", "\"tensor_map\":[", "expected"),
        ("[2,3]", "[2,-3]", "invalid value"),
        ("[2,3]", "[2,3.0]", "invalid type"),
        ("\"t\"", "7", "expected a string"),
        ("NaN", "nan", "is not good JSON"),
        ("NaN", "[[[[", "is not good JSON"),
        (r#"{"k":NaN}"#, r#"{"k":1,"k":2}"#, "duplicate key"),
        (r#""offset":0"#, r#""offset":null"#, "expected u64"),
        ("\"dtype\":\"float32\"", "\"dtype\":0", "expected a string"),
    ] {
        let changed = manifest().replacen(old, new, 1);
        let text = open(&file(&changed)).err().unwrap().to_string();
        assert!(text.contains(expected) && text.starts_with("manifest"), "{old} to {new}: {text}");
    }
    for text in ["", "{", "[]", "null", "7", "{}{}", "{\"a\"}"] {
        assert!(matches!(open(&file(text)), Err(Error::Malformed { .. })), "{text}");
    }
}

#[test]
fn errors_name_the_tensor_and_the_field() {
    let changed = manifest().replacen("[4]", "[5]", 1);
    let at = 44 + changed.find("\"b\"").unwrap();
    let text = open(&file(&changed)).err().unwrap().to_string();
    let expected =
        format!("tensor 1 \"b\", nbytes at byte {at}: is 8 bytes long, but dtype and shape imply 10");
    assert_eq!(text, expected);
}

#[test]
fn every_length_of_a_file_that_was_cut_is_an_error() {
    let good = good();
    for len in (0..1000).chain(4000..4200).chain(8100..good.len()) {
        let error = open(&good[..len]).err().unwrap_or_else(|| panic!("{len} bytes open"));
        match error {
            Error::Truncated { .. } => assert!(len < 44, "{len} bytes: {error}"),
            Error::Malformed { fault: Fault::Common(CommonFault::OutOfBounds { .. }), .. } => {
                assert!(len >= 44, "{len} bytes: {error}");
            }
            _ => panic!("{len} bytes: {error}"),
        }
    }
}

#[test]
fn what_is_for_verify_opens_and_is_reported() {
    let findings = |file: &[u8]| {
        let reader = open(file).unwrap();
        assert!(reader.verify(VerifyLevel::Control).is_ok());
        let report = reader.verify(VerifyLevel::Full);
        assert_eq!(report.check("crc").unwrap().status, Status::Absent);
        report.errors
    };
    assert!(findings(&good()).is_empty());
    let padded = "tensor \"b\", padding before it at byte 5000: is 0x07 and not zero";
    assert_eq!(findings(&patched(&good(), 5000, &[7])), [padded]);
    let end = 44 + manifest().len();
    let before = format!("padding before the values at byte {end}: is 0x07 and not zero");
    assert_eq!(findings(&patched(&good(), end, &[7])), [before]);
    let misaligned = file(&manifest().replace("\"offset\":4096", "\"offset\":4080"));
    let found = findings(&misaligned);
    assert_eq!(found[0], "tensor \"b\" at byte 8176: the offset is not a multiple of 4096");
    assert!(
        found.iter().all(|finding| !finding.contains("after the last")),
        "16 bytes may be padding: {found:?}"
    );
    let overlap = findings(&file(&manifest().replace("\"offset\":4096", "\"offset\":8")));
    assert!(
        overlap.contains(&"tensor \"b\" at byte 4104: shares some of its bytes with tensor \"a\"".to_owned())
    );
    assert!(
        overlap.iter().any(|finding| finding.contains("4072 bytes after")) || overlap.len() == 3,
        "{overlap:?}"
    );
    let gap = file(&format!(r#"{{{FRONT},"tensor_map":{{{B}}}}}"#));
    assert_eq!(findings(&gap), ["tensor \"b\" at byte 8192: 4096 bytes before it belong to no tensor"]);
    let mut behind = with_manifest(format!(r#"{{{FRONT},"tensor_map":{{{A}}}}}"#).as_bytes(), 24 + 4096);
    assert_eq!(
        findings(&behind),
        ["values at byte 4120: 4096 bytes after the last tensor belong to no tensor"]
    );
    behind = with_manifest(format!(r#"{{{FRONT},"tensor_map":{{{A}}}}}"#).as_bytes(), 25);
    assert_eq!(findings(&behind), ["padding after the values at byte 4120: is 0x18 and not zero"]);
    let tied = file(&manifest().replace(B, &A.replacen("\"a\"", "\"b\"", 1)));
    assert_eq!(findings(&tied).len(), 1, "only what no tensor covers: {:?}", findings(&tied));
}

#[test]
fn nothing_is_allocated_on_the_word_of_a_number() {
    let (result, nbytes) = peak(|| {
        let mut file = good();
        file.truncate(44);
        Reader::from_source(patched(&file, 20, &(1u64 << 40).to_le_bytes())).map(|_| ())
    });
    assert!(result.is_err() && nbytes < 40_000, "{nbytes}");
    let empty = (0..2000).map(|n| format!(r#""{n}":{{}}"#)).collect::<Vec<_>>().join(",");
    let file = with_manifest(format!(r#"{{"usr_metadata":{{{empty}}}}}"#).as_bytes(), 1);
    assert!(open(&file).is_err());
}

#[test]
fn metadata_may_nest_as_deep_as_json_may() {
    let nested = |levels: usize| {
        let value = ["[".repeat(levels), "]".repeat(levels)].concat();
        open(&file(&manifest().replace("NaN", &value))).map(|_| ())
    };
    // The manifest and the metadata are themselves two levels.
    assert!(nested(125).is_ok());
    assert!(nested(126).is_err());
    let deep = |levels: usize| {
        let inner = (0..levels).fold(Value::Null, |inner, _| Value::from(vec![inner]));
        let specs = [TensorSpec::new("w", DType::I8, vec![1])];
        Plan::v0_3(specs, &Object::from_iter([("k", inner)]), &ManifestOptions::new())
    };
    assert!(deep(125).is_ok() && matches!(deep(126), Err(WriteError::Unsupported { .. })));
}

#[test]
fn every_limit_can_be_lowered() {
    type Lower = fn(&mut Limits);
    let len = manifest().len() as u64;
    let rows: [(Lower, &str, u64, u64); 5] = [
        (|l| l.tensors = 1, "the number of tensors", 2, 1),
        (|l| l.name_len = 0, "the length of a tensor name", 1, 0),
        (|l| l.rank = 1, "the rank of a tensor", 2, 1),
        (|l| l.metadata_len = 8, "the length of the metadata", 9, 8),
        (|l| l.index_len = 40, "the length of the manifest", len, 40),
    ];
    for (lower, name, number, cap) in rows {
        let mut limits = Limits::default();
        lower(&mut limits);
        let result = OpenOptions::new().limits(limits).open_source(good().as_slice()).map(|_| ());
        let Err(Error::Limit { what, found, max }) = result else { panic!("{name}: {result:?}") };
        assert_eq!((what, found, max), (name, number, cap));
    }
}

#[test]
fn what_version_0_3_cannot_hold_is_refused() {
    let refused =
        |spec: TensorSpec<'static>| match Plan::v0_3([spec], &Object::new(), &ManifestOptions::new()) {
            Err(WriteError::Unsupported { fault, .. }) => fault,
            other => panic!("{:?}", other.map(|_| "planned")),
        };
    assert_eq!(refused(TensorSpec::new("w", DType::F64, vec![1])), Fault::NoCodeIn0_3(DType::F64));
    assert_eq!(refused(TensorSpec::new("w", DType::F32, vec![1; 17])), Fault::Rank { found: 17, max: 16 });
    assert_eq!(refused(TensorSpec::new("x".repeat(65_536), DType::F32, vec![1])), Fault::KeyLength(65_536));
    assert_eq!(refused(TensorSpec::new("w", DType::F32, vec![0])), Fault::NoValues);
    let mut declared = TensorSpec::new("w", DType::F32, vec![1]);
    declared.has_data = false;
    assert_eq!(refused(declared), Fault::Declared);
}

/// A file from a big-endian machine: values are swapped, even if only a part is read, and the reader reports
/// the byte order.
#[test]
fn big_endian_values_are_read_little_endian() {
    let little = good();
    let mut big = patched(&little, 8, &[1]);
    big[4096..4120].chunks_mut(4).for_each(<[u8]>::reverse);
    big[8192..8200].chunks_mut(2).for_each(<[u8]>::reverse);
    let (little, big) = (open(&little).unwrap(), open(&big).unwrap());
    assert!(big.index().is_big_endian() && !little.index().is_big_endian());
    assert_eq!(Container::location(&big, 0).unwrap().encoding, Encoding::BigEndian);
    for position in 0..2 {
        let expected = little.tensor(position).unwrap().bytes().to_vec();
        assert_eq!(big.tensor(position).unwrap().bytes(), expected);
        assert!(big.tensor_slice(["a", "b"][position]).is_err() && little.tensor_slice("a").is_ok());
        for (from, to) in
            (0..expected.len()).flat_map(|from| (from..=expected.len()).map(move |to| (from, to)))
        {
            let mut part = vec![0; to - from];
            big.read_into(position, from as u64, &mut part).unwrap();
            assert_eq!(part, expected[from..to]);
            let range = big.read_range(position, from as u64..to as u64).unwrap();
            assert_eq!(range.to_vec(), expected[from..to]);
        }
    }
}

fn metadata() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop_oneof![any::<f64>(), Just(f64::INFINITY), Just(f64::NEG_INFINITY)]
            .prop_map(|x| Value::from(if x.is_nan() { f64::NAN } else { x })),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Object>().into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_written_is_read(
        tensors in prop::collection::btree_map(
            prop_oneof!["[a-z0-9._]{1,24}", any::<String>()],
            (prop::sample::select(&[DType::F32, DType::BF16, DType::F8E4M3, DType::Bool, DType::U8, DType::I64][..]),
                prop::collection::vec(0u64..6, 0..5), any::<u8>()),
            0..8,
        ),
        metadata in prop::collection::btree_map(".{0,6}", metadata(), 0..5),
    ) {
        let mut tensors: Vec<Tensor> = tensors.iter()
            .map(|(name, (dtype, shape, first))| Tensor::counting(name, *dtype, shape, *first))
            .collect();
        tensors.push(Tensor::counting("one with values\n", DType::I16, &[], 7));
        let metadata: Object = metadata.into_iter().collect();
        let file = write_0_3(&tensors, &metadata);
        prop_assert!(write_0_3(&tensors, &metadata) == file, "the same input gives the same bytes");
        let reader = open(&file).unwrap();
        prop_assert_eq!(reader.metadata().unwrap(), &metadata);
        prop_assert!(reader.verify(VerifyLevel::Full).is_ok(), "{:?}", reader.verify(VerifyLevel::Full));
        for (position, tensor) in tensors.iter().enumerate() {
            let found = reader.tensor(position).unwrap();
            prop_assert_eq!((found.name(), found.shape()), (tensor.name.as_str(), tensor.shape.as_slice()));
            prop_assert_eq!(found.bytes(), tensor.values.as_slice());
            let offset = Container::location(&reader, position).unwrap().offset.unwrap();
            prop_assert!(tensor.values.is_empty() || offset % 4096 == 0);
        }
        let end = tensors.last().map(|tensor| tensor.values.len()).unwrap();
        prop_assert_eq!(file.len() % 4096, end, "the file ends with the last tensor");
        // The slow reference cannot read what serde_json's JSON does not support.
        if json::to_string(&metadata).is_ok() {
            testkit::reference::compare("a manifest", "mag", &file, &reader as &dyn Container);
        }
    }
}
