//! Small floats are numbers: they are shown, counted, compared, cast and widened.

use modelfmt::convert::TypeRule;
use modelfmt::extract::{ExtractAs, ExtractOptions};
use modelfmt::{DType, Error, Execution, Format, Model};
use modelfmt_core::{SmallType, f16};

use super::common::{T, all, convert, floats, options, safetensors, tensor, try_convert};

const TYPES: [DType; 8] = [
    DType::F8E4M3,
    DType::F8E5M2,
    DType::F8E4M3Fnuz,
    DType::F8E5M2Fnuz,
    DType::F8E8M0,
    DType::F6E2M3,
    DType::F6E3M2,
    DType::F4,
];

/// Returns a tensor with every code many times, longer than what is converted at once.
fn every_code(dtype: DType) -> T {
    let shape = [300, 256];
    let nbytes = dtype.nbytes(&shape).unwrap();
    let bytes = (0..nbytes).map(|i| (i ^ (i >> 8)) as u8).collect();
    T { name: dtype.name(), dtype, shape: shape.to_vec(), bytes }
}

fn numbers(model: &Model, name: &str) -> Vec<u32> {
    modelfmt::to_f32(&model.tensor(name).unwrap()).unwrap().iter().map(|x| x.to_bits()).collect()
}

fn dtypes(model: &Model) -> Vec<DType> {
    model.tensors().map(|t| t.dtype).collect()
}

#[test]
fn widening_keeps_every_number() {
    let source = safetensors(&TYPES.map(every_code), "{}");
    let work = Execution::default();
    for (target, powers) in [
        (Format::Mag, DType::F32),
        (Format::Aero, DType::BF16),
        (Format::Oinf, DType::F32),
        (Format::Apr2, DType::BF16),
    ] {
        let wide = convert(&source, target, &options(|o| o.types.widen = true));
        for dtype in TYPES {
            let found = wide.tensor(dtype.name()).unwrap().dtype();
            assert_eq!(
                found,
                if dtype == DType::F8E8M0 { powers } else { DType::F16 },
                "{dtype} in {target}"
            );
            assert_eq!(numbers(&source, dtype.name()), numbers(&wide, dtype.name()), "{dtype} in {target}");
        }
        let diff = modelfmt::diff::diff(&source, &wide, &work).unwrap();
        assert!(diff.changed.iter().all(|changed| changed.values.is_none()), "{:?}", diff.changed);
    }
    let error = try_convert(&source, Format::Aero, &options(|_| {})).unwrap_err();
    let text = all(&error);
    assert!(text.contains("safetensors's f8_e4m3 is not in aero (widen, which makes it f16)"), "{text}");
}

#[test]
fn a_cast_takes_small_floats_and_makes_them() {
    let values: Vec<f32> = (0..70_000u32).map(|i| (f64::from(i) * 0.37).sin() as f32 * 5.0).collect();
    let source = safetensors(&[floats("w", &[700, 100], &values), tensor("ids", DType::I64, &[3])], "{}");
    for dtype in TYPES {
        let small = SmallType::from_dtype(dtype).unwrap();
        let cast =
            convert(&source, Format::Safetensors, &options(|o| o.types.rules.push(TypeRule::cast(dtype))));
        assert_eq!(dtypes(&cast), [dtype, DType::I64]);
        let expected = values.iter().map(|&x| small.to_f32(small.from_f32(x)).to_bits());
        assert!(numbers(&cast, "w").into_iter().eq(expected), "{dtype}");
        // Without a glob, `--cast` also casts small floats.
        let back =
            convert(&cast, Format::Safetensors, &options(|o| o.types.rules.push(TypeRule::cast(DType::F32))));
        assert_eq!(dtypes(&back), [DType::F32, DType::I64]);
        assert_eq!(numbers(&cast, "w"), numbers(&back, "w"), "{dtype}");
    }
}

#[test]
fn they_are_quantized_by_way_of_f32() {
    let values: Vec<f32> = (0..70_400u32).map(|i| (f64::from(i) * 0.37).sin() as f32 * 5.0).collect();
    let source = safetensors(&[floats("w", &[1100, 64], &values)], "{}");
    let cast = |model: &Model, dtype: DType| {
        convert(model, Format::Safetensors, &options(|o| o.types.rules.push(TypeRule::cast(dtype))))
    };
    let blocks = |model: &Model| {
        let blocks =
            convert(model, Format::Aero, &options(|o| o.types.rules.push(TypeRule::quantize(DType::Q8_0))));
        blocks.tensor("w").unwrap().bytes().to_vec()
    };
    for dtype in [DType::F8E4M3, DType::F6E2M3, DType::F4] {
        let small = cast(&source, dtype);
        assert!(blocks(&small) == blocks(&cast(&small, DType::F32)), "{dtype}");
    }
}

