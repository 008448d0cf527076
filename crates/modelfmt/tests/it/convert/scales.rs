//! Weights in small floats with scales in another tensor: `--dequantize` multiplies them, by the formula of
//! the tools that write such files.

use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::convert::{ScaleRule, TypeRule};
use modelfmt::extract::{ExtractAs, ExtractOptions};
use modelfmt::{DType, Execution, Format, Model, OpenOptions, Pin};
use modelfmt_core::{SmallType, bf16, f16};

use super::common::{T, all, convert, noise, notes, options, safetensors, tensor, try_convert};

/// Returns a weight with any codes.
fn weight(name: &'static str, dtype: DType, shape: &[u64]) -> T {
    let nbytes = dtype.nbytes(shape).unwrap() as usize;
    T { name, dtype, shape: shape.to_vec(), bytes: noise(nbytes as u64 + 1, nbytes) }
}

/// Returns scales of the usual magnitude: about a thousandth.
fn scales(name: &'static str, dtype: DType, shape: &[u64]) -> T {
    let count = shape.iter().product::<u64>() as usize;
    let value = |byte: u8| (f32::from(byte) + 0.3) * 1e-5;
    let bytes: Vec<u8> = match dtype {
        DType::F32 => noise(7, count).into_iter().flat_map(|x| value(x).to_le_bytes()).collect(),
        DType::BF16 => {
            noise(7, count).into_iter().flat_map(|x| bf16::from_f32(value(x)).to_le_bytes()).collect()
        }
        DType::F16 => {
            noise(7, count).into_iter().flat_map(|x| f16::from_f32(value(x)).to_le_bytes()).collect()
        }
        _ => noise(7, count).into_iter().map(|x| 110 + x % 20).collect(), // powers of two
    };
    T { name, dtype, shape: shape.to_vec(), bytes }
}

fn to(dtype: DType) -> ConvertOptions {
    options(|o| o.types.rules.push(TypeRule::dequantize(dtype)))
}

fn numbers(model: &Model, name: &str) -> Vec<f32> {
    modelfmt::to_f32(&model.tensor(name).unwrap()).unwrap()
}

fn names(model: &Model) -> Vec<&str> {
    model.tensors().map(|t| t.name).collect()
}

/// Returns the expected f32 values of a weight of rank 2, by the formula, for blocks of this many rows and
/// columns.
fn expected(model: &Model, weight: &str, scale: &str, block: (usize, usize)) -> Vec<f32> {
    let columns = model.tensor(weight).unwrap().shape()[1] as usize;
    let (weights, scales) = (numbers(model, weight), numbers(model, scale));
    let in_row = columns.div_ceil(block.1);
    let scale = |at: usize| scales[at / columns / block.0 * in_row + at % columns / block.1];
    weights.iter().enumerate().map(|(at, x)| x * scale(at)).collect()
}

/// Checks that the bits are the same, or that both are NaN.
fn assert_equal(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
            "{what}, element {at}: {a} is not {b}"
        );
    }
}

#[test]
fn every_type_and_every_edge_follow_the_formula() {
    let types = [
        (DType::F8E4M3, DType::F32),
        (DType::F8E5M2, DType::BF16),
        (DType::F8E4M3Fnuz, DType::F16),
        (DType::F8E5M2Fnuz, DType::F32),
        (DType::F4, DType::F8E8M0),
        (DType::F6E2M3, DType::F8E8M0),
        (DType::F8E4M3, DType::F8E8M0),
    ];
    for (number, (dtype, scale)) in types.into_iter().enumerate() {
        for (shape, scale_shape, block) in [
            ([576, 260], vec![5, 3], (128, 128)), // odd edges on both sides
            ([300, 512], vec![3, 4], (128, 128)), // more than is converted at once
            ([64, 96], vec![64, 3], (1, 32)),
            ([70, 100], vec![70, 1], (1, 100)),
            ([70, 100], vec![70], (1, 100)),
            ([70, 100], vec![1], (70, 100)),
            ([70, 100], vec![], (70, 100)),
            ([1, 4], vec![1, 1], (1, 4)),
        ] {
            let source = safetensors(
                &[
                    scales("l.weight_scale_inv", scale, &scale_shape),
                    weight("l.weight", dtype, &shape),
                    tensor("norm", DType::F32, &[3]),
                ],
                "{}",
            );
            let what = format!("{dtype} {shape:?} with {scale} {scale_shape:?}, {number}");
            let exact = expected(&source, "l.weight", "l.weight_scale_inv", block);
            for (target, rounded) in [
                (DType::F32, exact.clone()),
                (DType::BF16, exact.iter().map(|&x| bf16::from_f32(x).to_f32()).collect()),
                (DType::F16, exact.iter().map(|&x| f16::from_f32(x).to_f32()).collect()),
            ] {
                let (model, done) = try_convert(&source, Format::Safetensors, &to(target)).unwrap();
                assert_eq!(names(&model), ["l.weight", "norm"], "{what}");
                assert_eq!(model.tensor("l.weight").unwrap().dtype(), target, "{what}");
                assert_equal(&numbers(&model, "l.weight"), &rounded, &what);
                let notes: Vec<String> = done.notes.iter().map(ToString::to_string).collect();
                assert_eq!(notes, ["1 tensor of scales left out: weights are multiplied by them"]);
                let changed = done.changed.iter().map(|changed| (&*changed.tensor, changed.from, changed.to));
                assert!(changed.eq([("l.weight", dtype, target)]), "{what}: {:?}", done.changed);
            }
        }
    }
}

