//! WordPiece, the tokenizer of BERT.

use super::error::fault;
use super::files::Files;
use super::normalizer::SPACE;
use super::parts::{Letters, Model, Parts};
use super::vocabulary::{Kind, Token, Vocabulary};
use crate::MapError;

/// The prefix of a token that continues a word.
pub(super) const PREFIX: &str = "##";

const NAME: &str = "vocab.txt";
const MARKS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Reads `vocab.txt`, one token per line, if it exists. `lowercase` is the setting in
/// `tokenizer_config.json`.
pub(super) fn read(files: &Files, lowercase: bool) -> Result<Option<Parts>, MapError> {
    let Some(text) = files.text(NAME)? else { return Ok(None) };
    let mut vocabulary = Vocabulary::default();
    for (id, line) in (0_u64..).zip(text.lines()) {
        let kind = if MARKS.contains(&line) { Kind::Control } else { Kind::Normal };
        vocabulary.add(NAME, id, Token::new(line, kind))?;
    }
    if vocabulary.is_empty() {
        return Err(fault(NAME, "it has no tokens"));
    }
    let mut parts = Parts::new(NAME, Model::Bert, vocabulary);
    parts.letters = Some(Letters { lowercase, strip_accents: lowercase });
    parts.ids = ids(&parts.vocabulary);
    Ok(Some(parts))
}

/// Returns the special tokens by their usual texts.
pub(super) fn ids(vocabulary: &Vocabulary) -> Vec<(&'static str, Option<u32>)> {
    let roles = ["pad", "unk", "cls", "sep", "mask"].into_iter().zip(MARKS);
    roles.map(|(role, mark)| (role, vocabulary.id(mark))).collect()
}

/// Returns llama.cpp's text for a token: it marks the tokens that begin a word, not those that continue one.
pub(super) fn marked(token: &Token) -> String {
    match token.text.strip_prefix(PREFIX) {
        _ if token.kind != Kind::Normal => token.text.clone(),
        Some(rest) => rest.to_owned(),
        None => format!("{SPACE}{}", token.text),
    }
}
