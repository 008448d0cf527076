//! Version 2: quant payloads, read and written, and each rule that a file may break.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "test code")]

use modelfmt_core::{CommonFault, Status};
use oinf::ReaderExt as _;
use oinf::{
    DType, Error, Fault, Index, Metadata, Plan, Quant, Reader, Scheme, TensorSpec, VerifyLevel, Version,
    WriteOptions,
};
use testkit::{bounded, patched};

fn channel() -> Quant {
    let zero_points = Some(vec![-1, 300]);
    Quant { scheme: Scheme::Asymmetric, axis: Some(0), scales: vec![0.5, -2.0], zero_points }
}

fn tensor() -> Quant {
    Quant { scheme: Scheme::Symmetric, axis: None, scales: vec![0.25], zero_points: None }
}

fn specs() -> [TensorSpec<'static>; 2] {
    [TensorSpec::new("w", DType::U8, vec![2, 3]), TensorSpec::declared("x", DType::I4, vec![5])]
}

/// Returns a small file that keeps every rule:
///
/// ```text
///  72 tensor w (dtype 80, flags 88, dims 92, nbytes 108, offset 116, quant nbytes 124, quant offset 132)
/// 140 tensor x (flags 156, quant nbytes 184, quant offset 192)
/// 200 values of w
/// 208 quant payload of w (scheme 208, modes 212 and 216, 220 zero, axis 224, count 232, zero axis 240,
///     zero count 248, scales 256, zero points 264)
/// 272 quant payload of x (scheme 272, modes 276 and 280, axis 288, count 296, scale 320, padding 324)
/// 328 end
/// ```
fn good() -> Vec<u8> {
    let options = WriteOptions::new().version(Version::V2).quant("x", tensor()).quant("w", channel());
    let file = crate::common::write_as(&specs(), &Metadata::new(), &[vec![7; 6], vec![]], 1, &options);
    assert_eq!(file.len(), 328);
    file
}

fn findings(file: &[u8]) -> Vec<String> {
    let report = bounded(file.len(), || Reader::from_source(file).unwrap().verify(VerifyLevel::Full));
    assert_eq!(report.is_ok(), report.errors.is_empty());
    report.errors
}

#[test]
fn payloads_are_read_as_they_were_written() {
    let file = good();
    assert!(findings(&file).is_empty());
    let reader = Reader::from_source(&file[..]).unwrap();
    assert_eq!(reader.index().version(), Version::V2);
    assert_eq!(reader.quant("w").unwrap(), Some(channel()));
    assert_eq!(reader.quant("x").unwrap(), Some(tensor()));
    assert!(matches!(reader.quant("y"), Err(Error::NotFound { .. })));
    assert_eq!(reader.quant(2).unwrap(), None);
    assert!(crate::common::rewrite(&reader) == file);
    // In the order of the tensors, whatever the order of the descriptions.
    let [w, x] = specs();
    let options = WriteOptions::new().version(Version::V2).quant("w", channel()).quant("x", tensor());
    assert!(crate::common::write_as(&[x, w], &Metadata::new(), &[vec![], vec![7; 6]], 2, &options) == file);
    for threads in 1..4 {
        assert!(
            crate::common::write_as(&specs(), &Metadata::new(), &[vec![7; 6], vec![]], threads, &options)
                == file
        );
    }
}

