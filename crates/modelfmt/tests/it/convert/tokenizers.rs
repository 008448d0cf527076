//! The tokenizer of a hub folder in the GGUF that is made from it.

use modelfmt::convert::ConvertOptions;
use modelfmt::{DType, Format, Model, Value};

use super::common::{T, floats, json_of, notes, options, safetensors, tensor, try_convert};

const CONFIG: &str = r#"{"model_type": "gemma", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 0,
    "intermediate_size": 16, "max_position_embeddings": 32, "vocab_size": ROWS}"#;
const TOKENIZER: &str = r#"{"added_tokens": [{"id": 3, "content": "<|end|>", "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}}"#;

/// Returns a folder with a model of this many tokens and these files.
fn folder(rows: u64, files: &[(&str, &str)]) -> (tempfile::TempDir, Model) {
    let tensors: [T; 2] = [
        tensor("model.embed_tokens.weight", DType::F32, &[rows, 8]),
        tensor("model.norm.weight", DType::F32, &[8]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let source = safetensors(&tensors, "{}");
    modelfmt::Conversion::new(&source, &path)
        .to(Format::Safetensors)
        .options(&options(|_| {}))
        .write()
        .unwrap();
    let config = CONFIG.replace("ROWS", &rows.to_string());
    for (name, content) in [("config.json", &*config)].iter().chain(files) {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let model = Model::open(&path).unwrap();
    (folder, model)
}

fn converted(model: &Model, options: &ConvertOptions) -> (modelfmt::Object, Vec<String>) {
    let (made, done) = try_convert(model, Format::Gguf, options).unwrap();
    (json_of(&made), notes(&done))
}

#[test]
fn a_gguf_gets_the_tokenizer_beside_the_model() {
    let files = [
        ("tokenizer.json", TOKENIZER),
        ("tokenizer_config.json", r#"{"eos_token": "<|end|>", "chat_template": "{{ x }}"}"#),
    ];
    let (_folder, model) = folder(6, &files);
    let (keys, notes) = converted(&model, &options(|_| {}));
    let text = |key: &str| keys.get(key).and_then(Value::as_str).unwrap();
    assert_eq!(text("tokenizer.ggml.model"), "gpt2");
    assert_eq!(text("tokenizer.ggml.pre"), "gpt-2");
    assert_eq!(text("tokenizer.chat_template"), "{{ x }}");
    assert_eq!(keys.get("tokenizer.ggml.eos_token_id").and_then(Value::as_u64), Some(3));
    let texts = |key: &str| keys.get(key).and_then(Value::as_array).and_then(|list| list.texts()).unwrap();
    // There are as many tokens as the embedding has rows.
    assert_eq!(texts("tokenizer.ggml.tokens"), ["a", "b", "ab", "<|end|>", "[PAD4]", "[PAD5]"]);
    assert_eq!(texts("tokenizer.ggml.merges"), ["a b"]);
    let kinds: Vec<_> =
        keys.get("tokenizer.ggml.token_type").and_then(Value::as_array).unwrap().iter().collect();
    assert_eq!(kinds, [1, 1, 1, 3, 5, 5].map(Value::from));
    assert!(!notes.iter().any(|note| note.contains("tokenizer")), "{notes:?}");
}

#[test]
fn a_folder_without_a_tokenizer_gets_a_warning() {
    let (_folder, model) = folder(4, &[]);
    let (made, done) = try_convert(&model, Format::Gguf, &options(|_| {})).unwrap();
    assert!(json_of(&made).get("tokenizer.ggml.model").is_none());
    let warnings: Vec<String> = done.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["llama.cpp will not load this GGUF file: there is no tokenizer beside the model"]);
}

#[test]
fn a_pre_tokenizer_without_a_name_is_an_error_until_it_is_stated() {
    let other = TOKENIZER.replace(r#""use_regex": true"#, r#""use_regex": false"#);
    let (_folder, model) = folder(4, &[("tokenizer.json", &other)]);
    let error = try_convert(&model, Format::Gguf, &options(|_| {})).unwrap_err();
    assert_eq!(error.code(), "unmapped");
    let error = error.to_string();
    let why =
        "the pre-tokenizer (ByteLevel) has no name in llama.cpp that is known here; state one with pre NAME";
    assert!(error.ends_with(why), "{error}");
    let unknown = options(|options| options.metadata.pre = Some("nobody".to_owned()));
    let error = try_convert(&model, Format::Gguf, &unknown).unwrap_err();
    assert_eq!(error.code(), "usage");
    assert!(
        error.to_string().starts_with("pre: llama.cpp has no pre-tokenizer \"nobody\"; it has a.x-4.0, "),
        "{error}"
    );
    let stated = options(|options| options.metadata.pre = Some("qwen2".to_owned()));
    let (keys, _) = converted(&model, &stated);
    assert_eq!(keys.get("tokenizer.ggml.pre"), Some(&"qwen2".into()));
}

#[test]
fn a_tokenizer_that_does_not_fit_is_an_error() {
    let (_folder, model) = folder(2, &[("tokenizer.json", TOKENIZER)]);
    let error = try_convert(&model, Format::Gguf, &options(|_| {})).unwrap_err().to_string();
    assert!(
        error.contains("tokenizer.json: it has 4 tokens, \"ab\" among them, and the model has 2 only"),
        "{error}"
    );
    let (_folder, model) = folder(4, &[("tokenizer.json", "{")]);
    let error = try_convert(&model, Format::Gguf, &options(|_| {})).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json: it is not good JSON"), "{error}");
    // If the folder is written without a map, the tokenizer is not read.
    let none = options(|options| options.tensors.map = Some("none".to_owned()));
    assert!(try_convert(&model, Format::Gguf, &none).is_ok());
}

#[test]
fn an_apr_gets_the_vocabulary_beside_the_model_and_the_way_back_leaves_it() {
    let (_folder, model) = folder(4, &[("tokenizer.json", TOKENIZER)]);
    let (made, _) = try_convert(&model, Format::Apr, &options(|_| {})).unwrap();
    let keys = json_of(&made);
    let texts = |key: &str| keys.get(key).and_then(Value::as_array).and_then(|list| list.texts()).unwrap();
    assert_eq!(texts("tokenizer.vocabulary"), ["a", "b", "ab", "<|end|>"]);
    assert_eq!(texts("tokenizer.merges"), ["a b"]);
    assert_eq!(keys.get("tokenizer.vocab_size"), Some(&4.into()));
    assert_eq!(keys.get("tokenizer.model_type"), Some(&"BPE".into()));
    let flags = made.details().unwrap().get("flags").and_then(Value::as_array).unwrap().clone();
    assert!(flags.iter().any(|flag| flag.as_str() == Some("HAS_VOCAB")), "{flags:?}");
    let (back, _) = try_convert(&made, Format::Safetensors, &options(|_| {})).unwrap();
    assert!(json_of(&back).is_empty(), "{:?}", json_of(&back));
    // If the tokenizer cannot be read, the model is still converted.
    let (_folder, model) = folder(4, &[("tokenizer.json", "{")]);
    let (made, done) = try_convert(&model, Format::Apr, &options(|_| {})).unwrap();
    assert!(json_of(&made).get("tokenizer.vocabulary").is_none());
    let why = "the tokenizer beside the model is not written: tokenizer.json: it is not good JSON";
    assert!(notes(&done).iter().any(|note| note.starts_with(why)), "{:?}", notes(&done));
}

/// The whole way: llama.cpp loads the model with its own vocabulary, tokenizes texts and computes.
#[test]
fn llama_cpp_loads_a_folder_with_its_tokenizer() {
    const LLAMA: &str = r#"{"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1,
        "intermediate_size": 48, "max_position_embeddings": 32, "vocab_size": 6, "rms_norm_eps": 1e-5, "tie_word_embeddings": false}"#;
    const SCRIPT: &str = "
import sys
from llama_cpp import Model
import numpy as np
model = Model(sys.argv[1])
ids = model.tokenize('abba<|end|>')
print(ids, model.detokenize(ids).decode(), model.is_end(3), bool(np.isfinite(model.logits(ids)).all()))
";
    let shapes: [(&'static str, &[u64]); 12] = [
        ("model.embed_tokens.weight", &[6, 32]),
        ("model.norm.weight", &[32]),
        ("lm_head.weight", &[6, 32]),
        ("model.layers.0.input_layernorm.weight", &[32]),
        ("model.layers.0.post_attention_layernorm.weight", &[32]),
        ("model.layers.0.self_attn.q_proj.weight", &[32, 32]),
        ("model.layers.0.self_attn.k_proj.weight", &[32, 32]),
        ("model.layers.0.self_attn.v_proj.weight", &[32, 32]),
        ("model.layers.0.self_attn.o_proj.weight", &[32, 32]),
        ("model.layers.0.mlp.gate_proj.weight", &[48, 32]),
        ("model.layers.0.mlp.up_proj.weight", &[48, 32]),
        ("model.layers.0.mlp.down_proj.weight", &[32, 48]),
    ];
    let values = |name: &'static str, shape: &[u64]| {
        let count = usize::try_from(shape.iter().product::<u64>()).unwrap();
        let values: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 200.0).collect();
        floats(name, shape, &values)
    };
    let tensors: Vec<T> = shapes.into_iter().map(|(name, shape)| values(name, shape)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let source = safetensors(&tensors, "{}");
    modelfmt::Conversion::new(&source, &path)
        .to(Format::Safetensors)
        .options(&options(|_| {}))
        .write()
        .unwrap();
    for (name, content) in [
        ("config.json", LLAMA),
        ("tokenizer.json", TOKENIZER),
        ("tokenizer_config.json", r#"{"eos_token": "<|end|>"}"#),
    ] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let out = folder.path().join("model.gguf");
    let model = Model::open(&path).unwrap();
    modelfmt::Conversion::new(&model, &out).to(Format::Gguf).options(&options(|_| {})).write().unwrap();
    if let Some(printed) = testkit::llama_cpp(SCRIPT, &[out.to_str().unwrap()]) {
        assert_eq!(printed.trim(), "[2, 1, 0, 3] abba<|end|> True True");
    }
}
