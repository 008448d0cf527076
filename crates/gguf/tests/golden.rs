//! Files that never change: read as the text beside them says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::fs;

use modelfmt_gguf::{Reader, VerifyLevel};
use testkit::CountingSource;

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
        format!("tensor 0 \"{long}\": the name has 80 bytes, 64 are allowed"),
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