#[test]
fn what_a_small_type_cannot_hold_is_said() {
    let source =
        safetensors(&[floats("w", &[3], &[1.0, 1e6, -1.0]), floats("even", &[2], &[1.0, 2.0])], "{}");
    let cast = |dtype: DType| {
        try_convert(&source, Format::Safetensors, &options(|o| o.types.rules.push(TypeRule::cast(dtype))))
    };
    let (model, done) = cast(DType::F8E4M3).unwrap();
    assert!(done.clipped.len() == 1 && done.clipped[0].nan > 0, "{:?}", done.clipped);
    assert!(f32::from_bits(numbers(&model, "w")[1]).is_nan());
    let text = all(&cast(DType::F4).unwrap_err());
    assert!(text.contains("tensor \"w\": the shape [3] does not divide into whole blocks of f4"), "{text}");
    assert!(!text.contains("even"), "{text}");
    let nan = safetensors(&[floats("w", &[2], &[1.0, f32::NAN])], "{}");
    let error =
        try_convert(&nan, Format::Safetensors, &options(|o| o.types.rules.push(TypeRule::cast(DType::F4))));
    let text = all(&error.unwrap_err());
    assert!(text.contains("element 1 is a NaN, and f4 has none"), "{text}");
}

#[test]
fn differences_are_those_of_the_numbers() {
    let t = |bytes: &[u8]| T { name: "w", dtype: DType::F8E4M3, shape: vec![4], bytes: bytes.to_vec() };
    let one = safetensors(&[t(&[0x38, 0x40, 0x7f, 0])], "{}"); // 1, 2, NaN, 0
    let other = safetensors(&[t(&[0x38, 0x44, 0x7f, 0])], "{}"); // 1, 3, NaN, 0
    let diff = modelfmt::diff::diff(&one, &other, &Execution::default()).unwrap();
    let values = diff.changed[0].values.unwrap();
    assert_eq!((values.max_abs, values.max_rel), (Some(1.0), Some(1.0 / 3.0)));
    let wide = safetensors(
        &[T {
            name: "w",
            dtype: DType::F16,
            shape: vec![4],
            bytes: [1.0, 2.0, f32::NAN, 0.5].iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        }],
        "{}",
    );
    let diff = modelfmt::diff::diff(&one, &wide, &Execution::default()).unwrap();
    assert_eq!(diff.changed[0].values.unwrap().max_abs, Some(0.5));
}

#[test]
fn they_are_shown_with_statistics() {
    let all_codes = (0..=u8::MAX).collect();
    let tensors = [
        T { name: "w", dtype: DType::F8E5M2, shape: vec![256], bytes: all_codes },
        T { name: "scale", dtype: DType::F8E8M0, shape: vec![], bytes: vec![0x7c] },
        T { name: "mx", dtype: DType::F4, shape: vec![12], bytes: vec![0x10, 0x32, 0x54, 0x76, 0x98, 0xba] },
        T { name: "six", dtype: DType::F6E3M2, shape: vec![4], bytes: vec![0x4c, 0xf8, 0x01] },
    ];
    let model = safetensors(&tensors, "{}");
    let mut out = Vec::new();
    modelfmt::show::show(&model, &mut out, &Execution::default()).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in [
        "w: f8_e5m2[256] = { 0, 1.52588e-05, 3.05176e-05, 4.57764e-05, 6.10352e-05, ..., -57344, -inf, nan, nan, nan }",
        "- [nbytes: 256, min: -57344, max: 57344, mean: 0, median: 0, std: 9535.29]",
        "- non-finite: nan 6, +inf 1, -inf 1",
        "scale: f8_e8m0 = 0.125",
        "mx: f4[12] = { 0, 0.5, 1, 1.5, 2, ..., 6, -0, -0.5, -1, -1.5 }",
        "- [nbytes: 6, min: -1.5, max: 6, mean: 1.25, median: 0.75, std: 2.10654]",
        "six: f6_e3m2[4] = { 1, -0.0625, 28, 0 }",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
}

#[test]
fn numpy_has_none_of_them() {
    let model = safetensors(&[tensor("w", DType::F8E4M3, &[3])], "{}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.npy");
    let options = ExtractOptions::default();
    let error =
        modelfmt::extract::extract(&model, "w", &path, ExtractAs::Npy, &options, &Execution::default())
            .unwrap_err();
    assert!(matches!(error, Error::NotExtractable { .. }) && !path.exists());
    let text = error.to_string();
    assert!(text.contains("numpy has no type f8_e4m3; extract to .bin, or with cast to f32"), "{text}");
    let path = path.with_extension("bin");
    modelfmt::extract::extract(&model, "w", &path, ExtractAs::Bin, &options, &Execution::default()).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), model.tensor("w").unwrap().bytes());
}
