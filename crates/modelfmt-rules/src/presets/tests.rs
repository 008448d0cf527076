//! Presets choose the same dtypes as llama.cpp, according to its source. The names of tensors are those of the package `gguf`.

use std::collections::HashMap;
use std::fmt::Write as _;

use modelfmt_core::DType;

use super::names::Canonical;
use super::{About, Preset, Unknown};

/// The tensors of a model without their values, with GGUF's names.
#[derive(Clone)]
struct Described {
    architecture: &'static str,
    layers: u64,
    experts: u64,
    is_large: bool,
    heads_per_key: u64,
    has_importance: bool,
    /// Whether only the metadata, and not the tensors, shows how many heads there are.
    says_heads: bool,
    tensors: Vec<(String, Vec<u64>)>,
}

impl Described {
    fn new(architecture: &'static str, layers: u64) -> Self {
        Self {
            architecture,
            layers,
            experts: 0,
            is_large: false,
            heads_per_key: 1,
            has_importance: false,
            says_heads: false,
            tensors: Vec::new(),
        }
    }

    fn large(mut self) -> Self {
        self.is_large = true;
        self
    }

    fn push(&mut self, name: impl Into<String>, shape: &[u64]) {
        self.tensors.push((name.into(), shape.to_vec()));
    }

    /// Calls `layer` for each layer, with its number and its prefix `blk.N.`.
    fn each_layer(&mut self, mut layer: impl FnMut(&mut Self, u64, String)) {
        (0..self.layers).for_each(|number| layer(self, number, format!("blk.{number}.")));
    }

    fn asked(&self, file_type: u32) -> String {
        let Self { architecture, layers, experts, is_large, heads_per_key, has_importance, tensors, .. } =
            self;
        let (large, important) = (u8::from(*is_large), u8::from(*has_importance));
        let mut text =
            format!("{architecture} {layers} {experts} {large} {heads_per_key} {important} {file_type}\n");
        for (name, shape) in tensors {
            let mut dims: Vec<u64> = shape.iter().rev().copied().collect();
            dims.resize(4, 1);
            writeln!(text, "{name} {} {} {} {}", dims[0], dims[1], dims[2], dims[3]).unwrap();
        }
        text + ".\n"
    }

    fn types(&self, preset: Preset) -> Result<HashMap<&str, DType>, Unknown> {
        let tensors = self.tensors.iter().map(|(name, shape)| (name.as_str(), shape.as_slice()));
        let heads_per_key = self.says_heads.then_some(self.heads_per_key);
        let has_importance = self.has_importance;
        preset.types(About { heads_per_key, has_importance, ..about(self.architecture) }, tensors)
    }
}

fn about(architecture: &str) -> About<'_> {
    About { architecture: Some(architecture), ..About::default() }
}

/// A model like LLaMA: attention in four parts, feed-forward in three.
fn llama(architecture: &'static str, layers: u64, hidden: u64, keys: u64, inner: u64) -> Described {
    let mut model = Described::new(architecture, layers);
    model.heads_per_key = hidden / keys;
    model.push("token_embd.weight", &[32000, hidden]);
    model.push("output.weight", &[32000, hidden]);
    model.push("output_norm.weight", &[hidden]);
    model.each_layer(|model, _, layer| {
        model.push(format!("{layer}attn_q.weight"), &[hidden, hidden]);
        model.push(format!("{layer}attn_k.weight"), &[keys, hidden]);
        model.push(format!("{layer}attn_v.weight"), &[keys, hidden]);
        model.push(format!("{layer}attn_output.weight"), &[hidden, hidden]);
        model.push(format!("{layer}attn_q.bias"), &[hidden]);
        model.push(format!("{layer}attn_norm.weight"), &[hidden]);
        model.push(format!("{layer}ffn_gate.weight"), &[inner, hidden]);
        model.push(format!("{layer}ffn_up.weight"), &[inner, hidden]);
        model.push(format!("{layer}ffn_down.weight"), &[hidden, inner]);
    });
    model
}

