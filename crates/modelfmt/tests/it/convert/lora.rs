//! Merged adapters: the values follow the formula, and everything that cannot be merged is refused by name.

use std::fs;
use std::path::{Path, PathBuf};

use modelfmt::convert::{ConvertOptions, LoraRule};
use modelfmt::{Conversion, DType, Execution, Format, Model, View};
use modelfmt_core::{bf16, f16};
use modelfmt_gguf::{MetaValue, Metadata, Plan, WriteOptions};

use super::common::options;
use super::hub_folder;

/// Names and shapes of tensors.
type Shapes<'a> = &'a [(&'a str, &'a [u64])];

/// Returns numbers without a pattern, which are the same for the same name.
fn floats(name: &str, count: u64) -> Vec<f32> {
    let mut state =
        name.bytes().fold(0x9e37_79b9_7f4a_7c15u64, |state, byte| (state ^ u64::from(byte)).wrapping_mul(31));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

fn of_shape(name: &str, shape: &[u64]) -> Vec<f32> {
    floats(name, shape.iter().product())
}

/// The tensors of a base model, all bf16 except the last.
const BASE: [(&str, [u64; 2]); 5] = [
    ("model.layers.0.self_attn.q_proj.weight", [8, 6]),
    ("model.layers.0.self_attn.o_proj.weight", [6, 6]),
    ("model.layers.0.mlp.up_proj.weight", [10, 6]),
    ("model.embed_tokens.weight", [12, 6]),
    ("lm_head.weight", [12, 6]),
];

fn rounded(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|&value| bf16::from_f32(value)).collect()
}

pub(super) fn base(folder: &Path) -> Model {
    let path = folder.join("model.safetensors");
    let values: Vec<_> = BASE.iter().map(|(name, shape)| rounded(&of_shape(name, shape))).collect();
    let bias = floats("bias", 8);
    let tensors = BASE
        .iter()
        .zip(&values)
        .map(|((name, shape), values)| (*name, View::new(values, shape.to_vec()).unwrap()));
    let bias = ("model.layers.0.self_attn.q_proj.bias", View::new(&bias, [8]).unwrap());
    modelfmt::save(&path, tensors.chain([bias]), &modelfmt::Object::default()).unwrap();
    Model::open(path).unwrap()
}

/// Returns a PEFT folder with these f32 tensors.
pub(super) fn adapter(folder: &Path, name: &str, config: &str, tensors: &[(&str, &[u64])]) -> PathBuf {
    let folder = folder.join(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("adapter_config.json"), config).unwrap();
    let values: Vec<_> = tensors.iter().map(|(name, shape)| of_shape(name, shape)).collect();
    let views = tensors
        .iter()
        .zip(&values)
        .map(|((name, shape), values)| (*name, View::new(values, shape.to_vec()).unwrap()));
    modelfmt::save(folder.join("adapter_model.safetensors"), views, &modelfmt::Object::default()).unwrap();
    folder
}

/// Returns `base + number · b · a` in f32. The products are added in the order of the rank.
fn plus(
    mut base: Vec<f32>,
    (rows, rank, columns): (u64, u64, u64),
    a: &[f32],
    b: &[f32],
    number: f32,
) -> Vec<f32> {
    let (rows, rank, columns) = (rows as usize, rank as usize, columns as usize);
    for row in 0..rows {
        for column in 0..columns {
            let products = (0..rank).map(|k| b[row * rank + k] * a[k * columns + column]);
            base[row * columns + column] += products.fold(0.0, |sum, product| sum + product) * number;
        }
    }
    base
}

fn transposed(values: &[f32], rows: usize) -> Vec<f32> {
    let columns = values.len() / rows;
    (0..values.len()).map(|at| values[at % rows * columns + at / rows]).collect()
}

fn merge(model: &Model, adapters: &[(&Path, f32)], target: Format) -> modelfmt::Result<Model> {
    let options = lora(adapters);
    let file = modelfmt_write::MemoryFile::new();
    Conversion::to_format(model, target).options(&options).write_to_sink(&file)?;
    Model::from_source("merged", file.into_bytes())
}

pub(super) fn lora(adapters: &[(&Path, f32)]) -> ConvertOptions {
    let rule = |&(path, scale): &(&Path, f32)| LoraRule { path: path.to_owned(), scale };
    options(|options| options.tensors.lora = adapters.iter().map(rule).collect())
}

fn values(model: &Model, name: &str) -> Vec<f32> {
    let view = model.tensor(name).unwrap();
    let bytes = view.bytes();
    match view.dtype() {
        DType::BF16 => bytes.as_chunks::<2>().0.iter().map(|&x| bf16::from_le_bytes(x).to_f32()).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|&x| f32::from_le_bytes(x)).collect(),
    }
}

fn as_bf16(values: &[f32]) -> Vec<f32> {
    values.iter().map(|&value| bf16::from_f32(value).to_f32()).collect()
}

const Q: &str = BASE[0].0;
const O: &str = BASE[1].0;
const UP: &str = BASE[2].0;
const EMBED: &str = BASE[3].0;
const HEAD: &str = BASE[4].0;
const A_OF_Q: &str = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
const B_OF_Q: &str = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
const A_OF_UP: &str = "base_model.model.model.layers.0.mlp.up_proj.lora_A.default.weight";
const B_OF_UP: &str = "base_model.model.model.layers.0.mlp.up_proj.lora_B.default.weight";
const A_OF_EMBED: &str = "base_model.model.model.embed_tokens.lora_embedding_A";
const B_OF_EMBED: &str = "base_model.model.model.embed_tokens.lora_embedding_B";
const SAVED_HEAD: &str = "base_model.model.lm_head.modules_to_save.default.weight";
const BIAS: &str = "base_model.model.model.layers.0.self_attn.q_proj.bias";

