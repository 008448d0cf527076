//! AERO files that the published tool converted from GGUF have their shapes in ggml's order. The output has
//! the usual order, and must not claim otherwise.

use modelfmt::diff::diff;
use modelfmt::{DType, Execution, Format, Model, VerifyLevel};
use modelfmt_core::value::Value;

use super::common::{convert, json_of, object, open, options, safetensors, tensor, tensors};

const FILES: [&str; 2] = ["f1d395d-from-for-aero.aero", "630e8a4-from-for-aero.aero"];

fn from_gguf(file: &str) -> Model {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/reference/aero");
    open(file, std::fs::read(folder.join(file)).unwrap())
}

fn source_format_of(model: &Model) -> Option<Value> {
    json_of(model).get("source_format").cloned()
}

fn reserved_source_format(model: &Model) -> Option<Value> {
    Value::from(json_of(model)).path(["modelfmt", "aside", "source_format"]).cloned()
}

#[test]
fn the_mark_travels_under_the_reserved_key_alone() {
    for file in FILES {
        let source = from_gguf(file);
        assert_eq!(source_format_of(&source), Some("gguf".into()));
        assert_eq!(tensors(&source)[1].2, [2, 3, 4]);
        let mut model = from_gguf(file);
        for target in [Format::Aero, Format::Aero, Format::Apr2, Format::Aero, Format::AeroSet, Format::Aero]
        {
            model = convert(&model, target, &options(|o| o.aero.tensor_hashes = target == Format::Aero));
            assert_eq!(tensors(&model), tensors(&source), "{target}");
            assert_eq!(
                (source_format_of(&model), reserved_source_format(&model)),
                (None, Some("gguf".into())),
                "{target}"
            );
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
    assert_eq!((source_format_of(&there), reserved_source_format(&there)), (None, Some("gguf".into())));
    assert_eq!(tensors(&there), tensors(&source));
    let back = convert(&there, Format::Safetensors, &options(|_| {}));
    assert_eq!((json_of(&back), tensors(&back)), (json_of(&source), tensors(&source)));
    // If it is requested, it is moved under the reserved key too.
    let given = options(|o| o.metadata.set = Some(object(r#"{"source_format": "gguf"}"#)));
    let asked = convert(&safetensors(&one, "{}"), Format::Aero, &given);
    assert_eq!((source_format_of(&asked), tensors(&asked)), (None, tensors(&source)));
    let other = safetensors(&one, r#"{"source_format": "safetensors"}"#);
    assert_eq!(
        source_format_of(&convert(&other, Format::Aero, &options(|_| {}))),
        Some("safetensors".into())
    );
}
