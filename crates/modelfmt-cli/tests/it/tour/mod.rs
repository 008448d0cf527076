//! The terminal sessions in README.md, docs/TOUR.md, docs/TRUST.md, docs/COOKBOOK.md, docs/EDIT.md and docs/JSON.md are what the program really prints.
//!
//! A block marked `console` holds commands (`$ …`) and what they print. They run one after the other in a folder that
//! holds the files of testdata/reference. In the tour's sessions, `s3://models` is a bucket with the same files: nginx on
//! this machine. The README's folder also has a small model as the hub has it. `MODELFMT_UPDATE=1 cargo test -p modelfmt-cli
//! --test it tour` records the sessions again.

#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{command, program, testdata};
use testkit::servers::Nginx;

/// The files that the commands work on.
const FILES: [&str; 4] = ["trained.mag", "simple_model.oinf", "one-shard.aero", "many-shards.aero"];

fn copy_files(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for name in FILES {
        fs::copy(testdata("reference").join(name), folder.join(name)).unwrap();
    }
}

/// The folder in which the commands run.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_files(folder.path());
    folder
}

/// The folder of the hub that the README's sessions use.
const HUB: &str = "tiny-llama";

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

/// Writes a model as the hub has it, and beside it `tuned.safetensors`: the same with two tensors that are 1 % larger
/// and two NaN in a third.
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
    fs::write(folder.join("tuned.safetensors"), tuned).unwrap();
}

/// A safetensors file of [`TENSORS`] in bf16, with the same pseudorandom values in each run, which `change` may change.
fn weights(change: impl Fn(&str, u64, f32) -> f32) -> Vec<u8> {
    let (mut entries, mut values, mut state) = (Vec::new(), Vec::new(), 1_u32);
    for (name, shape) in TENSORS {
        let begin = values.len();
        for element in 0..shape.iter().product() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = change(name, element, (state >> 8) as f32 / 16_777_216.0 - 0.5);
            values.extend_from_slice(&value.to_le_bytes()[2..]);
        }
        let place = format!(r#""shape":{shape:?},"data_offsets":[{begin},{}]"#, values.len());
        entries.push(format!(r#""{name}.weight":{{"dtype":"BF16",{place}}}"#));
    }
    let header = format!("{{{}}}", entries.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &values].concat()
}

/// A checkpoint that PyTorch wrote, in the folder of the documents that use it.
const CHECKPOINT: [&str; 2] = ["pytorch/torch-1.13-protocol2.pt", "pytorch_model.bin"];

/// What a command prints, errors included, in the order of a terminal.
fn run(line: &str, folder: &Path, bucket: Option<&Nginx>) -> String {
    let programs = Path::new(program()).parent().unwrap().to_owned();
    let path = std::env::join_paths(
        std::iter::once(programs).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut shell = command("sh");
    shell.args(["-c", &format!("{{ {line}\n}} 2>&1")]).env("PATH", path.unwrap()).current_dir(folder);
    if let Some(bucket) = bucket {
        shell.env("AWS_ENDPOINT_URL", bucket.endpoint()).env("AWS_SKIP_SIGNATURE", "true");
        shell.env("XDG_CACHE_HOME", folder.join(".cache")); // not the cache of the user who runs the tests
    }
    let output = shell.output().unwrap();
    steady(&String::from_utf8(output.stdout).unwrap())
}

/// What lines begin with that end with a time.
const TIMED: [&str; 4] = ["wrote ", "edited ", "signed ", "rekeyed "];

/// The same with times that do not change from run to run.
fn steady(printed: &str) -> String {
    let line = |line: &str| match line.rsplit_once(" in ") {
        Some((written, _)) if TIMED.iter().any(|word| line.starts_with(word)) => {
            format!("{written} in 0.01 s\n")
        }
        _ => format!("{line}\n"),
    };
    printed.lines().map(line).collect()
}

/// The document with the output of every command as it is now.
fn recorded(document: &str, bucket: Option<&Nginx>) -> String {
    let folder = folder();
    let [reference, name] = CHECKPOINT;
    if document.contains(&format!("$ modelfmt convert {name}")) {
        fs::copy(testdata("reference").join(reference), folder.path().join(name)).unwrap();
    }
    if document.contains(&format!("$ modelfmt convert {HUB}")) {
        write_hub_model(folder.path());
    }
    let (mut text, mut in_session, mut skipping) = (String::new(), false, false);
    for line in document.lines() {
        if in_session && line == "```" {
            (in_session, skipping) = (false, false);
        }
        if let Some(command) = line.strip_prefix("$ ").filter(|_| in_session) {
            text.push_str(&format!("{line}\n{}", run(command, folder.path(), bucket)));
            skipping = true;
        } else if !skipping {
            text.push_str(&format!("{line}\n"));
        }
        in_session |= line == "```console";
    }
    text
}

fn check(name: &str) {
    check_with(name, None);
}

fn check_with(name: &str, bucket: Option<&Nginx>) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let document = fs::read_to_string(&path).unwrap();
    let recorded = recorded(&document, bucket);
    if std::env::var_os("MODELFMT_UPDATE").is_some() {
        fs::write(&path, recorded).unwrap();
        return;
    }
    for (number, (was, is)) in document.lines().zip(recorded.lines()).enumerate() {
        assert_eq!(
            was,
            is,
            "{name}, line {}; see the head of this test for how to record it again",
            number + 1
        );
    }
    assert_eq!(document.lines().count(), recorded.lines().count(), "{name}");
}

#[test]
fn the_readme_is_true() {
    check("README.md");
}

#[cfg(feature = "remote")]
#[test]
fn the_tour_is_true() {
    let (served, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    copy_files(&served.path().join("models"));
    check_with("docs/TOUR.md", Some(&Nginx::start(served.path(), work.path())));
}

#[test]
fn the_page_about_edits_is_true() {
    check("docs/EDIT.md");
}

#[test]
fn the_page_about_trust_is_true() {
    check("docs/TRUST.md");
}

#[test]
fn the_page_about_json_is_true() {
    check("docs/JSON.md");
}

#[test]
fn the_cookbook_is_true() {
    check("docs/COOKBOOK.md");
}