/// A model like Mixtral, Qwen and DeepSeek: the experts in one tensor, and some of them shared.
fn experts(architecture: &'static str, layers: u64, experts: u64, hidden: u64) -> Described {
    let mut model = llama(architecture, layers, hidden, hidden / 4, 2 * hidden);
    model.experts = experts;
    // The first layer is dense.
    let is_dense = |name: &str| !name.contains("ffn_") || name.starts_with("blk.0.");
    model.tensors.retain(|(name, _)| is_dense(name));
    model.each_layer(|model, number, layer| {
        if number == 0 {
            return;
        }
        model.push(format!("{layer}ffn_gate_inp.weight"), &[experts, hidden]);
        model.push(format!("{layer}ffn_gate_exps.weight"), &[experts, hidden, hidden]);
        model.push(format!("{layer}ffn_up_exps.weight"), &[experts, hidden, hidden]);
        model.push(format!("{layer}ffn_down_exps.weight"), &[experts, hidden, hidden]);
        model.push(format!("{layer}ffn_down_shexp.weight"), &[hidden, hidden]);
        model.push(format!("{layer}ffn_gate_inp_shexp.weight"), &[1, hidden]);
        model.push(format!("{layer}attn_kv_b.weight"), &[hidden, hidden]);
    });
    model
}

/// A model like Falcon: queries, keys and values in one tensor.
fn falcon(layers: u64, hidden: u64) -> Described {
    let mut model = Described::new("falcon", layers);
    model.heads_per_key = hidden / 64;
    model.push("token_embd.weight", &[65024, hidden]);
    model.push("output.weight", &[65024, hidden]);
    model.each_layer(|model, _, layer| {
        model.push(format!("{layer}attn_qkv.weight"), &[hidden + 128, hidden]);
        model.push(format!("{layer}attn_output.weight"), &[hidden, hidden]);
        model.push(format!("{layer}ffn_up.weight"), &[4 * hidden, hidden]);
        model.push(format!("{layer}ffn_down.weight"), &[hidden, 4 * hidden]);
    });
    model
}

/// A model like BERT: no output matrix, position embeddings, rows that are not whole blocks of 256.
fn bert(hidden: u64) -> Described {
    let mut model = llama("bert", 6, hidden, hidden, 4 * hidden);
    model.tensors.retain(|(name, _)| name != "output.weight");
    model.push("position_embd.weight", &[512, hidden]);
    model.push("token_types.weight", &[2, hidden]);
    model.push("cls.weight", &[hidden, hidden]);
    model
}

/// A model like T5: an encoder and a decoder, whose layers have other names.
fn t5(layers: u64, of_decoder: u64, hidden: u64) -> Described {
    let mut model = Described::new("t5", layers);
    model.push("token_embd.weight", &[32128, hidden]);
    model.push("output.weight", &[32128, hidden]);
    for (side, count) in [("enc", layers), ("dec", of_decoder)] {
        model.push(format!("{side}.output_norm.weight"), &[hidden]);
        model.push(format!("{side}.blk.0.attn_rel_b.weight"), &[32, 16]);
        for layer in 0..count {
            for part in ["attn_q", "attn_k", "attn_v", "attn_o", "cross_attn_v", "cross_attn_o"] {
                if side == "dec" || !part.starts_with("cross") {
                    model.push(format!("{side}.blk.{layer}.{part}.weight"), &[hidden, hidden]);
                }
            }
            model.push(format!("{side}.blk.{layer}.ffn_gate.weight"), &[2 * hidden, hidden]);
            model.push(format!("{side}.blk.{layer}.ffn_up.weight"), &[2 * hidden, hidden]);
            model.push(format!("{side}.blk.{layer}.ffn_down.weight"), &[hidden, 2 * hidden]);
        }
    }
    model
}