fn base_of(name: &str, shape: &[u64]) -> Vec<f32> {
    as_bf16(&of_shape(name, shape))
}

#[test]
fn merged_weights_are_those_of_the_formula() {
    let folder = tempfile::tempdir().unwrap();
    let model = base(folder.path());
    let config = r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 3, "alpha_pattern": {"mlp.up_proj": 8}, "rank_pattern": {"mlp.up_proj": 4},
        "bias": "all", "modules_to_save": ["lm_head"], "init_lora_weights": true}"#;
    let tensors: &[(&str, &[u64])] = &[
        (A_OF_Q, &[2, 6]),
        (B_OF_Q, &[8, 2]),
        (A_OF_UP, &[4, 6]),
        (B_OF_UP, &[10, 4]),
        (A_OF_EMBED, &[2, 12]),
        (B_OF_EMBED, &[6, 2]),
        (SAVED_HEAD, &[12, 6]),
        (BIAS, &[8]),
    ];
    let first = adapter(folder.path(), "first", config, tensors);
    let merged = merge(&model, &[(&first, 1.0)], Format::Safetensors).unwrap();

    let [a, b] = [of_shape(A_OF_Q, &[2, 6]), of_shape(B_OF_Q, &[8, 2])];
    let q = plus(base_of(Q, &[8, 6]), (8, 2, 6), &a, &b, 1.5);
    assert_eq!(values(&merged, Q), as_bf16(&q));
    let [a, b] = [of_shape(A_OF_UP, &[4, 6]), of_shape(B_OF_UP, &[10, 4])];
    assert_eq!(values(&merged, UP), as_bf16(&plus(base_of(UP, &[10, 6]), (10, 4, 6), &a, &b, 2.0)));
    // An embedding has a row for each token: (B · A)ᵀ.
    let [a, b] =
        [transposed(&of_shape(A_OF_EMBED, &[2, 12]), 2), transposed(&of_shape(B_OF_EMBED, &[6, 2]), 6)];
    assert_eq!(values(&merged, EMBED), as_bf16(&plus(base_of(EMBED, &[12, 6]), (12, 2, 6), &b, &a, 1.5)));
    assert_eq!(values(&merged, HEAD), as_bf16(&of_shape(SAVED_HEAD, &[12, 6])));
    assert_eq!(values(&merged, "model.layers.0.self_attn.q_proj.bias"), floats(BIAS, 8));
    assert_eq!(values(&merged, O), base_of(O, &[6, 6]));

    // Several adapters are added before the sum is rounded, each times its scale; √r if the config says so.
    let config = r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 3, "use_rslora": true}"#;
    let second = adapter(folder.path(), "second", config, &[(A_OF_Q, &[4, 6]), (B_OF_Q, &[8, 4])]);
    let merged = merge(&model, &[(&first, 1.0), (&second, -0.5)], Format::Safetensors).unwrap();
    let [a, b] = [of_shape(A_OF_Q, &[4, 6]), of_shape(B_OF_Q, &[8, 4])];
    assert_eq!(values(&merged, Q), as_bf16(&plus(q, (8, 4, 6), &a, &b, -0.75)));

    // The other tensors of the base are unchanged.
    let found = modelfmt::diff::diff(&model, &merged, &Execution::default()).unwrap();
    assert!(!found.is_same());
}

/// Weights whose rows are inputs, as in GPT-2: the config says so. A weight whose shape does not fit this is
/// merged as usual.
#[test]
fn weights_whose_rows_are_inputs_are_merged_transposed() {
    let folder = tempfile::tempdir().unwrap();
    let model = base(folder.path());
    let config = r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 2, "fan_in_fan_out": true}"#;
    let of_o = ["lora_A", "lora_B"]
        .map(|side| format!("base_model.model.model.layers.0.self_attn.o_proj.{side}.weight"));
    let tensors: &[(&str, &[u64])] = &[
        (&of_o[0], &[2, 6]),
        (&of_o[1], &[6, 2]),
        (A_OF_UP, &[2, 10]),
        (B_OF_UP, &[6, 2]),
        (A_OF_Q, &[2, 6]),
        (B_OF_Q, &[8, 2]),
    ];
    let adapter = adapter(folder.path(), "adapter", config, tensors);
    let merged = merge(&model, &[(&adapter, 1.0)], Format::Safetensors).unwrap();
    let [a, b] = [of_shape(&of_o[0], &[2, 6]), of_shape(&of_o[1], &[6, 2])];
    let square = plus(base_of(O, &[6, 6]), (6, 2, 6), &transposed(&b, 6), &transposed(&a, 2), 1.0);
    assert_eq!(values(&merged, O), as_bf16(&square));
    let [a, b] = [of_shape(A_OF_UP, &[2, 10]), of_shape(B_OF_UP, &[6, 2])];
    let up = plus(base_of(UP, &[10, 6]), (10, 2, 6), &transposed(&b, 6), &transposed(&a, 2), 1.0);
    assert_eq!(values(&merged, UP), as_bf16(&up));
    let [a, b] = [of_shape(A_OF_Q, &[2, 6]), of_shape(B_OF_Q, &[8, 2])];
    assert_eq!(values(&merged, Q), as_bf16(&plus(base_of(Q, &[8, 6]), (8, 2, 6), &a, &b, 1.0)));
}

