//! `tokenizer.model`: the pieces that a GGUF has as tokens, and the bytes between them.
//!
//! A GGUF carries a list of parts: 0 and the number of tokens that follow in order, or 1, a length and bytes.
//! Numbers have four bytes, little-endian.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::number::rounded;
use modelfmt_value::{List, Object, Value};

const TOKENS: u8 = 0;
const BYTES: u8 = 1;

/// The maximum length of the file.
pub(super) const MAX_LEN: u64 = 64 << 20;

/// The tokens of a GGUF: texts, scores and types.
struct Pieces<'a> {
    texts: Vec<&'a str>,
    scores: &'a List,
    types: &'a List,
}

impl<'a> Pieces<'a> {
    fn of(keys: &'a Object) -> Option<Self> {
        let list = |key: &str| keys.get(&format!("tokenizer.ggml.{key}")).and_then(Value::as_array);
        let texts = list("tokens")?.texts()?;
        Some(Self { texts, scores: list("scores")?, types: list("token_type")? })
    }

    /// Returns the fields of all tokens, as SentencePiece writes them.
    fn encoded(&self) -> impl Iterator<Item = Vec<u8>> {
        let numbers = self.scores.iter().zip(self.types.iter());
        self.texts.iter().zip(numbers).map(|(text, (score, kind))| {
            let mut piece = vec![0x0a];
            push_varint(&mut piece, text.len() as u64);
            piece.extend_from_slice(text.as_bytes());
            piece.push(0x15);
            let score = rounded(score.as_f64().unwrap_or_default());
            piece.extend_from_slice(&score.to_le_bytes());
            let kind = kind.as_u64().unwrap_or_default();
            if kind != 1 {
                piece.push(0x18);
                push_varint(&mut piece, kind);
            }
            let mut field = vec![0x0a];
            push_varint(&mut field, piece.len() as u64);
            field.append(&mut piece);
            field
        })
    }
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

/// Returns what a file has beyond the tokens of the keys.
pub(super) fn between(keys: &Object, file: &[u8]) -> Vec<u8> {
    let mut parts = Parts::default();
    let mut rest = file;
    if let Some(pieces) = Pieces::of(keys) {
        for piece in pieces.encoded() {
            // If the file has another field here, the field is kept in place of the token.
            match rest.strip_prefix(&piece[..]) {
                Some(after) => {
                    parts.token();
                    rest = after;
                }
                None => {
                    let Some(len) = field_len(rest) else { break };
                    let (own, after) = rest.split_at(len);
                    parts.skip(own);
                    rest = after;
                }
            }
        }
    }
    parts.bytes(rest);
    parts.done()
}

/// Returns the length of a field that is a message, like all fields of a model.
fn field_len(bytes: &[u8]) -> Option<usize> {
    let (first, mut rest) = bytes.split_first()?;
    if first & 7 != 2 || *first >= 0x80 {
        return None;
    }
    let (mut len, mut shift, mut head) = (0usize, 0u32, 1usize);
    loop {
        let (byte, after) = rest.split_first()?;
        head = head.checked_add(1)?;
        len |= usize::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 28)?;
        if *byte < 0x80 {
            break;
        }
        (rest, shift) = (after, shift.checked_add(7)?);
    }
    head.checked_add(len).filter(|whole| *whole <= bytes.len())
}

/// Parts that are being written.
#[derive(Default)]
struct Parts {
    out: Vec<u8>,
    tokens: u32,
    bytes: Vec<u8>,
    /// Whether a token has been skipped.
    skipped: bool,
}

impl Parts {
    fn token(&mut self) {
        self.flush_bytes();
        self.tokens = self.tokens.saturating_add(1);
    }

    /// Adds a field that the file has in place of a token.
    fn skip(&mut self, field: &[u8]) {
        self.flush_tokens();
        self.bytes.extend_from_slice(field);
        // This count skips the token that the field replaces.
        self.flush_bytes();
        self.out.push(TOKENS);
        self.out.extend_from_slice(&u32::MAX.to_le_bytes());
        self.skipped = true;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.flush_tokens();
        self.bytes.extend_from_slice(bytes);
        self.flush_bytes();
    }

    fn flush_tokens(&mut self) {
        if self.tokens > 0 {
            self.out.push(TOKENS);
            self.out.extend_from_slice(&self.tokens.to_le_bytes());
            self.tokens = 0;
        }
    }

    fn flush_bytes(&mut self) {
        if !self.bytes.is_empty() {
            self.out.push(BYTES);
            self.out.extend_from_slice(&u32::try_from(self.bytes.len()).unwrap_or(0).to_le_bytes());
            self.out.append(&mut self.bytes);
        }
    }

