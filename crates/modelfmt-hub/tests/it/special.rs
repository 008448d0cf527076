//! Special tokens, flags and chat templates, by the files that state them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use modelfmt_hub::{Config, Key, Tokenizer, TokenizerFiles, TokenizerOptions, Vocabulary};

/// Six tokens, of which the last four are not in the vocabulary.
const TOKENIZER: &str = r#"{"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, TEMPLATE
    "added_tokens": [{"id": 2, "content": "<s>", "special": true}, {"id": 3, "content": "</s>", "special": true},
        {"id": 4, "content": "<|end|>", "special": true}, {"id": 5, "content": "<|user|>", "special": false}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}"#;

fn template(before: &[&str], after: &[&str]) -> String {
    let token = |text: &&str| format!(r#"{{"SpecialToken": {{"id": "{text}", "type_id": 0}}}}"#);
    let mut parts: Vec<String> = before.iter().map(token).collect();
    parts.push(r#"{"Sequence": {"id": "A", "type_id": 0}}"#.to_owned());
    parts.extend(after.iter().map(token));
    let processor = format!(r#"{{"type": "TemplateProcessing", "single": [{}]}}"#, parts.join(", "));
    format!(
        r#""post_processor": {{"type": "Sequence", "processors": [{{"type": "ByteLevel"}}, {processor}]}},"#
    )
}

/// The tokenizer with this template, these files and this config.
fn read(template: &str, files: &[(&str, &str)], config: &str) -> Tokenizer {
    let mut all = TokenizerFiles::new();
    all.insert("tokenizer.json", TOKENIZER.replace("TEMPLATE", template).into_bytes());
    for (name, content) in files {
        all.insert(name, content.as_bytes().to_vec());
    }
    let config = Config::parse(config.as_bytes()).unwrap();
    Tokenizer::read(&all, &config, &TokenizerOptions::new()).unwrap().unwrap()
}

fn id(tokenizer: &Tokenizer, role: &str) -> Option<u32> {
    let key = format!("tokenizer.ggml.{role}_token_id");
    tokenizer.keys.iter().find(|(own, _)| *own == key).map(|(_, value)| match value {
        Key::U32(id) => *id,
        other => panic!("{other:?}"),
    })
}

fn adds(tokenizer: &Tokenizer) -> (bool, bool) {
    let flag = |key: &str| tokenizer.keys.contains(&(format!("tokenizer.ggml.{key}"), Key::Bool(true)));
    (flag("add_bos_token"), flag("add_eos_token"))
}

#[test]
fn ids_come_from_the_first_file_that_says_them() {
    let config = r#"{"bos_token_id": 0, "eos_token_id": [4, 3], "pad_token_id": 1}"#;
    let found = read("", &[], config);
    assert_eq!((id(&found, "bos"), id(&found, "eos"), id(&found, "padding")), (Some(0), Some(4), Some(1)));
    assert_eq!(id(&found, "eot"), Some(3), "the other one ends a turn");
    let map = (
        "special_tokens_map.json",
        r#"{"bos_token": "<s>", "eos_token": {"content": "</s>"}, "mask_token": "b"}"#,
    );
    let found = read("", &[map], config);
    assert_eq!((id(&found, "bos"), id(&found, "eos"), id(&found, "mask")), (Some(2), Some(3), Some(1)));
    assert_eq!(id(&found, "eot"), Some(4));
    let own = ("tokenizer_config.json", r#"{"eos_token": "<|end|>", "bos_token": null}"#);
    let generation = ("generation_config.json", r#"{"eos_token_id": [3, 4]}"#);
    let found = read("", &[map, own, generation], "{}");
    assert_eq!((id(&found, "bos"), id(&found, "eos"), id(&found, "eot")), (Some(2), Some(4), Some(3)));
    // Ids and texts that do not exist are ignored.
    let found = read("", &[("tokenizer_config.json", r#"{"bos_token": "?"}"#)], r#"{"eos_token_id": 99}"#);
    assert_eq!((id(&found, "bos"), id(&found, "eos")), (None, None));
}

#[test]
fn what_is_put_around_texts_follows_from_the_template_unless_a_flag_says_otherwise() {
    let tokens = ("tokenizer_config.json", r#"{"bos_token": "<s>", "eos_token": "</s>"}"#);
    assert_eq!(adds(&read("", &[tokens], "{}")), (false, false));
    assert_eq!(adds(&read(&template(&["<s>"], &[]), &[tokens], "{}")), (true, false));
    assert_eq!(adds(&read(&template(&["<s>"], &["</s>"]), &[tokens], "{}")), (true, true));
    let flags = (
        "tokenizer_config.json",
        r#"{"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false, "add_eos_token": true}"#,
    );
    assert_eq!(adds(&read(&template(&["<s>"], &[]), &[flags], "{}")), (false, true));
    // A flag without a token adds nothing.
    let flags = ("tokenizer_config.json", r#"{"add_bos_token": true}"#);
    assert_eq!(adds(&read("", &[flags], "{}")), (false, false));
    // The token of the template is the one that llama.cpp has to add.
    let found = read(&template(&[], &["<|end|>"]), &[tokens], "{}");
    assert_eq!((id(&found, "eos"), id(&found, "eot"), adds(&found)), (Some(4), Some(3), (false, true)));
    // llama.cpp adds at most one.
    let found = read(&template(&["<s>", "<|end|>"], &[]), &[tokens], "{}");
    assert_eq!(adds(&found), (false, false));
    assert!(found.notes[0].contains("puts 2 tokens before each text"), "{:?}", found.notes);
}

#[test]
fn chat_templates() {
    let keys = |files: &[(&str, &str)]| -> Vec<(String, Key)> {
        let found = read("", files, "{}");
        found.keys.into_iter().filter(|(key, _)| key.starts_with("tokenizer.chat_template")).collect()
    };
    let text = |key: &str, text: &str| (format!("tokenizer.{key}"), Key::Text(text.to_owned()));
    let jinja = ("chat_template.jinja", "{{ a }}");
    let one = ("tokenizer_config.json", r#"{"chat_template": "{{ b }}"}"#);
    let old = ("chat_template.json", r#"{"chat_template": "{{ c }}"}"#);
    assert!(keys(&[]).is_empty());
    assert_eq!(keys(&[old]), [text("chat_template", "{{ c }}")]);
    assert_eq!(keys(&[old, one]), [text("chat_template", "{{ b }}")]);
    assert_eq!(keys(&[old, one, jinja]), [text("chat_template", "{{ a }}")]);
    let several =
        r#"{"chat_template": [{"name": "tool use", "template": "x"}, {"name": "default", "template": "y"}]}"#;
    assert_eq!(
        keys(&[("tokenizer_config.json", several)]),
        [
            text("chat_template.tool_use", "x"),
            text("chat_template", "y"),
            ("tokenizer.chat_templates".to_owned(), Key::Texts(vec!["tool_use".to_owned()])),
        ]
    );
}

#[test]
fn added_tokens_beyond_the_embedding_are_left_out_and_holes_are_filled() {
    let texts = |config: &str| {
        let found = read("", &[], config);
        let tokens = found.keys.iter().find_map(|(key, value)| match value {
            Key::Texts(texts) if key == "tokenizer.ggml.tokens" => Some(texts.clone()),
            _ => None,
        });
        (tokens.unwrap(), found.notes)
    };
    let (tokens, notes) = texts(r#"{"vocab_size": 4}"#);
    assert_eq!(tokens, ["a", "b", "<s>", "</s>"]);
    assert_eq!(notes, ["2 added tokens are left out, because the embedding has only 4 rows"]);
    let (tokens, notes) = texts(r#"{"vocab_size": 8}"#);
    assert_eq!(tokens[6..], ["[PAD6]", "[PAD7]"]);
    assert!(notes.is_empty());
}

#[test]
fn a_plain_vocabulary_is_that_of_the_files() {
    let mut files = TokenizerFiles::new();
    files.insert("vocab.txt", b"[CLS]\na\n##b\n".to_vec());
    let config = Config::parse(b"{}").unwrap();
    let found = Vocabulary::read(&files, &config).unwrap().unwrap();
    assert_eq!((found.kind, &found.tokens[..]), ("WordPiece", &["[CLS]", "a", "##b"].map(String::from)[..]));
    assert!(Vocabulary::read(&TokenizerFiles::new(), &config).unwrap().is_none());
}
