//! Hub folders as GGUF: small random models, run in llama.cpp, and folders that cannot be converted.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::common::{modelfmt, program};

/// Every family of every map, in both generations of configs: llama.cpp computes from the GGUF the same as
/// the formulas of the models from the hub's weights.
#[test]
fn llama_cpp_computes_what_the_models_do() {
    let work = tempfile::tempdir().unwrap();
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/hub");
    let arguments = [oracle.to_str().unwrap(), program(), work.path().to_str().unwrap(), ""];
    let Some(printed) = testkit::llama_cpp(include_str!("../oracle/hub/compare.py"), &arguments) else {
        return;
    };
    assert!(printed.lines().count() >= 80, "{printed}");
}

/// Adapters, merged and separate from their bases: llama.cpp computes what the formulas give for the sums.
#[test]
fn llama_cpp_computes_with_adapters() {
    let work = tempfile::tempdir().unwrap();
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/hub");
    let arguments = [oracle.to_str().unwrap(), program(), work.path().to_str().unwrap()];
    let Some(printed) = testkit::llama_cpp(include_str!("../oracle/hub/adapters.py"), &arguments) else {
        return;
    };
    assert_eq!(printed.lines().count(), 7, "{printed}");
}

/// Presets, with and without an importance matrix: whole files equal those of llama.cpp.
#[test]
fn llama_cpp_quantizes_to_the_same_bytes() {
    let work = tempfile::tempdir().unwrap();
    let arguments = [program(), work.path().to_str().unwrap()];
    let Some(printed) = testkit::llama_cpp(include_str!("../oracle/hub/quantize.py"), &arguments) else {
        return;
    };
    assert_eq!(printed.lines().count(), 140, "{printed}");
}

/// A folder with a small model.
struct Folder {
    dir: tempfile::TempDir,
    config: Value,
    /// Names and shapes.
    tensors: Vec<(String, Vec<u64>)>,
}

impl Folder {
    /// A Llama with two layers.
    fn llama() -> Self {
        let config = json!({
            "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
            "intermediate_size": 12, "vocab_size": 5, "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "hidden_act": "silu", "torch_dtype": "bfloat16", "tie_word_embeddings": false
        });
        let mut folder = Self { dir: tempfile::tempdir().unwrap(), config, tensors: Vec::new() };
        folder.add("model.embed_tokens.weight", &[5, 8]);
        folder.add("model.norm.weight", &[8]);
        folder.add("lm_head.weight", &[5, 8]);
        for layer in 0..2 {
            let mut add =
                |name: &str, shape: &[u64]| folder.add(&format!("model.layers.{layer}.{name}.weight"), shape);
            add("input_layernorm", &[8]);
            add("post_attention_layernorm", &[8]);
            add("self_attn.q_proj", &[8, 8]);
            add("self_attn.k_proj", &[4, 8]);
            add("self_attn.v_proj", &[4, 8]);
            add("self_attn.o_proj", &[8, 8]);
            add("mlp.gate_proj", &[12, 8]);
            add("mlp.up_proj", &[12, 8]);
            add("mlp.down_proj", &[8, 12]);
        }
        folder
    }

    /// A Mixtral with two layers and two experts.
    fn mixtral() -> Self {
        let mut folder = Self::llama();
        folder.set("model_type", json!("mixtral"));
        folder.set("num_local_experts", json!(2));
        folder.tensors.retain(|(name, _)| !name.contains("mlp"));
        for layer in 0..2 {
            let at = format!("model.layers.{layer}.block_sparse_moe");
            folder.add(&format!("{at}.gate.weight"), &[2, 8]);
            for expert in 0..2 {
                for (name, shape) in [("w1", [12, 8]), ("w2", [8, 12]), ("w3", [12, 8])] {
                    folder.add(&format!("{at}.experts.{expert}.{name}.weight"), &shape);
                }
            }
        }
        folder
    }

    fn add(&mut self, name: &str, shape: &[u64]) {
        self.tensors.push((name.to_owned(), shape.to_vec()));
    }

    fn remove(&mut self, name: &str) {
        self.tensors.retain(|(own, _)| own != name);
    }

