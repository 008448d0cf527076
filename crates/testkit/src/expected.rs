//! Files that the formats' own tools wrote, and their expected content.

use std::fs;

use modelfmt_core::value::{Value, json};
use modelfmt_core::{Container, Execution, Status, VerifyLevel};

use crate::workspace::testdata;

/// Compares an open file of `testdata/reference/` with its entry in `expected.json` (the tensors in order,
/// their dtypes, shapes, sizes and values) and verifies it. Returns the entry, so that the caller can compare
/// the properties that only this format has.
///
/// # Panics
/// If anything differs, or there is no entry for `file`.
#[must_use]
pub fn as_expected(file: &str, container: &dyn Container) -> Value {
    let text = fs::read(testdata("reference").join("expected.json")).expect("expected.json");
    let all = json::parse(&text).expect("expected.json is JSON");
    let expected = all.get(file).unwrap_or_else(|| panic!("expected.json has no {file}")).clone();
    let tensors = expected.get("tensors").and_then(Value::as_array).expect("a list of tensors");
    assert_eq!(container.tensor_count(), tensors.len(), "{file}");
    for (number, tensor) in tensors.iter().enumerate() {
        compare(file, container, number, &tensor);
    }
    let report = container.verify(VerifyLevel::Full, &Execution::default());
    assert!(report.is_ok(), "{file}: {:?}", report.errors);
    let absent = expected.get("absent").and_then(Value::as_array);
    for name in absent.into_iter().flat_map(|names| names.iter()) {
        let check = report.check(name.as_str().expect("a name")).expect("a check");
        assert_eq!(check.status, Status::Absent, "{file}, {}", check.name);
    }
    expected
}

fn compare(file: &str, container: &dyn Container, number: usize, expected: &Value) {
    let info = container.info(number).expect("a tensor");
    let text = |key| expected.get(key).and_then(Value::as_str).unwrap_or_default();
    let shape = expected.get("shape").and_then(Value::as_array).expect("a shape").iter();
    assert_eq!((info.name, info.dtype.name()), (text("name"), text("dtype")), "{file}, tensor {number}");
    let what = format!("{file}, {:?}", info.name);
    assert!(
        shape.map(|dim| dim.as_u64()).eq(info.shape.iter().map(|&dim| Some(dim))),
        "{what}: {:?}",
        info.shape
    );
    let nbytes = expected.get("nbytes").and_then(Value::as_u64);
    assert_eq!(nbytes.unwrap_or(info.nbytes), info.nbytes, "{what}");
    if let Some(offset) = expected.get("offset").and_then(Value::as_u64) {
        let location = container.location(number).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(location.offset, Some(offset), "{what}");
    }
    let has_data = expected.get("has_data").and_then(Value::as_bool).unwrap_or(true);
    assert_eq!(info.has_data, has_data, "{what}");
    if has_data {
        let values = container.read(number).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(blake3::hash(&values).to_hex().as_str(), text("blake3"), "{what}");
    }
}
