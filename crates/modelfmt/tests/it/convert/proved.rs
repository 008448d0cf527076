//! Proofs: the output of a conversion is exact, and nothing else is.

use std::collections::BTreeSet;
use std::path::Path;

use modelfmt::convert::{ConvertOptions, Preset, TypeRule};
use modelfmt::model::Globs;
use modelfmt::prove::{KeyResult, Proof, ProveOptions, ProvedKey, ProvedTensor, TensorResult, prove};
use modelfmt::{Conversion, DType, Execution, Format, Model, bf16, f16};

use super::common::{T, convert, gguf, noise, options, safetensors, try_convert};
use super::{hub_folder, imatrix, lora};

/// Returns numbers similar to those of models, which are the same for the same seed.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let pairs = noise(seed, 2 * count);
    pairs.chunks(2).map(|pair| (f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 1e5).powi(3)).collect()
}

/// Returns a tensor of such numbers.
pub(super) fn random(name: &str, dtype: DType, shape: &[u64]) -> T {
    let seed = name.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31) ^ u64::from(byte));
    let values = numbers(seed, shape.iter().product::<u64>() as usize);
    let bytes = values.into_iter().flat_map(|x| match dtype {
        DType::F16 => f16::from_f32(x).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f32(x).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    });
    T { name: name.to_owned().leak(), dtype, shape: shape.to_vec(), bytes: bytes.collect() }
}

/// Returns the tensors of a model of two layers, with Hugging Face's names.
fn tensors(dtype: DType) -> Vec<T> {
    let mut all = vec![random("model.embed_tokens.weight", dtype, &[3, 256])];
    for layer in 0..2 {
        for part in ["self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"] {
            all.push(random(&format!("model.layers.{layer}.{part}.weight"), dtype, &[2, 256]));
        }
        all.push(random(&format!("model.layers.{layer}.input_layernorm.weight"), dtype, &[256]));
    }
    all.push(random("lm_head.weight", dtype, &[3, 256]));
    all
}

fn base(dtype: DType) -> Model {
    safetensors(&tensors(dtype), r#"{"license": "MIT", "general.architecture": "llama"}"#)
}

fn quantize(rule: &str) -> ConvertOptions {
    options(|o| o.types.rules.push(TypeRule::parse_quantize(rule).unwrap()))
}

pub(super) fn proof(base: &Model, derived: &Model) -> Proof {
    with(base, derived, |_| {})
}

pub(super) fn with(base: &Model, derived: &Model, change: impl FnOnce(&mut ProveOptions)) -> Proof {
    let mut options = ProveOptions::default();
    change(&mut options);
    prove(base, derived, &options, &Execution::default()).unwrap()
}

#[track_caller]
pub(super) fn assert_exact(proof: &Proof, what: &str) {
    let wrong = proof.tensors.iter().find(|tensor| tensor.result != TensorResult::Exact);
    assert!(proof.is_ok && wrong.is_none(), "{what}: {wrong:?}\n{:#?}\n{:?}", proof.metadata, proof.notes);
    assert!(proof.tensors.iter().all(|tensor| tensor.different == 0 && tensor.max_abs.is_none()), "{what}");
}

/// Checks that a GGUF is proved to be made from the hub folder next to it.
#[track_caller]
pub(super) fn assert_made(folder: &Path, gguf: &Path, what: &str) {
    let base = Model::open(folder.join("model.safetensors")).unwrap();
    assert_exact(&with(&base, &Model::open(gguf).unwrap(), |options| options.require_all = true), what);
}

fn one<'p>(proof: &'p Proof, name: &str) -> &'p ProvedTensor {
    proof.tensors.iter().find(|tensor| tensor.name == name).unwrap()
}

pub(super) fn results(proof: &Proof) -> BTreeSet<&str> {
    proof.tensors.iter().map(|tensor| tensor.result.name()).collect()
}

/// Returns the dtypes that `--quantize` can produce.
fn blocks() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|dtype| dtype.ggml_type().is_some() && ggml_quant::can_encode(*dtype))
}

