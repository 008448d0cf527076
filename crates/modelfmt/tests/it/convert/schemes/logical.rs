//! Commands that treat a weight as one tensor although it is stored as several: `extract`, `diff`.

use modelfmt::diff::{Diff, diff};
use modelfmt::extract::{ExtractAllAs, ExtractAs, ExtractOptions, extract, extract_all};
use modelfmt::show::{ShowOptions, show_object};
use modelfmt::{DType, Error, Execution, Model};
use modelfmt_core::f16;

use super::super::common::T;
use super::{Gptq, NAMES, Noise, SMALL, assert_equal, config, f32s, folder_of, gptq, values};

const GPTQ: &str = r#"{"quant_method": "gptq", "bits": 4, "group_size": 32}"#;
const TEXT: &str = "gptq (u4 in groups of 32)";

/// Returns a model with the weight `a.q_proj.weight`, and the values of the weight.
fn quantized(seed: u64, norm: f32) -> (tempfile::TempDir, Model, Vec<f32>) {
    let (mut tensors, values) = gptq(SMALL, NAMES, &mut Noise::new(seed));
    tensors.push(f32s("norm", &[1], &[norm]));
    let (folder, model) = folder_of(&tensors, &config(GPTQ));
    (folder, model, values)
}

fn plain(values: &[f32]) -> (tempfile::TempDir, Model) {
    let tensors: [T; 2] = [f32s("a.q_proj.weight", &[32, 64], values), f32s("norm", &[1], &[1.0])];
    folder_of(&tensors, "{}")
}

fn compared(a: &Model, b: &Model) -> Diff {
    diff(a, b, &Execution::default()).unwrap()
}

#[test]
fn a_quantized_checkpoint_is_compared_with_its_base() {
    let (_a, quantized, mut values) = quantized(41, 1.0);
    let (_b, base) = plain(&values);
    let found = compared(&base, &quantized);
    let [weight] = &found.changed[..] else { panic!("{found:?}") };
    assert_eq!((&found.only_in_a[..], &found.only_in_b[..]), (&[][..], &[][..]));
    assert_eq!(weight.name, "a.q_proj.weight");
    assert_eq!(weight.schemes, Some([None, Some(TEXT.to_owned())]));
    assert_eq!((weight.dtype, &weight.shape, weight.values), (None, &None, None));
    assert_eq!(weight.what().collect::<Vec<_>>(), ["dtype"]);
    values[77] += 0.25;
    let (_c, base) = plain(&values);
    let found = compared(&quantized, &base);
    let [weight] = &found.changed[..] else { panic!("{found:?}") };
    assert_eq!(weight.schemes, Some([Some(TEXT.to_owned()), None]));
    let most = weight.values.and_then(|values| values.max_abs).unwrap();
    assert!((most - 0.25).abs() < 1e-6, "{most}");
    let json = serde_json::to_value(weight).unwrap();
    assert_eq!(json["schemes"], serde_json::json!([TEXT, null]));
}