    fn set(&mut self, key: &str, value: Value) {
        self.config[key] = value;
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("model").join(name)
    }

    /// Writes the model.
    fn write(&self) {
        fs::create_dir_all(self.path("")).unwrap();
        fs::write(self.path("config.json"), self.config.to_string()).unwrap();
        fs::write(self.path("model.safetensors"), safetensors(&self.tensors)).unwrap();
    }

    /// Converts the folder with more arguments, and returns the line of the error.
    #[track_caller]
    fn refused(&self, more: &[&str]) -> String {
        let output = self.dir.path().join("out.gguf");
        let folder = self.path("");
        let arguments = ["convert".as_ref(), folder.as_os_str(), output.as_os_str()];
        let run = modelfmt(arguments.into_iter().chain(more.iter().map(AsRef::as_ref)));
        assert!(!output.exists(), "{}", run.stderr);
        assert!(matches!(run.status, 1 | 2), "{}", run.stderr);
        run.stderr
    }
}

/// Returns a file of zeros.
fn safetensors(tensors: &[(String, Vec<u64>)]) -> Vec<u8> {
    let (mut header, mut at) = (Map::new(), 0);
    for (name, shape) in tensors {
        let len = 2 * shape.iter().product::<u64>();
        header.insert(name.clone(), json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len]}));
        at += len;
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.into_bytes());
    file.resize(file.len() + usize::try_from(at).unwrap(), 0);
    file
}

#[test]
fn a_good_folder_is_converted() {
    for folder in [Folder::llama(), Folder::mixtral()] {
        folder.write();
        let output = folder.dir.path().join("out.gguf");
        modelfmt([Path::new("convert"), &folder.path(""), &output]).ok();
        let shown = modelfmt([Path::new("inspect"), Path::new("--json"), &output]).json();
        assert_eq!(shown["metadata"]["general.architecture"], "llama", "{shown}");
    }
}

