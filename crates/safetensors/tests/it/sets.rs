//! Indexes of sets that break a rule, and sets whose files differ from what the index says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use crate::common::{entry, file, header};
use modelfmt_safetensors::modelfmt_core::author::FileIndex;
use modelfmt_safetensors::source::MemoryFiles;
use modelfmt_safetensors::{Error, Index, SetIndex, SetReader, VerifyLevel};

#[test]
fn an_index_that_breaks_a_rule_is_refused() {
    let mut wrong = Vec::new();
    for (name, json, expected) in [
        ("nothing", "", "index at byte 0: is not good JSON: EOF while parsing a value"),
        ("a list", "[]", "index at byte 0: invalid type: sequence, expected an object with weight_map"),
        ("no map", "{}", "index at byte 0: has no key `weight_map`"),
        (
            "two maps",
            r#"{"weight_map":{},"weight_map":{}}"#,
            "index at byte 28: the name \"weight_map\" is used twice",
        ),
        (
            "two metadata",
            r#"{"metadata":{},"metadata":{}}"#,
            "index at byte 24: the name \"metadata\" is used twice",
        ),
        (
            "a number",
            r#"{"weight_map":{"a":1}}"#,
            "index at byte 19: invalid type: integer `1`, expected a string",
        ),
        (
            "a name twice",
            r#"{"weight_map":{"a":"x","a":"x"}}"#,
            "weight_map at byte 30: the name \"a\" is used twice",
        ),
        (
            "a way out",
            r#"{"weight_map":{"a":"../x"}}"#,
            "tensor 0 \"a\" at byte 25: the path has a component `..`; files of a set must be in its folder",
        ),
        (
            "a root",
            r#"{"weight_map":{"a":"/x"}}"#,
            "tensor 0 \"a\" at byte 23: the path is absolute; files of a set must be in its folder",
        ),
        (
            "a file spelt in two ways",
            r#"{"weight_map":{"a":"x","b":"x","c":"./x"}}"#,
            "tensor 2 \"c\" at byte 40: the set lists this file twice",
        ),
        (
            "no path",
            r#"{"weight_map":{"a":""}}"#,
            "tensor 0 \"a\" at byte 21: the path is empty or has an empty component",
        ),
        (
            "metadata twice inside",
            r#"{"metadata":{"k":1,"k":1},"weight_map":{}}"#,
            "index at byte 24: duplicate key \"k\"",
        ),
        (
            "metadata that are text",
            r#"{"metadata":"x","weight_map":{}}"#,
            "index at byte 14: metadata must be an object, found a string",
        ),
        (
            "more after it",
            r#"{"weight_map":{}} x"#,
            "index at byte 18: is not good JSON: trailing characters",
        ),
    ] {
        let error = SetIndex::parse(json.as_bytes(), &Index::default_limits()).expect_err(name);
        if error.to_string() != expected {
            wrong.push(format!("{name}: found {error}, expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let not_text = SetIndex::parse(b"{\"\xff", &Index::default_limits()).unwrap_err();
    assert_eq!(not_text.to_string(), "index at byte 2: is not valid UTF-8");
    let deep = format!(r#"{{"x":{}{},"weight_map":{{}}}}"#, "[".repeat(127), "]".repeat(127));
    assert!(matches!(
        SetIndex::parse(deep.as_bytes(), &Index::default_limits()),
        Err(Error::Limit { found: 128, .. })
    ));
}

#[test]
fn files_of_a_set_are_looked_at_when_they_are_needed() {
    let a = file(
        &header(&[&entry("a", "U8", "[2]", "[0,2]"), &entry("stray", "U8", "[1]", "[2,3]")]),
        &[1, 2, 3],
    );
    let index = br#"{"weight_map":{"a":"1","b":"2","c":"3","d":"1"}}"#;
    let files = [("i", &index[..]), ("1", &a), ("2", b"{}")];
    let files = MemoryFiles(files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.into())).collect());
    let set = SetReader::from_files(files, "i").unwrap();
    assert_eq!(set.tensor("a").unwrap().bytes(), [1, 2]);
    let error = |name: &str| set.tensor(name).unwrap_err().to_string();
    assert_eq!(
        error("b"),
        "file 1 \"2\" at byte 0: header, length: covers 8 bytes from byte 0, but the file ends at byte 2"
    );
    assert_eq!(error("c"), "cannot open \"3\"");
    assert_eq!(
        error("d"),
        "file 0 \"1\" at byte 0: the index of the set says that it has tensor \"d\", but it does not"
    );
    assert_eq!(error("e"), "no tensor is named \"e\"");
    assert!(set.open_all().is_err());
    let report = set.verify(VerifyLevel::Header);
    let expected = [
        "tensor 3 \"d\": the index says that it is in \"1\", which does not have it",
        "tensor \"stray\": is in \"1\", but the index does not say so",
        "file 1 \"2\" at byte 0: header, length: covers 8 bytes from byte 0, but the file ends at byte 2",
        "cannot open \"3\": there is no such file",
    ];
    assert_eq!(report.errors, expected);
}