#[test]
fn two_checkpoints_of_one_scheme_are_compared_as_they_are_stored() {
    let (_a, a, _) = quantized(42, 1.0);
    let (_b, b, _) = quantized(43, 1.0);
    let found = compared(&a, &b);
    let names: Vec<&str> = found.changed.iter().map(|changed| &*changed.name).collect();
    assert_eq!(names, NAMES[..3]);
    assert!(found.changed.iter().all(|changed| changed.schemes.is_none()));
    assert!(compared(&a, &a).is_same());
    // Weights in two different schemes are decoded.
    let case = Gptq { bits: 8, ..SMALL };
    let (mut tensors, _) = gptq(case, NAMES, &mut Noise::new(44));
    tensors.push(f32s("norm", &[1], &[1.0]));
    let (_c, c) = folder_of(&tensors, &config(r#"{"quant_method": "gptq", "bits": 8, "group_size": 32}"#));
    let found = compared(&a, &c);
    let [weight] = &found.changed[..] else { panic!("{found:?}") };
    assert_eq!(weight.schemes, Some([TEXT, "gptq (u8 in groups of 32)"].map(|text| Some(text.to_owned()))));
    assert!(weight.values.is_some());
}

#[test]
fn a_weight_that_cannot_be_decoded_is_compared_as_it_is_stored() {
    let (tensors, values) = gptq(SMALL, NAMES, &mut Noise::new(45));
    let marlin = r#"{"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}"#;
    let (_a, quantized) = folder_of(&tensors, &config(marlin));
    let (_b, base) = plain(&values);
    let found = compared(&base, &quantized);
    assert_eq!(found.only_in_a, ["a.q_proj.weight", "norm"]);
    assert_eq!(found.only_in_b.len(), 4);
}

#[test]
fn a_weight_is_extracted_by_its_own_name() {
    let (folder, model, values) = quantized(46, 1.0);
    let (name, out) = ("a.q_proj.weight", folder.path().join("w.bin"));
    let mut options = ExtractOptions::default();
    let error = extract(&model, name, &out, ExtractAs::Bin, &options, &Execution::default());
    assert!(matches!(error, Err(Error::NoSuchTensor { .. })), "{error:?}");
    options.dequantize = Some(DType::F16);
    extract(&model, name, &out, ExtractAs::Bin, &options, &Execution::default()).unwrap();
    let expected: Vec<u8> = values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
    assert!(std::fs::read(&out).unwrap() == expected);
    options.cast = Some(DType::F32);
    let out = folder.path().join("w.npy");
    extract(&model, name, &out, ExtractAs::Npy, &options, &Execution::default()).unwrap();
    let found = std::fs::read(&out).unwrap();
    let expected: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert!(found.ends_with(&expected));
}

#[test]
fn patterns_choose_decoded_weights_and_others() {
    let (folder, model, expected) = quantized(47, 1.0);
    let mut options = ExtractOptions::default();
    options.dequantize = Some(DType::F32);
    let work = Execution::default();
    let out = folder.path().join("all.safetensors");
    let done = extract_all(&model, &["*"], &out, ExtractAllAs::Safetensors, &options, &work).unwrap();
    assert_eq!(done.tensors, 2, "{done:?}");
    let made = Model::open(&out).unwrap();
    assert_equal(&values(&made, "a.q_proj.weight"), &expected, "all");
    // Another weight does not matter, even if it cannot be decoded.
    let out = folder.path().join("norm/");
    let kind = ExtractAllAs::Folder(ExtractAs::Npy);
    let marlin = r#"{"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}"#;
    std::fs::write(folder.path().join("config.json"), config(marlin)).unwrap();
    let model = Model::open(folder.path().join("model.safetensors")).unwrap();
    extract_all(&model, &["norm"], &out, kind, &options, &work).unwrap();
    let out = folder.path().join("no/");
    let error = extract_all(&model, &["a.*"], &out, kind, &options, &work);
    assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
    assert!(!out.exists());
}

#[test]
fn a_weight_is_shown_by_its_own_name() {
    let (_folder, model, values) = quantized(48, 1.0);
    let (_plain, base) = plain(&values);
    let shown = |model: &Model, slice: Option<&str>| {
        let mut options = ShowOptions::default();
        options.slice = slice.map(|slice| slice.parse().unwrap());
        let names = ["a.q_proj.weight"];
        let object = show_object(model, &names, &options, &Execution::default()).unwrap();
        object.get("tensors").cloned()
    };
    for slice in [None, Some("3:9,::7")] {
        assert_eq!(shown(&model, slice), shown(&base, slice));
    }
    let missing = show_object(&model, &["a.k_proj.weight"], &ShowOptions::default(), &Execution::default());
    assert!(matches!(missing, Err(Error::NoSuchTensor { .. })), "{missing:?}");
}
