//! The previous generation, read through the same types.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use crate::common::{METADATA, apr1, threads};
use apr2::{Container, DType, Error, Fault, Generation, Reader, VerifyLevel};
use modelfmt_core::CommonFault;
use modelfmt_core::value::{List, Value};
use testkit::{CountingSource, patched};

const INDEX: &str = r#"[{"name":"a","dtype":"F32","shape":[2],"offset":4,"size":8},
    {"name":"b","dtype":"Q4_0","shape":[1,32],"offset":12,"size":18,"more":null},
    {"name":"s","dtype":"U8","shape":[],"offset":0,"size":1}]"#;

fn data() -> Vec<u8> {
    let mut data = vec![7, 0, 0, 0];
    data.extend(1.5f32.to_le_bytes());
    data.extend((-2.0f32).to_le_bytes());
    data.extend(0..18);
    data
}

#[test]
fn a_file_is_read_and_verified() {
    let file = apr1(METADATA, 3, INDEX, &data());
    for source in [false, true] {
        let boxed: Box<dyn apr2::Source> =
            if source { Box::new(file.clone()) } else { Box::new(CountingSource::new(file.clone())) };
        let reader = Reader::from_source(boxed).unwrap();
        assert_eq!((reader.index().generation(), reader.version()), (Generation::Apr1, Some("1".to_owned())));
        assert_eq!(reader.index().metadata().model_type(), Ok("tiny"));
        let a = reader.tensor("a").unwrap();
        assert_eq!(
            (a.dtype(), a.shape(), a.to_vec::<f32>().unwrap()),
            (DType::F32, &[2][..], vec![1.5, -2.0])
        );
        let b = reader.tensor("b").unwrap();
        assert_eq!((b.dtype(), b.bytes()), (DType::Q4_0, &(0..18).collect::<Vec<u8>>()[..]));
        let scalar = reader.tensor("s").unwrap();
        assert_eq!((scalar.shape(), scalar.bytes()), (&[][..], &[7][..]));
        let details = reader.details().unwrap();
        assert_eq!(details.get("alignment"), Some(&Value::Null));
        assert_eq!(details.get("flags").and_then(Value::as_array).map(List::len), Some(0));
        let report = reader.verify_with(VerifyLevel::Full, &threads(2));
        assert!(report.is_ok(), "{:?}", report.errors);
        assert!(reader.verify(VerifyLevel::Header).is_ok());
    }
    let broken = patched(&file, file.len() - 10, &[0xee]);
    let report = Reader::from_source(&broken[..]).unwrap().verify(VerifyLevel::Full);
    assert_eq!(report.errors.len(), 1);
    assert!(report.errors[0].contains("crc32"), "{:?}", report.errors);
}

#[test]
fn what_breaks_a_rule_is_refused_at_open() {
    let one = |entry: &str| apr1(METADATA, 1, &format!("[{entry}]"), &data());
    let good = r#"{"name":"a","dtype":"F32","shape":[2],"offset":4,"size":8}"#;
    let change = |from: &str, to: &str| {
        assert!(good.contains(from));
        one(&good.replacen(from, to, 1))
    };
    assert!(Reader::from_source(one(good)).is_ok());
    let file = one(good);
    let counts = 8 + METADATA.len();
    for (name, file, rule) in [
        ("dtype", change("F32", "F8"), (|f| matches!(f, Fault::UnknownDTypeName(_))) as fn(&Fault) -> bool),
        ("dtype in lower case", change("F32", "f32"), |f| matches!(f, Fault::UnknownDTypeName(_))),
        ("name", change("\"a\"", "\"\""), |f| matches!(f, Fault::EmptyName)),
        ("size", change("8}", "9}"), |f| {
            matches!(f, Fault::Common(CommonFault::Nbytes { found: 9, expected: 8 }))
        }),
        ("offset", change("4,", "400,"), |f| matches!(f, Fault::Common(CommonFault::OutOfBounds { .. }))),
        ("offset 2^64 - 1", change("4,", "18446744073709551615,"), |f| {
            matches!(f, Fault::Common(CommonFault::OutOfBounds { .. }))
        }),
        ("negative offset", change("4,", "-4,"), |f| matches!(f, Fault::Common(CommonFault::Metadata(_)))),
        ("shape", change("[2]", "[2.5]"), |f| matches!(f, Fault::Common(CommonFault::Metadata(_)))),
        ("no shape", change("\"shape\":[2],", ""), |f| matches!(f, Fault::Common(CommonFault::Metadata(_)))),
        ("huge shape", change("[2]", "[9223372036854775808,4]"), |f| {
            matches!(f, Fault::Common(CommonFault::TooManyElements(_)))
        }),
        ("not an object", one("5                                                 "), |f| {
            matches!(f, Fault::Common(CommonFault::Metadata(_)))
        }),
        ("twice", apr1(METADATA, 2, &format!("[{good},{good}]"), &data()), |f| {
            matches!(f, Fault::Common(CommonFault::Duplicate(_)))
        }),
        ("count", apr1(METADATA, 0, &format!("[{good}]"), &data()), |f| {
            matches!(f, Fault::Common(CommonFault::Metadata(_)))
        }),
        ("not an array", apr1(METADATA, 1, good, &data()), |f| {
            matches!(f, Fault::Common(CommonFault::Metadata(_)))
        }),
        ("metadata", apr1("[]", 1, &format!("[{good}]"), &data()), |f| {
            matches!(f, Fault::Common(CommonFault::Metadata(_)))
        }),
        ("no metadata", apr1("", 1, &format!("[{good}]"), &data()), |f| {
            matches!(f, Fault::Common(CommonFault::Metadata(_)))
        }),
        ("depth", apr1(METADATA, 1, &"[".repeat(100_000), &data()), |f| {
            matches!(f, Fault::Common(CommonFault::Metadata(_)))
        }),
        ("metadata length", patched(&file, 4, &[0xff; 4]), |f| {
            matches!(f, Fault::Common(CommonFault::OutOfBounds { .. }))
        }),
        ("index length", patched(&file, counts + 4, &[0xff; 4]), |f| {
            matches!(f, Fault::Common(CommonFault::OutOfBounds { .. }))
        }),
    ] {
        for error in [
            Reader::from_source(&file[..]).map(|_| ()).unwrap_err(),
            Reader::from_source(CountingSource::new(file.clone())).map(|_| ()).unwrap_err(),
        ] {
            let Error::Malformed { fault, .. } = &error else { panic!("{name}: {error}") };
            assert!(rule(fault), "{name}: {error}");
        }
    }
    let many = patched(&file, counts, &[0xff; 4]);
    assert!(matches!(Reader::from_source(many).map(|_| ()), Err(Error::Truncated { .. })));
}

#[test]
fn overlaps_are_found_and_no_tensors_are_fine() {
    let index = r#"[{"name":"a","dtype":"U8","shape":[8],"offset":0,"size":8},{"name":"b","dtype":"U8","shape":[8],"offset":4,"size":8}]"#;
    let report = Reader::from_source(apr1(METADATA, 2, index, &data())).unwrap().verify(VerifyLevel::Full);
    assert_eq!(report.errors.len(), 1, "{:?}", report.errors);
    assert!(report.errors[0].contains("overlaps"));
    let empty = Reader::from_source(apr1("{}", 0, "[]", &[])).unwrap();
    assert!(empty.verify(VerifyLevel::Full).is_ok());
}
