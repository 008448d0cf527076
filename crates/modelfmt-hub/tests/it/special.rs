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

/// A tokenizer of another kind, with these files.
fn read_other(tokenizer: &str, files: &[(&str, &str)], name: Option<&str>) -> Tokenizer {
    let mut all = TokenizerFiles::new();
    all.insert("tokenizer.json", tokenizer.as_bytes().to_vec());
    for (name, content) in files {
        all.insert(name, content.as_bytes().to_vec());
    }
    let config = Config::parse(b"{}").unwrap();
    Tokenizer::read(&all, &config, &TokenizerOptions::new().name(name)).unwrap().unwrap()
}

/// A WordPiece vocabulary with `more` after 110 words.
fn words(more: &str, others: &str) -> String {
    let words: Vec<String> = (0..110).map(|id| format!(r#""w{id}": {id}"#)).collect();
    let words = words.join(", ");
    format!(
        r#"{{"normalizer": {{"type": "BertNormalizer", "lowercase": true}}, "pre_tokenizer": {{"type": "BertPreTokenizer"}}, {others}
        "model": {{"type": "WordPiece", "vocab": {{{words}{more}}}}}}}"#
    )
}

#[test]
fn tokens_around_texts_of_bert_come_from_the_template_or_their_names() {
    let more = r#", "[CLS]": 110, "[SEP]": 111, "<a>": 112, "<z>": 113"#;
    let ids = |found: &Tokenizer| ["bos", "cls", "eos", "seperator"].map(|role| id(found, role));
    let by_template = read_other(&words(more, &template(&["<a>"], &["<z>"])), &[], None);
    assert_eq!(ids(&by_template), [Some(112), Some(112), Some(113), Some(113)]);
    let by_name = read_other(&words(more, ""), &[], None);
    assert_eq!(ids(&by_name), [Some(110), Some(110), Some(111), Some(111)]);
    assert!(by_name.notes.iter().all(|note| !note.contains("no file states")), "{:?}", by_name.notes);
    // Without any, llama.cpp takes tokens by their numbers.
    let none = read_other(&words("", ""), &[], None);
    for said in [
        "the token that begins a text, and llama.cpp takes token 101 for it, \"w101\"",
        "the token that ends a text, and llama.cpp takes token 102 for it, \"w102\"",
    ] {
        assert!(none.notes.iter().any(|note| note.contains(said)), "{said}: {:?}", none.notes);
    }
}

/// A vocabulary of BPE over bytes with 12 tokens.
fn twelve(pre_tokenizer: &str, added: &str) -> String {
    let words: Vec<String> = ('a'..='l').zip(0..).map(|(word, id)| format!(r#""{word}": {id}"#)).collect();
    let words = words.join(", ");
    format!(
        r#"{{"pre_tokenizer": {pre_tokenizer}, "added_tokens": [{added}],
        "model": {{"type": "BPE", "vocab": {{{words}}}, "merges": []}}}}"#
    )
}

const WORDS: &str = r#"{"type": "ByteLevel", "add_prefix_space": false}"#;