/// A random mixture of everything, with names that contain parts of other names.
fn anything(random: &mut u64) -> Described {
    const PARTS: &[&str] = &[
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_qkv",
        "attn_kv_b",
        "attn_output",
        "cross_attn_v",
        "ffn_up",
        "ffn_gate",
        "ffn_down",
        "ffn_down_exps",
        "ffn_up_exps",
        "ffn_gate_inp",
        "ffn_norm",
        "ssm_conv1d",
        "ssm_in",
        "altup_proj",
        "attn_rel_b",
        "time_mix_w1",
        "time_mix_key",
        "indexer.k_proj",
        "shortconv.conv",
        "laurel_l",
        "exp_probs_b",
    ];
    const GLOBALS: &[&str] = &[
        "token_embd.weight",
        "output.weight",
        "per_layer_token_embd.weight",
        "position_embd.weight",
        "cls.weight",
        "per_layer_model_proj.weight",
        "output_norm.weight",
        "rope_freqs",
        "v.patch_embd.weight",
        "enc.output.weight",
    ];
    const COLUMNS: &[u64] = &[1, 4, 16, 32, 96, 256, 288, 384, 512, 4096, 4097];
    let mut below = |end: usize| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*random >> 33) % end as u64) as usize
    };
    let layers = 1 + below(96) as u64;
    let experts = [0, 0, 0, 2, 8, 8, 64][below(7)];
    let architecture = ["gemma3", "falcon", "phi3", "mamba"][below(4)];
    let mut model = Described::new(architecture, layers);
    model.experts = experts;
    (model.heads_per_key, model.says_heads) = ([1, 3, 4, 8][below(4)], true);
    if experts > 0 {
        model.push("blk.0.ffn_gate_inp.weight", &[experts, 256]);
    }
    // The last layer is always there, so that the tensors show the number of layers.
    model.push(format!("blk.{}.attn_q.weight", layers - 1), &[64, 256]);
    let mut all: Vec<String> = GLOBALS.iter().map(|&name| name.to_owned()).collect();
    all.retain(|_| below(2) == 0);
    for layer in 0..layers {
        for part in PARTS {
            let suffix = if below(9) == 0 { "bias" } else { "weight" };
            let name = format!("blk.{layer}.{part}.{suffix}");
            let is_there = || model.tensors.iter().any(|(known, _)| *known == name);
            if below(3) > 0 && !is_there() {
                all.push(name);
            }
        }
    }
    while !all.is_empty() {
        let name = all.swap_remove(below(all.len()));
        let columns = COLUMNS[below(COLUMNS.len())];
        let rank = 1 + below(3);
        // The first dimension of these tensors shows the number of experts.
        let first = if name.contains("_exps.weight") || name.contains("ffn_gate_inp.weight") {
            experts.max(1)
        } else {
            3
        };
        let shape = match rank {
            1 => vec![columns],
            2 if first == 3 => vec![1 + below(3) as u64, columns],
            2 => vec![first, columns],
            _ => vec![first, 1 + below(3) as u64, columns],
        };
        model.push(name, &shape);
    }
    model
}

fn models() -> Vec<Described> {
    let mut models = vec![
        llama("llama", 32, 4096, 4096, 11008),
        llama("llama", 32, 4096, 1024, 14336),
        llama("llama", 80, 8192, 1024, 28672).large(),
        llama("llama", 80, 8192, 8192, 22016),
        llama("qwen2", 80, 8192, 1024, 29568).large(),
        llama("qwen2", 28, 3584, 512, 18944),
        llama("jais2", 68, 7168, 7168, 26624).large(),
        llama("jais2", 80, 7168, 7168, 26624),
        llama("gemma3", 26, 1152, 256, 6912),
        llama("phi2", 5, 2560, 2560, 10240),
        experts("llama", 32, 8, 4096),
        experts("qwen3moe", 48, 128, 2048),
        experts("deepseek2", 27, 64, 2048),
        experts("llama", 3, 2, 300),
        falcon(32, 4544),
        falcon(60, 8192),
        bert(384),
        bert(768),
        bert(312),
        bert(300),
        t5(24, 24, 1024),
        t5(12, 6, 768),
    ];
    models
        .push(Described { tensors: models[0].tensors.iter().rev().cloned().collect(), ..models[0].clone() });
    let mut random = 7;
    models.extend((0..20).map(|_| anything(&mut random)));
    let important = |model: &Described| Described { has_importance: true, ..model.clone() };
    models.extend(models.iter().map(important).collect::<Vec<_>>());
    models
}

#[test]
fn the_choice_is_that_of_llama_cpp() {
    let models = models();
    let asked =
        models.iter().flat_map(|model| Preset::ALL.iter().map(|preset| model.asked(preset.file_type())));
    let answer = testkit::llama_types(&asked.collect::<String>());
    let mut lines = answer.lines();
    let mut seen = std::collections::BTreeSet::new();
    for model in &models {
        let shapes: HashMap<&str, &[u64]> =
            model.tensors.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
        for &preset in Preset::ALL {
            let ours = model.types(preset).unwrap();
            let mut compared = 0;
            for line in lines.by_ref().take_while(|&line| line != ".") {
                let (name, number) = line.split_once(' ').unwrap();
                let theirs = number.parse().ok().and_then(DType::from_ggml_type);
                let Described { architecture, layers, experts, .. } = model;
                let shape = shapes[name];
                let what = format!(
                    "{preset}, {architecture} of {layers} layers, {experts} experts: {name} {shape:?}"
                );
                assert_eq!(ours.get(name).copied(), theirs, "{what}");
                seen.extend(theirs.map(|theirs| (preset, theirs)));
                compared += 1;
            }
            assert_eq!(compared, model.tensors.len());
        }
    }
    assert_eq!(lines.next(), None);
    let of = |preset| seen.iter().filter(|(known, _)| *known == preset).count();
    assert_eq!(
        (of(Preset::Q4KM), of(Preset::Q4KS), of(Preset::Q4_0)),
        (7, 7, 5),
        "every rule is met: {seen:?}"
    );
}