#[test]
fn what_is_quantized_or_cast_is_exact() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let base = base(dtype);
        let rules = blocks().map(|dtype| dtype.to_string());
        // One preset cannot be written without importance.
        let presets = Preset::ALL.iter().map(ToString::to_string).filter(|preset| preset != "q2_k_s");
        let rules = rules.chain(presets);
        let rules: Vec<String> = rules.chain(["f16", "bf16", "f32"].map(str::to_owned)).collect();
        assert!(rules.len() > 18, "{rules:?}");
        for rule in &rules {
            if *rule == dtype.to_string() {
                continue;
            }
            for target in [Format::Gguf, Format::Aero, Format::GgufSharded] {
                let mut how = quantize(rule);
                how.output.shard_size = (target == Format::GgufSharded).then_some(1000);
                let Ok((derived, _)) = try_convert(&base, target, &how) else {
                    assert!(target == Format::Aero, "{dtype} to {rule}");
                    continue;
                };
                let proof = with(&base, &derived, |options| options.require_all = true);
                assert_exact(&proof, &format!("{dtype} to {rule} in {target}"));
                let direct =
                    |tensor: &ProvedTensor| tensor.steps.len() <= 1 && tensor.from == [tensor.name.clone()];
                assert!(proof.tensors.iter().all(direct), "{dtype} to {rule}: {:#?}", proof.tensors);
            }
        }
    }
    let small = convert(&base(DType::F32), Format::Gguf, &quantize("q4_k"));
    let found = proof(&base(DType::F32), &small);
    assert_eq!(one(&found, "lm_head.weight").steps, ["quantize:q4_k"]);
}