/// An error names what is wrong with a folder, and the option that helps, if there is one.
#[test]
fn broken_folders_are_refused_by_name() {
    type Change = fn(&mut Folder);
    let cases: &[(Change, &[&str])] = &[
        (|folder| folder.set("model_type", json!("nobody")), &["\"nobody\"", "--map none"]),
        (
            |folder| folder.remove("model.layers.1.mlp.up_proj.weight"),
            &["\"model.layers.1.mlp.up_proj.weight\" is not there", "\"blk.1.ffn_up.weight\""],
        ),
        (
            |folder| folder.tensors.retain(|(name, _)| !name.contains("layers.1.")),
            &["model.layers.1.", "is not there"],
        ),
        (|folder| folder.remove("lm_head.weight"), &["\"lm_head.weight\" is not there"]),
        (
            |folder| folder.add("model.layers.0.mlp.extra.weight", &[2]),
            &["\"model.layers.0.mlp.extra.weight\": the map llama does not know it"],
        ),
        (
            |folder| folder.add("model.layers.2.input_layernorm.weight", &[8]),
            &["\"model.layers.2.input_layernorm.weight\"", "`num_hidden_layers` is 2"],
        ),
        (
            |folder| {
                folder.remove("model.layers.0.mlp.down_proj.weight");
                folder.add("model.layers.0.mlp.down_proj.weight", &[12, 8]);
            },
            &[
                "\"model.layers.0.mlp.down_proj.weight\" has the shape [12, 8]",
                "by config.json it is [8, 12]",
            ],
        ),
        (|folder| folder.set("vocab_size", json!(6)), &["has the shape [5, 8]; by config.json it is [6, 8]"]),
        (|folder| folder.set("vocab_size", json!("x")), &["`vocab_size` is a string, not a count"]),
        (|folder| folder.set("num_hidden_layers", json!(null)), &["config.json has no `num_hidden_layers`"]),
        (|folder| folder.set("num_hidden_layers", json!(u64::MAX)), &["`num_hidden_layers`"]),
        (|folder| folder.set("num_attention_heads", json!(0)), &["config.json"]),
        (|folder| folder.set("hidden_act", json!("relu")), &["`hidden_act` is \"relu\"", "\"silu\" only"]),
        (
            |folder| folder.set("rope_scaling", json!({"type": "dynamic", "factor": 2.0})),
            &["`rope_scaling.type` is \"dynamic\"", "the map llama"],
        ),
        (
            |folder| folder.set("rope_parameters", json!({"rope_type": "longrope", "rope_theta": 10000.0})),
            &["`rope_scaling.rope_type` is \"longrope\""],
        ),
        (
            |folder| folder.set("rope_scaling", json!({"rope_type": "yarn", "factor": 2.0, "beta_fast": 16})),
            &["`rope_scaling.beta_fast` is 16", "32 only"],
        ),
        (|folder| folder.set("attention_bias", json!(true)), &["q_proj.bias\" is not there"]),
    ];
    for (change, expected) in cases {
        let mut folder = Folder::llama();
        change(&mut folder);
        folder.write();
        let error = folder.refused(&[]);
        assert!(expected.iter().all(|part| error.contains(part)), "{expected:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn experts_that_are_missing_are_named() {
    let mut folder = Folder::mixtral();
    folder.remove("model.layers.1.block_sparse_moe.experts.1.w2.weight");
    folder.write();
    let error = folder.refused(&[]);
    assert!(
        error.contains("\"model.layers.1.block_sparse_moe.experts.1.w2.weight\" is not there"),
        "{error}"
    );
    let mut folder = Folder::mixtral();
    folder.add("model.layers.1.block_sparse_moe.experts.2.w2.weight", &[8, 12]);
    folder.write();
    let error = folder.refused(&[]);
    assert!(
        error.contains("experts.2.w2.weight\": config.json says that `num_local_experts` is 2"),
        "{error}"
    );
}

/// Faults in the files of a folder.
#[test]
fn files_that_are_missing_or_broken_are_named() {
    let folder = Folder::llama();
    folder.write();
    fs::write(folder.path("config.json"), "{").unwrap();
    assert!(folder.refused(&[]).contains("config.json: it is not good JSON"));
    fs::write(folder.path("config.json"), "[]").unwrap();
    assert!(folder.refused(&[]).contains("config.json: it is an array, not an object"));
    let deep = "[".repeat(100_000);
    fs::write(folder.path("config.json"), format!("{{\"a\": {deep}")).unwrap();
    assert!(folder.refused(&[]).contains("config.json"));

    fs::remove_file(folder.path("config.json")).unwrap();
    let output = folder.dir.path().join("none.gguf");
    let run = modelfmt([Path::new("convert"), &folder.path(""), &output]);
    assert!(run.stderr.contains("warning: llama.cpp will not load this GGUF file"), "{}", run.stderr);
    assert_eq!(run.status, 0);
    let error = folder.refused(&["--map", "llama"]);
    assert!(error.contains("--map") && error.contains("no config.json"), "{error}");

    folder.write();
    fs::copy(folder.path("model.safetensors"), folder.path("other.safetensors")).unwrap();
    let error = folder.refused(&[]);
    assert!(error.contains("model.safetensors") && error.contains("other.safetensors"), "{error}");
}

/// A map that someone else wrote is used, or refused with its name.
#[test]
fn maps_are_read_from_files() {
    let mut folder = Folder::llama();
    folder.set("model_type", json!("nobody"));
    folder.write();
    let own = folder.dir.path().join("mine.toml");
    let llama = Path::new(env!("CARGO_MANIFEST_DIR")).join("../modelfmt-hub/maps/llama.toml");
    fs::write(&own, fs::read_to_string(llama).unwrap().replace("\"mistral\"", "\"nobody\"")).unwrap();
    let output = folder.dir.path().join("out.gguf");
    let convert =
        |map: &Path| modelfmt([Path::new("convert"), &folder.path(""), &output, Path::new("--map"), map]);
    convert(&own).ok();
    fs::remove_file(&output).unwrap();
    convert(Path::new("llama")).ok();
    fs::remove_file(&output).unwrap();

    fs::write(&own, "architecture = 5").unwrap();
    let error = convert(&own).stderr;
    assert!(
        error.contains("mine.toml") && error.contains("`architecture` is an integer, not text"),
        "{error}"
    );
    let error = folder.refused(&["--map", "nowhere.toml"]);
    assert!(error.contains("nowhere.toml"), "{error}");
    let error = folder.refused(&["--map", "nobody"]);
    assert!(error.contains("\"nobody\"") && error.contains("llama, "), "{error}");
}

/// A separate file says how the embeddings of tokens are pooled to that of a text.
#[test]
fn pooling_of_embeddings_is_read() {
    let config = json!({
        "model_type": "bert", "hidden_size": 4, "num_hidden_layers": 0, "num_attention_heads": 2, "intermediate_size": 4,
        "vocab_size": 3, "max_position_embeddings": 8
    });
    let mut folder = Folder { dir: tempfile::tempdir().unwrap(), config, tensors: Vec::new() };
    for (name, rows) in [
        ("word_embeddings.weight", 3),
        ("position_embeddings.weight", 8),
        ("token_type_embeddings.weight", 2),
    ] {
        folder.add(&format!("embeddings.{name}"), &[rows, 4]);
    }
    folder.add("embeddings.LayerNorm.weight", &[4]);
    folder.add("embeddings.LayerNorm.bias", &[4]);
    folder.write();
    let output = folder.dir.path().join("out.gguf");
    let pooling = || {
        modelfmt([Path::new("convert"), &folder.path(""), &output, Path::new("--force")]).ok();
        modelfmt([Path::new("inspect"), Path::new("--json"), &output]).json()["metadata"]["bert.pooling_type"]
            .clone()
    };
    assert_eq!(pooling(), Value::Null);
    fs::create_dir(folder.path("1_Pooling")).unwrap();
    let say = |text: &str| fs::write(folder.path("1_Pooling/config.json"), text).unwrap();
    say(r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#);
    assert_eq!(pooling(), json!(2));
    say(r#"{"pooling_mode_max_tokens": true}"#);
    assert_eq!(pooling(), Value::Null);
    fs::remove_file(&output).unwrap();
    say("{");
    assert!(folder.refused(&[]).contains("1_Pooling/config.json"));
}

/// Models that also generate texts are pooled if llama.cpp's own conversion states it for them; others get a
/// note.
#[test]
fn pooling_of_models_that_generate_is_read_or_noted() {
    for (family, architecture, is_read) in [("qwen3", "qwen3", true), ("llama", "llama", false)] {
        let mut folder = Folder::llama();
        folder.set("model_type", json!(family));
        if is_read {
            folder.set("head_dim", json!(4));
            for (layer, name) in [(0, "q_norm"), (0, "k_norm"), (1, "q_norm"), (1, "k_norm")] {
                folder.add(&format!("model.layers.{layer}.self_attn.{name}.weight"), &[4]);
            }
        }
        folder.write();
        fs::create_dir(folder.path("1_Pooling")).unwrap();
        fs::write(folder.path("1_Pooling/config.json"), r#"{"pooling_mode_lasttoken": true}"#).unwrap();
        let output = folder.dir.path().join("out.gguf");
        let run = modelfmt([Path::new("convert"), &folder.path(""), &output]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let is_noted = run.stderr.contains("1_Pooling/config.json is left out");
        let found = modelfmt([Path::new("inspect"), Path::new("--json"), &output]).json()["metadata"]
            [format!("{architecture}.pooling_type")]
        .clone();
        assert_eq!((found, is_noted), (if is_read { json!(3) } else { Value::Null }, !is_read), "{family}");
    }
}

/// If llama.cpp computes differently only for long texts, there is a note.
#[test]
fn windows_that_llama_cpp_ignores_are_noted() {
    let mut folder = Folder::llama();
    folder.set("sliding_window", json!(8));
    folder.write();
    let output = folder.dir.path().join("out.gguf");
    let run = modelfmt([Path::new("convert"), &folder.path(""), &output]);
    assert!(run.stderr.contains("window of 8 tokens"), "{}", run.stderr);
    assert_eq!(run.status, 0);
}

/// Makes an adapter of rank 16, in 16-bit floats, for one projection of each layer.
fn adapter(folder: &Folder) -> PathBuf {
    let adapter = folder.dir.path().join("adapter");
    let mut tensors = Vec::new();
    for layer in 0..2 {
        let module = format!("base_model.model.model.layers.{layer}.self_attn.q_proj");
        tensors.push((format!("{module}.lora_A.weight"), vec![16, 8]));
        tensors.push((format!("{module}.lora_B.weight"), vec![8, 16]));
    }
    let mut file = safetensors(&tensors);
    let header = usize::try_from(u64::from_le_bytes(file[..8].try_into().unwrap())).unwrap();
    let halves = file[8 + header..].as_chunks_mut::<2>().0;
    (0_u8..=250).cycle().zip(halves).for_each(|(number, half)| *half = [number, 0x3f]);
    let config =
        json!({"peft_type": "LORA", "r": 16, "lora_alpha": 32, "base_model_name_or_path": "org/base"});
    fs::create_dir(&adapter).unwrap();
    fs::write(adapter.join("adapter_config.json"), config.to_string()).unwrap();
    fs::write(adapter.join("adapter_model.safetensors"), file).unwrap();
    adapter
}

/// How adapters are reported: the steps of a dry run, before and after the map; the result of a merge; a
/// written adapter.
#[test]
fn adapters_are_seen() {
    let mut folder = Folder::llama();
    folder.write();
    let (base, adapter) = (folder.path(""), adapter(&folder));
    let work = folder.dir.path().to_owned();
    let at = |name: &str| work.join(name);
    let lora = Path::new("--lora");
    let dry = modelfmt([
        Path::new("convert"),
        &base,
        &at("x.gguf"),
        lora,
        &adapter,
        Path::new("--dry-run"),
        Path::new("--json"),
    ]);
    let dry: Value = serde_json::from_str(&dry.stdout).unwrap();
    let q = dry["programs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|own| own["tensor"] == "blk.1.attn_q.weight")
        .unwrap();
    let steps = q["steps"].to_string();
    // The map moves the rows of B before the product is computed.
    assert!(
        steps.contains("lora_B.weight, cast f32, reshape [2, 2, 2, 16]") && steps.contains("× 2)"),
        "{steps}"
    );
    assert_eq!(q["from"].as_array().unwrap().len(), 3, "{q}");
    assert!(dry["left_out"].as_array().unwrap().is_empty());

    let merged = at("merged.safetensors");
    let run = modelfmt([Path::new("convert"), &base, &merged, lora, &adapter]);
    assert!(run.status == 0 && run.stderr.contains("merges"), "{}", run.stderr);
    let diff = modelfmt([Path::new("diff"), &base, &merged, Path::new("--norms"), Path::new("--json")]);
    let diff: Value = serde_json::from_str(&diff.stdout).unwrap();
    let names: Vec<&str> =
        diff["changed"].as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(names, [0, 1].map(|layer| format!("model.layers.{layer}.self_attn.q_proj.weight")), "{diff}");

    let inspected = modelfmt([Path::new("inspect"), &adapter]);
    assert!(inspected.stdout.contains("LoRA r=16 for org/base"), "{}", inspected.stdout);
    let written = at("adapter.gguf");
    let run = modelfmt([Path::new("convert"), &adapter, &written]);
    assert!(run.status == 1 && run.stderr.contains("--base FOLDER"), "{}", run.stderr);
    let run = modelfmt([Path::new("convert"), &adapter, &written, Path::new("--base"), &base]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    // Mapped back, it gives the folder the same weights.
    let again = at("again.safetensors");
    let run = modelfmt([Path::new("convert"), &base, &again, lora, &written]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(fs::read(&again).unwrap() == fs::read(&merged).unwrap());
    // Another family has the same names and shapes, but another order of rows.
    folder.set("model_type", json!("qwen3"));
    folder.set("head_dim", json!(4));
    for layer in 0..2 {
        folder.add(&format!("model.layers.{layer}.self_attn.q_norm.weight"), &[4]);
        folder.add(&format!("model.layers.{layer}.self_attn.k_norm.weight"), &[4]);
    }
    folder.write();
    let run = modelfmt([Path::new("convert"), &base, &at("y.safetensors"), lora, &written]);
    assert!(
        run.status != 0 && run.stderr.contains("for the architecture \"llama\", and the base is \"qwen3\""),
        "{}",
        run.stderr
    );
}
