//! Hub folders: what they are, what a map would make of them, and what a conversion would do to their
//! tensors.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;

use modelfmt::{Object, View, bf16};
use serde_json::json;

use crate::common::modelfmt_in;

pub(crate) const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "num_attention_heads": 2,
    "num_key_value_heads": 1, "num_hidden_layers": 1, "intermediate_size": 32, "vocab_size": 24, "tie_word_embeddings": true}"#;

/// Makes a folder with a model of the family llama, with one layer.
pub(crate) fn folder(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config).unwrap();
    let layer = |name: &str, shape: &[u64]| (format!("model.layers.0.{name}.weight"), shape.to_vec());
    let tensors = [
        ("model.embed_tokens.weight".to_owned(), vec![24, 16]),
        ("model.norm.weight".to_owned(), vec![16]),
        ("model.layers.0.self_attn.rotary_emb.inv_freq".to_owned(), vec![4]),
        layer("input_layernorm", &[16]),
        layer("self_attn.q_proj", &[16, 16]),
        layer("self_attn.k_proj", &[8, 16]),
        layer("self_attn.v_proj", &[8, 16]),
        layer("self_attn.o_proj", &[16, 16]),
        layer("post_attention_layernorm", &[16]),
        layer("mlp.gate_proj", &[32, 16]),
        layer("mlp.up_proj", &[32, 16]),
        layer("mlp.down_proj", &[16, 32]),
    ];
    let numbers: Vec<bf16> = (0..512_u16).map(|n| bf16::from_f32(f32::from(n) / 64.0)).collect();
    let views = tensors.iter().map(|(name, shape)| {
        let count = usize::try_from(shape.iter().product::<u64>()).unwrap();
        (name.as_str(), View::new(&numbers[..count], shape.clone()).unwrap())
    });
    modelfmt::save(folder.path().join("model.safetensors"), views, &Object::new()).unwrap();
    folder
}

#[test]
fn inspect_says_what_a_model_is() {
    let folder = folder(CONFIG);
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let text = run("inspect model.safetensors --summary").ok();
    let line = "Llama · 2,740 parameters · bf16 · 1 layer · tied embeddings · vocabulary of 24";
    assert_eq!(text.lines().nth(1), Some(line), "{text}");
    fs::write(folder.path().join("vocab.txt"), "a\n").unwrap();
    let with = run("inspect model.safetensors --summary").ok();
    assert!(with.contains("tied embeddings · tokenizer of 24"), "{with}");
    fs::remove_file(folder.path().join("vocab.txt")).unwrap();
    let found = run("inspect model.safetensors --json").json();
    let expected = json!({"family": "llama", "parameters": 2740, "layers": 1, "hidden": 16, "vocabulary": 24, "tied": true, "kind": "model"});
    assert_eq!(found["model"], expected);
    // A GGUF has this information itself.
    fs::create_dir(folder.path().join("out")).unwrap();
    assert_eq!(run("convert model.safetensors out/m.gguf --quiet").status, 0);
    assert_eq!(run("inspect out/m.gguf --json").json()["model"]["layers"], 1);
    assert_eq!(run("inspect out/m.gguf --json").json()["model"]["tied"], true);
    // A config that the pin does not cover is ignored.
    let hash = run("outboard model.safetensors --quiet").ok();
    let pinned = run(&format!("inspect model.safetensors --json --pin b3:{}", hash.trim())).json();
    let unknown = json!({"family": null, "parameters": 2740, "layers": null, "hidden": null, "vocabulary": null, "tied": null, "kind": "other"});
    assert_eq!(pinned["model"], unknown);
}