#[test]
fn what_other_formats_hold_is_exact() {
    let mut tensors = tensors(DType::F32);
    tensors.push(super::common::tensor("ids", DType::I64, &[3, 5]));
    tensors.push(super::common::tensor("mask", DType::Bool, &[7]));
    tensors.push(random("scale", DType::F32, &[]));
    tensors.push(random("none", DType::F32, &[0, 4]));
    let base = safetensors(&tensors, r#"{"license": "MIT"}"#);
    for target in
        [Format::Aero, Format::AeroSet, Format::Mag, Format::Oinf, Format::Apr2, Format::SafetensorsSharded]
    {
        let how = options(|o| {
            o.types.widen = true;
            o.metadata.lossy = true;
            o.output.shard_size = (target.is_set() && target != Format::AeroSet).then_some(2000);
            o.types.rules.push("cast ids=f32".parse().unwrap());
        });
        let (derived, _) = match try_convert(&base, target, &how) {
            Ok(made) => made,
            Err(error) => panic!("{target}: {}", super::common::all(&error)),
        };
        assert_exact(
            &with(&base, &derived, |options| options.require_all = target != Format::Mag),
            target.name(),
        );
    }
}

#[test]
fn what_is_decoded_and_quantized_again_is_exact() {
    let quantized = convert(&base(DType::F32), Format::Gguf, &quantize("q8_0"));
    for rule in ["dequantize f32", "dequantize f16", "dequantize bf16"] {
        let how = options(|o| o.types.rules.push(rule.parse().unwrap()));
        let proof = proof(&quantized, &convert(&quantized, Format::Gguf, &how));
        assert_exact(&proof, rule);
        assert_eq!(one(&proof, "lm_head.weight").steps, [rule.replace(' ', ":")]);
    }
    let floats = convert(
        &quantized,
        Format::Gguf,
        &options(|o| o.types.rules.push("dequantize f16".parse().unwrap())),
    );
    let again = convert(&floats, Format::Gguf, &quantize("q4_k"));
    let proof = proof(&quantized, &again);
    assert_exact(&proof, "again");
    assert!(one(&proof, "lm_head.weight").steps.last().is_some_and(|step| step == "quantize:q4_k"));
}

#[test]
fn two_roundings_are_found() {
    let base = base(DType::F32);
    for (between, quant) in [("f16", "q4_k"), ("bf16", "q8_0"), ("f16", "q6_k"), ("bf16", "q5_1")] {
        let floats = convert(&base, Format::Gguf, &quantize(between));
        let proof = proof(&base, &convert(&floats, Format::Gguf, &quantize(quant)));
        assert_exact(&proof, between);
        let steps = &one(&proof, "model.embed_tokens.weight").steps;
        assert_eq!(*steps, [format!("cast:{between}"), format!("quantize:{quant}")]);
    }
}

#[test]
fn other_names_are_found_by_digest() {
    let base = base(DType::F32);
    let how = options(|o| {
        o.types.rules.push(TypeRule::parse_quantize("q4_k").unwrap());
        o.tensors.rename.push("model.embed_tokens.weight=emb".parse().unwrap());
        o.tensors.rename.push("lm_head.weight=out".parse().unwrap());
        o.tensors.exclude.push("*.1.*".to_owned());
    });
    let derived = convert(&base, Format::Gguf, &how);
    let found = proof(&base, &derived);
    assert!(found.is_ok);
    assert_eq!(results(&found), BTreeSet::from(["exact", "missing"]));
    assert_eq!(one(&found, "emb").steps, ["rename", "quantize:q4_k"]);
    assert_eq!(one(&found, "out").from, ["lm_head.weight"]);
    let missing = one(&found, "model.layers.1.mlp.down_proj.weight");
    assert_eq!((missing.result, missing.blocks), (TensorResult::Missing, 512));
    assert!(!with(&base, &derived, |options| options.require_all = true).is_ok);

    // The output of a model whose embeddings are also its output.
    let mut all = tensors(DType::F32);
    all.pop();
    let base = safetensors(&all, "{}");
    all.push(T { name: "output.weight", ..all[0].clone() });
    let tied = convert(&safetensors(&all, "{}"), Format::Gguf, &quantize("q8_0"));
    let found = proof(&base, &tied);
    assert_exact(&found, "tied");
    assert_eq!(one(&found, "output.weight").steps, ["tie", "quantize:q8_0"]);
    assert_eq!(one(&found, "output.weight").from, ["model.embed_tokens.weight"]);
}

/// Changes that an attacker could make. None of them may be proved.
#[test]
fn nothing_else_is_exact() {
    let tensors = [
        random("a", DType::F32, &[16, 16]),
        random("b", DType::F32, &[16, 16]),
        random("c", DType::F32, &[8, 256]),
        random("zeros", DType::F32, &[4]),
        random("long", DType::F32, &[1100, 256]),
    ];
    let base = safetensors(&tensors, r#"{"license": "MIT"}"#);
    let copy = convert(&base, Format::Gguf, &options(|_| {}));
    let values = |model: &Model| -> Vec<T> {
        let of = |info: modelfmt::TensorInfo<'_>| T {
            name: info.name.to_owned().leak(),
            dtype: info.dtype,
            shape: info.shape.to_vec(),
            bytes: model.tensor(info.name).unwrap().bytes().to_vec(),
        };
        model.tensors().map(of).collect()
    };
    let small = convert(
        &base,
        Format::Gguf,
        &options(|o| o.types.rules.push(TypeRule::parse_quantize("c=q4_k").unwrap())),
    );
    assert_exact(&proof(&base, &gguf(&values(&copy), &[("license", "MIT")])), "unchanged");
    assert_exact(&proof(&base, &gguf(&values(&small), &[("license", "MIT")])), "unchanged");
    let transposed = |bytes: &[u8]| -> Vec<u8> {
        let at = |n: usize| &bytes[4 * (n % 16 * 16 + n / 16)..][..4];
        (0..256).flat_map(at).copied().collect()
    };
    type Change<'c> = (&'c str, &'c dyn Fn(&mut Vec<T>), &'c str, &'c str, u64);
    let table: &[Change<'_>] = &[
        ("a bit", &|t| t[0].bytes[1001] ^= 1, "a", "differs", 1),
        ("the last bit", &|t| *t[4].bytes.last_mut().unwrap() ^= 0x80, "long", "differs", 1),
        ("swapped", &|t| (t[0].name, t[1].name) = ("b", "a"), "b", "differs", 256),
        ("transposed", &|t| t[0].bytes = transposed(&t[0].bytes), "a", "differs", 240),
        ("another shape", &|t| t[2].shape = vec![16, 128], "c", "foreign", 0),
        ("another rank", &|t| t[0].shape = vec![256], "a", "foreign", 0),
        ("a block", &|t| t[2].bytes[5 * 144..6 * 144].fill(0), "c", "differs", 1),
        ("two rows", &|t| t[2].bytes.copy_within(0..144, 144), "c", "differs", 1),
        ("a new name", &|t| t.push(random("d", DType::F32, &[16, 16])), "d", "foreign", 256),
        ("a copy", &|t| t.push(T { name: "a2".to_owned().leak(), ..t[0].clone() }), "a2", "foreign", 256),
        ("a bit and a new name", &|t| (t[0].name, t[0].bytes[0]) = ("d", 77), "d", "foreign", 256),
        ("-0", &|t| t[3].bytes[..4].copy_from_slice(&(-0f32).to_le_bytes()), "zeros", "differs", 1),
        ("nan", &|t| t[3].bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes()), "zeros", "differs", 1),
        ("another dtype", &|t| (t[3].dtype, t[3].bytes) = (DType::I32, vec![1; 16]), "zeros", "differs", 4),
    ];
    for (what, change, name, result, different) in table {
        for (model, is_small) in [(&copy, false), (&small, true)] {
            if what.contains("block") | what.contains("rows") && !is_small {
                continue;
            }
            if is_small && what.contains("shape") {
                continue; // no whole blocks
            }
            let mut tensors = values(model);
            change(&mut tensors);
            let proof = proof(&base, &gguf(&tensors, &[("license", "MIT")]));
            let found = one(&proof, name);
            assert!(!proof.is_ok, "{what}");
            assert_eq!(found.result.name(), *result, "{what}");
            if *different > 0 && *result != "foreign" {
                assert_eq!(found.different, *different, "{what}: {found:?}");
            }
        }
    }
}

