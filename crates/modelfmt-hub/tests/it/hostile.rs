//! Files of tokenizers that are broken, or need something that llama.cpp does not have. Each is an error that
//! says what is wrong.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use modelfmt_hub::{Config, Key, MapError, Tokenizer, TokenizerFiles, TokenizerOptions, Vocabulary};

fn read(files: &[(&str, &[u8])], options: &TokenizerOptions) -> Result<Option<Tokenizer>, MapError> {
    let mut all = TokenizerFiles::new();
    for (name, content) in files {
        all.insert(name, content.to_vec());
    }
    Tokenizer::read(&all, &Config::parse(b"{}").unwrap(), options)
}

fn error(files: &[(&str, &[u8])]) -> String {
    match read(files, &TokenizerOptions::new()) {
        Err(error) => error.to_string(),
        Ok(found) => format!("no error: {found:?}"),
    }
}

/// A tokenizer.json with this model and these other members.
fn bpe(model: &str, others: &str) -> String {
    format!(
        r#"{{"pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false}}, {others} "model": {{"type": "BPE", {model}}}}}"#
    )
}

const GOOD: &str = r#""vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]"#;

#[test]
fn a_good_one_is_read() {
    let text = bpe(GOOD, "");
    assert!(read(&[("tokenizer.json", text.as_bytes())], &TokenizerOptions::new()).unwrap().is_some());
    assert!(read(&[("tokenizer_config.json", b"{}")], &TokenizerOptions::new()).unwrap().is_none());
}