/// Two weights have one tensor of scales, and only one of them is multiplied by it.
#[test]
fn scales_that_another_weight_needs_are_written() {
    let weights = ["a.weight", "b.weight"].map(|name| weight(name, DType::F8E4M3, &[4, 4]));
    let [a, b] = weights;
    let source = safetensors(&[a, b, scales("s", DType::F32, &[1])], "{}");
    let of = |rules: &[&str]| {
        options(|o| {
            o.types.scales = ["a.weight=s", "b.weight=s"].map(|rule| rule.parse().unwrap()).to_vec();
            let rules = rules.iter().map(|rule| TypeRule::parse_dequantize(rule).unwrap());
            o.types.rules.extend(rules);
        })
    };
    let (model, _) = try_convert(&source, Format::Safetensors, &of(&["a.weight=bf16"])).unwrap();
    assert_eq!(names(&model), ["a.weight", "b.weight", "s"]);
    let dtypes: Vec<DType> = model.tensors().map(|tensor| tensor.dtype).collect();
    assert_eq!(dtypes, [DType::BF16, DType::F8E4M3, DType::F32]);
    assert_eq!(numbers(&model, "s"), numbers(&source, "s"));
    // Nobody needs them any more, also if the other weight is left out.
    let (model, _) = try_convert(&source, Format::Safetensors, &of(&["bf16"])).unwrap();
    assert_eq!(names(&model), ["a.weight", "b.weight"]);
    let mut without = of(&["a.weight=bf16"]);
    without.tensors.exclude.push("b.weight".to_owned());
    let (model, _) = try_convert(&source, Format::Safetensors, &without).unwrap();
    assert_eq!(names(&model), ["a.weight"]);
}

/// It is unknown how weights are packed into integers. A note says that they stay as they are.
#[test]
fn integers_with_scales_beside_them_are_said() {
    let source = safetensors(
        &[
            tensor("int8.codes", DType::I8, &[4, 4]),
            scales("int8.codes_scale", DType::F32, &[4]),
            tensor("moe_blocks", DType::U8, &[2, 16]),
            tensor("moe_scales", DType::U8, &[2]),
            tensor("ids", DType::I32, &[3]),
        ],
        "{}",
    );
    let text =
        "does not change integer tensors whose scales follow no known scheme: \"int8.codes\", \"moe_blocks\"";
    let error = try_convert(&source, Format::Safetensors, &to(DType::F32)).unwrap_err().to_string();
    assert!(error.ends_with(&format!("dequantize f32: finds nothing to act on: it {text}")), "{error}");
    let (_, done) = try_convert(&source, Format::Safetensors, &options(|_| {})).unwrap();
    assert!(done.notes.is_empty(), "{:?}", done.notes);
}

/// Python computes the same from the same bytes: numpy expands the scales, and ml_dtypes rounds.
const SCRIPT: &str = "
import sys, ml_dtypes, numpy as np
folder, rows, columns, block = sys.argv[1], *map(int, sys.argv[2:])
w = np.fromfile(folder + '/weight', 'u1').view(ml_dtypes.float8_e4m3fn).astype('f4').reshape(rows, columns)
s = np.fromfile(folder + '/scale', '<f4').reshape(-(-rows // block), -(-columns // block))
s = s.repeat(block, 0).repeat(block, 1)[:rows, :columns]
(w * s).astype(ml_dtypes.bfloat16).tofile(folder + '/expected')
";

#[test]
fn numpy_and_ml_dtypes_agree() {
    let (w, s) = (weight("w", DType::F8E4M3, &[1000, 333]), scales("w_scale_inv", DType::F32, &[8, 3]));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("weight"), &w.bytes).unwrap();
    std::fs::write(folder.path().join("scale"), &s.bytes).unwrap();
    let _ = testkit::python(SCRIPT, &[folder.path().to_str().unwrap(), "1000", "333", "128"]);
    let bytes = std::fs::read(folder.path().join("expected")).unwrap();
    let expected: Vec<f32> =
        bytes.as_chunks::<2>().0.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f32()).collect();
    let model = convert(&safetensors(&[w, s], "{}"), Format::Aero, &to(DType::BF16));
    assert_equal(&numbers(&model, "w"), &expected, "numpy");
}