#[test]
fn differences_have_sizes() {
    let base = safetensors(&[super::common::floats("w", &[3], &[0.0, 1.0, 2.0])], "{}");
    let of = |values: &[f32]| {
        let derived = safetensors(&[super::common::floats("w", &[3], values)], "{}");
        let proof = proof(&base, &derived);
        let w = one(&proof, "w").clone();
        (w.result, w.different, w.max_abs)
    };
    assert_eq!(of(&[0.0, 1.0, 2.0]), (TensorResult::Exact, 0, None));
    assert_eq!(of(&[-0.0, 1.0, 2.0]), (TensorResult::Differs, 1, Some(0.0)));
    assert_eq!(of(&[0.0, 1.5, 4.0]), (TensorResult::Differs, 2, Some(2.0)));
    assert_eq!(of(&[f32::NAN, 1.0, 2.0]), (TensorResult::Differs, 1, Some(f64::INFINITY)));
}

#[test]
fn metadata_is_proved() {
    let w = || [super::common::floats("w", &[2], &[1.0, 2.0])];
    let base = safetensors(&w(), r#"{"license": "MIT", "name": "x"}"#);
    let of = |metadata: &str, change: &dyn Fn(&mut ProveOptions)| {
        let proof = with(&base, &safetensors(&w(), metadata), change);
        let keys: Vec<String> =
            proof.metadata.iter().map(|key| format!("{} {}", key.key, key.result.name())).collect();
        (proof.is_ok, keys.join(", "))
    };
    let none: &dyn Fn(&mut ProveOptions) = &|_| {};
    let text = |is_ok: bool, text: &str| (is_ok, text.to_owned());
    assert_eq!(of(r#"{"license": "MIT", "name": "x"}"#, none), text(true, "license same, name same"));
    assert_eq!(of(r#"{"license": "MIT"}"#, none), text(true, "license same, name missing"));
    let complete: &dyn Fn(&mut ProveOptions) = &|options| options.require_all = true;
    assert!(!of(r#"{"license": "MIT"}"#, complete).0);
    let changed = r#"{"license": "GPL", "name": "x"}"#;
    assert_eq!(of(changed, none), text(false, "license changed, name same"));
    assert!(of(changed, &|options| options.allow_changed = Globs::new(["lic*"]).unwrap()).0);
    assert!(!of(changed, &|options| options.allow_added = Globs::new(["*"]).unwrap()).0);
    let added = r#"{"license": "MIT", "name": "x", "tokenizer.chat_template": "{{ x }}"}"#;
    assert_eq!(of(added, none), text(false, "license same, name same, tokenizer.chat_template added"));
    assert!(!of(added, &|options| options.allow_changed = Globs::new(["*"]).unwrap()).0);
    assert!(of(added, &|options| options.allow_added = Globs::new(["tokenizer.*"]).unwrap()).0);
    // A tensor that BASE has cannot be excused as an addition.
    let other = safetensors(&[super::common::floats("w", &[2], &[1.0, 3.0])], "{}");
    assert!(!with(&base, &other, |options| options.allow_added = Globs::new(["*"]).unwrap()).is_ok);
    let mut more = w().to_vec();
    more.push(super::common::floats("v", &[2], &[1.0, 3.0]));
    let more = safetensors(&more, "{}");
    assert!(!proof(&base, &more).is_ok);
    assert!(with(&base, &more, |options| options.allow_added = Globs::new(["v"]).unwrap()).is_ok);
}

/// If a format can hold a value only as text, this must be the text that a conversion makes.
#[test]
fn metadata_as_text_is_proved() {
    let base = safetensors(&[super::common::floats("w", &[2], &[1.0, 2.0])], "{}");
    let mut typed = options(|_| {});
    let given = r#"{"lr": 0.125, "step": -9007199254740993, "list": [1, 2], "name": "x"}"#;
    typed.metadata.set = Some(modelfmt::value::json::parse_object(given.as_bytes()).unwrap());
    let base = convert(&base, Format::Gguf, &typed);
    let text = convert(&base, Format::Safetensors, &options(|o| o.metadata.stringify = true));
    assert_exact(&proof(&base, &text), "as text");
    let mut other = options(|o| o.metadata.stringify = true);
    other.metadata.set = Some(modelfmt::value::json::parse_object(br#"{"lr": "0.1250"}"#).unwrap());
    let found = proof(&base, &convert(&base, Format::Safetensors, &other));
    let lr = found.metadata.iter().find(|key| key.key == "lr").unwrap();
    assert!(!found.is_ok && lr.result == KeyResult::Changed, "{found:?}");
}

/// Hub folders of every family become GGUFs, and these become folders again.
#[test]
fn folders_of_the_hub_are_exact() {
    for (name, map) in hub_folder::maps() {
        if ["stablelm", "t5"].contains(&&*name) {
            continue; // what {i} and {e} count there are other keys
        }
        let config = hub_folder::config(&map, "");
        let bytes: Vec<u8> =
            numbers(3, 5000).into_iter().flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect();
        let tensors = hub_folder::model(&map, &config, &[DType::BF16], &bytes);
        let folder = hub_folder::folder(&tensors, &config);
        let base = Model::open(folder.path().join("model.safetensors")).unwrap();
        let path = folder.path().join("m.gguf");
        for rule in [None, Some("f16")] {
            let mut conversion = Conversion::new(&base, &path)
                .with(|o| o.output.overwrite = modelfmt::convert::Overwrite::Replace);
            if let Some(rule) = rule {
                conversion = conversion.rule(TypeRule::parse_quantize(rule).unwrap());
            }
            conversion.write().unwrap();
            let derived = Model::open(&path).unwrap();
            let found = with(&base, &derived, |options| options.require_all = true);
            assert_exact(&found, &name);
            let is_same = |key: &&ProvedKey| matches!(key.result, KeyResult::Same | KeyResult::Mapped);
            let others: Vec<&str> =
                found.metadata.iter().filter(|key| !is_same(key)).map(|key| &*key.key).collect();
            assert_eq!(others, if rule.is_some() { &["general.file_type"][..] } else { &[] }, "{name}");
            assert!(found.tensors.iter().all(|tensor| tensor.steps[0] == "map"), "{name}");
        }
        // And back: the same names and values as before.
        let out = folder.path().join("back");
        let gguf = folder.path().join("own.gguf");
        Conversion::new(&base, &gguf).write().unwrap();
        let base = Model::open(&gguf).unwrap();
        Conversion::new(&base, &out).to("hf".parse::<modelfmt::Target>().unwrap()).write().unwrap();
        let back = proof(&base, &Model::open(out.join("model.safetensors")).unwrap());
        assert_exact(&back, &format!("{name} and back"));
    }
}

#[test]
fn merged_adapters_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let base = lora::base(folder.path());
    let name = "model.layers.0.self_attn.q_proj";
    let (a, b) =
        (format!("base_model.model.{name}.lora_A.weight"), format!("base_model.model.{name}.lora_B.weight"));
    let config = r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 3}"#;
    let adapter = lora::adapter(folder.path(), "tuned", config, &[(&a, &[2, 6]), (&b, &[8, 2])]);
    let merged = convert(&base, Format::Aero, &lora::lora(&[(&adapter, 0.5)]));
    let found = with(&base, &merged, |options| {
        options.lora = vec![format!("{}=0.5", adapter.display()).parse().unwrap()];
    });
    assert_exact(&found, "merged");
    let weight = format!("{name}.weight");
    assert_eq!(
        (&*one(&found, &weight).steps, &*one(&found, &weight).from),
        (&["lora:tuned".to_owned()][..], &[weight.clone()][..])
    );
    assert!(one(&found, "lm_head.weight").steps.is_empty());
    // Without the adapter, with another factor, or if it was not merged.
    let without = proof(&base, &merged);
    assert_eq!((without.is_ok, one(&without, &weight).result), (false, TensorResult::Differs));
    for (derived, scale) in [(&merged, "1"), (&base, "0.5")] {
        let found = with(&base, derived, |options| {
            options.lora = vec![format!("{}={scale}", adapter.display()).parse().unwrap()];
        });
        assert_eq!((found.is_ok, one(&found, &weight).result), (false, TensorResult::Differs), "{scale}");
    }
}

/// Small floats with scales in another tensor are decoded, or copied with their scales; nothing else is
/// exact.
#[test]
fn scales_are_applied() {
    let floats =
        |name: &'static str, values: &[f32]| super::common::floats(name, &[values.len() as u64], values);
    let bytes = (0..64).map(|n| n * 3 % 0x70).collect();
    let weight = T { name: "w.weight", dtype: DType::F8E4M3, shape: vec![2, 32], bytes };
    let base = safetensors(&[weight, floats("w.weight_scale", &[0.5]), floats("norm", &[1.0, 2.0])], "{}");
    assert_exact(
        &with(&base, &convert(&base, Format::Safetensors, &options(|_| {})), |options| {
            options.require_all = true;
        }),
        "copy",
    );
    for to in ["f32", "bf16", "f16"] {
        let how = options(|o| o.types.rules.push(format!("dequantize {to}").parse().unwrap()));
        let decoded = convert(&base, Format::Gguf, &how);
        let found = with(&base, &decoded, |options| options.require_all = true);
        assert_exact(&found, to);
        assert_eq!(one(&found, "w.weight").steps, [format!("dequantize:{to}")]);
        let small = convert(&decoded, Format::Gguf, &quantize("q8_0"));
        let found = proof(&base, &small);
        assert_exact(&found, to);
        assert_eq!(one(&found, "w.weight").steps.last().unwrap(), "quantize:q8_0");
    }
    // The numbers without their scales are not its values.
    let plain: Vec<T> = vec![T {
        name: "w.weight",
        dtype: DType::F32,
        shape: vec![2, 32],
        bytes: {
            let mut values = vec![0.0; 64];
            modelfmt_core::SmallType::from_dtype(DType::F8E4M3)
                .unwrap()
                .decode(base.tensor("w.weight").unwrap().bytes(), &mut values);
            values.iter().flat_map(|x| x.to_le_bytes()).collect()
        },
    }];
    assert_eq!(one(&proof(&base, &safetensors(&plain, "{}")), "w.weight").result, TensorResult::Differs);
}

/// Quantizes a GGUF with llama.cpp: SOURCE OUT FTYPE THREADS.
const QUANTIZE: &str = include_str!("../../../../bench/src/hub.py");

#[test]
fn what_llama_cpp_quantizes_is_exact() {
    let sizes = r#""hidden_size": 256, "head_dim": 128, "intermediate_size": 256, "vocab_size": 8"#;
    let (_folder, mut tensors, config) = hub_folder::llama(sizes);
    for (seed, (.., bytes)) in tensors.iter_mut().enumerate() {
        let numbers = numbers(seed as u64, bytes.len() / 2).into_iter();
        *bytes = numbers.flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect();
    }
    let folder = hub_folder::folder(&tensors, &config);
    let base = Model::open(folder.path().join("model.safetensors")).unwrap();
    // Q4_0, Q4_K_M and Q5_K_M of llama.h.
    for (between, file_types) in [(DType::F32, &["15"][..]), (DType::F16, &["2", "17"])] {
        let plain = folder.path().join(format!("{between}.gguf"));
        Conversion::new(&base, &plain).cast(between).write().unwrap();
        for file_type in file_types {
            let out = folder.path().join("small.gguf");
            let arguments = [plain.to_str().unwrap(), out.to_str().unwrap(), file_type, "2"];
            if testkit::llama_cpp(QUANTIZE, &arguments).is_none() {
                return;
            }
            let derived = Model::open(&out).unwrap();
            let of_gguf = with(&Model::open(&plain).unwrap(), &derived, |options| options.require_all = true);
            assert_exact(&of_gguf, &format!("{file_type} of {between}"));
            let of_folder = with(&base, &derived, |options| options.require_all = true);
            assert_exact(&of_folder, &format!("{file_type} of a folder by {between}"));
            std::fs::remove_file(&out).unwrap();
        }
    }
}

/// Blocks of a program whose compiler fused products and sums are exact, and the proof says so.
#[test]
fn blocks_of_fused_operations_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = ["a.weight", "b.weight"].map(|name| random(name, DType::F32, &[160, 256]));
    let base = safetensors(&tensors, r#"{"general.architecture": "llama"}"#);
    for dtype in [DType::Q2K, DType::Q4K, DType::Q5K, DType::Q6K] {
        let path = folder.path().join(format!("{dtype}.gguf"));
        Conversion::new(&base, &path).options(&quantize(dtype.name())).write().unwrap();
        let mut file = std::fs::read(&path).unwrap();
        let written = Model::open(&path).unwrap();
        let (mut last, mut changed) = (0, 0);
        for (position, info) in written.tensors().enumerate().filter(|(_, info)| info.dtype == dtype) {
            let at = written.container().location(position).unwrap().offset.unwrap() as usize;
            let values = base.tensor(info.name).unwrap().to_f32().unwrap();
            let out = &mut file[at..at + info.nbytes as usize];
            let plain = out.to_vec();
            ggml_quant::encode_contracted(dtype, &values, out).unwrap();
            changed += usize::from(plain != out);
            last = at;
        }
        assert!(changed > 0, "{dtype}: the tensors are too small to differ");
        std::fs::write(&path, &file).unwrap();
        let found = proof(&base, &Model::open(&path).unwrap());
        assert_exact(&found, &dtype.to_string());
        let contracted = found.tensors.iter().filter(|tensor| tensor.variant == Some("contracted")).count();
        assert_eq!(contracted, changed, "{dtype}");
        file[last + 20] ^= 1;
        std::fs::write(&path, &file).unwrap();
        let found = proof(&base, &Model::open(&path).unwrap());
        let differs: Vec<_> =
            found.tensors.iter().filter(|tensor| tensor.result == TensorResult::Differs).collect();
        assert!(differs.len() == 1 && differs[0].variant.is_none(), "{dtype}: {differs:?}");
    }
}

/// A file that was quantized with an importance matrix is proved with that matrix, and with no other.
#[test]
fn importance_is_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["own.dat", "other.dat"].map(|name| folder.path().join(name));
    let importance = |seed: f32| (0..256_u16).map(|at| f32::from(at % 17) + seed).collect::<Vec<_>>();
    for (path, seed) in [(&path, 0.5), (&other, 40.0)] {
        std::fs::write(path, imatrix::dat("blk.0.attn_q.weight", 1, &importance(seed))).unwrap();
    }
    let base = base(DType::F32);
    let mut options = quantize("*layers*proj*=q4_k");
    options.types.imatrix = Some(path.clone());
    let (derived, _) = try_convert(&base, Format::Gguf, &options).unwrap();
    let weight = "model.layers.0.self_attn.q_proj.weight";
    let found = |matrix: Option<&Path>| {
        let proof = with(&base, &derived, |options| options.imatrix = matrix.map(Path::to_owned));
        let differing = proof.tensors.iter().filter(|tensor| tensor.result != TensorResult::Exact);
        let differing: Vec<String> = differing.map(|tensor| tensor.name.clone()).collect();
        let own = proof.tensors.iter().find(|tensor| tensor.name == weight).unwrap();
        (differing, own.steps.clone())
    };
    let steps = |all: &[&str]| all.iter().map(|&step| step.to_owned()).collect::<Vec<_>>();
    assert_eq!(found(Some(&path)), (Vec::new(), steps(&["imatrix:own.dat", "quantize:q4_k"])));
    assert_eq!(found(Some(&other)).0, [weight]);
    assert_eq!(found(None), (vec![weight.to_owned()], steps(&["quantize:q4_k"])));
}

/// A file of a tokenizer that differs is as much a difference as its configuration.
#[test]
fn files_beside_the_weights_are_compared() {
    let (folder, _, _) = hub_folder::llama("");
    let copy = tempfile::tempdir().unwrap();
    for name in ["model.safetensors", "config.json"] {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    for name in ["vocab.txt", "spiece.model", "chat_template.json"] {
        std::fs::write(folder.path().join(name), r#"{"a": 1}"#).unwrap();
        let beside = |content: &str| {
            std::fs::write(copy.path().join(name), content).unwrap();
            let [base, derived] = [&folder, &copy].map(|folder| Model::open(folder.path()).unwrap());
            let found = proof(&base, &derived);
            (found.is_ok, found.metadata.iter().find(|key| key.key == name).map(|key| key.result))
        };
        assert_eq!(beside(r#"{"a": 1}"#), (true, Some(KeyResult::Same)), "{name}");
        assert_eq!(beside(r#"{"a": 2}"#), (false, Some(KeyResult::Changed)), "{name}");
        for folder in [&folder, &copy] {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
}

/// What BASE has against the rules of its format, a copy of it has too; other bytes there are another model.
#[test]
fn a_copy_of_a_file_that_breaks_rules_is_exact() {
    let bytes = std::fs::read(testkit::testdata("mag/foreign.mag")).unwrap();
    let open = |bytes: Vec<u8>| Model::from_source("m.mag", bytes).unwrap();
    let base = open(bytes.clone());
    assert_exact(&proof(&base, &open(bytes.clone())), "a copy");
    let mut other = bytes;
    other[280] ^= 1; // in bytes 264 to 300, which belong to no tensor
    assert!(!proof(&base, &open(other)).is_ok);
}

/// The layout of tensors and room for edits belong to the conversion; parts of DERIVED that a reader leaves
/// out do not belong to BASE.
#[test]
fn layout_is_excused_and_what_is_not_read_is_not() {
    let base = base(DType::F32);
    let how = options(|o| (o.output.align, o.output.reserve) = (Some(64), Some(1000)));
    assert_exact(&proof(&base, &convert(&base, Format::Gguf, &how)), "aligned, with room");
    let pickle = Model::open(testkit::testdata("pytorch/unknown.pt")).unwrap();
    let lossless = options(|o| (o.metadata.lossy, o.metadata.stringify) = (true, true));
    let tensors = convert(&pickle, Format::Safetensors, &lossless);
    let found = proof(&tensors, &pickle);
    assert!(found.tensors.iter().all(|tensor| tensor.result == TensorResult::Exact));
    let warned = found.metadata.iter().find(|key| key.key.contains("os.system")).unwrap();
    assert!(!found.is_ok && warned.result == KeyResult::Added, "{found:?}");
}