/// Hugging Face's names, each under an architecture that has them in the package `gguf`.
const NAMES: &[(&str, &[&str])] = &[
    (
        "LLAMA",
        &[
            "model.embed_tokens.weight",
            "lm_head.weight",
            "model.norm.weight",
            "model.layers.31.self_attn.q_proj.weight",
            "model.layers.0.self_attn.k_proj.weight",
            "model.layers.0.self_attn.v_proj.weight",
            "model.layers.0.self_attn.o_proj.weight",
            "model.layers.0.self_attn.q_proj.bias",
            "model.layers.0.mlp.gate_proj.weight",
            "model.layers.0.mlp.up_proj.weight",
            "model.layers.0.mlp.down_proj.weight",
            "model.layers.0.input_layernorm.weight",
            "model.layers.0.block_sparse_moe.gate.weight",
            "model.layers.0.block_sparse_moe.experts.7.w1.weight",
            "model.layers.0.block_sparse_moe.experts.7.w2.weight",
            "model.layers.0.block_sparse_moe.experts.7.w3.weight",
            "tok_embeddings.weight",
            "layers.3.attention.wq.weight",
            "layers.3.attention.wk.weight",
            "layers.3.attention.wv.weight",
            "layers.3.attention.wo.weight",
            "layers.3.feed_forward.w1.weight",
            "layers.3.feed_forward.w2.weight",
            "layers.3.feed_forward.w3.weight",
        ],
    ),
    (
        "QWEN2MOE",
        &[
            "model.layers.1.mlp.gate.weight",
            "model.layers.1.mlp.experts.59.gate_proj.weight",
            "model.layers.1.mlp.experts.59.up_proj.weight",
            "model.layers.1.mlp.experts.59.down_proj.weight",
            "model.layers.1.mlp.shared_expert.gate_proj.weight",
            "model.layers.1.mlp.shared_expert.up_proj.weight",
            "model.layers.1.mlp.shared_expert.down_proj.weight",
            "model.layers.1.mlp.shared_expert_gate.weight",
        ],
    ),
    (
        "DEEPSEEK2",
        &["model.layers.2.mlp.shared_experts.down_proj.weight", "model.layers.2.self_attn.kv_b_proj.weight"],
    ),
    ("PHI3", &["model.layers.2.self_attn.qkv_proj.weight", "model.layers.2.mlp.gate_up_proj.weight"]),
    (
        "PHI2",
        &[
            "model.layers.2.self_attn.dense.weight",
            "model.layers.2.mlp.fc1.weight",
            "model.layers.2.mlp.fc2.weight",
        ],
    ),
    (
        "FALCON",
        &[
            "transformer.word_embeddings.weight",
            "transformer.h.9.self_attention.query_key_value.weight",
            "transformer.h.9.self_attention.dense.weight",
            "transformer.h.9.mlp.dense_h_to_4h.weight",
            "transformer.h.9.mlp.dense_4h_to_h.weight",
        ],
    ),
    (
        "GPTNEOX",
        &[
            "gpt_neox.embed_in.weight",
            "embed_out.weight",
            "gpt_neox.layers.4.attention.query_key_value.weight",
            "gpt_neox.layers.4.attention.dense.weight",
            "gpt_neox.layers.4.mlp.dense_h_to_4h.weight",
            "gpt_neox.layers.4.mlp.dense_4h_to_h.weight",
        ],
    ),
    (
        "GPT2",
        &[
            "transformer.wte.weight",
            "transformer.wpe.weight",
            "wpe.weight",
            "h.11.attn.c_attn.weight",
            "transformer.h.11.attn.c_proj.weight",
            "h.11.mlp.c_fc.weight",
            "h.11.mlp.c_proj.weight",
        ],
    ),
    ("STARCODER2", &["model.layers.0.mlp.c_fc.weight", "model.layers.0.mlp.c_proj.weight"]),
    (
        "MPT",
        &[
            "transformer.blocks.1.attn.Wqkv.weight",
            "transformer.blocks.1.attn.out_proj.weight",
            "transformer.blocks.1.ffn.up_proj.weight",
            "transformer.blocks.1.ffn.down_proj.weight",
        ],
    ),
    (
        "BERT",
        &[
            "embeddings.word_embeddings.weight",
            "embeddings.position_embeddings.weight",
            "embeddings.token_type_embeddings.weight",
            "encoder.layer.5.attention.self.query.weight",
            "encoder.layer.5.attention.self.key.weight",
            "encoder.layer.5.attention.self.value.weight",
            "encoder.layer.5.attention.output.dense.weight",
            "encoder.layer.5.intermediate.dense.weight",
            "encoder.layer.5.output.dense.weight",
            "transformer.layer.5.attention.q_lin.weight",
            "transformer.layer.5.attention.out_lin.weight",
            "transformer.layer.5.ffn.lin1.weight",
            "transformer.layer.5.ffn.lin2.weight",
        ],
    ),
    ("MAMBA", &["backbone.embeddings.weight", "backbone.layers.0.mixer.conv1d.weight"]),
];