#[test]
fn what_version_1_has_not_is_not_written_into_it() {
    let refused = |specs: &[TensorSpec<'_>], metadata: &Metadata<'_>, options: &WriteOptions| {
        let plan = Plan::new(specs.iter().cloned(), metadata, options);
        plan.map(|plan| plan.file_len()).map_err(|error| error.to_string())
    };
    let bf16 = [TensorSpec::new("w", DType::BF16, vec![2])];
    let (one, two) = (WriteOptions::new(), WriteOptions::new().version(Version::V2));
    let text = refused(&bf16, &Metadata::new(), &one).unwrap_err();
    assert!(text.contains("\"w\"") && text.contains("bf16") && text.contains("version 2"), "{text}");
    assert!(refused(&bf16, &Metadata::new(), &one.clone().extended_types(true)).is_ok());
    assert!(refused(&bf16, &Metadata::new(), &two).is_ok());
    let small = oinf::SmallNumber::new(DType::I4, 12).unwrap();
    let array = oinf::NdArray::new(DType::U2, vec![3], vec![0b11_01_10]).unwrap();
    for metadata in [Metadata::new().value("k", small), Metadata::new().value("k", array)] {
        assert!(refused(&[], &metadata, &one).unwrap_err().contains("\"k\""));
        assert!(refused(&[], &metadata, &one.clone().extended_types(true)).is_ok());
    }
    let quant = refused(&specs()[..1], &Metadata::new(), &one.quant("w", channel())).unwrap_err();
    assert!(quant.contains("OINF 1 has none"), "{quant}");
    for (name, quant) in [
        ("y", tensor()),
        ("w", Quant { axis: Some(2), ..channel() }),
        ("w", Quant { axis: Some(1), ..channel() }),
        ("w", Quant { scales: vec![], ..tensor() }),
        ("w", Quant { scheme: Scheme::Symmetric, ..channel() }),
        ("w", Quant { zero_points: None, ..channel() }),
        ("w", Quant { zero_points: Some(vec![0]), ..channel() }),
    ] {
        assert!(refused(&specs(), &Metadata::new(), &two.clone().quant(name, quant)).is_err(), "{name}");
    }
}

#[test]
fn a_broken_entry_is_refused() {
    let words = |n: u64| n.to_le_bytes().to_vec();
    let flags = |n: u32| n.to_le_bytes().to_vec();
    let beyond = |offset, len| Fault::Common(CommonFault::OutOfBounds { offset, len, end: 328 });
    for (name, at, bytes, fault, where_) in [
        ("another flag", 88, flags(7), Fault::FlagBits(4), 88),
        ("no flag, but a place", 88, flags(1), Fault::UndeclaredQuant(208), 132),
        (
            "no flag, but a length",
            156,
            [flags(0), words(5), vec![0; 16], words(56), words(0)].concat(),
            Fault::UndeclaredQuant(56),
            184,
        ),
        ("no values, but a place", 88, flags(2), Fault::DeclaredData(200), 116),
        ("unaligned", 132, words(209), Fault::Unaligned(209), 132),
        ("in the tables", 132, words(192), Fault::BeforeData { offset: 192, data: 200 }, 132),
        ("beyond the end", 132, words(272), beyond(272, 64), 132),
        ("near 2^64", 132, words(u64::MAX - 7), beyond(u64::MAX - 7, 64), 132),
        ("length near 2^64", 124, words(u64::MAX), beyond(208, u64::MAX), 132),
    ] {
        let file = patched(&good(), at, &bytes);
        let found = bounded(file.len(), || Index::parse(&file).map(|_| "opened"));
        match found {
            Err(Error::Malformed { at, fault: found, .. }) => {
                assert_eq!((found, at), (fault, where_), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    // Version 1 has neither the flag nor the fields.
    let file = patched(&good(), 5, &1u32.to_le_bytes());
    assert!(matches!(Index::parse(&file), Err(Error::Malformed { fault: Fault::FlagBits(2), at: 88, .. })));
}

/// Many tensors over one payload: the bytes that are read do not exceed the length of the file.
#[test]
fn payloads_of_many_tensors_do_not_share_bytes_without_end() {
    let specs: Vec<_> =
        (0..20).map(|n| TensorSpec::declared(format!("t{n:02}"), DType::U8, vec![64])).collect();
    let big = Quant { axis: Some(0), scales: vec![1.0; 64], ..tensor() };
    let options = WriteOptions::new().version(Version::V2).quant("t00", big);
    let mut file = crate::common::write_as(&specs, &Metadata::new(), &vec![vec![]; 20], 1, &options);
    let record = 8 + 12 + 8 + 32;
    let (len, offset) = (72 + record - 16, 72 + record - 8);
    let place: Vec<u8> = file[len..offset + 8].to_vec();
    for tensor in 1..20 {
        file = patched(&file, 72 + tensor * record + 16, &2u32.to_le_bytes());
        file = patched(&file, len + tensor * record, &place);
    }
    match Index::parse(&file) {
        Err(Error::Malformed { fault: Fault::SharedQuants(total), .. }) => assert_eq!(total, 20 * 304),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_broken_payload_opens_and_is_found() {
    let words = |n: u64| n.to_le_bytes().to_vec();
    let codes = |n: u32| n.to_le_bytes().to_vec();
    for (name, at, bytes, fault, where_) in [
        ("scheme", 208, codes(3), Fault::QuantCode(3), 208),
        ("scheme 0", 208, codes(0), Fault::QuantCode(0), 208),
        ("symmetric with zero points", 208, codes(1), Fault::QuantZeroPoints, 216),
        ("mode", 212, codes(3), Fault::QuantCode(3), 212),
        ("mode 0", 212, codes(0), Fault::QuantCode(0), 212),
        ("one scale with the count of a dimension", 212, codes(1), Fault::QuantZeroPoints, 216),
        ("zero mode", 216, codes(3), Fault::QuantCode(3), 216),
        ("asymmetric without zero points", 216, codes(0), Fault::QuantZeroPoints, 216),
        ("zero mode of another kind", 216, codes(1), Fault::QuantZeroPoints, 216),
        ("reserved", 220, codes(1), Fault::NotZero(1), 220),
        ("axis beyond the rank", 224, words(2), Fault::QuantAxis { axis: 2, rank: 2 }, 224),
        ("axis near 2^64", 224, words(u64::MAX), Fault::QuantAxis { axis: u64::MAX, rank: 2 }, 224),
        ("axis of another dimension", 224, words(1), Fault::QuantCount { found: 2, expected: 3 }, 232),
        ("count", 232, words(3), Fault::QuantCount { found: 3, expected: 2 }, 232),
        ("count near 2^64", 232, words(u64::MAX), Fault::QuantCount { found: u64::MAX, expected: 2 }, 232),
        ("zero axis", 240, words(1), Fault::QuantZeroPoints, 240),
        ("zero count", 248, words(1), Fault::QuantCount { found: 1, expected: 2 }, 248),
        ("axis of one scale", 288, words(1), Fault::NotZero(1), 288),
        ("more than one scale", 296, words(2), Fault::QuantCount { found: 2, expected: 1 }, 296),
        ("zero points of symmetric", 304, words(1), Fault::QuantZeroPoints, 304),
        ("length too short", 124, words(56), Fault::QuantLen { found: 56, expected: 64 }, 208),
        ("length without a payload", 124, words(8), Fault::QuantLen { found: 8, expected: 48 }, 208),
        ("length beyond the shape", 124, words(120), Fault::QuantLen { found: 120, expected: 72 }, 208),
    ] {
        let file = patched(&good(), at, &bytes);
        let reader = Reader::from_source(&file[..]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let tensor = if at >= 272 { "x" } else { "w" };
        match reader.quant(tensor) {
            Err(Error::Malformed { part, at, fault: found }) => {
                assert_eq!((found, at, part.name.as_deref()), (fault, where_, Some(tensor)), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        let text = findings(&file).concat();
        assert!(text.contains(&format!("{tensor:?}")), "{name}: {text}");
    }
    let text = findings(&patched(&good(), 326, b"\x01"));
    assert!(text.len() == 1 && text[0].contains("padding") && text[0].contains("326"), "{text:?}");
    // A payload over the values of a tensor, and payloads over each other.
    let shared = patched(&good(), 192, &208u64.to_le_bytes());
    assert!(findings(&shared).concat().contains("shares bytes"), "{:?}", findings(&shared));
}

#[test]
fn every_truncation_is_refused() {
    let file = good();
    for len in 0..file.len() {
        assert!(bounded(len, || Index::parse(&file[..len]).map(|_| ())).is_err(), "{len}");
    }
}

#[test]
fn packed_values_are_looked_at() {
    let specs = [TensorSpec::new("a", DType::I4, vec![3]), TensorSpec::new("t", DType::T2, vec![2, 3])];
    let options = WriteOptions::new().version(Version::V2);
    let good = crate::common::write_as(
        &specs,
        &Metadata::new(),
        &[vec![0x21, 0x0f], vec![0b01_11_00_01, 0b0100]],
        1,
        &options,
    );
    assert!(findings(&good).is_empty(), "{:?}", findings(&good));
    let at = good.len() - 16;
    assert_eq!(good[at..at + 2], [0x21, 0x0f]);
    let stray = findings(&patched(&good, at + 1, b"\x1f"));
    assert!(stray.len() == 1 && stray[0].contains("\"a\"") && stray[0].contains("padding"), "{stray:?}");
    let ternary = findings(&patched(&good, at + 8, b"\xaa"));
    assert!(ternary.len() == 1 && ternary[0].contains("-2 (4 such"), "{ternary:?}");
    let stray = findings(&patched(&good, at + 9, b"\x14"));
    assert!(stray.len() == 1 && stray[0].contains("\"t\""), "{stray:?}");
    // The writer refuses to write such bits.
    for (values, word) in [([vec![0, 0x10], vec![0, 0]], "padding"), ([vec![0, 0], vec![2, 0]], "ternary")] {
        let plan = Plan::new(specs.clone(), &Metadata::new(), &options).unwrap();
        let file = modelfmt_write::MemoryFile::new();
        let error = plan.write(&values, &file, &oinf::Execution::sequential()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// In files of OpenInfer's writer of March 2026, the offsets do not have the order of the bytes.
#[test]
fn the_fault_of_openinfers_writer_is_named() {
    let path = testkit::testdata("reference").join("oinf/v2-quant-broken.oinf");
    let reader = Reader::open(path).unwrap();
    let error = reader.quant("w").unwrap_err().to_string();
    assert!(
        error.contains("\"w\"") && error.contains("byte 232") && error.contains("OpenInfer's writer"),
        "{error}"
    );
    let report = reader.verify(VerifyLevel::Full);
    let values = report.checks.iter().find(|check| check.name == "values").unwrap();
    assert_eq!(values.status, Status::Failed);
    assert!(report.errors.iter().any(|error| error.contains("OpenInfer's writer")), "{:?}", report.errors);
    assert!(reader.verify(VerifyLevel::Header).is_ok());
}

#[test]
fn types_that_came_later_are_metadata_too() {
    let small = |dtype, code| oinf::SmallNumber::new(dtype, code).unwrap();
    let bf16 = oinf::MetaValue::Bf16(modelfmt_core::bf16::from_f32(1.5));
    let mut metadata = Metadata::new().value("b", bf16);
    for (dtype, codes) in [
        (DType::F8E5M2, 0..=255u8),
        (DType::I4, 0..=15),
        (DType::I2, 0..=3),
        (DType::I1, 0..=1),
        (DType::U4, 0..=15),
        (DType::U2, 0..=3),
        (DType::U1, 0..=1),
        (DType::T1, 0..=1),
    ] {
        for code in codes.clone() {
            metadata = metadata.value(format!("{dtype}.{code}"), small(dtype, code));
        }
        let codes: Vec<u8> = codes.collect();
        let bits = modelfmt_core::SmallType::from_dtype(dtype).unwrap();
        let count = codes.len().max(3);
        let nbytes = dtype.nbytes(&[count as u64]).unwrap();
        let mut bytes = vec![0; usize::try_from(nbytes).unwrap()];
        bits.pack(&codes, &mut bytes, |code| *code);
        let array = oinf::NdArray::new(dtype, vec![count as u64], bytes).unwrap();
        metadata = metadata.value(format!("array.{dtype}"), array);
    }
    let file = crate::common::write_as(&[], &metadata, &[], 1, &WriteOptions::new().extended_types(true));
    assert!(findings(&file).is_empty());
    let reader = Reader::from_source(&file[..]).unwrap();
    assert_eq!(reader.index().to_metadata().values.len(), metadata.values.len());
    for (key, value) in &metadata.values {
        let read = crate::common::value(&reader, key);
        assert_eq!(&read, value, "{key}");
        assert_eq!(&oinf::MetaValue::from_value(&read.to_value_exact()).unwrap(), value, "{key}");
    }
    assert_eq!(crate::common::value(&reader, "i4.12").as_integer(), Some(-4));
    assert_eq!(crate::common::value(&reader, "t1.0").as_integer(), Some(-1));
    assert_eq!(crate::common::value(&reader, "f8_e5m2.186").as_float(), Some(-0.75));
    let from = |text: &str| {
        let value = modelfmt_core::value::json::parse(text.as_bytes()).unwrap();
        oinf::MetaValue::from_value(&value).map_err(|error| error.to_string())
    };
    assert_eq!(from(r#"{"type": "i4", "value": -8}"#), Ok(small(DType::I4, 8).into()));
    for bad in [
        r#"{"type": "i4", "value": 8}"#,
        r#"{"type": "t1", "value": 0}"#,
        r#"{"type": "t2", "value": -2}"#,
        r#"{"type": "u1", "value": 0.5}"#,
        r#"{"type": "f8_e5m2", "value": 1e9}"#,
        r#"{"type": "bf16", "value": 1e300}"#,
    ] {
        assert!(from(bad).is_err(), "{bad}");
    }
}