#[test]
fn models_of_a_tokenizer_json() {
    for (model, why) in [
        (r#""merges": []"#, "its model has no object `vocab`"),
        (r#""vocab": [], "merges": []"#, "its model has no object `vocab`"),
        (r#""vocab": {"a": 0}"#, "its model has no list `merges`"),
        (r#""vocab": {"a": "0"}, "merges": []"#, "the id of token \"a\" is a string"),
        (r#""vocab": {"a": -1}, "merges": []"#, "the id of token \"a\" is a negative integer"),
        (r#""vocab": {"a": 0.5}, "merges": []"#, "the id of token \"a\" is a float"),
        (r#""vocab": {"a": 0, "b": 0}, "merges": []"#, "tokens \"a\" and \"b\" both have the id 0"),
        (
            r#""vocab": {"a": 4294967296}, "merges": []"#,
            "token \"a\" has the id 4294967296, the limit is 1048576",
        ),
        (r#""vocab": {"a": 1048576}, "merges": []"#, "token \"a\" has the id 1048576, the limit is 1048576"),
        (
            r#""vocab": {"a": 0}, "merges": ["a"]"#,
            "merge 0 is neither two tokens with a space between nor a pair",
        ),
        (
            r#""vocab": {"a": 0}, "merges": ["a a a"]"#,
            "merge 0 is neither two tokens with a space between nor a pair",
        ),
        (
            r#""vocab": {"a": 0}, "merges": [["a"]]"#,
            "merge 0 is neither two tokens with a space between nor a pair",
        ),
        (
            r#""vocab": {"a": 0}, "merges": [["a", 1]]"#,
            "merge 0 is neither two tokens with a space between nor a pair",
        ),
        (
            r#""vocab": {"a": 0}, "merges": [5]"#,
            "merge 0 is neither two tokens with a space between nor a pair",
        ),
        (
            r#""vocab": {"a": 0, "aa": 1}, "merges": ["a a", "a b"]"#,
            "merge 1 has the token \"b\", which the vocabulary has not",
        ),
        (
            r#""vocab": {"a": 0}, "merges": ["a a"]"#,
            "merge 0 has the token \"aa\", which the vocabulary has not",
        ),
        (
            r#""vocab": {"a ": 0, "b": 1, "a b": 2}, "merges": [["a ", "b"]]"#,
            "merge 0 has a space in the token \"a \", and GGUF cannot say so",
        ),
        (
            r#""vocab": {"a": 0}, "merges": [], "end_of_word_suffix": "</w>""#,
            "its model has `end_of_word_suffix`, and llama.cpp's BPE has none",
        ),
    ] {
        let text = bpe(model, "");
        let found = error(&[("tokenizer.json", text.as_bytes())]);
        assert_eq!(found, format!("tokenizer.json: {why}"), "{model}");
    }
}

#[test]
fn what_is_beside_the_model() {
    for (others, why) in [
        (r#""added_tokens": {},"#, "tokenizer.json: `added_tokens` is an object, not an array"),
        (r#""added_tokens": [{"id": 1}],"#, "tokenizer.json: added token 0 has no `id` or no `content`"),
        (
            r#""added_tokens": [{"id": 5, "content": "a"}],"#,
            "tokenizer.json: token \"a\" has the id 5, and 0 in the vocabulary",
        ),
        (
            r#""added_tokens": [{"id": 9999999, "content": "x"}],"#,
            "tokenizer.json: token \"x\" has the id 9999999, the limit is 1048576",
        ),
        (
            r#""normalizer": {"type": "Lowercase"},"#,
            "the normalizer \"Lowercase\" has no name in llama.cpp that is known here",
        ),
        (
            r#""normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"},"#,
            "tokenizer.json: its `precompiled_charsmap` is not base64",
        ),
        (
            r#""normalizer": {"type": "Sequence"},"#,
            "tokenizer.json: it has a sequence without a list `normalizers`",
        ),
    ] {
        let text = bpe(GOOD, others);
        assert_eq!(error(&[("tokenizer.json", text.as_bytes())]), why, "{others}");
    }
}

#[test]
fn other_files_and_kinds() {
    let byte_fallback = |vocab: &str, merges: &str| {
        format!(
            r#"{{"normalizer": {{"type": "Replace", "pattern": {{"String": " "}}, "content": "▁"}},
                "model": {{"type": "BPE", "byte_fallback": true, "vocab": {vocab}, "merges": {merges}}}}}"#
        )
    };
    let unigram = |members: &str| {
        format!(r#"{{"pre_tokenizer": {{"type": "Metaspace"}}, "model": {{"type": "Unigram", {members}}}}}"#)
    };
    let wordpiece = r#"{"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "continuing_subword_prefix": "@@", "vocab": {}}}"#;
    let same = r###"{"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "vocab": {"x": 0, "##▁x": 1}}}"###;
    let long = format!(r#"{{"{}": 0}}"#, "é".repeat(129));
    for (name, text, why) in [
        ("tokenizer.json", String::new(), "tokenizer.json: it is not good JSON: "),
        ("tokenizer.json", "{".to_owned(), "tokenizer.json: it is not good JSON: "),
        ("tokenizer.json", "[]".to_owned(), "tokenizer.json: it is an array, not an object"),
        ("tokenizer.json", "{}".to_owned(), "tokenizer.json: it has no object `model`"),
        (
            "tokenizer.json",
            r#"{"model": {}, "model": {}}"#.to_owned(),
            "tokenizer.json: it is not good JSON: ",
        ),
        (
            "tokenizer.json",
            format!("{}{}", r#"{"a":"#.repeat(500), "}".repeat(500)),
            "tokenizer.json: it is not good JSON: ",
        ),
        (
            "tokenizer.json",
            r#"{"model": {"type": "WordLevel"}}"#.to_owned(),
            "tokenizer.json: its model is \"WordLevel\", which llama.cpp does not support",
        ),
        (
            "tokenizer.json",
            byte_fallback(r#"{"a": 0, "b": 1, "ab": 2}"#, "[]"),
            "tokenizer.json: \"a\" and \"b\" are not merged although they make a token",
        ),
        ("tokenizer.json", byte_fallback(&long, "[]"), "tokenizer.json: \"ééé"),
        (
            "tokenizer.json",
            unigram(r#""vocab": [["a", 0.0], ["b"]]"#),
            "tokenizer.json: token 1 is not a pair of a text and a score",
        ),
        (
            "tokenizer.json",
            unigram(r#""vocab": [["a", 1e300]]"#),
            "tokenizer.json: token 0 is not a pair of a text and a score",
        ),
        (
            "tokenizer.json",
            unigram(r#""vocab": [["a", 0.0], ["a", 1.0]]"#),
            "tokenizer.json: token \"a\" is there twice, with the ids 0 and 1",
        ),
        (
            "tokenizer.json",
            unigram(r#""byte_fallback": true, "vocab": []"#),
            "tokenizer.json: it is a unigram model with tokens for bytes",
        ),
        (
            "tokenizer.json",
            wordpiece.to_owned(),
            "tokenizer.json: its continuing_subword_prefix is not \"##\"",
        ),
        ("tokenizer.json", same.to_owned(), "tokenizer.json: two tokens become \"▁x\""),
        ("vocab.json", "{}".to_owned(), "vocab.json: there is no merges.txt beside it"),
        ("vocab.txt", String::new(), "vocab.txt: it has no tokens"),
        ("vocab.txt", "a\nb\na\n".to_owned(), "vocab.txt: token \"a\" is there twice, with the ids 0 and 2"),
        ("tokenizer.model", String::new(), "tokenizer.model: it has no tokens"),
        ("tokenizer.model", "IQ== 0\n".to_owned(), "tokenizer.model: it is no model of SentencePiece: "),
    ] {
        let found = error(&[(name, text.as_bytes())]);
        assert!(found.starts_with(why), "{name} {text:.80}: {found}");
    }
    let pair: [(&str, &[u8]); 2] = [("vocab.json", br#"{"a": 0}"#), ("merges.txt", b"#version: 0.2\na b\n")];
    assert_eq!(error(&pair), "merges.txt: merge 0 has the token \"b\", which the vocabulary has not");
    let pair: [(&str, &[u8]); 2] = [("vocab.json", br#"{"a": 0}"#), ("merges.txt", b"a\n")];
    assert_eq!(error(&pair), "merges.txt: line 1 is not two tokens");
    let pair: [(&str, &[u8]); 2] = [("vocab.json", br#"{"a": 0}"#), ("merges.txt", b"")];
    assert_eq!(error(&pair), "the class \"\" of a tokenizer has no name in llama.cpp that is known here");
    let pair: [(&str, &[u8]); 2] = [("vocab.txt", b"a\n"), ("chat_template.jinja", &[0xff])];
    assert_eq!(error(&pair), "chat_template.jinja: it is not UTF-8");
    let pair: [(&str, &[u8]); 2] = [("vocab.txt", b"a\n"), ("added_tokens.json", br#"{"x": "1"}"#)];
    assert_eq!(error(&pair), "added_tokens.json: the id of token \"x\" is a string");
    let decoder: &[u8] = br#"{"added_tokens_decoder": {"x": {"content": "y"}}}"#;
    let pair: [(&str, &[u8]); 2] = [("vocab.txt", b"a\n"), ("tokenizer_config.json", decoder)];
    assert_eq!(error(&pair), "tokenizer_config.json: added token \"x\" has no id or no text");
}

/// A protobuf field of bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
    field.extend(content);
    field
}

/// A `tokenizer.model` with three tokens.
fn model() -> Vec<u8> {
    let piece = |text: &str, score: f32, kind: u8| {
        let mut piece = field(1, text.as_bytes());
        piece.push(2 << 3 | 5);
        piece.extend(score.to_le_bytes());
        piece.extend([3 << 3, kind]);
        field(1, &piece)
    };
    let mut model = [piece("<unk>", 0.0, 2), piece("▁a", -1.0, 1), piece("<0x0A>", 0.0, 6)].concat();
    model.extend(field(2, &[3 << 3, 2]));
    model.extend(field(3, &[4 << 3, 0]));
    model
}

#[test]
fn a_sentencepiece_model_cut_anywhere_is_refused_or_has_fewer_tokens() {
    let whole = model();
    let read = |bytes: &[u8]| {
        let mut files = TokenizerFiles::new();
        files.insert("tokenizer.model", bytes.to_vec());
        Vocabulary::read(&files, &Config::parse(b"{}").unwrap())
    };
    let tokens = |bytes: &[u8]| match read(bytes) {
        Ok(found) => found.map(|found| found.tokens.len()),
        Err(error) => {
            assert!(error.to_string().starts_with("tokenizer.model: "), "{error}");
            None
        }
    };
    assert_eq!(tokens(&whole), Some(3));
    let lens: Vec<_> = (0..whole.len()).map(|len| tokens(&whole[..len])).collect();
    assert!(lens.iter().flatten().all(|count| *count <= 3), "{lens:?}");
    assert!(lens.iter().filter(|count| count.is_none()).count() > whole.len() - 6, "{lens:?}");
    // Every other byte in each place, too: the result is an error or a tokenizer.
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            let _ = tokens(&changed);
        }
    }
}

#[test]
fn parts_of_a_sentencepiece_model() {
    let with = |more: &[u8]| [&model()[..], more].concat();
    let nan = [&field(1, b"x")[..], &[2 << 3 | 5, 0, 0, 0xc0, 0x7f]].concat();
    for (bytes, why) in [
        (with(&field(1, &nan)), "token \"x\" has the score NaN"),
        (with(&field(1, &[3 << 3, 9])), "it has a token of the unknown type 9"),
        (with(&field(1, &field(1, &[0xff]))), "it has a token that is not UTF-8"),
        (with(&field(1, &field(1, b"<unk>"))), "token \"<unk>\" is there twice, with the ids 0 and 3"),
        (with(&field(2, &[3 << 3, 3])), "it is neither BPE nor a unigram model, and llama.cpp has no other"),
        (
            with(&field(2, &[3 << 3, 1])),
            "it is a unigram model with tokens for bytes, which llama.cpp does not support",
        ),
        (
            with(&field(3, &[5 << 3, 0])),
            "it puts spaces after words or keeps them unescaped, which llama.cpp does not support",
        ),
        (
            model(),
            "it has no token <0x00>, and llama.cpp ends on unknown characters without one for each byte",
        ),
        (with(&[0x0b]), "it is no model of SentencePiece: it has a field of a type that is not used here"),
    ] {
        assert_eq!(error(&[("tokenizer.model", &bytes)]), format!("tokenizer.model: {why}"));
    }
    let other = r#"{"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<unk>": 0, "b": 1}, "merges": []}}"#;
    let found = error(&[("tokenizer.json", other.as_bytes()), ("tokenizer.model", &model())]);
    assert_eq!(found, "tokenizer.model: it has \"▁a\" where tokenizer.json has \"b\"");
}

#[test]
fn tokens_that_llama_cpp_cannot_take() {
    for (model, others, why) in [
        (
            r#""vocab": {"a": 0, "b\u0000c": 1}, "merges": []"#,
            "",
            r#"token 1, "b\0c", has a NUL, where texts end for llama.cpp"#,
        ),
        (
            GOOD,
            r#""added_tokens": [{"id": 1, "content": "<s>", "special": true}],"#,
            r#"the added token "<s>" has the id 1, which is that of "b""#,
        ),
    ] {
        let text = bpe(model, others);
        assert_eq!(error(&[("tokenizer.json", text.as_bytes())]), format!("tokenizer.json: {why}"));
    }
    // The same text, and an id that no token has.
    let others =
        r#""added_tokens": [{"id": 1, "content": "b"}, {"id": 9, "content": "<s>", "special": true}],"#;
    let text = bpe(GOOD, others);
    assert!(read(&[("tokenizer.json", text.as_bytes())], &TokenizerOptions::new()).is_ok());
    let spaces = r#"{"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "merges": [], "vocab": {"<unk>": 256"#;
    let of = |bytes: u32| {
        let tokens: String = (0..bytes).map(|byte| format!(", \"<0x{byte:02X}>\": {byte}")).collect();
        let text = format!("{spaces}{tokens}}}}}}}");
        read(&[("tokenizer.json", text.as_bytes())], &TokenizerOptions::new()).map(|_| ())
    };
    assert_eq!(of(256), Ok(()));
    assert!(of(255).unwrap_err().to_string().contains("it has no token <0xFF>, and llama.cpp ends"));
}

#[test]
fn sizes_that_nobody_has_are_refused_before_anything_is_made() {
    let text = bpe(GOOD, "");
    for rows in [1 << 21, u64::MAX] {
        let found = read(&[("tokenizer.json", text.as_bytes())], &TokenizerOptions::new().rows(Some(rows)));
        let error = found.unwrap_err().to_string();
        assert_eq!(error, format!("config.json: the model has {rows} tokens, the limit is 1048576"));
    }
}

#[test]
fn as_many_tokens_and_merges_as_any_model_has() {
    // Each letter pair and triple of 66 letters: 291,918 tokens, of which 291,852 are merged.
    let letters: Vec<String> = (0..66).map(|n| char::from_u32(0x4e00 + n).unwrap().to_string()).collect();
    let (mut vocab, mut merges, mut count) = (String::new(), String::new(), 0);
    let mut add = |text: &str, parts: Option<(&str, &str)>| {
        vocab.push_str(&format!("{}\"{text}\":{count}", if count == 0 { "" } else { "," }));
        if let Some((first, second)) = parts {
            merges.push_str(&format!("{}\"{first} {second}\"", if merges.is_empty() { "" } else { "," }));
        }
        count += 1;
    };
    letters.iter().for_each(|letter| add(letter, None));
    for first in &letters {
        for second in &letters {
            let pair = format!("{first}{second}");
            add(&pair, Some((first, second)));
            letters.iter().for_each(|third| add(&format!("{pair}{third}"), Some((&pair, third))));
        }
    }
    let text = bpe(&format!(r#""vocab": {{{vocab}}}, "merges": [{merges}]"#), "");
    let tokenizer = read(&[("tokenizer.json", text.as_bytes())], &TokenizerOptions::new()).unwrap().unwrap();
    let lens: Vec<usize> = tokenizer
        .keys
        .iter()
        .filter_map(|(_, value)| match value {
            Key::Texts(texts) => Some(texts.len()),
            _ => None,
        })
        .collect();
    assert_eq!(lens, [291_852, 291_918]);
}
