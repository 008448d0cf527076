//! Compares what a crate reads with what the reference reads.

use modelfmt_core::{Container, Execution, VerifyLevel};

use super::read;

/// Compares tensors, values and metadata of a valid file that a crate has opened with what the reference
/// reads.
///
/// # Panics
/// If anything differs, a checksum is wrong, or the crate cannot read something; the message names the file
/// `name`.
pub fn compare(name: &str, format: &str, file: &[u8], found: &dyn Container) {
    look(name, format, file, found, true);
}

/// Compares a damaged file that a crate has opened: the parts that can be read, and whether `verify` finds a
/// wrong checksum.
///
/// # Panics
/// If the crate reads anything that differs from the reference, or misses damage.
pub fn compare_damaged(name: &str, format: &str, file: &[u8], found: &dyn Container) {
    look(name, format, file, found, false);
}

fn look(name: &str, format: &str, file: &[u8], found: &dyn Container, must_be_sound: bool) {
    let model = read(format, file).unwrap_or_else(|| panic!("{name}: the reference cannot read it"));
    assert_eq!(found.tensor_count(), model.tensors.len(), "{name}");
    assert!(model.checksums_hold || !must_be_sound, "{name}: a checksum is wrong");
    for (position, tensor) in model.tensors.iter().enumerate() {
        let info = found.info(position).expect("a tensor");
        let what = format!("{name}, tensor {position}, {:?}", info.name);
        let expected = (tensor.name.as_str(), tensor.dtype.as_str(), tensor.shape.as_slice());
        assert_eq!((info.name, info.dtype.name(), info.shape), expected, "{what}");
        match (found.read(position), &tensor.bytes) {
            (Ok(values), Some(bytes)) => assert!(values[..] == bytes[..], "{what}: other values"),
            (Ok(_), None) => panic!("{what}: the reference finds no values"),
            (Err(_), None) => {} // declared without values, in another file of a set, or damaged
            (Err(error), Some(_)) => assert!(!must_be_sound, "{what}: {error}"),
        }
    }
    match (found.metadata(), &model.metadata) {
        (Ok(tree), Some(expected)) => {
            let text = serde_json::to_string(&tree).expect("metadata are JSON");
            let tree: serde_json::Value = serde_json::from_str(&text).expect("what was written as JSON");
            assert_eq!(&tree, expected, "{name}");
        }
        (Ok(_), None) => panic!("{name}: the reference finds no metadata"),
        (Err(error), None) => assert!(!must_be_sound, "{name}: {error}"),
        (Err(error), Some(_)) => assert!(!must_be_sound, "{name}: {error}"),
    }
    let report = found.verify(VerifyLevel::Full, &Execution::sequential());
    assert!(model.checksums_hold || !report.is_ok(), "{name}: verify misses damage");
}
