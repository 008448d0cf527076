//! Reads files of tokenizers, as in hub folders.

use std::collections::HashSet;

use modelfmt_hub::{Config, Key, Tokenizer, TokenizerFiles, TokenizerOptions};

use super::drill::Depth;

/// The separator between the files of an input.
const BETWEEN: &[u8] = b"\n===\n";

/// The target: the first byte says which files there are, and the rest is their contents. The result has as
/// many members in each list as tokens, no token twice, and only special tokens that exist.
pub fn any(input: &[u8], _: Depth) {
    let Some((kind, rest)) = input.split_first() else { return };
    let names: &[&str] = match kind % 4 {
        0 => &["tokenizer.json", "tokenizer_config.json", "generation_config.json", "tokenizer.model"],
        1 => &["tokenizer.model", "tokenizer_config.json", "added_tokens.json"],
        2 => &["vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json"],
        _ => &["vocab.txt", "tokenizer_config.json", "chat_template.json"],
    };
    let mut files = TokenizerFiles::new();
    let mut rest = Some(rest);
    for name in names {
        let Some(bytes) = rest else { break };
        let end = bytes.windows(BETWEEN.len()).position(|window| window == BETWEEN);
        let (content, others) = match end {
            Some(end) => (&bytes[..end], Some(&bytes[end + BETWEEN.len()..])),
            None => (bytes, None),
        };
        files.insert(name, content.to_vec());
        rest = others;
    }
    let config = Config::parse(br#"{"bos_token_id": 1, "eos_token_id": [2, 3]}"#).expect("an object");
    let rows = (kind & 4 == 4).then_some(16);
    let options = TokenizerOptions::new().rows(rows).pre((kind & 8 == 8).then_some("gpt-2"));
    if let Ok(Some(tokenizer)) = Tokenizer::read(&files, &config, &options) {
        check(&tokenizer, rows);
    }
}

fn check(tokenizer: &Tokenizer, rows: Option<u64>) {
    let find = |name: &str| {
        let found = tokenizer.keys.iter().find(|(key, _)| key.strip_prefix("tokenizer.ggml.") == Some(name));
        found.map(|(_, value)| value)
    };
    let Some(Key::Texts(tokens)) = find("tokens") else { panic!("no tokens") };
    assert!(rows.is_none_or(|rows| tokens.len() as u64 == rows));
    match find("token_type") {
        Some(Key::I32s(kinds)) => assert_eq!(kinds.len(), tokens.len()),
        other => panic!("{other:?}"),
    }
    match find("scores") {
        Some(Key::F32s(scores)) => {
            assert_eq!(scores.len(), tokens.len());
            assert!(scores.iter().all(|score| score.is_finite()));
        }
        None => {}
        other => panic!("{other:?}"),
    }
    let mut seen = HashSet::new();
    assert!(tokens.iter().all(|token| token.is_empty() || seen.insert(token)), "a token is there twice");
    let mut keys = HashSet::new();
    for (key, value) in &tokenizer.keys {
        assert!(keys.insert(key), "{key} is there twice");
        if let (true, Key::U32(id)) = (key.ends_with("_token_id"), value) {
            assert!((*id as usize) < tokens.len(), "{key} is {id}");
        }
    }
}
