//! Golden files, which never change: each reads as its text dump says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::fs;

use modelfmt_gguf::value::{Value, json};
use modelfmt_gguf::{Container, Reader, VerifyLevel};
use testkit::CountingSource;
use testkit::gguf::{Gguf, string};

#[test]
fn golden_files_hold_what_their_text_says() {
    for path in testkit::golden_files("gguf", "gguf") {
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        let found = testkit::dump(&Reader::open(&path).unwrap());
        assert_eq!(found, expected, "{}", path.display());
        let bytes = fs::read(&path).unwrap();
        let found = testkit::dump(&Reader::from_source(bytes.as_slice()).unwrap());
        assert_eq!(found, expected, "{} in memory", path.display());
        let found = testkit::dump(&Reader::from_source(CountingSource::new(bytes)).unwrap());
        assert_eq!(found, expected, "{} by ranges", path.display());
    }
}

#[test]
fn verify_says_what_is_odd() {
    let reader = Reader::open(testkit::testdata("gguf").join("odd.gguf")).unwrap();
    let long = "long".repeat(20);
    let expected = [
        "metadata 0 \"naïve\": the key is not ASCII".to_owned(),
        format!("tensor 0 \"{long}\": the name has 80 bytes, 63 are allowed"),
        "tensor 1 \"unaligned\" at byte 293: does not begin at a multiple of 32 of the data".to_owned(),
        "tensor 2 \"overlapping\" at byte 290: does not begin at a multiple of 32 of the data".to_owned(),
        format!("tensor 2 \"overlapping\" at byte 290: overlaps tensor 0 \"{long}\""),
        "tensor 1 \"unaligned\" at byte 293: overlaps tensor 2 \"overlapping\"".to_owned(),
        "metadata \"bool\": a boolean is neither 0 nor 1".to_owned(),
        "padding after tensor 1 \"unaligned\" at byte 295: is not zero".to_owned(),
    ];
    assert_eq!(reader.verify(VerifyLevel::Full).errors, expected);
    assert_eq!(reader.verify(VerifyLevel::Control).errors, expected[..7]);
    assert_eq!(reader.verify(VerifyLevel::Header).errors, expected[..6]);
}

#[test]
fn text_that_is_not_utf_8_is_read_and_found() {
    let odd: &[u8] = b"\x03\0\0\0\0\0\0\0a\xc3b";
    let list = [&[8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], &string("good")[..], odd].concat();
    let file =
        Gguf::new().entry("text", 8, odd).entry("good", 8, &string("é")).entry("list", 9, &list).build();
    let reader = Reader::from_source(file.as_slice()).unwrap();
    let metadata = Value::Object(reader.index().metadata().to_object());
    let expected = r#"{"text":"a\ufffdb","good":"é","list":["good","a\ufffdb"]}"#;
    assert_eq!(metadata, json::parse(expected.as_bytes()).unwrap());
    let findings = ["text", "list"]
        .map(|key| format!("metadata {key:?}: text is not UTF-8; what is not is read as U+FFFD"));
    assert_eq!(reader.verify(VerifyLevel::Control).errors, findings);
}

#[test]
fn files_by_other_writers_hold_what_was_put_there() {
    let mut count = 0;
    for path in testkit::golden_files("reference/gguf", "gguf") {
        let name = format!("gguf/{}", path.file_name().unwrap().to_str().unwrap());
        if name.contains("-of-") {
            continue; // a file of a split
        }
        let reader = Reader::open(&path).unwrap();
        let expected = testkit::as_expected(&name, &reader);
        assert_eq!(Container::version(&reader).as_deref(), expected.get("version").and_then(Value::as_str));
        let metadata = Value::Object(reader.index().metadata().to_object());
        assert_eq!(Some(&metadata), expected.get("metadata"), "{name}");
        count += 1;
    }
    assert_eq!(count, 7);
}

/// ggml refuses a file in which a tensor does not begin where the previous one ends.
#[test]
fn verify_finds_gaps_and_other_orders() {
    let found = |offsets: [u64; 3]| {
        let file = offsets
            .iter()
            .zip(["a", "b", "c"])
            .fold(Gguf::new(), |file, (&offset, name)| file.record(name, 24, &[5], offset));
        let bytes = file.data(&[0; 256]).build();
        Reader::from_source(bytes.as_slice()).unwrap().verify(VerifyLevel::Header).errors
    };
    assert!(found([0, 32, 64]).is_empty());
    let gap = "tensor 1 \"b\" at byte 192: the tensor before it ends, with its padding, at byte 160";
    assert_eq!(found([0, 64, 96]), [gap]);
    assert_eq!(found([32, 0, 64]).len(), 3);
    assert_eq!(found([32, 64, 96]).len(), 1);
}
