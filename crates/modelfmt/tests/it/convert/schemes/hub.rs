//! Quantized hub folders become the same GGUF as the same folders with decoded weights.

use std::path::Path;

use modelfmt::convert::TypeRule;
use modelfmt::{Conversion, DType, Model, Object};
use modelfmt_core::bf16;

use super::super::hub_folder::{self, Tensor};
use super::super::proved;
use super::{Gptq, NAMES, Noise, T, f32s, gptq};

/// The largest sizes in the config, which are whole words of 4-bit numbers.
const SIZES: &str = r#""hidden_size": 64, "head_dim": 32, "intermediate_size": 96, "vocab_size": 8"#;

fn is_quantized(name: &str) -> bool {
    name.contains("_proj.weight") || name.contains(".experts.")
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Returns the same model with other tensors in place of its matrices, and the model with the values of these
/// tensors.
fn quantized(
    tensors: &[Tensor],
    mut of: impl FnMut(&str, &[u64]) -> (Vec<Tensor>, Vec<f32>),
) -> (Vec<Tensor>, Vec<Tensor>) {
    let (mut stored, mut decoded) = (Vec::new(), Vec::new());
    for tensor in tensors {
        let (name, _, shape, _) = tensor;
        if !is_quantized(name) {
            stored.push(tensor.clone());
            decoded.push(tensor.clone());
            continue;
        }
        let (parts, values) = of(name.strip_suffix(".weight").unwrap(), shape);
        stored.extend(parts);
        decoded.push((name.clone(), DType::F32, shape.clone(), floats(&values)));
    }
    (stored, decoded)
}

fn as_tensor(stem: &str, end: &str, tensor: T) -> Tensor {
    (format!("{stem}{end}"), tensor.dtype, tensor.shape, tensor.bytes)
}

fn with(config: &Object, quantization: &str) -> Object {
    let mut config = config.clone();
    let parsed = modelfmt::value::json::parse(quantization.as_bytes()).unwrap();
    config.insert("quantization_config", parsed);
    config
}

/// Converts both to GGUF and compares.
fn check(stored: &Path, decoded: &Path, what: &str) {
    let convert = |folder: &Path, rule: Option<TypeRule>| {
        let model = Model::open(folder.join("model.safetensors")).unwrap();
        let out = folder.join("out.gguf");
        let made = Conversion::new(&model, &out).with(|o| o.types.rules.extend(rule)).write();
        made.unwrap_or_else(|error| panic!("{what}: {error}"));
        out
    };
    for dtype in [DType::F32, DType::F16] {
        let out = convert(stored, Some(TypeRule::dequantize(dtype)));
        proved::assert_made(stored, &out, &format!("{what} as {dtype}"));
        let found = hub_folder::tensors(&out);
        let rule = TypeRule::cast(dtype).matching("*_proj.weight");
        let expected = hub_folder::tensors(&convert(decoded, Some(rule)));
        assert!(found == expected, "{what} as {dtype}");
        std::fs::remove_file(stored.join("out.gguf")).unwrap();
        std::fs::remove_file(decoded.join("out.gguf")).unwrap();
    }
    // Without the option, the error names the scheme and the option.
    let model = Model::open(stored.join("model.safetensors")).unwrap();
    let error = Conversion::new(&model, stored.join("no.gguf")).write().expect_err("it is refused");
    let text = error.to_string();
    assert!(text.contains(what) && text.contains("dequantize f16 decodes them"), "{text}");
    assert!(!stored.join("no.gguf").exists());
}

const GPTQ: &str = r#"{"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true}"#;

/// Returns the same model with GPTQ matrices, and the model with the values of these matrices.
fn in_gptq(tensors: &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>) {
    let mut noise = Noise::new(31);
    quantized(tensors, |stem, shape| {
        let case = Gptq {
            bits: 4,
            inputs: shape[1],
            outputs: shape[0],
            group: Some(32),
            act_order: true,
            has_index: true,
            is_v2: false,
        };
        let (parts, values) = gptq(case, NAMES, &mut noise);
        let ends = [".qweight", ".qzeros", ".scales", ".g_idx"];
        (parts.into_iter().zip(ends).map(|(part, end)| as_tensor(stem, end, part)).collect(), values)
    })
}

#[test]
fn gptq_becomes_gguf() {
    let (_folder, tensors, config) = hub_folder::llama(SIZES);
    let (stored, decoded) = in_gptq(&tensors);
    let stored = hub_folder::folder(&stored, &with(&config, GPTQ));
    let decoded = hub_folder::folder(&decoded, &config);
    check(stored.path(), decoded.path(), "14 weights are stored as gptq (u4 in groups of 32)");
}

/// Adds a bias of zeros to each GPTQ module that has none, as AutoGPTQ does.
fn with_zero_biases(tensors: &[Tensor]) -> Vec<Tensor> {
    let mut all = tensors.to_vec();
    for (name, _, shape, _) in tensors {
        let bias = name.strip_suffix(".qweight").map(|stem| format!("{stem}.bias"));
        let Some(bias) = bias.filter(|bias| tensors.iter().all(|(name, ..)| name != bias)) else { continue };
        all.push((bias, DType::F16, vec![shape[1]], vec![0; shape[1] as usize * 2]));
    }
    all
}

#[test]
fn biases_of_zeros_that_the_base_has_not_are_left_out() {
    for (family, own, added) in [("llama", 0, 14), ("qwen2", 6, 8)] {
        let (_folder, mut tensors, config) = hub_folder::of_family(family, SIZES);
        if family == "llama" {
            tensors.retain(|(name, ..)| !name.ends_with(".bias"));
        }
        let zeros = |tensor: &mut Tensor| tensor.3.fill(0);
        // Biases that the family has are kept, even if they are zero.
        tensors.iter_mut().filter(|(name, ..)| name.ends_with(".q_proj.bias")).for_each(zeros);
        let (stored, decoded) = in_gptq(&tensors);
        let stored = with_zero_biases(&stored);
        let biases = stored.iter().filter(|(name, ..)| name.ends_with(".bias")).count();
        assert_eq!(biases, own + added, "{family}");
        let folder = hub_folder::folder(&stored, &with(&config, GPTQ));
        let decoded = hub_folder::folder(&decoded, &config);
        check(folder.path(), decoded.path(), "14 weights are stored as gptq (u4 in groups of 32)");
        let model = Model::open(folder.path().join("model.safetensors")).unwrap();
        let rule = || TypeRule::dequantize(DType::F16);
        let done = Conversion::new(&model, folder.path().join("out.gguf"))
            .with(|o| o.types.rules.push(rule()))
            .write()
            .unwrap();
        let note = format!("{added} biases of zeros beside GPTQ weights left out");
        assert!(done.notes.iter().any(|found| found.to_string() == note), "{:?}", done.notes);
        // Without a map, all tensors are kept.
        let out = folder.path().join("all.safetensors");
        Conversion::new(&model, &out).with(|o| o.types.rules.push(rule())).write().unwrap();
        let kept = Model::open(out).unwrap().tensors().filter(|info| info.name.ends_with(".bias")).count();
        assert_eq!(kept, biases, "{family}");
    }
}

#[test]
fn biases_that_are_not_zeros_are_not_left_out() {
    let (_folder, tensors, config) = hub_folder::of_family("qwen2", SIZES);
    let mut stored = with_zero_biases(&in_gptq(&tensors).0);
    let name = "model.layers.1.self_attn.o_proj.bias";
    let bias = stored.iter_mut().find(|(found, ..)| found == name).unwrap();
    *bias.3.last_mut().unwrap() = 1;
    let folder = hub_folder::folder(&stored, &with(&config, GPTQ));
    let model = Model::open(folder.path().join("model.safetensors")).unwrap();
    let rule = TypeRule::dequantize(DType::F16);
    let out = folder.path().join("no.gguf");
    let error = Conversion::new(&model, &out).with(|o| o.types.rules.push(rule)).write();
    let text = error.expect_err("the map does not know it").to_string();
    assert!(text.contains(&format!("{name:?}: the map qwen2 does not know it")), "{text}");
    assert!(!out.exists());
}

#[test]
fn fp8_with_scales_becomes_gguf() {
    let (_folder, tensors, config) = hub_folder::llama(SIZES);
    let (stored, decoded) = quantized(&tensors, |stem, shape| {
        let count = shape.iter().product::<u64>() as usize;
        let codes: Vec<u8> = (0..count).map(|at| (at * 7 % 0x78) as u8).collect();
        let mut values = vec![0.0; count];
        modelfmt_core::SmallType::from_dtype(DType::F8E4M3).unwrap().decode(&codes, &mut values);
        let scale = |row: usize| bf16::from_f32(0.01 + row as f32 * 0.003).to_f32();
        let rows = shape[0] as usize;
        values.iter_mut().enumerate().for_each(|(at, value)| *value *= scale(at / (count / rows)));
        let scales = f32s("s", &[shape[0], 1], &(0..rows).map(scale).collect::<Vec<_>>());
        let parts = vec![
            (format!("{stem}.weight"), DType::F8E4M3, shape.to_vec(), codes),
            as_tensor(stem, ".weight_scale", scales),
            as_tensor(stem, ".input_scale", f32s("i", &[1], &[1.0])),
        ];
        (parts, values)
    });
    let quantization = r#"{"quant_method": "compressed-tensors", "format": "float-quantized"}"#;
    let stored = hub_folder::folder(&stored, &with(&config, quantization));
    let decoded = hub_folder::folder(&decoded, &config);
    check(stored.path(), decoded.path(), "14 weights are stored as f8_e4m3 with scales beside them");
}

/// Sizes that are whole blocks of NVFP4.
const BLOCKS: &str = r#""hidden_size": 64, "head_dim": 32, "intermediate_size": 128, "vocab_size": 8"#;

/// Returns the tensors of a matrix in NVFP4, or in MXFP4 if there is no scale for all values. `end` is the
/// suffix of the name of that scale.
fn fp4(stem: &str, shape: &[u64], (all, end): (Option<f32>, &str), noise: &mut Noise) -> Vec<Tensor> {
    let (rows, columns) = (shape[0], shape[1]);
    let group = if all.is_some() { 16 } else { 32 };
    let numbers = noise.numbers(rows * columns / 2, 256).iter().map(|n| *n as u8).collect();
    let scales = noise
        .numbers(rows * columns / group, 20)
        .iter()
        .map(|n| if all.is_some() { 0x30 + *n as u8 } else { 115 + *n as u8 % 8 })
        .collect();
    let scales_dtype = if all.is_some() { DType::F8E4M3 } else { DType::U8 };
    let mut tensors = vec![
        (
            format!("{stem}{}", if end == ".weight_scale_2" { ".weight" } else { ".weight_packed" }),
            DType::U8,
            vec![rows, columns / 2],
            numbers,
        ),
        (format!("{stem}.weight_scale"), scales_dtype, vec![rows, columns / group], scales),
    ];
    tensors.extend(all.map(|all| as_tensor(stem, end, f32s("s", &[1], &[all]))));
    tensors
}

#[test]
fn blocks_of_four_bits_are_kept() {
    let (_folder, mut tensors, config) = hub_folder::llama(BLOCKS);
    // llama.cpp accepts no scale together with the biases of these tensors.
    tensors.retain(|(name, ..)| !(name.contains("mlp") && name.ends_with(".bias")));
    for (what, all, end) in [
        ("nvfp4", Some(3.0 / 1024.0), ".weight_scale_2"),
        ("nvfp4-pack-quantized", Some(512.0), ".weight_global_scale"),
        ("mxfp4-pack-quantized", None, ""),
    ] {
        let mut noise = Noise::new(33);
        let (stored, _) =
            quantized(&tensors, |stem, shape| (fp4(stem, shape, (all, end), &mut noise), Vec::new()));
        let folder = hub_folder::folder(&stored, &config);
        let model = Model::open(folder.path().join("model.safetensors")).unwrap();
        let (kept, decoded) = (folder.path().join("kept.gguf"), folder.path().join("decoded.gguf"));
        let done = Conversion::new(&model, &kept).write().unwrap();
        let note = format!("14 weights are kept in the blocks of GGUF, of the scheme {what} ");
        assert!(done.notes.iter().any(|found| found.to_string().starts_with(&note)), "{:?}", done.notes);
        let rule = TypeRule::dequantize(DType::F32);
        Conversion::new(&model, &decoded).with(|o| o.types.rules.push(rule)).write().unwrap();
        let (kept, decoded) = (Model::open(kept).unwrap(), Model::open(decoded).unwrap());
        let dtype = if all.is_some() { DType::Nvfp4 } else { DType::Mxfp4 };
        let mut blocks = 0;
        for info in decoded.tensors() {
            let values = |model: &Model, name: &str| modelfmt::to_f32(&model.tensor(name).unwrap()).unwrap();
            let mut found = values(&kept, info.name);
            if kept.tensor(info.name).unwrap().dtype() == dtype {
                blocks += 1;
                if all.is_some() {
                    let scale = values(&kept, &info.name.replace(".weight", ".scale"))[0];
                    found.iter_mut().for_each(|value| *value *= scale);
                }
            }
            assert!(found == values(&decoded, info.name), "{what}: {}", info.name);
        }
        let scales = if all.is_some() { 14 } else { 0 };
        assert_eq!((blocks, kept.tensor_count()), (14, decoded.tensor_count() + scales), "{what}");
    }
}

#[test]
fn blocks_that_gguf_cannot_keep_are_refused() {
    let (_folder, all_tensors, config) = hub_folder::llama(BLOCKS);
    let mut tensors = all_tensors.clone();
    tensors.retain(|(name, ..)| !name.ends_with(".bias"));
    let mut noise = Noise::new(34);
    let mut error = |tensors: &[Tensor], all: Option<f32>, end: &str, change: &dyn Fn(&mut Tensor)| {
        let (mut stored, _) =
            quantized(tensors, |stem, shape| (fp4(stem, shape, (all, end), &mut noise), Vec::new()));
        stored.iter_mut().for_each(change);
        let folder = hub_folder::folder(&stored, &config);
        let model = Model::open(folder.path().join("model.safetensors")).unwrap();
        let out = folder.path().join("no.gguf");
        let error = Conversion::new(&model, &out).write().expect_err("it is refused");
        assert!(!out.exists());
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    };
    // Values would be divided by this scale, and its reciprocal is rounded.
    let found = error(&tensors, Some(3.0), ".weight_global_scale", &|_| {});
    assert!(found.contains("14 weights are stored as nvfp4-pack-quantized (f4 in groups of 16)"), "{found}");
    let found = error(&all_tensors, Some(1.0), ".weight_scale_2", &|_| {});
    assert!(found.contains("has a scale and a bias, which llama.cpp does not compute with"), "{found}");
    // A scale that is a NaN, or has a sign, is a number in GGUF.
    for code in [0x7f, 0xff, 0x81] {
        let found = error(&tensors, Some(1.0), ".weight_scale_2", &|tensor| {
            if tensor.0.ends_with("down_proj.weight_scale") {
                tensor.3[5] = code;
            }
        });
        assert!(found.contains(&format!("element 5 is {code}, and at most 126 can be kept")), "{found}");
    }
}

/// llama.cpp multiplies with 8-bit activations there, so the result is only close.
const LOGITS: &str = "
import sys
import numpy as np
from llama_cpp import Model
tokens = [1, 4, 2, 7, 0, 3]
kept, decoded = (Model(path, texts={'tokenizer.ggml.model': 'no_vocab'}).logits(tokens) for path in sys.argv[1:])
assert np.isfinite(decoded).all() and decoded.std() > 0
print(np.abs(kept - decoded).max() / np.abs(decoded).max())
";

#[test]
fn llama_cpp_reads_the_blocks_and_their_scales() {
    let (_folder, tensors, config) = hub_folder::llama(BLOCKS);
    for (all, end) in
        [(Some(3.0 / 1024.0), ".weight_scale_2"), (Some(32.0), ".weight_global_scale"), (None, "")]
    {
        let mut noise = Noise::new(35);
        let (stored, _) =
            quantized(&tensors, |stem, shape| (fp4(stem, shape, (all, end), &mut noise), Vec::new()));
        // Norms of 1, and embeddings that differ.
        let mut stored = stored;
        stored.retain(|(name, ..)| !name.ends_with(".bias"));
        for (at, tensor) in stored.iter_mut().filter(|tensor| tensor.1 == DType::BF16).enumerate() {
            let is_norm = tensor.2.len() == 1;
            let numbers = (0..tensor.3.len() / 2)
                .map(|n| if is_norm { 1.0 } else { ((n * 37 + at) % 61) as f32 / 61.0 - 0.5 });
            tensor.3 = numbers.flat_map(|number| bf16::from_f32(number).to_le_bytes()).collect();
        }
        let folder = hub_folder::folder(&stored, &config);
        let model = Model::open(folder.path().join("model.safetensors")).unwrap();
        let (kept, decoded) = (folder.path().join("kept.gguf"), folder.path().join("decoded.gguf"));
        Conversion::new(&model, &kept).write().unwrap();
        let rule = TypeRule::dequantize(DType::F32);
        Conversion::new(&model, &decoded).with(|o| o.types.rules.push(rule)).write().unwrap();
        let arguments = [kept.to_str().unwrap(), decoded.to_str().unwrap()];
        let Some(printed) = testkit::llama_cpp(LOGITS, &arguments) else { return };
        let difference: f32 = printed.trim().parse().unwrap();
        assert!(difference < 0.05, "{end:?}: {difference}");
    }
}

#[test]
fn experts_keep_a_scale_each() {
    let (_folder, tensors, config) = hub_folder::of_family("mixtral", BLOCKS);
    let mut noise = Noise::new(36);
    let mut number = 0.0;
    let (stored, _) = quantized(&tensors, |stem, shape| {
        number += 1.0;
        (fp4(stem, shape, (Some(number / 4096.0), ".weight_scale_2"), &mut noise), Vec::new())
    });
    let folder = hub_folder::folder(&stored, &config);
    let model = Model::open(folder.path().join("model.safetensors")).unwrap();
    let (kept, decoded) = (folder.path().join("kept.gguf"), folder.path().join("decoded.gguf"));
    Conversion::new(&model, &kept).write().unwrap();
    let rule = TypeRule::dequantize(DType::F32);
    Conversion::new(&model, &decoded).with(|o| o.types.rules.push(rule)).write().unwrap();
    let (kept, decoded) = (Model::open(kept).unwrap(), Model::open(decoded).unwrap());
    let values = |model: &Model, name: &str| modelfmt::to_f32(&model.tensor(name).unwrap()).unwrap();
    let mut stacked = 0;
    for info in kept.tensors().filter(|info| info.dtype == DType::Nvfp4) {
        let scales = values(&kept, &info.name.replace(".weight", ".scale"));
        assert_eq!(scales.len(), if info.shape.len() == 3 { 3 } else { 1 }, "{}", info.name);
        stacked += usize::from(scales.len() == 3);
        let mut found = values(&kept, info.name);
        let len = found.len() / scales.len();
        found
            .chunks_mut(len)
            .zip(scales)
            .for_each(|(chunk, scale)| chunk.iter_mut().for_each(|x| *x *= scale));
        assert!(found == values(&decoded, info.name), "{}", info.name);
    }
    assert_eq!(stacked, 6);
}
