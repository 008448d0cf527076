//! Golden files, which never change: each reads as its text dump says, and is written again byte for byte.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;

use oinf::ReaderExt as _;
use oinf::modelfmt_core::Container;
use oinf::modelfmt_core::value::Value;
use oinf::{MetaValue, Reader, VerifyLevel};

/// A file that only other writers make. It can be read, and is written in another order.
const FOREIGN: &str = "foreign.oinf";

#[test]
fn golden_files_hold_what_is_written_beside_them() {
    for path in testkit::golden_files("oinf", "oinf") {
        let text = fs::read_to_string(path.with_extension("txt")).unwrap();
        let reader = Reader::open(&path).unwrap();
        let mut dump = testkit::dump(&reader);
        for (position, tensor) in reader.tensors().iter().enumerate() {
            if let Some(quant) = reader.quant(position).unwrap() {
                dump.push_str(&format!("quant {:?} {quant:?}\n", tensor.name));
            }
        }
        assert_eq!(dump, text, "{}", path.display());
        assert!(reader.verify(VerifyLevel::Full).is_ok(), "{}", path.display());
    }
}

#[test]
fn golden_files_are_written_again_byte_for_byte() {
    for path in testkit::golden_files("oinf", "oinf") {
        let again = crate::common::rewrite(&Reader::open(&path).unwrap());
        let same = again == fs::read(&path).unwrap();
        assert_eq!(same, !path.ends_with(FOREIGN), "{}", path.display());
        // The new file reads as the old one does, sorted.
        let sorted = Reader::from_source(again.as_slice()).unwrap();
        assert!(crate::common::rewrite(&sorted) == again, "{}", path.display());
    }
}

#[test]
fn a_file_by_another_hand_keeps_its_order_and_shares_bytes() {
    let reader = Reader::open(testkit::testdata("oinf").join(FOREIGN)).unwrap();
    assert!(reader.index().sizevars().iter().eq([("b", 7), ("a", 8)]));
    assert!(reader.index().metadata().eq([("z", MetaValue::from("cut")), ("k", MetaValue::I16(i16::MAX))]));
    assert!(reader.tensors().iter().map(|tensor| tensor.name).eq(["w", "v", "t"]));
    assert_eq!(reader.tensor("t").unwrap().to_vec::<u32>().unwrap(), [3, 4, 5]);
    assert_eq!(reader.index().tensors().location(0), reader.index().tensors().location(2));
}

#[test]
fn the_file_of_the_formats_own_tool_is_as_expected() {
    let name = "simple_model.oinf";
    let path = testkit::testdata("reference").join(name);
    let reader = Reader::open(&path).unwrap();
    let expected = testkit::as_expected(name, &reader);
    let metadata = Container::metadata(&reader).unwrap();
    assert_eq!(expected.get("metadata"), Some(&metadata));
    let details = Container::details(&reader).unwrap();
    assert_eq!(expected.get("sizevars"), details.get("sizevars"));
    assert_eq!(details.path(["sizevars", "D"]), Some(&Value::from(128)));
    assert!(crate::common::rewrite(&reader) == fs::read(&path).unwrap());
}

/// Both versions, as written by the format's own tools.
#[test]
fn the_files_of_both_versions_are_as_expected() {
    for name in [
        "v1-meta-packed",
        "v2-packed-edge",
        "v2-packed",
        "v2-plain",
        "v2-quant-asym",
        "v2-quant-channel",
        "v2-quant-tensor",
    ] {
        let name = format!("oinf/{name}.oinf");
        let bytes = fs::read(testkit::testdata("reference").join(&name)).unwrap();
        let reader = Reader::from_source(&bytes[..]).unwrap();
        let expected = testkit::as_expected(&name, &reader);
        assert_eq!(expected.get("version").and_then(|version| version.as_str()), reader.version().as_deref());
        assert_eq!(expected.get("metadata"), Some(&Container::metadata(&reader).unwrap()), "{name}");
        testkit::reference::compare(&name, "oinf", &bytes, &reader);
        let report = reader.verify(VerifyLevel::Full);
        assert!(report.is_ok(), "{name}: {:?}", report.errors);
        let again = crate::common::rewrite(&reader);
        assert!(again == bytes, "{name}");
    }
}

/// The published package writes ten more types into tensors, with the same version number.
#[test]
fn the_types_that_came_later_are_read_in_tensors() {
    let name = "oinf/v1-packed.oinf";
    let path = testkit::testdata("reference").join(name);
    let reader = Reader::open(&path).unwrap();
    let expected = testkit::as_expected(name, &reader);
    assert_eq!(expected.get("version").and_then(|version| version.as_str()), Some("1"));
    testkit::reference::compare(name, "oinf", &fs::read(path).unwrap(), &reader);
    assert!(!oinf::can_hold(oinf::Version::V1, oinf::DType::BF16), "its document has no such type");
    assert!(oinf::can_hold(oinf::Version::V2, oinf::DType::BF16));
}
