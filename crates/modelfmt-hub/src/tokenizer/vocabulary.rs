//! The tokens of a vocabulary by their ids.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::{HashMap, HashSet};

use super::error::{fault, quoted};
use crate::MapError;

/// The maximum number of tokens. No tokenizer has more.
const MAX_TOKENS: u64 = 1 << 20;

/// What a token is, with the number that GGUF has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) kind: Kind,
    pub(super) score: f32,
}

impl Token {
    pub(super) fn new(text: impl Into<String>, kind: Kind) -> Self {
        Self { text: text.into(), kind, score: 0.0 }
    }
}

/// Tokens by their ids. There may be ids without a token until [`finish`](Self::finish).
#[derive(Clone, Debug, Default)]
pub(super) struct Vocabulary {
    tokens: Vec<Option<Token>>,
    ids: HashMap<String, u32>,
}

impl Vocabulary {
    /// Adds a token of the file. Fails if its id or its text is taken.
    pub(super) fn add(&mut self, file: &str, id: u64, token: Token) -> Result<(), MapError> {
        let number = checked(file, id, &token.text)?;
        if let Some(other) = self.token(number) {
            let (first, second) = (quoted(&other.text), quoted(&token.text));
            return Err(fault(file, format!("tokens {first} and {second} both have the id {id}")));
        }
        if let Some(other) = self.ids.get(&token.text) {
            let text = quoted(&token.text);
            return Err(fault(file, format!("token {text} is there twice, with the ids {other} and {id}")));
        }
        self.put(number, token);
        Ok(())
    }

    /// Adds a token that is not in the vocabulary, or states the kind of one that is. Fails if its text has
    /// another id.
    pub(super) fn add_beside(&mut self, file: &str, id: u64, text: &str, kind: Kind) -> Result<(), MapError> {
        let number = checked(file, id, text)?;
        match self.ids.get(text) {
            Some(other) if *other != number => {
                return Err(fault(
                    file,
                    format!("token {} has the id {id}, and {other} in the vocabulary", quoted(text)),
                ));
            }
            _ => {}
        }
        let old = self.token(number).cloned();
        /// The score that llama.cpp's own converter gives to tokens that no text is merged to.
        const NO_SCORE: f32 = -1000.0;
        let score = old.as_ref().map_or(NO_SCORE, |old| old.score);
        let is_unknown = old.as_ref().is_some_and(|old| old.kind == Kind::Unknown);
        if let Some(old) = old.filter(|old| old.text != text) {
            if matches!(old.kind, Kind::Normal | Kind::Byte) {
                let (first, second) = (quoted(&old.text), quoted(text));
                return Err(fault(
                    file,
                    format!("the added token {second} has the id {id}, which is that of {first}"),
                ));
            }
            self.ids.remove(&old.text);
        }
        let kind = if is_unknown { Kind::Unknown } else { kind };
        self.put(number, Token { text: text.to_owned(), kind, score });
        Ok(())
    }

    fn put(&mut self, id: u32, token: Token) {
        let at = id as usize;
        if self.tokens.len() <= at {
            self.tokens.resize_with(at.saturating_add(1), || None);
        }
        self.ids.insert(token.text.clone(), id);
        if let Some(place) = self.tokens.get_mut(at) {
            *place = Some(token);
        }
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    pub(super) fn token(&self, id: u32) -> Option<&Token> {
        self.tokens.get(id as usize)?.as_ref()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Token> {
        self.tokens.iter_mut().flatten()
    }

    /// Returns the tokens in GGUF's form: as many as the embedding has rows, with a token of its own for each
    /// id that has none. `rows` is `None` if their number is not known. Added tokens beyond the rows are left
    /// out; the second value is their count.
    pub(super) fn finish(mut self, file: &str, rows: Option<u64>) -> Result<(Vec<Token>, u64), MapError> {
        self.ids = HashMap::new();
        let count = self.tokens.len() as u64;
        let rows = rows.unwrap_or(count);
        if rows > MAX_TOKENS {
            let limit = format!("the model has {rows} tokens, the limit is {MAX_TOKENS}");
            return Err(fault("config.json", limit));
        }
        let wanted = usize::try_from(rows).unwrap_or(usize::MAX);
        let beyond = self.tokens.get(wanted..).unwrap_or_default();
        if let Some(token) = beyond.iter().flatten().find(|token| !is_added(token.kind)) {
            let text = quoted(&token.text);
            return Err(fault(
                file,
                format!("it has {count} tokens, {text} among them, and the model has {rows} only"),
            ));
        }
        let left_out = beyond.iter().flatten().count() as u64;
        self.tokens.resize_with(wanted, || None);
        let hole = |id: usize| Token::new(format!("[PAD{id}]"), Kind::Unused);
        let tokens: Vec<Token> = self
            .tokens
            .into_iter()
            .enumerate()
            .map(|(id, token)| token.unwrap_or_else(|| hole(id)))
            .collect();
        check_distinct(file, &tokens)?;
        Ok((tokens, left_out))
    }
}

const fn is_added(kind: Kind) -> bool {
    matches!(kind, Kind::Control | Kind::UserDefined)
}

fn checked(file: &str, id: u64, text: &str) -> Result<u32, MapError> {
    let number = u32::try_from(id).ok().filter(|id| u64::from(*id) < MAX_TOKENS);
    number.ok_or_else(|| {
        let text = quoted(text);
        fault(file, format!("token {text} has the id {id}, the limit is {MAX_TOKENS}"))
    })
}

/// Fails for tokens that llama.cpp cannot read, or for which it ends the process. `has_bytes` says that
/// characters that are no tokens become tokens of their bytes.
pub(super) fn check_loadable(file: &str, tokens: &[Token], has_bytes: bool) -> Result<(), MapError> {
    if let Some((id, token)) = tokens.iter().enumerate().find(|(_, token)| token.text.contains('\0')) {
        let text = quoted(&token.text);
        return Err(fault(file, format!("token {id}, {text}, has a NUL, where texts end for llama.cpp")));
    }
    if !has_bytes {
        return Ok(());
    }
    let texts: HashSet<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    let is_there = |byte: u8| {
        texts.contains(format!("<0x{byte:02X}>").as_str())
            || (byte.is_ascii() && texts.contains(char::from(byte).to_string().as_str()))
    };
    match (0..=u8::MAX).find(|byte| !is_there(*byte)) {
        None => Ok(()),
        Some(byte) => Err(fault(
            file,
            format!(
                "it has no token <0x{byte:02X}>, and llama.cpp ends on unknown characters without one for each byte"
            ),
        )),
    }
}

/// Fails if two tokens have the same text, because llama.cpp then ends the process. It gives tokens without
/// text a name of their own.
fn check_distinct(file: &str, tokens: &[Token]) -> Result<(), MapError> {
    let mut seen = HashSet::with_capacity(tokens.len());
    match tokens.iter().find(|token| !token.text.is_empty() && !seen.insert(token.text.as_str())) {
        None => Ok(()),
        Some(token) => {
            let text = quoted(&token.text);
            Err(fault(
                file,
                format!("two tokens become {text}, and llama.cpp does not load a vocabulary like that"),
            ))
        }
    }
}
