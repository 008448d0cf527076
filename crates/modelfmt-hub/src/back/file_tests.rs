//! Files of tokenizers that a GGUF carries.

use std::collections::BTreeMap;

use modelfmt_value::{Object, Value, json};
use proptest::prelude::*;

use super::extra_keys::plain;
use super::{ExtraKeys, Folder};
use crate::Key;

fn name(key: &str) -> String {
    format!("tokenizer.ggml.{key}")
}

/// The keys of a tokenizer: its tokens with their types.
fn keys(model: &str, tokens: &[(&str, i32)]) -> Vec<(String, Key)> {
    vec![
        (name("model"), Key::Text(model.to_owned())),
        (name("tokens"), Key::Texts(tokens.iter().map(|(text, _)| (*text).to_owned()).collect())),
        (name("token_type"), Key::I32s(tokens.iter().map(|(_, kind)| *kind).collect())),
    ]
}

/// Returns the keys that carry the files, and the files that they become again.
fn there_and_back(keys: &[(String, Key)], files: &[(&str, &str)]) -> (Object, BTreeMap<String, Vec<u8>>) {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    let mut extra = ExtraKeys::default();
    extra.add_files(&files, keys);
    assert_eq!(extra.notes, Vec::<String>::new());
    let all: Object =
        keys.iter().chain(&extra.keys).map(|(key, value)| (key.as_str(), plain(value))).collect();
    let mut folder = Folder::default();
    folder.add_files(&all, true).unwrap();
    assert_eq!(folder.losses, []);
    (all, folder.files.into_iter().collect())
}

/// Checks that files come back, and returns the texts that are carried.
fn travels(keys: &[(String, Key)], files: &[(&str, &str)]) -> BTreeMap<String, String> {
    let (all, back) = there_and_back(keys, files);
    assert_eq!(back.len(), files.len());
    for (name, text) in files {
        let found = &back[*name];
        if name.ends_with(".json") {
            let value = |text: &[u8]| json::parse(text).unwrap();
            assert_eq!(value(found), value(text.as_bytes()), "{name}");
        } else {
            assert_eq!(found, text.as_bytes(), "{name}");
        }
    }
    let text = |name: &str| {
        let value = all.get(&format!("modelfmt.hub.file.{name}")).and_then(Value::as_str);
        (name.to_owned(), value.unwrap_or_default().to_owned())
    };
    files.iter().map(|(name, _)| text(name)).collect()
}

/// A `tokenizer.json` with these parts.
fn hub_json(model: &str, added: &str) -> String {
    format!(
        r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": {added}, "normalizer": null,
        "pre_tokenizer": {{"type": "ByteLevel"}}, "post_processor": null, "decoder": {{"type": "ByteLevel"}}, "model": {model}}}"#
    )
}

const ADDED: &str = r#"[{"id": 3, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}]"#;

