//! Norms, tolerances, and that everything is compared in one pass.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::field_reassign_with_default)]

use std::sync::Arc;

use modelfmt::diff::{Diff, DiffOptions, Norms, diff_with};
use modelfmt::{DType, Execution, Format, Model, Object, View};
use testkit::CountingSource;

/// Returns a safetensors file with these f32 tensors.
fn file(tensors: &[(&str, &[f32])]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let views =
        tensors.iter().map(|&(name, values)| (name, View::new(values, [values.len() as u64]).unwrap()));
    modelfmt::convert::save_as(Format::Safetensors, &path, views, &Object::default()).unwrap();
    std::fs::read(path).unwrap()
}

fn model(tensors: &[(&str, &[f32])]) -> Model {
    Model::from_source("m.safetensors", file(tensors)).unwrap()
}

fn compared(a: &Model, b: &Model, change: impl FnOnce(&mut DiffOptions)) -> Diff {
    let mut options = DiffOptions::default();
    change(&mut options);
    diff_with(a, b, &options, &Execution { threads: 2, progress: None }).unwrap()
}

fn norms(diff: &Diff, name: &str) -> Norms {
    diff.changed.iter().find(|changed| changed.name == name).unwrap().norms.unwrap()
}

/// Tensors in several pieces, of which only one piece differs.
#[test]
fn norms_are_those_of_the_whole_tensors() {
    const LEN: usize = 1_300_000;
    let a: Vec<f32> = (0..LEN).map(|n| (n % 1000) as f32 / 8.0 - 30.0).collect();
    let mut b = a.clone();
    b[700_000..700_100].iter_mut().for_each(|x| *x += 0.5);
    let negative: Vec<f32> = a.iter().map(|x| -x).collect();
    let (one, other) = (
        model(&[("w", &a), ("n", &a), ("z", &[0.0; 4]), ("x", &[1.0; 4])]),
        model(&[("w", &b), ("n", &negative), ("z", &[1.0; 4]), ("x", &[1.0, 1.0, 1.0, f32::NAN])]),
    );
    let diff = compared(&one, &other, |options| options.norms = true);
    let square = |values: &[f32]| values.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
    let near = |found: Option<f64>, expected: f64| {
        let found = found.unwrap();
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
    };
    let w = norms(&diff, "w");
    near(w.rmse, (100.0 * 0.25 / LEN as f64).sqrt());
    near(w.rel_norm, (25.0 / square(&a)).sqrt());
    let products = a.iter().zip(&b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    near(w.cosine, products / square(&a).sqrt() / square(&b).sqrt());
    let n = norms(&diff, "n");
    assert_eq!((n.cosine, n.rel_norm), (Some(-1.0), Some(2.0)));
    let z = norms(&diff, "z");
    assert_eq!((z.rmse, z.cosine, z.rel_norm), (Some(1.0), None, Some(f64::INFINITY)));
    let x = norms(&diff, "x");
    assert!(x.rmse.unwrap().is_nan() && x.rel_norm.unwrap().is_nan());
    // The tensors that changed most come first.
    let names: Vec<&str> = diff.changed.iter().map(|changed| &*changed.name).collect();
    assert_eq!(names, ["x", "z", "n", "w"]);
    assert!(compared(&one, &other, |_| ()).changed.iter().all(|changed| changed.norms.is_none()));
}

#[test]
fn a_tolerance_is_absolute_and_for_values_alone() {
    let a = model(&[("near", &[1.0, 2.0]), ("far", &[1.0, 2.0]), ("nan", &[1.0]), ("zero", &[0.0])]);
    let b = model(&[("near", &[1.0, 2.25]), ("far", &[1.0, 2.5]), ("nan", &[f32::NAN]), ("zero", &[-0.0])]);
    let names = |tolerance| {
        let diff = compared(&a, &b, |options| options.tolerance = tolerance);
        diff.changed.into_iter().map(|changed| changed.name).collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["near", "far", "nan", "zero"]);
    assert_eq!(names(Some(0.0)), ["near", "far", "nan"]);
    assert_eq!(names(Some(0.25)), ["far", "nan"]);
    assert_eq!(names(Some(1e300)), ["nan"]);
    // Another shape or type is still a change.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let half = View::from_bytes(DType::F16, vec![0, 0x3c, 0, 0x40], [2]).unwrap();
    modelfmt::save(&path, [("near", half)], &Object::default()).unwrap();
    let diff = compared(&a, &Model::open(&path).unwrap(), |options| options.tolerance = Some(1.0));
    assert_eq!(diff.changed[0].what().collect::<Vec<_>>(), ["dtype"]);
}

/// Blocks compared with the values that they were made from.
#[test]
fn blocks_are_decoded() {
    let values: Vec<f32> = (0..256u16).map(|n| f32::from(n) / 256.0).collect();
    let a = model(&[("w", &values)]);
    let mut options = modelfmt::convert::ConvertOptions::default();
    options.types.rules.push("quantize *=q8_0".parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let two = folder.path().join("two.safetensors");
    modelfmt::save(&two, [("w", View::new(&values, [2, 128]).unwrap())], &Object::default()).unwrap();
    let (two, path) = (Model::open(two).unwrap(), folder.path().join("m.gguf"));
    modelfmt::Conversion::new(&two, &path).to(Format::Gguf).options(&options).write().unwrap();
    let gguf = Model::open(&path).unwrap();
    let diff = compared(&a, &gguf, |options| (options.norms, options.ignore_metadata) = (true, true));
    let found = norms(&diff, "w");
    assert!(found.rel_norm.unwrap() < 0.01 && found.cosine.unwrap() > 0.9999, "{found:?}");
    assert!(diff.metadata.is_empty());
    let near = compared(&two, &gguf, |options| options.tolerance = Some(0.01));
    assert_eq!(near.changed[0].what().collect::<Vec<_>>(), ["dtype"]);
    let across = |tolerance| {
        let diff = compared(&two, &gguf, |options| {
            (options.ignore_dtype, options.ignore_metadata, options.tolerance) = (true, true, tolerance);
        });
        diff.changed.iter().flat_map(|changed| changed.what()).collect::<Vec<_>>()
    };
    assert_eq!(across(Some(0.01)), [] as [&str; 0]);
    assert_eq!(across(None), ["values"]);
}

/// Other bits of the same numbers are a change, unless only values are compared.
#[test]
fn zeros_of_both_signs_have_the_same_value() {
    let (a, b) = (model(&[("w", &[0.0, f32::NAN, 1.0])]), model(&[("w", &[-0.0, -f32::NAN, 1.0])]));
    let changed = |ignore_dtype: bool| {
        let diff = compared(&a, &b, |options| options.ignore_dtype = ignore_dtype);
        diff.changed.iter().flat_map(|changed| changed.what()).collect::<Vec<_>>()
    };
    assert_eq!(changed(false), ["values"]);
    assert_eq!(changed(true), [] as [&str; 0]);
}

/// Each byte is read once, whether tensors are equal, differ late, or their norms are requested.
#[test]
fn what_is_in_both_is_read_once() {
    let a = vec![1.0f32; 2_000_000];
    let mut b = a.clone();
    b[1_900_000] = 2.0;
    let (one, other) = (file(&[("same", &a), ("late", &a)]), file(&[("same", &a), ("late", &b)]));
    for norms in [false, true] {
        let sources = [&one, &other].map(|bytes| Arc::new(CountingSource::new(bytes.clone())));
        let [x, y] = [0, 1].map(|n| Model::from_source("m.safetensors", Arc::clone(&sources[n])).unwrap());
        sources.iter().for_each(|source| source.reset());
        let diff = compared(&x, &y, |options| options.norms = norms);
        assert_eq!((diff.changed.len(), &*diff.changed[0].name), (1, "late"));
        for source in &sources {
            assert!(source.nbytes() <= one.len() as u64, "{} of {}", source.nbytes(), one.len());
        }
    }
}