#[test]
fn scales_are_known_by_the_names_that_tools_give_them() {
    for (name, scale) in [
        ("a.weight", "a.weight_scale_inv"),
        ("a.weight", "a.weight_scale"),
        ("a.weight", "a.scale_weight"),
        ("a.weight", "a.qscale_weight"),
        ("a.weight", "a.scale"),
        ("gate_up_proj", "gate_up_proj_scale_inv"),
        ("gate_up_proj", "gate_up_proj_scale"),
    ] {
        let all = [
            weight(name, DType::F8E4M3, &[4, 4]),
            scales(scale, DType::F32, &[]),
            tensor("a.input_scale", DType::F32, &[]),
        ];
        let source = safetensors(&all, "{}");
        let model = convert(&source, Format::Mag, &to(DType::F32));
        assert_eq!(names(&model), [name, "a.input_scale"], "{scale}");
        assert_equal(&numbers(&model, name), &expected(&source, name, scale, (4, 4)), scale);
    }
}

#[test]
fn the_block_is_what_the_model_states() {
    let tensors = [weight("w", DType::F8E4M3, &[131, 96]), scales("w_scale_inv", DType::F32, &[5, 3])];
    let stated = [
        r#"{"weight_block_size": "[32, 32]"}"#,
        r#"{"quantization_config": "{\"weight_block_size\": [32, 32]}"}"#,
    ];
    for metadata in stated {
        let source = safetensors(&tensors, metadata);
        let model = convert(&source, Format::Safetensors, &to(DType::F32));
        assert_equal(&numbers(&model, "w"), &expected(&source, "w", "w_scale_inv", (32, 32)), metadata);
    }
    // 131 rows are not 5 blocks of the same size.
    let source = safetensors(&tensors, "{}");
    let text = all(&try_convert(&source, Format::Safetensors, &to(DType::F32)).unwrap_err());
    let why = "tensor \"w\": scales of shape [5, 3] do not fit its shape [131, 96] (scales)";
    assert!(text.contains(why), "{text}");
    // A config.json next to the file states it too, for a file and for a set.
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 32]}}"#;
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    for (format, name) in
        [(Format::Safetensors, "m.safetensors"), (Format::SafetensorsSharded, "n.safetensors.index.json")]
    {
        let path = folder.path().join(name);
        let parts = options(|o| o.output.shard_size = format.is_set().then_some(1));
        modelfmt::Conversion::new(&source, &path).to(format).options(&parts).write().unwrap();
        let opened = Model::open(&path).unwrap();
        let (model, done) = try_convert(&opened, Format::Aero, &to(DType::F32)).unwrap();
        assert_equal(&numbers(&model, "w"), &expected(&source, "w", "w_scale_inv", (32, 32)), name);
        let note = "weights are scaled in blocks of 32 × 32, from the config.json beside the file";
        assert_eq!(notes(&done).iter().filter(|found| **found == note).count(), 1, "{:?}", notes(&done));
        // The same for extraction.
        let mut extract = ExtractOptions::default();
        (extract.dequantize, extract.overwrite) = (Some(DType::F32), Overwrite::Replace);
        let out = folder.path().join(format!("{name}.bin"));
        let done =
            modelfmt::extract::extract(&opened, "w", &out, ExtractAs::Bin, &extract, &Execution::default());
        assert!(done.unwrap().notes.iter().any(|found| found.to_string() == note));
        // A file that a pin covers is read, and no other.
        if !format.is_set() {
            let pin = Pin::B3(*blake3::hash(&std::fs::read(&path).unwrap()).as_bytes());
            let pinned = OpenOptions::new().pin(pin).open(&path).unwrap();
            assert!(all(&try_convert(&pinned, Format::Aero, &to(DType::F32)).unwrap_err()).contains(why));
            assert!(
                modelfmt::extract::extract(
                    &pinned,
                    "w",
                    &out,
                    ExtractAs::Bin,
                    &extract,
                    &Execution::default()
                )
                .is_err()
            );
        }
    }
    // If the shapes also show the block size, the values follow the shapes, and a note says so.
    let source = safetensors(
        &[weight("w", DType::F8E4M3, &[256, 96]), scales("w_scale_inv", DType::F32, &[8, 3])],
        "{}",
    );
    let path = folder.path().join("fits.safetensors");
    modelfmt::Conversion::new(&source, &path)
        .to(Format::Safetensors)
        .options(&options(|_| {}))
        .write()
        .unwrap();
    let pin = Pin::B3(*blake3::hash(&std::fs::read(&path).unwrap()).as_bytes());
    let pinned = OpenOptions::new().pin(pin).open(&path).unwrap();
    let (model, done) = try_convert(&pinned, Format::Aero, &to(DType::F32)).unwrap();
    assert_equal(&numbers(&model, "w"), &expected(&source, "w", "w_scale_inv", (32, 32)), "pinned");
    assert!(
        notes(&done).iter().any(|note| note.starts_with("the shapes say how large the blocks are")),
        "{:?}",
        notes(&done)
    );
    // A stated size that does not fit is not ignored.
    let source = safetensors(
        &[weight("w", DType::F8E4M3, &[256, 256]), scales("w_scale", DType::F32, &[2, 2])],
        r#"{"weight_block_size": "[64, 64]"}"#,
    );
    let text = all(&try_convert(&source, Format::Aero, &to(DType::F32)).unwrap_err());
    assert!(
        text.contains("do not fit its shape [256, 256] in blocks of 64, which the model states"),
        "{text}"
    );
}