    fn done(mut self) -> Vec<u8> {
        self.flush_tokens();
        self.flush_bytes();
        self.out
    }
}

/// Makes the file from the parts.
///
/// # Errors
/// What is wrong with the parts.
pub(super) fn applied(keys: &Object, parts: &[u8]) -> Result<Vec<u8>, String> {
    let pieces = Pieces::of(keys);
    let mut encoded = pieces.iter().flat_map(Pieces::encoded);
    let (mut out, mut rest) = (Vec::new(), parts);
    while let Some((kind, after)) = rest.split_first() {
        let (number, after) = after.split_first_chunk().ok_or("it ends in the middle of a number")?;
        let number = u32::from_le_bytes(*number);
        rest = after;
        match *kind {
            // The file has another field in place of this token.
            TOKENS if number == u32::MAX => {
                encoded.next().ok_or("it has more tokens than the GGUF")?;
            }
            TOKENS => {
                for _ in 0..number {
                    out.extend(encoded.next().ok_or("it has more tokens than the GGUF")?);
                }
            }
            BYTES => {
                let len = usize::try_from(number).unwrap_or(usize::MAX);
                let (bytes, after) = rest.split_at_checked(len).ok_or("it ends in the middle of bytes")?;
                out.extend_from_slice(bytes);
                rest = after;
            }
            other => return Err(format!("{other} is no kind of part")),
        }
        if out.len() as u64 > MAX_LEN {
            return Err(format!("it becomes longer than {} MiB", MAX_LEN >> 20));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(tokens: &[(String, f32, u64)]) -> Object {
        let mut keys = Object::new();
        keys.insert(
            "tokenizer.ggml.tokens",
            tokens.iter().map(|(text, ..)| text.as_str()).collect::<Value>(),
        );
        let scores = tokens.iter().map(|(_, score, _)| Value::Float(f64::from(*score)));
        keys.insert("tokenizer.ggml.scores", scores.collect::<Value>());
        keys.insert("tokenizer.ggml.token_type", tokens.iter().map(|(.., kind)| *kind).collect::<Value>());
        keys
    }

    fn file(tokens: &[(String, f32, u64)], rest: &[u8]) -> Vec<u8> {
        let keys = keys(tokens);
        let pieces = Pieces::of(&keys).unwrap();
        pieces.encoded().flatten().chain(rest.iter().copied()).collect()
    }

    fn tokens() -> impl Strategy<Value = Vec<(String, f32, u64)>> {
        prop::collection::vec(("[a-z▁]{0,200}", -9.0..9.0f32, 1..7u64), 0..20)
    }

    proptest! {
        #[test]
        fn models_come_back(tokens in tokens(), own in tokens(), rest in prop::collection::vec(any::<u8>(), 0..40)) {
            // The tokens of the file are those of the keys, or any others. Any bytes follow.
            for (of_keys, of_file) in [(&tokens, &tokens), (&tokens, &own)] {
                let (keys, file) = (keys(of_keys), file(of_file, &rest));
                let parts = between(&keys, &file);
                prop_assert_eq!(applied(&keys, &parts).unwrap(), file);
            }
            let (keys, file) = (keys(&tokens), file(&tokens, &rest));
            prop_assert!(between(&keys, &file).len() <= rest.len() + 10);
        }

        #[test]
        fn parts_of_a_stranger_make_no_panic(tokens in tokens(), parts in prop::collection::vec(any::<u8>(), 0..80)) {
            _ = applied(&keys(&tokens), &parts);
        }
    }

    #[test]
    fn one_other_token_is_one_other_part() {
        let of_keys: Vec<_> = (0..9).map(|i| (format!("t{i}"), -(i as f32), 1)).collect();
        let mut of_file = of_keys.clone();
        of_file[4].0 = "other".to_owned();
        let (keys, file) = (keys(&of_keys), file(&of_file, b"rest"));
        let parts = between(&keys, &file);
        assert_eq!(applied(&keys, &parts).unwrap(), file);
        assert!(parts.len() < 50, "{}", parts.len());
        assert_eq!(applied(&Object::new(), &between(&Object::new(), &file)).unwrap(), file);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let keys = keys(&[("a".to_owned(), 0.0, 1)]);
        for (parts, why) in [
            (&[0, 2, 0, 0, 0][..], "it has more tokens than the GGUF"),
            (&[0, 2, 0], "it ends in the middle of a number"),
            (&[1, 2, 0, 0, 0, 7], "it ends in the middle of bytes"),
            (&[9, 2, 0, 0, 0], "9 is no kind of part"),
        ] {
            assert_eq!(applied(&keys, parts).unwrap_err(), why);
        }
    }
}