#[test]
fn an_end_of_text_that_llama_cpp_assumes_is_noted() {
    let found = read_other(&twelve(WORDS, ""), &[], None);
    assert_eq!(
        found.notes,
        ["no file states the token that ends a text, and llama.cpp takes token 11 for it, \"l\""]
    );
    let stated = ("tokenizer_config.json", r#"{"eos_token": "a"}"#);
    assert_eq!(read_other(&twelve(WORDS, ""), &[stated], None).notes, [""; 0]);
}

#[test]
fn spaces_that_tokens_drop_are_noted() {
    let added =
        |text: &str, flags: &str| format!(r#"{{"id": 12, "content": "{text}", "special": true, {flags}}}"#);
    let notes = |text: &str, flags: &str, name: Option<&str>| {
        let stated = ("tokenizer_config.json", r#"{"eos_token": "a"}"#);
        read_other(&twelve(WORDS, &added(text, flags)), &[stated], name).notes
    };
    let note = |text: &str| {
        format!("tokenizer.json drops the spaces beside the token \"{text}\", and llama.cpp keeps them")
    };
    assert_eq!(notes("<|end|>", r#""rstrip": true"#, None), [note("<|end|>")]);
    assert_eq!(notes("<|end|>", r#""lstrip": true"#, Some("Phi-3-mini")), [note("<|end|>")]);
    // llama.cpp knows these models by their names, and masks are in no usual text.
    assert_eq!(notes("<|end|>", r#""rstrip": true"#, Some("Phi-3-mini")), [""; 0]);
    assert_eq!(notes("<mask>", r#""lstrip": true"#, None), [""; 0]);
    assert_eq!(notes("<|end|>", r#""lstrip": false, "rstrip": false"#, None), [""; 0]);
}

#[test]
fn the_name_of_a_pre_tokenizer_says_whether_spaces_are_cleaned_up() {
    let pre = |pre_tokenizer: &str, config: &str| {
        let found = read_other(&twelve(pre_tokenizer, ""), &[("tokenizer_config.json", config)], None);
        match found.keys.into_iter().find(|(key, _)| key == "tokenizer.ggml.pre").unwrap().1 {
            Key::Text(name) => name,
            other => panic!("{other:?}"),
        }
    };
    let digits = format!(
        r#"{{"type": "Sequence", "pretokenizers": [{{"type": "Digits", "individual_digits": true}}, {WORDS}]}}"#
    );
    for (steps, cleans, keeps) in [(&*digits, "starcoder", "smollm"), (WORDS, "gpt-2", "trillion")] {
        assert_eq!(pre(steps, "{}"), cleans);
        assert_eq!(pre(steps, r#"{"clean_up_tokenization_spaces": true}"#), cleans);
        assert_eq!(pre(steps, r#"{"clean_up_tokenization_spaces": false}"#), keeps);
    }
}

/// BPE over characters with tokens for all bytes, like Llama 2's.
fn characters(scheme: &str, others: &str) -> String {
    let bytes: Vec<String> = (0..256).map(|byte| format!(r#""<0x{byte:02X}>": {}"#, byte + 3)).collect();
    let bytes = bytes.join(", ");
    format!(
        r#"{{"pre_tokenizer": {{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "{scheme}", "split": false}}, {others}
        "model": {{"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab": {{"<unk>": 0, "<s>": 1, "</s>": 2, {bytes}}},
        "merges": []}}}}"#
    )
}

#[test]
fn flags_of_llama_tokenizers_count_more_than_their_template() {
    let config = |more: &str| format!(r#"{{"bos_token": "<s>", "eos_token": "</s>"{more}}}"#);
    let around = |others: &str, more: &str| {
        let config = config(more);
        adds(&read_other(&characters("always", others), &[("tokenizer_config.json", &config)], None))
    };
    let both = template(&["<s>"], &["</s>"]);
    for class in ["LlamaTokenizer", "LlamaTokenizerFast"] {
        let class = format!(r#", "tokenizer_class": "{class}""#);
        assert_eq!(around("", &class), (true, false));
        assert_eq!(around(&both, &class), (true, false));
        let flags = format!(r#"{class}, "add_bos_token": false, "add_eos_token": true"#);
        assert_eq!(around(&both, &flags), (false, true));
    }
    // The class knows its tokens.
    let silent = ("tokenizer_config.json", r#"{"tokenizer_class": "LlamaTokenizer"}"#);
    let found = read_other(&characters("always", &both), &[silent], None);
    assert_eq!((adds(&found), id(&found, "bos"), id(&found, "eos")), ((true, false), Some(1), Some(2)));
    assert_eq!(around("", r#", "tokenizer_class": "PreTrainedTokenizerFast""#), (false, false));
    assert_eq!(around(&both, ""), (true, true));
}

#[test]
fn the_space_before_a_text_is_that_of_the_files() {
    let found = |scheme: &str, config: &str| {
        let found = read_other(&characters(scheme, ""), &[("tokenizer_config.json", config)], None);
        let key = ("tokenizer.ggml.add_space_prefix".to_owned(), Key::Bool(true));
        (found.keys.contains(&key), found.notes.iter().any(|note| note.contains("after a special token")))
    };
    assert_eq!(found("always", "{}"), (true, false));
    assert_eq!(found("never", "{}"), (false, false));
    assert_eq!(found("first", "{}"), (true, true));
    assert_eq!(found("first", r#"{"add_prefix_space": false}"#), (false, false));
    assert_eq!(found("always", r#"{"add_prefix_space": false}"#), (false, false));
}