#[test]
fn nothing_is_silently_wrong() {
    let refused = |tensors: &[T], options: &ConvertOptions, expected: &str| {
        let error = try_convert(&safetensors(tensors, "{}"), Format::Safetensors, options).unwrap_err();
        let text = all(&error);
        assert!(text.contains(expected), "{expected}\n{text}");
    };
    let w = weight("a.weight", DType::F8E4M3, &[4, 4]);
    let s = |name| scales(name, DType::F32, &[]);
    let scaled = [w.clone(), s("a.weight_scale")];
    // Without the scales, the numbers have another meaning.
    let count = "tensor \"a.weight\": its f8_e4m3 values mean nothing without the scales beside it (dequantize to bf16)";
    refused(&scaled, &options(|o| o.types.rules.push(TypeRule::cast(DType::BF16))), count);
    refused(&scaled, &options(|o| o.types.rules.push("cast a.weight=f16".parse().unwrap())), count);
    let widen = options(|o| o.types.widen = true);
    let text = all(&try_convert(&safetensors(&scaled, "{}"), Format::Mag, &widen).unwrap_err());
    assert!(text.contains(count), "{text}");
    let text = all(&try_convert(&safetensors(&scaled, "{}"), Format::Mag, &options(|_| {})).unwrap_err());
    assert!(text.contains(count) && !text.contains("widen"), "{text}");
    refused(
        &[weight("a.weight", DType::F8E4M3, &[4, 32]), s("a.weight_scale")],
        &options(|o| o.types.rules.push(TypeRule::quantize(DType::Q8_0))),
        "safetensors has no q8_0",
    );
    // They can be copied unchanged.
    let copied = convert(&safetensors(&scaled, "{}"), Format::Safetensors, &widen);
    assert_eq!(names(&copied), ["a.weight", "a.weight_scale"]);
    let bf16 = to(DType::BF16);
    let none = "no scales for this f8_e4m3 are known; if it has none, cast it instead (scales)";
    refused(&[w.clone(), s("other")], &bf16, none);
    refused(
        &[w.clone(), s("a.weight_scale"), s("a.scale_weight")],
        &bf16,
        "\"a.weight_scale\" and \"a.scale_weight\" may both be its scales (scales)",
    );
    refused(
        &[w.clone(), s("a.weight_scale"), s("a.weight_scale_2")],
        &bf16,
        "with \"a.weight_scale_2\" beside it, it is not just weight times scale",
    );
    refused(
        &[w.clone(), tensor("a.weight_scale", DType::U8, &[1])],
        &bf16,
        "its scales, tensor \"a.weight_scale\", are u8, a type that scales do not have",
    );
    refused(
        &[w.clone(), scales("a.weight_scale", DType::F32, &[3])],
        &bf16,
        "scales of shape [3] do not fit",
    );
    let given = |text: &str| {
        let rule: ScaleRule = text.parse().unwrap();
        options(|o| {
            o.types.rules.push(TypeRule::dequantize(DType::F32));
            o.types.scales = vec![rule];
        })
    };
    refused(&scaled, &given("a.weight=b"), "its scales, tensor \"b\", are not there");
    refused(&scaled, &given("a.weight_scale=a.weight"), "f32 has no scales");
    refused(&scaled, &given("b=a.weight_scale"), "scales b: no tensor has a matching name");
    let alone = options(|o| o.types.scales = vec!["a=b".parse().unwrap()]);
    refused(&scaled, &alone, "scales: it is used only when weights are dequantized, and no rule dequantizes");
}

