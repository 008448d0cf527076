//! Tokenizers of each kind, trained by the hub's own libraries, in llama.cpp.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::path::Path;

use modelfmt_core::Execution;
use modelfmt_gguf::{ArrayBuf, MetaValue, Metadata, Plan, ValueType, WriteOptions};
use modelfmt_hub::{Config, Key, Tokenizer, TokenizerFiles, TokenizerOptions};
use modelfmt_value::{Value, json};
use modelfmt_write::{MemoryFile, TensorSpec};

fn push(metadata: &mut Metadata, key: &str, value: &Key) {
    let array = |kind, members: Vec<MetaValue<'_>>| {
        let mut array = ArrayBuf::new(kind);
        members.into_iter().for_each(|member| array.push(member).unwrap());
        array
    };
    match value {
        Key::Text(text) => metadata.push(key, MetaValue::String(text)),
        Key::U32(number) => metadata.push(key, MetaValue::U32(*number)),
        Key::F32(number) => metadata.push(key, MetaValue::F32(*number)),
        Key::Bool(flag) => metadata.push(key, MetaValue::Bool(*flag)),
        Key::Texts(texts) => {
            let members = texts.iter().map(|text| MetaValue::String(text)).collect();
            metadata.push(key, array(ValueType::String, members).as_value())
        }
        Key::F32s(numbers) => {
            let members = numbers.iter().map(|number| MetaValue::F32(*number)).collect();
            metadata.push(key, array(ValueType::F32, members).as_value())
        }
        Key::I32s(numbers) => {
            let members = numbers.iter().map(|number| MetaValue::I32(*number)).collect();
            metadata.push(key, array(ValueType::I32, members).as_value())
        }
        Key::Bytes(bytes) => {
            let members = bytes.iter().map(|byte| MetaValue::U8(*byte)).collect();
            metadata.push(key, array(ValueType::U8, members).as_value())
        }
    }
    .unwrap();
}

/// A GGUF that has a vocabulary and no tensors.
fn gguf(keys: &[(String, Key)]) -> Vec<u8> {
    let mut metadata = Metadata::new();
    push(&mut metadata, "general.architecture", &Key::Text("llama".to_owned()));
    keys.iter().for_each(|(key, value)| push(&mut metadata, key, value));
    let plan = Plan::new(std::iter::empty::<TensorSpec<'_>>(), &metadata, &WriteOptions::new()).unwrap();
    let file = MemoryFile::new();
    plan.write(&[[0_u8; 0]; 0], &file, &Execution::default()).unwrap();
    file.into_bytes()
}

fn read(folder: &Path) -> Tokenizer {
    let mut files = TokenizerFiles::new();
    for (name, _) in TokenizerFiles::names() {
        if let Ok(content) = std::fs::read(folder.join(name)) {
            files.insert(name, content);
        }
    }
    let config = Config::parse(&std::fs::read(folder.join("config.json")).unwrap_or(b"{}".to_vec())).unwrap();
    let tokenizer = Tokenizer::read(&files, &config, &TokenizerOptions::new());
    tokenizer.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).unwrap()
}

fn text<'a>(tokenizer: &'a Tokenizer, key: &str) -> &'a str {
    match tokenizer.keys.iter().find(|(own, _)| own == key) {
        Some((_, Key::Text(text))) => text,
        other => panic!("{key}: {other:?}"),
    }
}

/// Converts each folder, and returns the texts that llama.cpp cuts differently, with its ids and the right
/// ones.
fn differing(folder: &Path) -> Option<Value> {
    for entry in std::fs::read_dir(folder).unwrap() {
        let folder = entry.unwrap().path();
        if folder.is_dir() {
            std::fs::write(folder.join("model.gguf"), gguf(&read(&folder).keys)).unwrap();
        }
    }
    let printed = testkit::llama_cpp(include_str!("../oracle/compare.py"), &[folder.to_str().unwrap()])?;
    Some(json::parse(printed.as_bytes()).unwrap())
}

/// Trains with a script of `tests/oracle`, which is appended to the texts.
fn train(script: &str, arguments: &[&Path]) {
    let arguments: Vec<&str> = arguments.iter().map(|path| path.to_str().unwrap()).collect();
    let script = [include_str!("../oracle/texts.py"), script].concat();
    assert_eq!(testkit::python(&script, &arguments), "");
}

/// Returns the number of texts of each folder that llama.cpp cuts differently, and prints the texts.
fn counts(found: &Value) -> Vec<(String, usize)> {
    let count = |(name, texts): (&str, &Value)| {
        let texts = texts.as_array().unwrap();
        texts.iter().for_each(|text| eprintln!("{name}: {}", json::start(&text, 300)));
        (name.to_owned(), texts.len())
    };
    found.as_object().unwrap().iter().map(count).collect()
}

#[test]
fn each_known_pre_tokenizer_cuts_as_the_hub_does() {
    /// The pre-tokenizers that llama.cpp has simplified. A note of the conversion says so.
    const NEARLY: [&str; 3] = ["gpt-4o", "tekken", "tiny_aya"];
    let folder = tempfile::tempdir().unwrap();
    let entries = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/pre_tokenizers.json");
    train(include_str!("../oracle/train_bytes.py"), &[&entries, folder.path()]);
    for entry in json::parse(&std::fs::read(&entries).unwrap()).unwrap().as_array().unwrap() {
        let member = |key: &str| entry.get(key).and_then(Value::as_str).unwrap();
        let tokenizer = read(&folder.path().join(member("name")));
        assert_eq!(text(&tokenizer, "tokenizer.ggml.pre"), member("pre"));
        assert_eq!(text(&tokenizer, "tokenizer.ggml.model"), "gpt2");
        assert_eq!(tokenizer.notes.is_empty(), !NEARLY.contains(&member("name")), "{:?}", tokenizer.notes);
    }
    let Some(found) = differing(folder.path()) else { return };
    for (name, count) in counts(&found) {
        assert!(count <= if NEARLY.contains(&name.as_str()) { 6 } else { 0 }, "{name}: {count} texts differ");
    }
}

#[test]
fn other_kinds_of_tokenizers_cut_as_their_own_libraries_do() {
    let folder = tempfile::tempdir().unwrap();
    train(include_str!("../oracle/train_others.py"), &[folder.path()]);
    let Some(found) = differing(folder.path()) else { return };
    for (name, count) in counts(&found) {
        let most = match name.as_str() {
            // llama.cpp strips other marks. A note of the conversion says so.
            "bert-uncased" | "bert-uncased-txt" => 3,
            // If two ways have the same score, sentencepiece takes another one than llama.cpp and tokenizers.
            "unigram-model" => 3,
            _ => 0,
        };
        assert!(count <= most, "{name}: {count} texts differ");
    }
}