/// PEFT goes by the class of a module, whatever the config says, so the map of the family decides. Without a
/// map, other weights show how a square weight is stored, or else the config says it.
#[test]
fn the_family_says_which_square_weights_have_inputs_as_rows() {
    let folder = tempfile::tempdir().unwrap();
    let hub = |family: &str| {
        let (_, map) = hub_folder::maps().into_iter().find(|(name, _)| name == family).unwrap();
        let config = hub_folder::config(&map, "");
        let tensors = hub_folder::model(&map, &config, &[DType::F32], &0.25f32.to_le_bytes());
        hub_folder::folder(&tensors, &config)
    };
    let (gpt2, llama) = (hub("gpt2"), hub("llama"));
    let gpt2_name = "transformer.h.0.attn.c_proj.weight";
    let llama_name = "model.layers.0.self_attn.o_proj.weight";
    for (number, (hub, name, is_transposed)) in
        [(&gpt2, gpt2_name, true), (&llama, llama_name, false)].into_iter().enumerate()
    {
        let model = Model::open(hub.path()).unwrap();
        let module = name.trim_end_matches(".weight");
        let [of_a, of_b] =
            ["lora_A", "lora_B"].map(|side| format!("base_model.model.{module}.{side}.weight"));
        let [a, b] = [of_shape(&of_a, &[2, 16]), of_shape(&of_b, &[16, 2])];
        let expected = match is_transposed {
            true => plus(vec![0.25; 256], (16, 2, 16), &transposed(&b, 16), &transposed(&a, 2), 1.0),
            false => plus(vec![0.25; 256], (16, 2, 16), &a, &b, 1.0),
        };
        for stated in ["true", "false"] {
            let config = format!(r#"{{"lora_alpha": 2, "fan_in_fan_out": {stated}}}"#);
            let adapter_name = format!("{number}-{stated}");
            let adapter =
                adapter(folder.path(), &adapter_name, &config, &[(&of_a, &[2, 16]), (&of_b, &[16, 2])]);
            let merged = merge(&model, &[(&adapter, 1.0)], Format::Safetensors).unwrap();
            assert_eq!(values(&merged, name), expected, "{name} {stated}");
        }
    }
    let model = base(folder.path());
    let of_o = ["lora_A", "lora_B"]
        .map(|side| format!("base_model.model.model.layers.0.self_attn.o_proj.{side}.weight"));
    let config = r#"{"lora_alpha": 2, "fan_in_fan_out": true}"#;
    let square: Shapes<'_> = &[(&of_o[0], &[2, 6]), (&of_o[1], &[6, 2])];
    let alone = adapter(folder.path(), "alone", config, square);
    let [a, b] = [of_shape(&of_o[0], &[2, 6]), of_shape(&of_o[1], &[6, 2])];
    let merged = merge(&model, &[(&alone, 1.0)], Format::Safetensors).unwrap();
    let expected = plus(base_of(O, &[6, 6]), (6, 2, 6), &transposed(&b, 6), &transposed(&a, 2), 1.0);
    assert_eq!(values(&merged, O), as_bf16(&expected));
    let of_q: Shapes<'_> = &[(A_OF_Q, &[2, 6]), (B_OF_Q, &[8, 2])];
    let shown = [square, of_q].concat();
    let shown = adapter(folder.path(), "shown", config, &shown);
    let merged = merge(&model, &[(&shown, 1.0)], Format::Safetensors).unwrap();
    assert_eq!(values(&merged, O), as_bf16(&plus(base_of(O, &[6, 6]), (6, 2, 6), &a, &b, 1.0)));
}

/// With tied embeddings, no program reads the output matrix of the file, so a change of it would be lost.
#[test]
fn a_change_that_no_program_would_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, map) = hub_folder::maps().into_iter().find(|(name, _)| name == "llama").unwrap();
    let config = hub_folder::config(&map, "");
    let tensors = hub_folder::model(&map, &config, &[DType::F32], &0.25f32.to_le_bytes());
    let tied = hub_folder::config(&map, r#""tie_word_embeddings": true"#);
    let of_head = ["lora_A", "lora_B"].map(|side| format!("base_model.model.lm_head.{side}.weight"));
    let lora_config = r#"{"lora_alpha": 2, "modules_to_save": ["lm_head"]}"#;
    let delta =
        adapter(folder.path(), "delta", lora_config, &[(&of_head[0], &[2, 16]), (&of_head[1], &[8, 2])]);
    let saved = adapter(folder.path(), "saved", lora_config, &[(SAVED_HEAD, &[8, 16])]);
    for (config, is_tied) in [(&tied, true), (&config, false)] {
        let hub = hub_folder::folder(&tensors, config);
        let model = Model::open(hub.path()).unwrap();
        for (number, adapter) in [&delta, &saved].into_iter().enumerate() {
            for target in ["gguf", "hf"] {
                let out = folder.path().join(format!("{target}-{is_tied}-{number}"));
                let conversion =
                    Conversion::new(&model, &out).to(target.parse::<modelfmt::Target>().unwrap());
                match conversion.options(&lora(&[(adapter, 1.0)])).write() {
                    Ok(_) => assert!(!is_tied, "{target} {number}"),
                    Err(error) => {
                        let error = error.to_string();
                        let is_said = error.contains("an adapter changes \"lm_head.weight\"")
                            && error.contains("`tie_word_embeddings`");
                        assert!(is_tied && is_said && !out.exists(), "{target} {number}: {error}");
                    }
                }
            }
        }
    }
}