#[test]
fn scales_can_be_given() {
    let tensors = [
        weight("a.w", DType::F8E5M2, &[130, 8]),
        weight("b.w", DType::F8E5M2, &[8, 130]),
        scales("scales.a", DType::BF16, &[2, 1]),
        scales("scales.b", DType::F32, &[1, 2]),
        scales("a.w_scale", DType::F32, &[]),
        tensor("norm.w", DType::F32, &[3]),
    ];
    let source = safetensors(&tensors, "{}");
    let options = options(|o| {
        o.types.rules.push(TypeRule::dequantize(DType::F32));
        // The pattern of the last rule also matches tensors that are not weights.
        o.types.scales = vec!["a.w=nowhere".parse().unwrap(), "*.w=scales.*".parse().unwrap()];
    });
    let model = convert(&source, Format::Aero, &options);
    assert_eq!(names(&model), ["a.w", "b.w", "a.w_scale", "norm.w"]);
    assert_equal(&numbers(&model, "a.w"), &expected(&source, "a.w", "scales.a", (128, 8)), "a");
    assert_equal(&numbers(&model, "b.w"), &expected(&source, "b.w", "scales.b", (8, 128)), "b");
}

#[test]
fn a_pattern_dequantizes_some_and_leaves_the_scales_of_others() {
    let tensors = [
        weight("a.weight", DType::F8E4M3, &[4, 4]),
        scales("a.weight_scale", DType::F32, &[]),
        weight("b.weight", DType::F8E4M3, &[4, 4]),
        scales("b.weight_scale", DType::F32, &[]),
        weight("c.weight", DType::F8E4M3, &[4, 4]),
        scales("c.weight_scale", DType::F32, &[]),
    ];
    let source = safetensors(&tensors, "{}");
    let part = options(|o| {
        o.types.rules.push("dequantize [ac].*=f32".parse().unwrap());
        o.tensors.exclude = vec!["c.weight".to_owned()];
    });
    let model = convert(&source, Format::Safetensors, &part);
    assert_eq!(names(&model), ["a.weight", "b.weight", "b.weight_scale", "c.weight_scale"]);
    assert_eq!(model.tensor("b.weight").unwrap().bytes(), tensors[2].bytes);
}

#[test]
fn weights_with_scales_are_for_dequantize_alone() {
    let source = safetensors(
        &[
            weight("w", DType::F4, &[64, 256]),
            scales("w_scale", DType::F8E8M0, &[64, 8]),
            super::common::floats("embed", &[1, 256], &[0.5; 256]),
        ],
        "{}",
    );
    let plain = convert(&source, Format::Aero, &to(DType::F32));
    // Rules go by the types in the source: the result of one rule is not changed by another.
    let rules: [TypeRule; 2] = ["dequantize f32", "quantize q8_0"].map(|rule| rule.parse().unwrap());
    for order in [[0, 1], [1, 0]] {
        let both = convert(
            &source,
            Format::Aero,
            &options(|o| o.types.rules = order.map(|n: usize| rules[n].clone()).to_vec()),
        );
        assert_eq!(both.tensor("embed").unwrap().dtype(), DType::Q8_0);
        assert_eq!(both.tensor("w").unwrap().bytes(), plain.tensor("w").unwrap().bytes());
    }
    // Alone, the other rules refuse such weights.
    let alone =
        try_convert(&source, Format::Aero, &options(|o| o.types.rules.push(TypeRule::quantize(DType::Q8_0))));
    assert!(all(&alone.unwrap_err()).contains("mean nothing without the scales beside it"));
    // Products beyond the range of the type are noted.
    let mut large = scales("v_scale", DType::F32, &[]);
    large.bytes = 1000f32.to_le_bytes().to_vec();
    let max = SmallType::from_dtype(DType::F8E5M2).unwrap().from_f32(57_344.0);
    let v = T { name: "v", dtype: DType::F8E5M2, shape: vec![1], bytes: vec![max] };
    let (_, done) = try_convert(&safetensors(&[v, large], "{}"), Format::Mag, &to(DType::F16)).unwrap();
    assert_eq!(done.clipped[0].to_string(), "of the values of tensor \"v\" as f16 100 % became infinite");
}
