//! Type rules are one list: the last rule that matches a tensor decides.

use modelfmt::convert::ConvertOptions;
use modelfmt::convert::{TypeRule, Warning};
use modelfmt::{DType, Error, Format, Model};

use super::common::{T, all, convert, floats, gguf, options, safetensors, tensor, try_convert};

use DType::{BF16, F16, F32, I64, Q4_0, Q8_0};

/// Returns two matrices, a norm, and ids.
fn source() -> Model {
    let values = [0.5; 64];
    let tensors = [
        floats("embed.weight", &[2, 32], &values),
        floats("fc.weight", &[2, 32], &values),
        floats("norm", &[4], &values[..4]),
        tensor("ids", I64, &[3]),
    ];
    safetensors(&tensors, "{}")
}

/// Returns the same with blocks in place of one matrix.
fn blocks() -> Model {
    let values = [0.5; 64];
    gguf(
        &[tensor("b", Q8_0, &[2, 32]), floats("w", &[2, 32], &values), floats("norm", &[4], &values[..4])],
        &[],
    )
}

fn rules(texts: &[&str]) -> ConvertOptions {
    options(|o| o.types.rules = texts.iter().map(|text| text.parse().unwrap()).collect())
}

fn dtypes(model: &Model, texts: &[&str]) -> Vec<DType> {
    convert(model, Format::Aero, &rules(texts)).tensors().map(|tensor| tensor.dtype).collect()
}

fn refused(model: &Model, texts: &[&str]) -> String {
    all(&try_convert(model, Format::Aero, &rules(texts)).unwrap_err())
}