/// Returns an adapter in GGUF, in the form that llama.cpp reads.
fn gguf(folder: &Path, keys: &[(&str, MetaValue<'_>)], tensors: &[(&str, &[u64])]) -> PathBuf {
    use modelfmt_write::TensorSpec;
    let mut metadata = Metadata::new();
    for (key, value) in keys {
        metadata.push(key, *value).unwrap();
    }
    let path = folder.join("adapter.gguf");
    let specs = tensors.iter().map(|(name, shape)| TensorSpec::new(*name, DType::F32, shape.to_vec()));
    let values: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(name, shape)| of_shape(name, shape).iter().flat_map(|x| x.to_le_bytes()).collect())
        .collect();
    let file = modelfmt_write::MemoryFile::new();
    Plan::new(specs, &metadata, &WriteOptions::new())
        .unwrap()
        .write(&values, &file, &Execution::default())
        .unwrap();
    fs::write(&path, file.into_bytes()).unwrap();
    path
}

const OF_ADAPTER: [(&str, MetaValue<'_>); 4] = [
    ("general.architecture", MetaValue::String("llama")),
    ("general.type", MetaValue::String("adapter")),
    ("adapter.type", MetaValue::String("lora")),
    ("adapter.lora.alpha", MetaValue::F32(4.0)),
];

#[test]
fn adapters_of_llama_cpp_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let [q, embed] = [of_shape("q", &[8, 6]), of_shape("embed", &[12, 6])];
    let tensors = [
        ("blk.0.attn_q.weight", View::new(&q, [8, 6]).unwrap()),
        ("token_embd.weight", View::new(&embed, [12, 6]).unwrap()),
    ];
    modelfmt::save(&path, tensors, &modelfmt::Object::default()).unwrap();
    let model = Model::open(&path).unwrap();
    let tensors: &[(&str, &[u64])] = &[
        ("blk.0.attn_q.weight.lora_a", &[2, 6]),
        ("blk.0.attn_q.weight.lora_b", &[8, 2]),
        ("token_embd.weight.lora_a", &[12, 2]),
        ("token_embd.weight.lora_b", &[6, 2]),
    ];
    let adapter = gguf(folder.path(), &OF_ADAPTER, tensors);
    let merged = merge(&model, &[(&adapter, 1.0)], Format::Safetensors).unwrap();
    let [a, b] = [0, 1].map(|at| of_shape(tensors[at].0, tensors[at].1));
    assert_eq!(values(&merged, "blk.0.attn_q.weight"), plus(q, (8, 2, 6), &a, &b, 2.0));
    let [a, b] = [2, 3].map(|at| of_shape(tensors[at].0, tensors[at].1));
    assert_eq!(values(&merged, "token_embd.weight"), plus(embed, (12, 2, 6), &transposed(&b, 6), &a, 2.0));
}

#[test]
fn what_is_not_merged_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let model = base(folder.path());
    let pair: &[(&str, &[u64])] = &[(A_OF_Q, &[2, 6]), (B_OF_Q, &[8, 2])];
    let magnitude = "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector";
    let unknown = ["lora_A", "lora_B"]
        .map(|side| format!("base_model.model.model.layers.9.self_attn.q_proj.{side}.weight"));
    let lora = r#"{"peft_type": "LORA", "lora_alpha": 2}"#;
    let with =
        |key: &str, value: &str| format!(r#"{{"peft_type": "LORA", "lora_alpha": 2, "{key}": {value}}}"#);
    let many: Vec<String> = (0..100).map(|number| format!("\"a{{5000}}{number}\": 1")).collect();
    let many = format!("{{{}}}", many.join(", "));
    let cases: &[(&str, String, Shapes<'_>)] = &[
        ("`alpha_pattern`: its patterns take more than", with("alpha_pattern", &many), pair),
        ("`rank_pattern`: its patterns take more than", with("rank_pattern", &many), pair),
        ("`use_dora` is set", with("use_dora", "true"), pair),
        ("magnitudes (DoRA)", lora.to_owned(), &[(A_OF_Q, &[2, 6]), (B_OF_Q, &[8, 2]), (magnitude, &[8])]),
        ("`lora_bias`", with("lora_bias", "true"), pair),
        ("`layer_replication`", with("layer_replication", "[[0, 1]]"), pair),
        ("`target_parameters`", with("target_parameters", r#"["x"]"#), pair),
        ("changes the base before training", with("init_lora_weights", r#""pissa_niter_4""#), pair),
        ("changes the base before training", with("init_lora_weights", r#""lora_ga""#), pair),
        ("`use_rslora` is an integer, not true or false", with("use_rslora", "1"), pair),
        ("`fan_in_fan_out` is a string, not true or false", with("fan_in_fan_out", r#""true""#), pair),
        ("is no pattern that is known", with("alpha_pattern", r#"{"(?<=x)y": 3}"#), pair),
        ("`rank_pattern`: it is an array", with("rank_pattern", "[3]"), pair),
        ("has no finite number", with("alpha_pattern", r#"{"q_proj": "x"}"#), pair),
        ("its matrices have the rank 2, and adapter_config.json says 16", with("r", "16"), pair),
        ("says 3", with("rank_pattern", r#"{"q_proj": 3}"#), pair),
        ("`r` is no finite number", with("r", r#""2""#), pair),
        ("says 0", with("r", "0"), pair),
        ("says 2.5", with("r", "2.5"), pair),
        ("A is [0, 6] and B [8, 0]", lora.to_owned(), &[(A_OF_Q, &[0, 6]), (B_OF_Q, &[8, 0])]),
        ("`lora_alpha` is no finite number", r#"{"lora_alpha": "NaN"}"#.to_owned(), pair),
        ("`lora_alpha` is no finite number", r#"{"lora_alpha": null}"#.to_owned(), pair),
        ("its factor is no finite number", r#"{"lora_alpha": 1e300}"#.to_owned(), pair),
        ("adapter_config.json: ", r#"{"lora_alpha": 1e999}"#.to_owned(), pair),
        ("adapter_config.json: it is no object", "[]".to_owned(), pair),
        ("adapter_config.json: ", "[".repeat(1 << 16), pair),
        ("adapter_config.json: it is longer than 1 MiB", " ".repeat((1 << 20) + 1), pair),
        ("`use_qalora` is set", with("use_qalora", "true"), pair),
        ("`trainable_token_indices` is set", with("trainable_token_indices", "[1]"), pair),
        ("`alora_invocation_tokens` is set", with("alora_invocation_tokens", "[1]"), pair),
        ("`peft_type` is \"LOHA\"", r#"{"peft_type": "LOHA", "lora_alpha": 2}"#.to_owned(), pair),
        ("`lora_alpha` is no finite number", r#"{"peft_type": "LORA"}"#.to_owned(), pair),
        ("it lacks lora_B", lora.to_owned(), &[(A_OF_Q, &[2, 6])]),
        ("it lacks lora_A", lora.to_owned(), &[(B_OF_Q, &[8, 2])]),
        ("no ranks that are the same", lora.to_owned(), &[(A_OF_Q, &[3, 6]), (B_OF_Q, &[8, 2])]),
        ("convolutions", lora.to_owned(), &[(A_OF_Q, &[2, 6, 1]), (B_OF_Q, &[8, 2])]),
        (
            "its shape is [8, 7], and that of the base [8, 6]",
            lora.to_owned(),
            &[(A_OF_Q, &[2, 7]), (B_OF_Q, &[8, 2])],
        ),
        ("has no such tensor", lora.to_owned(), &[(&unknown[0], &[2, 6]), (&unknown[1], &[8, 2])]),
        ("its shape is [7], and that of the base [8]", lora.to_owned(), &[(BIAS, &[7])]),
    ];
    for (number, (expected, config, tensors)) in cases.iter().enumerate() {
        let adapter = adapter(folder.path(), &number.to_string(), config, tensors);
        let error = merge(&model, &[(&adapter, 1.0)], Format::Safetensors).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(adapter.to_str().unwrap()), "{expected}: {error}");
    }
    let none = adapter(folder.path(), "none", "{}", pair);
    fs::remove_file(none.join("adapter_config.json")).unwrap();
    let error = merge(&model, &[(&none, 1.0)], Format::Safetensors).unwrap_err().to_string();
    assert!(error.contains("adapter_config.json: there is none beside the adapter"), "{error}");
    let other = gguf(folder.path(), &OF_ADAPTER[..1], &[("x.lora_a", &[1, 1])]);
    let error = merge(&model, &[(&other, 1.0)], Format::Safetensors).unwrap_err().to_string();
    assert!(error.contains("`general.type` is missing, not \"adapter\""), "{error}");
}

/// Whatever an adapter states about its own shapes and numbers, it is refused, and memory does not grow with
/// its claims.
#[test]
fn adapters_of_strangers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = base(folder.path());
    let config = r#"{"peft_type": "LORA", "lora_alpha": 2, "modules_to_save": ["lm_head"]}"#;
    let pair: &[(&str, &[u64])] = &[(A_OF_Q, &[2, 6]), (B_OF_Q, &[8, 2])];
    let saved = adapter(folder.path(), "saved", config, &[(SAVED_HEAD, &[12, 6])]);
    let plain = adapter(folder.path(), "plain", config, pair);
    let head = adapter(
        folder.path(),
        "head",
        config,
        &[
            ("base_model.model.lm_head.lora_A.weight", &[2, 6]),
            ("base_model.model.lm_head.lora_B.weight", &[12, 2]),
        ],
    );
    let huge = adapter(folder.path(), "huge", r#"{"lora_alpha": 1e38}"#, pair);
    // A tensor that is saved whole replaces the base tensor before anything is added.
    merge(&model, &[(&saved, 1.0), (&head, 1.0)], Format::Safetensors).unwrap();
    let cases: [(&[(&Path, f32)], &str); 4] = [
        (&[(&saved, 0.5)], "which cannot be merged in part"),
        (&[(&saved, 1.0), (&saved, 1.0)], "another adapter changes it"),
        (&[(&head, 1.0), (&saved, 1.0)], "another adapter changes it"),
        (&[(&huge, 1e10)], "its factor is too large for f32"),
    ];
    for (adapters, expected) in cases {
        let error = merge(&model, adapters, Format::Safetensors).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // A header that claims more than the file has, and a file that ends early.
    let file = plain.join("adapter_model.safetensors");
    let whole = fs::read(&file).unwrap();
    let mut lying = whole.clone();
    let at = whole.windows(5).position(|part| part == b"[2,6]").unwrap();
    lying[at..at + 5].copy_from_slice(b"[9,9]");
    for broken in [&whole[..whole.len() - 1], &whole[..7], &[], &lying] {
        fs::write(&file, broken).unwrap();
        merge(&model, &[(&plain, 1.0)], Format::Safetensors).unwrap_err();
    }
    for (alpha, expected) in [(f32::NAN, "no finite number"), (f32::INFINITY, "no finite number"), (0.0, "")]
    {
        let keys = [OF_ADAPTER[0], OF_ADAPTER[1], OF_ADAPTER[2], (OF_ADAPTER[3].0, MetaValue::F32(alpha))];
        let name = |side: &str| format!("{Q}.{side}");
        let (a, b) = (name("lora_a"), name("lora_b"));
        let path = gguf(folder.path(), &keys, &[(&a, &[2, 6]), (&b, &[8, 2])]);
        match merge(&model, &[(&path, 1.0)], Format::Safetensors) {
            Ok(_) => assert!(expected.is_empty()),
            Err(error) => assert!(!expected.is_empty() && error.to_string().contains(expected), "{error}"),
        }
        fs::remove_file(path).unwrap();
    }
}

/// Nothing is added to numbers other than f32, f16 and bf16: 8-bit floats mean nothing without their scales,
/// and an f64 would lose digits.
#[test]
fn bases_of_other_types_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"peft_type": "LORA", "lora_alpha": 2}"#;
    let adapter = adapter(folder.path(), "adapter", config, &[(A_OF_Q, &[2, 32]), (B_OF_Q, &[8, 2])]);
    let metadata = [("model_name", "tiny"), ("architecture", "llama")];
    let metadata =
        modelfmt::Object::from_iter(metadata.map(|(key, name)| (key, modelfmt::Value::from(name))));
    let specs = [modelfmt_write::TensorSpec::new(Q, DType::Q8_0, vec![8, 32])];
    let blocks = modelfmt_write::MemoryFile::new();
    let plan = aero::Plan::new(specs, &metadata, &aero::WriteOptions::new()).unwrap();
    plan.write(&[vec![0u8; 272]], &blocks, &Execution::default()).unwrap();
    let plain = |dtype: &str, nbytes: usize| {
        let header = format!(r#"{{"{Q}":{{"dtype":"{dtype}","shape":[8,32],"data_offsets":[0,{nbytes}]}}}}"#);
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; nbytes]].concat()
    };
    for (file, expected) in [
        (plain("F8_E4M3", 256), "adapters are added to f32, f16 and bf16; dequantize the base first"),
        (plain("F64", 2048), "it is f64 in the base, and adapters are added to f32, f16 and bf16"),
        (plain("I8", 256), "it is i8 in the base"),
        (
            blocks.into_bytes(),
            "it is q8_0 in the base, and adapters are added to f32, f16 and bf16; dequantize the base first",
        ),
    ] {
        let model = Model::from_source("base", file).unwrap();
        let error = merge(&model, &[(&adapter, 1.0)], Format::Mag).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// Like PEFT, which takes the first pattern that matches the end of a name.
#[test]
fn patterns_are_regular_expressions() {
    let folder = tempfile::tempdir().unwrap();
    let model = base(folder.path());
    let tensors: &[(&str, &[u64])] =
        &[(A_OF_Q, &[2, 6]), (B_OF_Q, &[8, 2]), (A_OF_UP, &[4, 6]), (B_OF_UP, &[10, 4])];
    let config = r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 2, "rank_pattern": {"layers\\.\\d+\\.mlp\\..*": 4},
        "alpha_pattern": {"roj": 9, "(?:q|k)_proj": 6, "self_attn.q_proj": 8, ".*\\.up_proj": 12}}"#;
    let adapter = adapter(folder.path(), "adapter", config, tensors);
    let merged = merge(&model, &[(&adapter, 1.0)], Format::Safetensors).unwrap();
    let [a, b] = [of_shape(A_OF_Q, &[2, 6]), of_shape(B_OF_Q, &[8, 2])];
    assert_eq!(values(&merged, Q), as_bf16(&plus(base_of(Q, &[8, 6]), (8, 2, 6), &a, &b, 3.0)));
    let [a, b] = [of_shape(A_OF_UP, &[4, 6]), of_shape(B_OF_UP, &[10, 4])];
    assert_eq!(values(&merged, UP), as_bf16(&plus(base_of(UP, &[10, 6]), (10, 4, 6), &a, &b, 3.0)));
}

/// Random models and adapters: every bit matches numpy, with any number of threads and however the base is
/// split into files.
#[test]
fn merged_weights_are_those_of_numpy() {
    let folder = tempfile::tempdir().unwrap();
    let sizes: [(&str, u64, u64); 4] = [("w0", 130, 2051), ("w1", 2, 5000), ("w2", 3000, 1), ("w3", 129, 70)];
    let values: Vec<Vec<f32>> =
        sizes.iter().map(|(name, rows, columns)| floats(name, rows * columns)).collect();
    let halves: Vec<Vec<f16>> =
        values.iter().map(|own| own.iter().map(|&x| f16::from_f32(x)).collect()).collect();
    let bf16s: Vec<Vec<bf16>> = values.iter().map(|own| rounded(own)).collect();
    let names = |kind: &str| sizes.map(|(name, ..)| format!("{kind}.{name}.weight"));
    let (f16, bf, f32) = (names("half"), names("brain"), names("full"));
    let mut views = Vec::new();
    for (number, (_, rows, columns)) in sizes.iter().enumerate() {
        views.push((f16[number].as_str(), View::new(&halves[number], [*rows, *columns]).unwrap()));
        views.push((bf[number].as_str(), View::new(&bf16s[number], [*rows, *columns]).unwrap()));
        views.push((f32[number].as_str(), View::new(&values[number], [*rows, *columns]).unwrap()));
    }
    let path = folder.path().join("base.safetensors");
    modelfmt::save(&path, views, &modelfmt::Object::default()).unwrap();
    let all: Vec<(&String, u64, u64)> = [&f16, &bf, &f32]
        .into_iter()
        .flat_map(|names| names.iter().zip(sizes).map(|(name, (_, rows, columns))| (name, rows, columns)))
        .collect();
    let made = |name: &str, config: &str, rank: u64| {
        let tensors: Vec<(String, [u64; 2])> = all
            .iter()
            .flat_map(|(name, rows, columns)| {
                let module = format!("base_model.model.{}", name.trim_end_matches(".weight"));
                [
                    (format!("{module}.lora_A.weight"), [rank, *columns]),
                    (format!("{module}.lora_B.weight"), [*rows, rank]),
                ]
            })
            .collect();
        let tensors: Vec<(&str, &[u64])> =
            tensors.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
        adapter(folder.path(), name, config, &tensors)
    };
    let first = made("first", r#"{"peft_type": "LORA", "r": 16, "lora_alpha": 11}"#, 16);
    let second = made("second", r#"{"peft_type": "LORA", "r": 67, "lora_alpha": 3, "use_rslora": true}"#, 67);
    fs::write(
        folder.path().join("adapters.json"),
        r#"[{"path": "first", "scale": 0.3}, {"path": "second", "scale": 1}]"#,
    )
    .unwrap();
    let out = folder.path().join("merged.safetensors");
    let model = Model::open(&path).unwrap();
    let mut options = lora(&[(&first, 0.3), (&second, 1.0)]);
    options.output.overwrite = modelfmt::convert::Overwrite::Replace;
    let mut written = Vec::new();
    for threads in [1, 3] {
        let execution = Execution { threads, progress: None };
        Conversion::new(&model, &out).options(&options).execution(&execution).write().unwrap();
        written.push(fs::read(&out).unwrap());
    }
    assert!(written[0] == written[1]);
    let found = testkit::python(include_str!("oracle/lora.py"), &[folder.path().to_str().unwrap()]);
    assert_eq!(found.trim(), "12");
}

/// The files that options name are known, so that none of them is replaced, and a batch notices if one has
/// changed.
#[test]
fn the_files_of_options_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let adapter = adapter(folder.path(), "adapter", "{}", &[(A_OF_Q, &[2, 6])]);
    let mut options = lora(&[(&adapter, 1.0)]);
    options.types.imatrix = Some("m.imatrix".into());
    options.tensors.base = Some("base".into());
    options.tensors.map = Some("own.toml".to_owned());
    options.output.inputs.push("key".into());
    let mut named = modelfmt::convert::named_files(&options);
    named.sort();
    let mut expected =
        ["adapter_config.json", "adapter_model.safetensors"].map(|name| adapter.join(name)).to_vec();
    expected.extend(["key", "m.imatrix", "own.toml"].map(PathBuf::from));
    expected.extend(modelfmt::convert::ABOUT_WEIGHTS.map(|name| PathBuf::from("base").join(name)));
    expected.push(adapter);
    expected.sort();
    assert_eq!(named, expected);
}

/// No output may replace a file of the adapter.
#[test]
fn the_adapter_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let model = base(folder.path());
    let config = r#"{"peft_type": "LORA", "lora_alpha": 2}"#;
    let adapter = adapter(folder.path(), "adapter", config, &[(A_OF_Q, &[2, 6]), (B_OF_Q, &[8, 2])]);
    let file = adapter.join("adapter_model.safetensors");
    let before = fs::read(&file).unwrap();
    let mut options = lora(&[(&adapter, 1.0)]);
    options.output.overwrite = modelfmt::convert::Overwrite::Replace;
    Conversion::new(&model, &file).options(&options).write().unwrap_err();
    assert_eq!(fs::read(&file).unwrap(), before);
}

/// A dry run lists the steps, and the tensors of the base and the adapter that they use.
#[test]
fn a_dry_run_lists_the_product() {
    let folder = tempfile::tempdir().unwrap();
    let model = base(folder.path());
    let config = r#"{"peft_type": "LORA", "lora_alpha": 2}"#;
    let adapter = adapter(folder.path(), "adapter", config, &[(A_OF_Q, &[2, 6]), (B_OF_Q, &[8, 2])]);
    let options = lora(&[(&adapter, 1.0)]);
    let out = folder.path().join("out.safetensors");
    let converted = Conversion::new(&model, &out).options(&options).dry_run().unwrap();
    let programs = converted.programs.unwrap();
    let of_q = programs.tensors.iter().find(|program| program.tensor == Q).unwrap();
    assert_eq!(of_q.from, [Q, B_OF_Q, A_OF_Q]);
    assert!(of_q.steps.iter().any(|step| step.contains(" × ")), "{:?}", of_q.steps);
    assert!(programs.left_out.is_empty());
}

/// llama.cpp replaces an alpha of 0 by the rank, so a factor of 0 is never written as an alpha of 0.
#[test]
fn a_factor_of_0_is_not_written_as_1() {
    let folder = tempfile::tempdir().unwrap();
    let hub = folder.path().join("hub");
    fs::create_dir(&hub).unwrap();
    let config = r#"{"model_type": "llama", "hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 4,
        "num_key_value_heads": 2, "intermediate_size": 10, "vocab_size": 12}"#;
    fs::write(hub.join("config.json"), config).unwrap();
    let pairs: Shapes<'_> = &[(A_OF_Q, &[2, 6]), (B_OF_Q, &[8, 2]), (A_OF_UP, &[2, 6]), (B_OF_UP, &[10, 2])];
    let written = |name: &str, config: &str| {
        let adapter = Model::open(adapter(folder.path(), name, config, pairs)).unwrap();
        let file = modelfmt_write::MemoryFile::new();
        let conversion = Conversion::to_format(&adapter, Format::Gguf);
        let conversion = conversion.with(|options| options.tensors.base = Some(hub.clone()));
        conversion.write_to_sink(&file).map(|_| Model::from_source("adapter", file.into_bytes()).unwrap())
    };
    let some = written("some", r#"{"lora_alpha": 4, "alpha_pattern": {"up_proj": 0}}"#).unwrap();
    assert_eq!(some.common_metadata().unwrap().keys.get("adapter.lora.alpha").unwrap().as_f64(), Some(4.0));
    assert_eq!(values(&some, "blk.0.ffn_up.weight.lora_b"), [0.0; 20]);
    let first = written("first", r#"{"lora_alpha": 4, "alpha_pattern": {"q_proj": 0}}"#).unwrap();
    assert_eq!(values(&first, "blk.0.attn_q.weight.lora_b"), [0.0; 16]);
    assert_eq!(values(&first, "blk.0.ffn_up.weight.lora_b"), of_shape(B_OF_UP, &[10, 2]));
    let error = written("none", r#"{"lora_alpha": 0}"#).unwrap_err().to_string();
    assert!(error.contains("all its factors are 0, which llama.cpp takes for 1"), "{error}");
}

/// f16 values that an adapter makes infinite are reported, however the base is stored, and whatever it is
/// converted to.
#[test]
fn halves_that_become_infinite_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (_, map) = hub_folder::maps().into_iter().find(|(name, _)| name == "llama").unwrap();
    let config = hub_folder::config(&map, "");
    let tensors = hub_folder::model(&map, &config, &[DType::F16], &f16::from_f32(65000.0).to_le_bytes());
    let hub = hub_folder::folder(&tensors, &config);
    let file = at("plain.safetensors");
    fs::copy(hub.path().join("model.safetensors"), &file).unwrap();
    let of_folder = Model::open(hub.path().join("model.safetensors")).unwrap();
    Conversion::new(&of_folder, at("base.gguf")).write().unwrap();

    let shape = of_folder.tensor(Q).unwrap().shape().to_vec();
    let [a, b] = [[2, shape[1]], [shape[0], 2]];
    let peft = adapter(folder.path(), "peft", r#"{"lora_alpha": 1e5}"#, &[(A_OF_Q, &a), (B_OF_Q, &b)]);
    let keys = [&OF_ADAPTER[..3], &[("adapter.lora.alpha", MetaValue::F32(1e5))]].concat();
    let own =
        gguf(folder.path(), &keys, &[("blk.0.attn_q.weight.lora_a", &a), ("blk.0.attn_q.weight.lora_b", &b)]);
    let gguf_name = "blk.0.attn_q.weight";
    for (base, adapter, out, name, rule) in [
        (&file, &peft, "a.safetensors", Q, None),
        (&file, &peft, "b.safetensors", Q, Some("cast *q_proj*=f32")),
        (&hub.path().join("model.safetensors"), &peft, "c.gguf", gguf_name, None),
        (&hub.path().join("model.safetensors"), &own, "d.gguf", gguf_name, None),
        (&at("base.gguf"), &peft, "e.gguf", gguf_name, None),
        (&at("base.gguf"), &own, "f.gguf", gguf_name, None),
    ] {
        let mut options = lora(&[(adapter, 1.0)]);
        // A PEFT adapter names modules of transformers.
        options.tensors.base = (out == "e.gguf").then(|| hub.path().to_owned());
        options.types.rules = rule.into_iter().map(|rule| rule.parse().unwrap()).collect();
        let model = Model::open(base).unwrap();
        let converted = Conversion::new(&model, at(out)).options(&options).write().unwrap();
        let written = Model::open(at(out)).unwrap();
        let view = written.tensor(name).unwrap();
        let values = view.to_f32().unwrap();
        let infinite = values.iter().filter(|value| value.is_infinite()).count() as u64;
        assert!(infinite > 0 && infinite < values.len() as u64, "{out}: {infinite} of {}", values.len());
        let [clipped] = &*converted.clipped else { panic!("{out}: {:?}", converted.clipped) };
        assert_eq!((&*clipped.tensor, clipped.dtype), (name, DType::F16), "{out}");
        assert_eq!(clipped.infinite * values.len() as u64, infinite * clipped.values, "{out}");
        // A dry run reports the same.
        let dry = Conversion::new(&model, at(&format!("dry.{out}"))).options(&options).dry_run().unwrap();
        assert_eq!(dry.clipped, converted.clipped, "{out}");
    }
}