#[test]
fn vocabulary_and_merges_travel_once() {
    let mut keys = keys("gpt2", &[("alpha", 1), ("beta", 1), ("alphabeta", 1), ("<end>", 3), ("[PAD4]", 5)]);
    keys.push((name("merges"), Key::Texts(vec!["alpha beta".to_owned()])));
    keys.push(("tokenizer.chat_template".to_owned(), Key::Text("{{ template }}".to_owned())));
    for (vocab, merges) in [
        (r#"{"alpha": 0, "beta": 1, "alphabeta": 2}"#, r#"["alpha beta"]"#),
        (r#"{"alpha": 0, "beta": 1, "alphabeta": 2, "<end>": 3}"#, r#"[["alpha", "beta"]]"#),
    ] {
        let model = format!(
            r#"{{"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": true, "vocab": {vocab}, "merges": {merges}}}"#
        );
        let config = r#"{"chat_template": "{{ template }}", "added_tokens_decoder": {"3": {"content": "<end>", "lstrip": false,
            "normalized": false, "rstrip": false, "single_word": false, "special": true}}, "model_max_length": 1000000000000000019884624838656}"#;
        let texts = travels(
            &keys,
            &[
                ("tokenizer.json", &hub_json(&model, ADDED)),
                ("tokenizer_config.json", config),
                ("generation_config.json", r#"{"temperature": 0.6}"#),
                ("special_tokens_map.json", r#"{"eos_token": "<end>"}"#),
                ("chat_template.jinja", "{{ template }}"),
                ("merges.txt", "#version: 0.2\nalpha beta\n"),
                ("vocab.json", r#"{"alpha": 0, "beta": 1, "alphabeta": 2, "<end>": 3}"#),
            ],
        );
        for name in ["tokenizer.json", "tokenizer_config.json", "merges.txt", "vocab.json"] {
            assert!(!texts[name].contains("alpha") && !texts[name].contains("end>"), "{}", texts[name]);
        }
        assert_eq!(
            (&*texts["chat_template.jinja"], &*texts["merges.txt"], &*texts["vocab.json"]),
            ("{}", "{}", "{}")
        );
        assert!(!texts["tokenizer_config.json"].contains("template"), "{texts:?}");
    }
}

#[test]
fn merges_follow_from_scores() {
    let texts = ["<unk>", "a", "b", "c", "bc", "ab", "abc"];
    let kinds = [2, 1, 1, 1, 1, 1, 1];
    let mut keys = keys("llama", &texts.into_iter().zip(kinds).collect::<Vec<_>>());
    keys.push((name("scores"), Key::F32s(vec![0.0, -9.0, -9.0, -9.0, 0.0, -1.0, -2.0])));
    keys.push((name("unknown_token_id"), Key::U32(0)));
    let vocab = r#"{"<unk>": 0, "a": 1, "b": 2, "c": 3, "bc": 4, "ab": 5, "abc": 6}"#;
    for (merges, is_base) in [
        (r#"["b c", "a b", "ab c", "a bc"]"#, true),
        (r#"["b c", "a b", "a bc", "ab c"]"#, true),
        (r#"["a b", "b c", "a bc", "ab c"]"#, false),
    ] {
        let model = format!(
            r#"{{"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": true, "byte_fallback": true, "ignore_merges": false, "vocab": {vocab}, "merges": {merges}}}"#
        );
        let texts = travels(&keys, &[("tokenizer.json", &hub_json(&model, "[]"))]);
        assert_eq!(!texts["tokenizer.json"].contains("a bc"), is_base, "{}", texts["tokenizer.json"]);
    }
}

#[test]
fn words_of_wordpiece_are_as_they_were() {
    let mut keys = keys("bert", &[("[UNK]", 3), ("\u{2581}word", 1), ("s", 1)]);
    keys.push((name("unknown_token_id"), Key::U32(0)));
    let model = r###"{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": {"[UNK]": 0, "word": 1, "##s": 2}}"###;
    let texts =
        travels(&keys, &[("tokenizer.json", &hub_json(model, "[]")), ("vocab.txt", "[UNK]\nword\n##s\n")]);
    assert!(!texts["tokenizer.json"].contains("word\""), "{texts:?}");
    assert_eq!(texts["vocab.txt"], "{}");
}

#[test]
fn a_model_of_sentencepiece_travels_as_what_is_beside_its_pieces() {
    let mut keys = keys("llama", &[("<unk>", 2), ("\u{2581}a", 1)]);
    keys.push((name("scores"), Key::F32s(vec![0.0, -1.5])));
    let mut file = vec![0x0a, 14, 0x0a, 5];
    file.extend_from_slice(b"<unk>");
    file.extend_from_slice(&[0x15, 0, 0, 0, 0, 0x18, 2]);
    file.extend_from_slice(&[0x0a, 11, 0x0a, 4]);
    file.extend_from_slice("\u{2581}a".as_bytes());
    file.push(0x15);
    file.extend_from_slice(&(-1.5f32).to_le_bytes());
    file.extend_from_slice(&[0x12, 2, 0x18, 2]);
    let mut extra = ExtraKeys::default();
    extra.add_files(&[("tokenizer.model".to_owned(), file.clone())].into(), &keys);
    let [(_, Key::Bytes(bytes))] = &extra.keys[..] else { panic!("{extra:?}") };
    assert_eq!(bytes[..], [0, 2, 0, 0, 0, 1, 4, 0, 0, 0, 0x12, 2, 0x18, 2]);
    let all = keys.iter().chain(&extra.keys).map(|(key, value)| (key.as_str(), plain(value))).collect();
    let mut folder = Folder::default();
    folder.add_files(&all, true).unwrap();
    assert_eq!(folder.files, [("tokenizer.model".to_owned(), file)]);
}

#[test]
fn what_cannot_travel_is_noted() {
    let mut extra = ExtraKeys::default();
    let files =
        [("tokenizer.json", "{"), ("vocab.txt", "\u{fffd}"), ("other.json", "{}"), ("merges.txt", "a")];
    let mut files: BTreeMap<String, Vec<u8>> =
        files.into_iter().map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect();
    files.insert("vocab.txt".to_owned(), vec![0xff]);
    files.insert("chat_template.jinja".to_owned(), vec![b' '; (1 << 20) + 1]);
    extra.add_files(&files, &[]);
    assert_eq!(extra.keys.len(), 1);
    let notes = extra.notes.join("; ");
    for why in [
        "chat_template.jinja is not stored in the GGUF: it is longer than 1 MiB",
        "tokenizer.json is not stored in the GGUF: it is not good JSON",
        "vocab.txt is not stored in the GGUF: it is not UTF-8",
    ] {
        assert!(notes.contains(why), "{notes}");
    }
}

/// Returns the folder's files for the keys of a GGUF from another tool, and the names of what is lost.
fn made(keys: &[(String, Key)]) -> (BTreeMap<String, Vec<u8>>, Vec<String>) {
    let all: Object = keys.iter().map(|(key, value)| (key.as_str(), plain(value))).collect();
    let mut folder = Folder::default();
    folder.add_files(&all, false).unwrap();
    (folder.files.into_iter().collect(), folder.losses.into_iter().map(|loss| loss.name).collect())
}

#[test]
fn tokens_of_each_other_make_no_endless_list_of_merges() {
    // Each of `a`, `aa`, `aaa` and so on is made of others in as many ways as it is long.
    let starts = ["b", "c", "d", "e", "f", "g", "h"].map(|start| format!("{start}{}", "a".repeat(255)));
    let runs = "a".repeat(255);
    let mut texts: Vec<String> = (1..=255).map(|len| runs[..len].to_owned()).collect();
    for start in &starts {
        texts.extend((1..=256).map(|len| start[..len].to_owned()));
    }
    let tokens: Vec<(&str, i32)> = texts.iter().map(|text| (text.as_str(), 1)).collect();
    let mut keys = keys("llama", &tokens);
    keys.push((name("scores"), Key::F32s((0..texts.len()).map(|i| -(i as f32)).collect())));
    let all: Object = keys.iter().map(|(key, value)| (key.as_str(), plain(value))).collect();
    let error = Folder::default().add_files(&all, false).unwrap_err().to_string();
    assert!(error.contains("its 2047 tokens are made of each other in more than 73724 ways"), "{error}");
}

/// Checks that the files that are made from keys give these keys again.
fn is_read_back(keys: &[(String, Key)]) {
    let (files, lost) = made(keys);
    assert_eq!(lost, ["tokenizer.json", "tokenizer_config.json"]);
    let mut read = crate::TokenizerFiles::new();
    files.into_iter().for_each(|(name, content)| read.insert(&name, content));
    let config = crate::Config::parse(b"{}").unwrap();
    let again = crate::Tokenizer::read(&read, &config, &crate::TokenizerOptions::new()).unwrap().unwrap();
    for (key, value) in keys {
        let found = again.keys.iter().find(|(own, _)| own == key).map(|(_, value)| value);
        assert_eq!(found, Some(value), "{key}");
    }
}

#[test]
fn a_tokenizer_of_others_is_made_and_counts_as_lost() {
    for pre in ["llama-bpe", "qwen2", "gpt-2", "starcoder", "deepseek-v3", "tekken"] {
        let mut keys = keys("gpt2", &[("a", 1), ("b", 1), ("ab", 1), ("<end>", 3)]);
        keys.push((name("pre"), Key::Text(pre.to_owned())));
        keys.push((name("merges"), Key::Texts(vec!["a b".to_owned()])));
        keys.push((name("bos_token_id"), Key::U32(3)));
        keys.push((name("eos_token_id"), Key::U32(3)));
        keys.push((name("add_bos_token"), Key::Bool(true)));
        is_read_back(&keys);
    }
    let mut keys = keys("gpt2", &[("a", 1)]);
    keys.push((name("pre"), Key::Text("of-nobody".to_owned())));
    assert_eq!(made(&keys).1.len(), 3);
}

#[test]
fn tokenizers_of_characters_and_words_are_made() {
    let texts =
        [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<0x0A>", 6), ("\u{2581}", 1), ("a", 1), ("\u{2581}a", 1)];
    let mut llama = keys("llama", &texts);
    llama.push((name("scores"), Key::F32s(vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])));
    llama.push((name("add_space_prefix"), Key::Bool(false)));
    llama.push((name("bos_token_id"), Key::U32(1)));
    llama.push((name("unknown_token_id"), Key::U32(0)));
    let (files, _) = made(&llama);
    let json = json::parse(&files["tokenizer.json"]).unwrap();
    assert_eq!(json.path(["model", "merges"]).unwrap(), &["\u{2581} a"].into_iter().collect::<Value>());
    let words = [("[PAD]", 3), ("[UNK]", 3), ("[CLS]", 3), ("[SEP]", 3), ("\u{2581}a", 1), ("b", 1)];
    let mut keys = keys("bert", &words);
    keys.push((name("bos_token_id"), Key::U32(2)));
    keys.push((name("unknown_token_id"), Key::U32(1)));
    keys.push((name("seperator_token_id"), Key::U32(3)));
    is_read_back(&keys);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any tokenizer comes back, whatever its keys are.
    #[test]
    fn any_vocabulary_comes_back(
        tokens in prop::collection::vec(("[ab▁# ]{0,4}", 1..7i32), 0..12),
        vocab in prop::collection::btree_map("[ab▁#<]{0,4}", 0..20u64, 0..12),
        merges in prop::collection::vec("[ab]{1,3} [ab]{1,3}", 0..6),
        model in prop::sample::select(vec!["gpt2", "llama", "bert", "t5", "x"]),
    ) {
        let tokens: Vec<(&str, i32)> = tokens.iter().map(|(text, kind)| (text.as_str(), *kind)).collect();
        let mut keys = keys(model, &tokens);
        keys.push((name("scores"), Key::F32s((0..tokens.len()).map(|i| -(i as f32)).collect())));
        if model == "gpt2" {
            keys.push((name("merges"), Key::Texts(merges.clone())));
        }
        let vocab: Object = vocab.into_iter().collect();
        let merges: Value = merges.iter().map(String::as_str).collect();
        let own = Object::from_iter([("type", Value::from("BPE")), ("vocab", Value::Object(vocab)), ("merges", merges)]);
        let text = hub_json(&json::to_string(&Value::Object(own)).unwrap(), ADDED);
        travels(&keys, &[("tokenizer.json", &text)]);
    }
}
