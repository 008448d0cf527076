//! `tokenizer.model`, as SentencePiece writes it; T5's has another name.

use super::error::{fault, quoted};
use super::files::Files;
use super::protobuf::{Field, Fields};
use super::vocabulary::{Kind, Token, Vocabulary};
use crate::MapError;

/// The name of the file.
pub(super) const NAME: &str = "tokenizer.model";
/// The name of the file beside a T5.
const OTHER_NAME: &str = "spiece.model";

/// Returns the name of the file and its content.
pub(super) fn file(files: &Files) -> Option<(&'static str, &[u8])> {
    [NAME, OTHER_NAME].into_iter().find_map(|name| Some((name, files.get(name)?)))
}

/// The algorithms of SentencePiece that llama.cpp has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Unigram,
    Bpe,
}

/// The content of a `tokenizer.model`.
#[derive(Clone, Debug)]
pub(super) struct SentencePiece {
    pub(super) algorithm: Algorithm,
    pub(super) vocabulary: Vocabulary,
    /// The ids of `bos`, `eos`, `unk` and `pad`, as far as there are such tokens.
    pub(super) ids: [(&'static str, Option<u32>); 4],
    pub(super) charsmap: Vec<u8>,
    pub(super) has_dummy_prefix: bool,
    pub(super) removes_extra_whitespaces: bool,
}

/// The settings of the trainer that matter when a text is split.
struct Trainer {
    kind: u64,
    has_byte_fallback: bool,
    is_whitespace_suffix: bool,
    unk: i32,
    bos: i32,
    eos: i32,
    pad: i32,
}

struct Normalizer {
    charsmap: Vec<u8>,
    has_dummy_prefix: bool,
    removes_extra_whitespaces: bool,
    escapes_whitespaces: bool,
}

impl SentencePiece {
    /// Reads the bytes of the file with this name.
    pub(super) fn parse(file: &str, bytes: &[u8]) -> Result<Self, MapError> {
        let broken = |why| broken(file, why);
        let mut vocabulary = Vocabulary::default();
        let (mut trainer, mut normalizer) = (Trainer::parse(file, &[])?, Normalizer::parse(file, &[])?);
        let mut count = 0_u64;
        for field in Fields::new(bytes) {
            match field.map_err(broken)? {
                (1, Field::Bytes(piece)) => {
                    vocabulary.add(file, count, piece_of(file, piece)?)?;
                    count = count.saturating_add(1);
                }
                (2, Field::Bytes(message)) => trainer = Trainer::parse(file, message)?,
                (3, Field::Bytes(message)) => normalizer = Normalizer::parse(file, message)?,
                _ => {}
            }
        }
        if count == 0 {
            return Err(fault(file, "it has no tokens"));
        }
        let algorithm = match trainer.kind {
            1 => Algorithm::Unigram,
            2 => Algorithm::Bpe,
            _ => {
                return Err(fault(file, "it is neither BPE nor a unigram model, and llama.cpp has no other"));
            }
        };
        let has_bytes = vocabulary.iter().any(|token| token.kind == Kind::Byte);
        if algorithm == Algorithm::Unigram && (trainer.has_byte_fallback || has_bytes) {
            return Err(fault(
                file,
                "it is a unigram model with tokens for bytes, which llama.cpp does not support",
            ));
        }
        if trainer.is_whitespace_suffix || !normalizer.escapes_whitespaces {
            return Err(fault(
                file,
                "it puts spaces after words or keeps them unescaped, which llama.cpp does not support",
            ));
        }
        let id = |id: i32| u32::try_from(id).ok().filter(|id| vocabulary.token(*id).is_some());
        let ids = [
            ("bos", id(trainer.bos)),
            ("eos", id(trainer.eos)),
            ("unk", id(trainer.unk)),
            ("pad", id(trainer.pad)),
        ];
        Ok(Self {
            algorithm,
            ids,
            vocabulary,
            charsmap: normalizer.charsmap,
            has_dummy_prefix: normalizer.has_dummy_prefix,
            removes_extra_whitespaces: normalizer.removes_extra_whitespaces,
        })
    }
}

fn broken(file: &str, why: &str) -> MapError {
    fault(file, format!("it is no model of SentencePiece: {why}"))
}

/// Reads a token from its message.
fn piece_of(file: &str, message: &[u8]) -> Result<Token, MapError> {
    let mut token = Token::new("", Kind::Normal);
    for field in Fields::new(message) {
        match field.map_err(|why| broken(file, why))? {
            (1, Field::Bytes(text)) => {
                let text = std::str::from_utf8(text);
                text.map_err(|_| fault(file, "it has a token that is not UTF-8"))?
                    .clone_into(&mut token.text);
            }
            (2, Field::Fixed32(bytes)) => token.score = f32::from_le_bytes(bytes),
            (3, Field::Varint(kind)) => {
                token.kind = match kind {
                    1 => Kind::Normal,
                    2 => Kind::Unknown,
                    3 => Kind::Control,
                    4 => Kind::UserDefined,
                    5 => Kind::Unused,
                    6 => Kind::Byte,
                    _ => return Err(fault(file, format!("it has a token of the unknown type {kind}"))),
                }
            }
            _ => {}
        }
    }
    if !token.score.is_finite() {
        return Err(fault(file, format!("token {} has the score {}", quoted(&token.text), token.score)));
    }
    Ok(token)
}

impl Trainer {
    fn parse(file: &str, message: &[u8]) -> Result<Self, MapError> {
        let mut trainer = Self {
            kind: 1,
            has_byte_fallback: false,
            is_whitespace_suffix: false,
            unk: 0,
            bos: 1,
            eos: 2,
            pad: -1,
        };
        // protobuf writes a negative `int32` as 64 bits.
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the number")]
        let id = |value: u64| value as i32;
        for field in Fields::new(message) {
            match field.map_err(|why| broken(file, why))? {
                (3, Field::Varint(value)) => trainer.kind = value,
                (24, Field::Varint(value)) => trainer.is_whitespace_suffix = value != 0,
                (35, Field::Varint(value)) => trainer.has_byte_fallback = value != 0,
                (40, Field::Varint(value)) => trainer.unk = id(value),
                (41, Field::Varint(value)) => trainer.bos = id(value),
                (42, Field::Varint(value)) => trainer.eos = id(value),
                (43, Field::Varint(value)) => trainer.pad = id(value),
                _ => {}
            }
        }
        Ok(trainer)
    }
}

impl Normalizer {
    fn parse(file: &str, message: &[u8]) -> Result<Self, MapError> {
        let mut normalizer = Self {
            charsmap: Vec::new(),
            has_dummy_prefix: true,
            removes_extra_whitespaces: true,
            escapes_whitespaces: true,
        };
        for field in Fields::new(message) {
            match field.map_err(|why| broken(file, why))? {
                (2, Field::Bytes(charsmap)) => normalizer.charsmap = charsmap.to_vec(),
                (3, Field::Varint(value)) => normalizer.has_dummy_prefix = value != 0,
                (4, Field::Varint(value)) => normalizer.removes_extra_whitespaces = value != 0,
                (5, Field::Varint(value)) => normalizer.escapes_whitespaces = value != 0,
                _ => {}
            }
        }
        Ok(normalizer)
    }
}