const NAMES_OF_GGUF: &str = r#"
import sys
from gguf.constants import MODEL_ARCH
from gguf.tensor_mapping import get_tensor_name_map
for line in sys.argv[1].splitlines():
    architecture, name = line.split()
    names = get_tensor_name_map(MODEL_ARCH[architecture], 99)
    print(name, names.get_name(name, try_suffixes=(".weight", ".bias")))
"#;

#[test]
fn names_of_hugging_face_are_those_of_gguf() {
    let all =
        NAMES.iter().flat_map(|(architecture, names)| names.iter().map(move |name| (architecture, name)));
    let lines: Vec<String> = all
        .clone()
        .map(|(architecture, name)| {
            // The package has one tensor for all experts.
            let parts = name.split('.').collect::<Vec<_>>();
            let experts = parts.iter().position(|&part| part == "experts");
            let kept =
                parts.iter().enumerate().filter(|(at, _)| experts.is_none_or(|experts| *at != experts + 1));
            let name: Vec<&str> = kept.map(|(_, part)| *part).collect();
            format!("{architecture} {}", name.join("."))
        })
        .collect();
    let answer = testkit::python(NAMES_OF_GGUF, &[&lines.join("\n")]);
    assert_eq!(answer.lines().count(), lines.len());
    for ((_, name), line) in all.zip(answer.lines()) {
        let (_, theirs) = line.split_once(' ').unwrap();
        let ours = Canonical::of(name).name;
        // No rule concerns norms, so their names are not in the table.
        assert!(
            ours == theirs || theirs.contains("norm") && ours == *name,
            "{name}: {ours}, gguf has {theirs}"
        );
    }
}

#[test]
fn experts_in_tensors_of_their_own_are_counted() {
    let mut tensors = vec![("model.layers.0.self_attn.v_proj.weight".to_owned(), vec![256, 256])];
    for expert in 0..8 {
        tensors.push((format!("model.layers.0.block_sparse_moe.experts.{expert}.w2.weight"), vec![256, 256]));
    }
    let types = Preset::Q4KS
        .types(About::default(), tensors.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())))
        .unwrap();
    assert_eq!(types[tensors[0].0.as_str()], DType::Q8_0);
    let fewer = &tensors[..8];
    let types = Preset::Q4KS
        .types(About::default(), fewer.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())))
        .unwrap();
    assert_eq!(types[tensors[0].0.as_str()], DType::Q5K);
}

#[test]
fn names_from_a_hostile_file_end_well() {
    let names = [
        "blk.4294967295.ffn_down.weight",
        "blk.18446744073709551616.ffn_down.weight",
        "blk..attn_v.weight",
        "blk.-1.attn_v.weight",
        "layers.99999999999999999999.mlp.up_proj.weight",
        "model.layers.1.mlp.experts.4294967295.down_proj.weight",
        ".weight",
        "weight",
        "",
    ];
    for shape in [&[][..], &[0, 0], &[u64::MAX, u64::MAX], &[u64::MAX; 9]] {
        for &preset in Preset::ALL {
            let types = preset.types(about("falcon"), names.iter().map(|&name| (name, shape))).unwrap();
            assert_eq!(types.is_empty(), shape.is_empty(), "{shape:?}");
        }
    }
    assert_eq!(
        Preset::Q4KM.types(About::default(), [("w", &[256, 256][..])].into_iter()),
        Err(Unknown::Names)
    );
    let known = [("output.weight", &[256, 256][..])];
    assert_eq!(Preset::Q4KM.types(about("GLM5-next"), known.into_iter()), Err(Unknown::Architecture));
}

#[test]
fn presets_are_read_as_people_write_them() {
    for &preset in Preset::ALL {
        assert_eq!(preset.name().parse(), Ok(preset));
        assert_eq!(preset.name().to_uppercase().parse(), Ok(preset));
        // The name of a dtype is not the name of a preset.
        assert!(preset.name().parse::<DType>().is_err());
    }
    assert_eq!("MOSTLY_Q4_K_M".parse(), Ok(Preset::Q4KM));
    assert!("q8_0".parse::<Preset>().is_err() && "q3_k_x".parse::<Preset>().is_err());
}