#[test]
fn adapters_and_models_of_vectors_are_told_apart() {
    let kind = |config: &str| {
        let folder = folder(config);
        let found = modelfmt_in(folder.path(), "inspect model.safetensors --json").json();
        found["model"]["kind"].as_str().unwrap().to_owned()
    };
    assert_eq!(kind(r#"{"model_type": "bert"}"#), "embedding");
    assert_eq!(kind("{}"), "other");
    assert_eq!(kind("not JSON"), "other");
    let folder = folder("{}");
    let adapter = r#"{"peft_type": "LORA", "r": 16, "base_model_name_or_path": "org/base"}"#;
    fs::write(folder.path().join("adapter_config.json"), adapter).unwrap();
    let text = modelfmt_in(folder.path(), "inspect model.safetensors --summary").ok();
    assert_eq!(text.lines().nth(1), Some("LoRA r=16 for org/base · 2,740 parameters · bf16"), "{text}");
    // Text of strangers is printed without characters that a terminal would obey.
    fs::write(folder.path().join("adapter_config.json"), r#"{"base_model_name_or_path": "a\u001b[2Jb"}"#)
        .unwrap();
    let text = modelfmt_in(folder.path(), "inspect model.safetensors --summary").ok();
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn inspect_shows_what_a_map_would_make() {
    let folder = folder(CONFIG);
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let found = run("inspect model.safetensors --map llama --json").json();
    assert_eq!(found["format"], "gguf");
    assert_eq!(found["metadata"]["general.architecture"], "llama");
    let names: Vec<&str> =
        found["tensors"].as_array().unwrap().iter().map(|tensor| tensor["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"blk.0.attn_q.weight") && !names.contains(&"model.norm.weight"), "{names:?}");
    let error = run("inspect model.safetensors --map nothing");
    assert_eq!(error.status, 2, "{}", error.stderr);
    assert!(error.stderr.contains("neither a file nor a family with a map"), "{}", error.stderr);
    let maps = run("help maps").ok();
    assert!(maps.contains("\n  llama             llama, mistral\n"), "{maps}");
}

#[test]
fn a_dry_run_lists_programs_and_what_is_left_out() {
    let folder = folder(CONFIG);
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let found = run("convert model.safetensors out.gguf --cast f16 --dry-run --json").json();
    let programs = found["programs"].as_array().unwrap();
    let of = |name: &str| programs.iter().find(|one| one["tensor"] == name).unwrap();
    let expected = json!({
        "tensor": "blk.0.attn_q.weight", "dtype": "f16", "shape": [16, 16],
        "from": ["model.layers.0.self_attn.q_proj.weight"],
        "steps": ["reshape [2, 2, 4, 16]", "permute 0 2 1 3", "reshape [16, 16]", "cast f16"],
    });
    assert_eq!(*of("blk.0.attn_q.weight"), expected);
    assert_eq!(of("output_norm.weight")["steps"], json!(["cast f32"]));
    assert_eq!(found["left_out"], json!(["model.layers.0.self_attn.rotary_emb.inv_freq"]));
    // Every tensor is used, or left out.
    let used: usize = programs.iter().map(|one| one["from"].as_array().unwrap().len()).sum();
    assert_eq!(used + 1, 12);
    let text = run("convert model.safetensors out.gguf --dry-run").ok();
    assert!(text.contains("from model.norm.weight: cast f32\n"), "{text}");
    assert!(text.ends_with("\nleft out: model.layers.0.self_attn.rotary_emb.inv_freq\n"), "{text}");
}

/// Returns the bytes of a safetensors file with these names, dtypes, shapes and lengths. All bytes of the
/// values are the same.
fn safetensors(tensors: &[(&str, &str, &[u64], usize)], byte: u8) -> Vec<u8> {
    let (mut header, mut at) = (serde_json::Map::new(), 0);
    for (name, dtype, shape, nbytes) in tensors {
        let value = json!({"dtype": dtype, "shape": shape, "data_offsets": [at, at + nbytes]});
        header.insert((*name).to_owned(), value);
        at += nbytes;
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header);
    out.extend(std::iter::repeat_n(byte, at));
    out
}

#[test]
fn weights_in_several_tensors_are_shown_and_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let quantization = json!({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false});
    let config = json!({"model_type": "llama", "num_hidden_layers": 1, "quantization_config": quantization});
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let q = |end: &str| format!("model.layers.0.mlp.up_proj.{end}");
    let names = [q("qweight"), q("qzeros"), q("scales")];
    let tensors = [
        (&*names[0], "I32", &[8, 32][..], 1024),
        (&*names[1], "I32", &[2, 4], 32),
        (&*names[2], "F16", &[2, 32], 128),
        ("model.norm.weight", "F32", &[16], 64),
    ];
    fs::write(folder.path().join("model.safetensors"), safetensors(&tensors, 0x31)).unwrap();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let text = run("inspect model.safetensors").ok();
    assert!(text.contains("Llama · 2,064 parameters · gptq (u4 in groups of 32) · 1 layer"), "{text}");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let name = q("weight");
    let row = ["gptq", "(u4", "in", "groups", "of", "32)", "[32,", "64]", "3", "tensors"];
    assert!(rows.iter().any(|found| found.first() == Some(&&*name) && found[1..] == row), "{text}");
    let found = run("inspect model.safetensors --json").json();
    let expected = json!([{"name": name, "shape": [32, 64], "scheme": "gptq", "numbers": "u4", "group": 32,
        "tensors": names, "problem": null}]);
    assert_eq!(found["weights"], expected);
    assert_eq!(found["model"]["scheme"], "gptq (u4 in groups of 32)");
    // Without the option, a folder with such weights does not become a GGUF.
    let refused = run("convert model.safetensors m.gguf");
    let why = "1 weight is stored as gptq (u4 in groups of 32); --dequantize f16 decodes them";
    assert!(refused.status == 1 && refused.stderr.contains(why), "{}", refused.stderr);
    let done = run("convert model.safetensors out.safetensors --dequantize f16");
    assert!(
        done.status == 0 && done.stderr.contains("1 weight is decoded, of the scheme gptq"),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains("f16"), "{}", done.stderr);
    // Each number is 1 or 3, and each zero point is one more than stored.
    let shown = run("show out.safetensors model.layers.0.mlp.up_proj.weight --json").json();
    assert_eq!(shown["tensors"][0]["dtype"], "f16", "{shown}");
    // Other commands know the weight under its own name, too.
    let shown = run(&format!("show model.safetensors {name} --json")).json();
    assert_eq!(
        (&shown["tensors"][0]["dtype"], &shown["tensors"][0]["shape"]),
        (&json!("f32"), &json!([32, 64]))
    );
    let text = run("diff out.safetensors model.safetensors --ignore-metadata");
    let line = format!("\n~ {name}  f16 is now gptq (u4 in groups of 32), values  1.2");
    assert!(text.status == 1 && text.stdout.contains(&line), "{}", text.stdout);
    assert!(text.stdout.ends_with("\n1 of 2 tensors differs\n"), "{}", text.stdout);
    let one = run(&format!("extract model.safetensors {name} -o w.bin --dequantize f16"));
    assert_eq!(one.status, 0, "{}", one.stderr);
    let out = run(&format!("extract out.safetensors {name} -o same.bin"));
    assert_eq!(out.status, 0, "{}", out.stderr);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert!(read("w.bin") == read("same.bin") && read("w.bin").len() == 32 * 64 * 2);
}
