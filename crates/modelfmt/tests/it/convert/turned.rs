//! AERO files that the published tool converted from GGUF have their shapes in ggml's order. What is written has the usual one, and
//! must not say otherwise.

use modelfmt::diff::diff;
use modelfmt::{DType, Execution, Format, Model, VerifyLevel};
use modelfmt_core::value::Value;

use super::common::{convert, json_of, object, open, options, safetensors, tensor, tensors};

const FILES: [&str; 2] = ["f1d395d-from-for-aero.aero", "630e8a4-from-for-aero.aero"];

fn from_gguf(file: &str) -> Model {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/reference/aero");
    open(file, std::fs::read(folder.join(file)).unwrap())
}

fn said(model: &Model) -> Option<Value> {
    json_of(model).get("source_format").cloned()
}

fn aside(model: &Model) -> Option<Value> {
    Value::from(json_of(model)).path(["modelfmt", "aside", "source_format"]).cloned()
}

#[test]
fn the_mark_travels_under_the_reserved_key_alone() {
    for file in FILES {
        let source = from_gguf(file);
        assert_eq!(said(&source), Some("gguf".into()));
        assert_eq!(tensors(&source)[1].2, [2, 3, 4]);
        let mut model = from_gguf(file);
        for target in [Format::Aero, Format::Aero, Format::Apr2, Format::Aero, Format::AeroSet, Format::Aero]
        {
            model = convert(&model, target, &options(|o| o.aero.tensor_hashes = target == Format::Aero));
            assert_eq!(tensors(&model), tensors(&source), "{target}");
            assert_eq!((said(&model), aside(&model)), (None, Some("gguf".into())), "{target}");
            let found = diff(&source, &model, &Execution::default()).unwrap();
            let changed: Vec<_> = found.metadata.iter().map(|change| &change.key).collect();
            assert!(changed.is_empty(), "{target}: {changed:?}");
            assert!(model.verify(VerifyLevel::Full).is_ok());
        }
    }
}

#[test]
fn whatever_says_gguf_is_written_with_its_shapes_as_they_are() {
    let one = [tensor("w", DType::F32, &[2, 3])];
    let source = safetensors(&one, r#"{"source_format": "gguf", "license": "mit"}"#);
    let there = convert(&source, Format::Aero, &options(|_| {}));
    assert_eq!((said(&there), aside(&there)), (None, Some("gguf".into())));
    assert_eq!(tensors(&there), tensors(&source));
    let back = convert(&there, Format::Safetensors, &options(|_| {}));
    assert_eq!((json_of(&back), tensors(&back)), (json_of(&source), tensors(&source)));
    // Asked for, it is kept aside too.
    let given = options(|o| o.metadata.set = Some(object(r#"{"source_format": "gguf"}"#)));
    let asked = convert(&safetensors(&one, "{}"), Format::Aero, &given);
    assert_eq!((said(&asked), tensors(&asked)), (None, tensors(&source)));
    let other = safetensors(&one, r#"{"source_format": "safetensors"}"#);
    assert_eq!(said(&convert(&other, Format::Aero, &options(|_| {}))), Some("safetensors".into()));
}
