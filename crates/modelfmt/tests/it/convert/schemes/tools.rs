//! Checkpoints made by the published tools are decoded to the same values as by these tools, bit for bit.

use std::path::Path;

use modelfmt::{DType, Format, Model};

use super::super::common::{all, try_convert};
use super::{assert_equal, to, values};

/// Decodes the output of a tool to each type that the tool itself can decode it to. Returns the number of
/// comparisons.
fn compare(tool: &str) -> Option<usize> {
    compare_as(tool, |value| value)
}

/// Does the same, and changes the values on both sides first.
fn compare_as(tool: &str, change: fn(f32) -> f32) -> Option<usize> {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let cases = testkit::quantizers(tool, &made)?;
    let mut compared = 0;
    for case in &cases {
        let folder = made.join(case);
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            compared += usize::from(equals(&folder, dtype, change, &format!("{tool}, {case}")));
        }
    }
    Some(compared)
}

/// Compares one weight, if the tool can decode it to this type.
fn equals(folder: &Path, dtype: DType, change: fn(f32) -> f32, what: &str) -> bool {
    let expected = folder.join(format!("{dtype}.safetensors"));
    if !expected.exists() {
        return false;
    }
    let what = format!("{what} as {dtype}");
    let model = Model::open(folder.join("model.safetensors")).unwrap();
    let (made, _) = try_convert(&model, Format::Safetensors, &to(dtype))
        .unwrap_or_else(|error| panic!("{what}: {}", all(&error)));
    let expected = Model::open(expected).unwrap();
    let [weight] = &expected.tensors().collect::<Vec<_>>()[..] else { panic!("{what}: one weight") };
    let found = made.tensor(weight.name).unwrap();
    assert_eq!((found.dtype(), found.shape()), (dtype, weight.shape), "{what}");
    assert_eq!(made.tensor_count(), 2, "{what}");
    let values = |model: &Model| -> Vec<f32> { values(model, weight.name).into_iter().map(change).collect() };
    assert_equal(&values(&made), &values(&expected), &what);
    true
}

#[test]
fn auto_gptq() {
    assert!(compare("gptq").is_none_or(|compared| compared == 16));
}

#[test]
fn auto_awq() {
    assert!(compare("awq").is_none_or(|compared| compared == 6));
}

#[test]
fn bitsandbytes() {
    // On processors without AVX-512, the tool's own kernel decodes a zero of FP4 to -0.
    assert!(compare_as("bitsandbytes", |value| value + 0.0).is_none_or(|compared| compared == 61));
}

#[test]
fn compressed_tensors() {
    assert!(compare("compressed_tensors").is_none_or(|compared| compared == 52));
}

#[test]
fn modelopt() {
    // The tool's table has no negative zero.
    let change = |value: f32| value + 0.0;
    assert!(compare_as("modelopt", change).is_none_or(|compared| compared == 6));
}

#[test]
fn transformers_mxfp4() {
    assert!(compare("transformers").is_none_or(|compared| compared == 4));
}
