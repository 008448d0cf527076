//! The conformance suite in `testdata/conformance`: the expected results come from the code that made the
//! files, so these tests check the readers and the slow references alike.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fmt::Write as _;
use std::fs;

use modelfmt::{Execution, Model, VerifyLevel};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use testkit::{error_text, reference};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Returns a tensor in the form of the manifest.
fn tensor(name: &str, dtype: &str, shape: &[u64], values: Option<&[u8]>) -> Value {
    serde_json::json!({"name": name, "dtype": dtype, "shape": shape, "sha256": values.map(sha256)})
}

/// What a reader found: tensors and metadata, or why it refuses the file.
type Found = Result<(Value, Value), String>;

/// Opens a file, reads all of it and verifies it.
fn by_reader(path: &std::path::Path, format: &str) -> Found {
    let model = Model::open(path).map_err(error_text)?;
    let container = model.container();
    let mut tensors = Vec::new();
    for position in 0..container.tensor_count() {
        let info = container.info(position).unwrap();
        let has_values = container.location(position).map_err(error_text)?.offset.is_some();
        let values = has_values.then(|| container.read(position)).transpose().map_err(error_text)?;
        tensors.push(tensor(info.name, info.dtype.name(), info.shape, values.as_deref()));
    }
    let metadata = container.metadata().map_err(error_text)?;
    let metadata = serde_json::from_str(&serde_json::to_string(&metadata).unwrap()).unwrap();
    let report = container.verify(VerifyLevel::Full, &Execution::sequential());
    if !report.is_ok() {
        return Err(format!("verify: {:?}", report.errors));
    }
    // The files for the draft include files of the older format.
    if ![format, "apr1"].contains(&model.format().name()) {
        return Err(format!("taken for {}", model.format().name()));
    }
    Ok((tensors.into(), metadata))
}

fn by_reference(bytes: &[u8], format: &str) -> Found {
    let model = reference::read(format, bytes).ok_or("cannot be read")?;
    if !model.checksums_hold {
        return Err("a checksum is wrong".to_owned());
    }
    let tensors: Vec<_> =
        model.tensors.iter().map(|t| tensor(&t.name, &t.dtype, &t.shape, t.bytes.as_deref())).collect();
    Ok((tensors.into(), model.metadata.ok_or("no metadata")?))
}

/// Reads every file of a format, and compares.
fn agrees(format: &str) {
    let folder = testkit::testdata("conformance").join(format);
    let manifest: Value = serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let files = manifest["files"].as_array().unwrap();
    assert!(files.len() > 50, "{format}: {} files", files.len());
    let mut wrong = Vec::new();
    for entry in files {
        let name = entry["file"].as_str().unwrap();
        let path = folder.join(name);
        let found = by_reader(&path, format);
        let expected = entry.get("tensors").map(|tensors| (tensors.clone(), entry["metadata"].clone()));
        match (entry["verdict"].as_str().unwrap(), found) {
            ("read", Err(error)) => wrong.push(format!("{name}: refused: {error}")),
            ("refused", Ok(_)) => wrong.push(format!("{name}: read, but {}", entry["rule"])),
            ("read" | "either", Ok(found)) => {
                if let Some(expected) = expected.as_ref().filter(|expected| **expected != found) {
                    wrong.push(format!("{name}: {found:?}\n  expected {expected:?}"));
                }
            }
            _ => {}
        }
        if entry["verdict"] == "read" {
            let referred = by_reference(&fs::read(&path).unwrap(), format);
            if Some(&referred) != expected.map(Ok).as_ref() {
                wrong.push(format!("{name}, by the reference: {referred:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{format}: {} disagreements\n{}", wrong.len(), wrong.join("\n"));
}

macro_rules! formats {
    ($($format:ident),*) => {$(
        #[test]
        fn $format() {
            agrees(stringify!($format));
        }
    )*};
}
formats!(safetensors, gguf, pytorch, mag, oinf, aero, apr2, apr);