fn warnings(model: &Model, texts: &[&str]) -> Vec<String> {
    let (_, done) = try_convert(model, Format::Aero, &rules(texts)).unwrap();
    done.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn the_last_rule_decides_whichever_option_it_came_from() {
    let model = source();
    assert_eq!(dtypes(&model, &["quantize q4_0", "cast *embed*=f16"]), [F16, Q4_0, F32, I64]);
    assert_eq!(dtypes(&model, &["cast *embed*=f16", "quantize q4_0"]), [Q4_0, Q4_0, F32, I64]);
    assert_eq!(dtypes(&model, &["cast bf16", "quantize q8_0", "cast fc*=f16"]), [Q8_0, F16, BF16, I64]);
    assert_eq!(dtypes(&model, &["quantize q8_0", "cast bf16"]), [BF16, BF16, BF16, I64]);
    assert_eq!(dtypes(&model, &["quantize q8_0", "quantize *embed*=f16"]), [F16, Q8_0, F32, I64]);
    assert_eq!(dtypes(&model, &["quantize f16"]), dtypes(&model, &["cast f16"]));
    assert_eq!(
        dtypes(&blocks(), &["dequantize bf16", "cast f16"]),
        [BF16, F16, F16],
        "no rule takes what another has made"
    );
    assert_eq!(
        dtypes(&blocks(), &["cast f16", "dequantize *=f32"]),
        [F32, F32, F32],
        "floats that it names stay"
    );
}

#[test]
fn a_rule_that_names_a_tensor_it_cannot_act_on_is_refused() {
    let (model, blocks) = (source(), blocks());
    for (model, rule, why) in [
        (
            &model,
            "quantize *=q4_0",
            "tensor \"norm\": \"*=q4_0\" cannot quantize it, because its rank is below 2",
        ),
        (
            &model,
            "quantize ids=q4_0",
            "tensor \"ids\": \"ids=q4_0\" cannot quantize it, because only floats can be quantized, not i64",
        ),
        (
            &model,
            "dequantize ids=f32",
            "tensor \"ids\": \"ids=f32\" cannot decode it, because i64 is not quantized",
        ),
        (
            &blocks,
            "cast b=f16",
            "tensor \"b\": \"b=f16\" is a cast, which does not take blocks of q8_0 (dequantize to f32)",
        ),
        (
            &blocks,
            "quantize b=q4_0",
            "tensor \"b\": \"b=q4_0\" cannot quantize it, because only floats can be quantized, not q8_0",
        ),
    ] {
        let refusal = refused(model, &[rule]);
        assert!(refusal.contains(why), "{rule}: {refusal}");
    }
    // A later rule decides for such a tensor instead.
    assert_eq!(dtypes(&model, &["quantize *=q4_0", "cast {norm,ids}=f32"]), [Q4_0, Q4_0, F32, F32]);
}

#[test]
fn a_rule_that_finds_nothing_is_an_error_of_the_job() {
    let ids = safetensors(&[tensor("ids", I64, &[3]), floats("norm", &[4], &[0.5; 4])], "{}");
    for (model, texts, why) in [
        (&ids, &["dequantize f32"][..], "dequantize f32: finds nothing to act on: no tensor is quantized"),
        (
            &ids,
            &["dequantize norm=f32"],
            "finds nothing to act on: none of the tensors that it names is quantized",
        ),
        (&ids, &["quantize q4_0"], "quantize q4_0: finds nothing to act on: no tensor of floats has rank 2"),
        (&ids, &["cast x*=f16"], "cast x*: no tensor has a matching name"),
        (&blocks(), &["dequantize f32", "quantize q4_k"], "convert the output once more"),
    ] {
        let error = try_convert(model, Format::Aero, &rules(texts)).unwrap_err();
        assert!(!error.is_usage() && error.code() == "no-match", "{error}");
        assert!(error.to_string().contains(why), "{texts:?}: {error}");
    }
    let mut without = rules(&["cast f16"]);
    without.tensors.exclude.push("norm".to_owned());
    assert!(matches!(try_convert(&ids, Format::Aero, &without).unwrap_err(), Error::IdleRule { .. }));
}

#[test]
fn a_rule_that_later_ones_override_is_a_warning_with_the_order_that_works() {
    let model = source();
    assert_eq!(
        warnings(&model, &["cast *embed*=f16", "quantize q4_0"]),
        ["cast *embed*=f16 has no effect, because a later rule decides the 1 tensor that it is for; \
          the order that works, general rules first: quantize q4_0, cast *embed*=f16"]
    );
    let order = |texts: &[&str]| match &try_convert(&model, Format::Aero, &rules(texts)).unwrap().1.warnings[..]
    {
        [Warning::Overridden { order, .. }, ..] => {
            order.as_ref().map(|rules| rules.iter().map(TypeRule::to_string).collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    let works = ["cast bf16", "cast *.weight=f16", "quantize fc*=q4_0"];
    assert_eq!(order(&[works[2], works[0], works[1]]).unwrap(), works);
    assert!(warnings(&model, &works).is_empty());
    assert_eq!(order(&["cast f16", "cast bf16"]), None);
    assert_eq!(order(&["quantize q4_0", "quantize embed*=q8_0", "cast fc*=f16"]), None);
    assert!(warnings(&model, &["cast f16", "quantize q8_0", "cast ids=i32"]).is_empty());
}

#[test]
fn types_that_other_options_make_name_these() {
    let model = source();
    assert!(refused(&model, &["cast q4_k"]).ends_with("use quantize to q4_k"));
    assert!(refused(&model, &["quantize i8"]).ends_with("use cast to i8"));
    assert!(refused(&model, &["quantize iq3_s"]).contains("there is no encoder for iq3_s"));
}

#[test]
fn rules_go_by_the_old_names_of_tensors_without_values_too() {
    let declared = oinf_declared();
    let renamed = options(|o| {
        o.tensors.rename.push("y=z".parse().unwrap());
        o.types.rules.push("cast y=f16".parse().unwrap());
    });
    // Through a format that only lists such a tensor.
    let there = convert(&declared, Format::Aero, &options(|_| {}));
    let back = convert(&there, Format::Oinf, &renamed);
    assert!(back.tensors().any(|tensor| tensor.name == "z" && tensor.dtype == F16 && !tensor.has_data));
}

fn oinf_declared() -> Model {
    let y = T { name: "y", dtype: F32, shape: vec![2, 2], bytes: Vec::new() };
    super::common::oinf(&[floats("x", &[1], &[1.0]), y], &oinf::Metadata::default())
}
