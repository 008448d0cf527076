//! `tokenizer.json`, as the hub's library tokenizers writes it.

use std::collections::HashSet;

use modelfmt_value::{List, Object, Value};

use super::error::{fault, quoted};
use super::files::Files;
use super::merges;
use super::normalizer::{Normalizer, SPACE, normalizers};
use super::parts::{Letters, Model, Parts, Stripping};
use super::pre::{self, Step};
use super::sentencepiece::{self, Algorithm, SentencePiece};
use super::sequence::flat;
use super::template::template;
use super::vocabulary::{Kind, Token, Vocabulary};
use super::wordpiece;
use crate::MapError;

/// The name of the file.
pub(super) const NAME: &str = "tokenizer.json";

/// A token beside the vocabulary.
struct Added {
    id: u64,
    text: String,
    kind: Kind,
    /// Whether it takes the white space before it, and after it.
    strips: (bool, bool),
}

/// A `tokenizer.json` in parts.
struct Tokenizer<'a> {
    model: Object,
    normalizers: Vec<Normalizer>,
    steps: Vec<Step>,
    is_bytes: bool,
    added: Vec<Added>,
    /// The pre-tokenizer's name, if the caller states it.
    pre: Option<&'a str>,
}

/// Reads the file, if it exists.
pub(super) fn read(files: &Files, pre: Option<&str>) -> Result<Option<Parts>, MapError> {
    let Some(mut object) = files.object(NAME)? else { return Ok(None) };
    let Some(Value::Object(model)) = object.remove("model") else {
        return Err(fault(NAME, "it has no object `model`"));
    };
    let steps = pre::steps(NAME, object.get("pre_tokenizer"))?;
    let decoders = flat(NAME, object.get("decoder"), "decoders")?;
    let is_bytes = |decoder: &Value| decoder.get("type").and_then(Value::as_str) == Some("ByteLevel");
    let tokenizer = Tokenizer {
        is_bytes: steps.contains(&Step::Bytes) || decoders.iter().any(is_bytes),
        normalizers: normalizers(NAME, object.get("normalizer"))?,
        steps,
        added: added(object.get("added_tokens"))?,
        model,
        pre,
    };
    let mut parts = tokenizer.parts(files)?;
    parts.template = Some(template(NAME, object.get("post_processor"))?);
    parts.stripping = tokenizer.stripping();
    let unknown = tokenizer.text("unk_token").and_then(|text| parts.vocabulary.id(text));
    if unknown.is_some() {
        parts.ids.push(("unk", unknown));
    }
    if let Some(pre) = pre {
        pre.clone_into(&mut parts.pre);
    }
    Ok(Some(parts))
}

/// Reads the list `added_tokens`.
fn added(list: Option<&Value>) -> Result<Vec<Added>, MapError> {
    let list = match list {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(fault(NAME, format!("`added_tokens` is {}, not an array", other.kind()))),
    };
    let token = |(number, token): (usize, Value)| {
        let id = token.get("id").and_then(Value::as_u64);
        let text = token.get("content").and_then(Value::as_str);
        let is_special = token.get("special").and_then(Value::as_bool) == Some(true);
        let kind = if is_special { Kind::Control } else { Kind::UserDefined };
        let flag = |key: &str| token.get(key).and_then(Value::as_bool) == Some(true);
        let strips = (flag("lstrip"), flag("rstrip"));
        match (id, text) {
            (Some(id), Some(text)) => Ok(Added { id, text: text.to_owned(), kind, strips }),
            _ => Err(fault(NAME, format!("added token {number} has no `id` or no `content`"))),
        }
    };
    list.iter().enumerate().map(token).collect()
}

impl Tokenizer<'_> {
    fn stripping(&self) -> Vec<Stripping> {
        let of = |token: &Added| {
            let (before, after) = token.strips;
            (before || after).then(|| Stripping { text: token.text.clone(), before, after })
        };
        self.added.iter().filter_map(of).collect()
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.model.get(key)?.as_str()
    }

    fn is(&self, key: &str) -> bool {
        self.model.get(key).and_then(Value::as_bool) == Some(true)
    }

    fn array(&self, key: &str) -> Option<&List> {
        self.model.get(key)?.as_array()
    }

    /// Returns the kind of the model. Old files do not state it.
    fn kind(&self) -> &str {
        let guess = || match (self.array("merges"), self.array("vocab")) {
            (Some(_), _) => "BPE",
            (None, Some(_)) => "Unigram",
            (None, None) => "WordPiece",
        };
        self.text("type").unwrap_or_else(guess)
    }

    fn parts(&self, files: &Files) -> Result<Parts, MapError> {
        match self.kind() {
            "BPE" if self.is("byte_fallback") && !self.is_bytes => self.sentencepiece(files),
            "BPE" => self.bytes(),
            "Unigram" => self.unigram(),
            "WordPiece" => self.wordpiece(),
            other => {
                Err(fault(NAME, format!("its model is {}, which llama.cpp does not support", quoted(other))))
            }
        }
    }

    /// Reads the object `vocab`.
    fn vocabulary(&self) -> Result<Vocabulary, MapError> {
        let Some(vocab) = self.model.get("vocab").and_then(Value::as_object) else {
            return Err(fault(NAME, "its model has no object `vocab`"));
        };
        of_object(NAME, vocab)
    }

    fn merges(&self) -> Result<Vec<merges::Merge>, MapError> {
        let list = self.array("merges").ok_or_else(|| fault(NAME, "its model has no list `merges`"))?;
        merges::of_list(NAME, list)
    }

    /// Fails unless the caller has stated a name.
    fn unknown(&self, what: &str) -> Result<(), MapError> {
        match self.pre {
            Some(_) => Ok(()),
            None => Err(MapError::UnknownPreTokenizer { what: what.to_owned() }),
        }
    }

    /// Fails for a normalizer, unless llama.cpp applies it for this kind of model or leaves it to its caller.
    fn check_normalizers(&self, is_known: impl Fn(&Normalizer) -> bool) -> Result<(), MapError> {
        match self.normalizers.iter().find(|normalizer| !is_known(normalizer)) {
            None => Ok(()),
            Some(Normalizer::Other(name)) => self.unknown(&format!("the normalizer {}", quoted(name))),
            Some(other) => self.unknown(&format!("the normalizer {other:.20?}")),
        }
    }

    fn add_tokens(&self, vocabulary: &mut Vocabulary) -> Result<(), MapError> {
        let mut add = |token: &Added| vocabulary.add_beside(NAME, token.id, &token.text, token.kind);
        self.added.iter().try_for_each(&mut add)
    }

    /// Reads BPE over bytes.
    fn bytes(&self) -> Result<Parts, MapError> {
        for key in ["continuing_subword_prefix", "end_of_word_suffix"] {
            if self.text(key).is_some_and(|text| !text.is_empty()) {
                return Err(fault(NAME, format!("its model has `{key}`, and llama.cpp's BPE has none")));
            }
        }
        let mut vocabulary = self.vocabulary()?;
        let merges = self.merges()?;
        merges::check(NAME, &merges, &vocabulary)?;
        self.add_tokens(&mut vocabulary)?;
        self.check_normalizers(|normalizer| *normalizer == Normalizer::Composed)?;
        let keeps_words = self.is("ignore_merges");
        let name = pre::name(&self.steps, keeps_words);
        if name.is_none() {
            let steps = pre::describe(&self.steps, keeps_words);
            self.unknown(&format!("the pre-tokenizer ({steps})"))?;
        }
        let mut parts = Parts::new(NAME, Model::Gpt2, vocabulary);
        parts.pre = name.unwrap_or_default().to_owned();
        parts.merges = merges::lines(NAME, merges)?;
        if let Some(texts) = pre::exceptions(&parts.pre).filter(|_| self.pre.is_none()) {
            parts.notes.push(format!("llama.cpp cuts {texts} otherwise than {NAME} says"));
        }
        Ok(parts)
    }

    /// Reads BPE over characters, with tokens for the bytes of characters that are not in the vocabulary.
    fn sentencepiece(&self, files: &Files) -> Result<Parts, MapError> {
        self.check_normalizers(|normalizer| matches!(normalizer, Normalizer::Prefix | Normalizer::Spaces))?;
        let is_metaspace = |step: &Step| matches!(step, Step::Metaspace { .. });
        let has_spaces =
            self.normalizers.contains(&Normalizer::Spaces) || self.steps.iter().any(is_metaspace);
        if !has_spaces || !self.steps.iter().all(|step| is_metaspace(step) || *step == Step::SpaceSplit) {
            self.unknown(&format!("the pre-tokenizer ({})", pre::describe(&self.steps, false)))?;
        }
        let mut vocabulary = match files.get(sentencepiece::NAME) {
            Some(bytes) => self.of_sentencepiece(bytes)?,
            None => self.scored()?,
        };
        self.add_tokens(&mut vocabulary)?;
        let mut parts = Parts::new(NAME, Model::Llama, vocabulary);
        parts.has_space_prefix = Some(self.has_prefix());
        parts.is_prefix_first_only = self.is_prefix_first_only();
        Ok(parts)
    }

    /// Checks whether a space is put before a text.
    fn has_prefix(&self) -> bool {
        self.normalizers.contains(&Normalizer::Prefix)
            || self.steps.iter().any(|step| matches!(step, Step::Metaspace { has_prefix: true, .. }))
    }

    /// Checks whether a space is put before the first word of a text only.
    fn is_prefix_first_only(&self) -> bool {
        !self.normalizers.contains(&Normalizer::Prefix)
            && self.steps.iter().any(|step| matches!(step, Step::Metaspace { is_first_only: true, .. }))
    }

    /// Reads the vocabulary, with scores from the ranks of merges.
    fn scored(&self) -> Result<Vocabulary, MapError> {
        let mut vocabulary = self.vocabulary()?;
        let merges = self.merges()?;
        merges::check(NAME, &merges, &vocabulary)?;
        let unknown = self.text("unk_token");
        let added: HashSet<&str> = self.added.iter().map(|token| token.text.as_str()).collect();
        for token in vocabulary.iter_mut() {
            if Some(token.text.as_str()) == unknown {
                token.kind = Kind::Unknown;
            } else if is_byte(&token.text) {
                token.kind = Kind::Byte;
            } else if added.contains(token.text.as_str()) {
                token.kind = Kind::UserDefined;
            }
        }
        merges::score(NAME, &merges, &mut vocabulary)?;
        Ok(vocabulary)
    }

    /// Reads the vocabulary of the `tokenizer.model` beside the file, which must have the same tokens.
    fn of_sentencepiece(&self, bytes: &[u8]) -> Result<Vocabulary, MapError> {
        let model = SentencePiece::parse(sentencepiece::NAME, bytes)?;
        if model.algorithm != Algorithm::Bpe {
            return Err(fault(sentencepiece::NAME, format!("it is a unigram model, and {NAME} is BPE")));
        }
        let added: HashSet<&str> = self.added.iter().map(|token| token.text.as_str()).collect();
        let Some(vocab) = self.model.get("vocab").and_then(Value::as_object) else {
            return Err(fault(NAME, "its model has no object `vocab`"));
        };
        for (text, id) in vocab {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            let found = id.and_then(|id| model.vocabulary.token(id)).map(|token| token.text.as_str());
            if found != Some(text) && !added.contains(text) {
                let (text, found) = (quoted(text), quoted(found.unwrap_or_default()));
                return Err(fault(sentencepiece::NAME, format!("it has {found} where {NAME} has {text}")));
            }
        }
        Ok(model.vocabulary)
    }

    /// Reads a unigram model.
    fn unigram(&self) -> Result<Parts, MapError> {
        if self.is("byte_fallback") {
            return Err(fault(
                NAME,
                "it is a unigram model with tokens for bytes, which llama.cpp does not support",
            ));
        }
        self.check_normalizers(|normalizer| {
            !matches!(normalizer, Normalizer::Other(_) | Normalizer::Composed | Normalizer::Bert { .. })
        })?;
        let is_known = |step: &Step| matches!(step, Step::Metaspace { .. } | Step::WhiteSpace);
        let has_spaces = self.steps.iter().any(|step| matches!(step, Step::Metaspace { .. }))
            || self.normalizers.contains(&Normalizer::Spaces);
        if !has_spaces || !self.steps.iter().all(is_known) {
            self.unknown(&format!("the pre-tokenizer ({})", pre::describe(&self.steps, false)))?;
        }
        let list = self.array("vocab").ok_or_else(|| fault(NAME, "its model has no list `vocab`"))?;
        let unknown = self.model.get("unk_id").and_then(Value::as_u64);
        let mut vocabulary = Vocabulary::default();
        for (id, pair) in (0_u64..).zip(list) {
            let pair = pair.as_array();
            let text = pair.and_then(|pair| pair.get(0));
            let score = pair.and_then(|pair| pair.get(1)).as_ref().and_then(number);
            let (Some(text), Some(score)) = (text.as_ref().and_then(Value::as_str), score) else {
                return Err(fault(NAME, format!("token {id} is not a pair of a text and a score")));
            };
            let kind = if unknown == Some(id) { Kind::Unknown } else { Kind::Normal };
            vocabulary.add(NAME, id, Token { text: text.to_owned(), kind, score })?;
        }
        let mut parts = Parts::new(NAME, Model::T5, vocabulary);
        self.add_tokens(&mut parts.vocabulary)?;
        parts.ids.push(("unk", unknown.and_then(|id| u32::try_from(id).ok())));
        parts.has_space_prefix = Some(self.has_prefix());
        parts.is_prefix_first_only = self.is_prefix_first_only();
        let drops =
            [Normalizer::OneSpace, Normalizer::Strip].iter().any(|one| self.normalizers.contains(one));
        parts.removes_extra_whitespaces = Some(drops || self.steps.contains(&Step::WhiteSpace));
        let charsmap = self.normalizers.iter().find_map(|normalizer| match normalizer {
            Normalizer::Charsmap(charsmap) => Some(charsmap.clone()),
            _ => None,
        });
        parts.charsmap = charsmap.unwrap_or_default();
        Ok(parts)
    }

    fn wordpiece(&self) -> Result<Parts, MapError> {
        if self.text("continuing_subword_prefix").is_some_and(|prefix| prefix != wordpiece::PREFIX) {
            return Err(fault(
                NAME,
                "its continuing_subword_prefix is not \"##\", the only one that llama.cpp supports",
            ));
        }
        self.check_normalizers(|normalizer| matches!(normalizer, Normalizer::Bert { .. }))?;
        if self.steps != [Step::Bert] {
            self.unknown(&format!("the pre-tokenizer ({})", pre::describe(&self.steps, false)))?;
        }
        let letters = self.normalizers.iter().find_map(|normalizer| match normalizer {
            Normalizer::Bert { lowercase, strip_accents } => {
                Some(Letters { lowercase: *lowercase, strip_accents: *strip_accents })
            }
            _ => None,
        });
        let mut vocabulary = self.vocabulary()?;
        self.add_tokens(&mut vocabulary)?;
        let mut parts = Parts::new(NAME, Model::Bert, vocabulary);
        parts.ids = wordpiece::ids(&parts.vocabulary);
        parts.letters = Some(letters.unwrap_or(Letters { lowercase: false, strip_accents: false }));
        Ok(parts)
    }
}

/// Reads a vocabulary from an object of texts and ids.
pub(super) fn of_object(file: &str, vocab: &Object) -> Result<Vocabulary, MapError> {
    let mut vocabulary = Vocabulary::default();
    for (text, id) in vocab {
        let Some(id) = id.as_u64() else {
            let (text, kind) = (quoted(text), id.kind());
            return Err(fault(file, format!("the id of token {text} is {kind}")));
        };
        vocabulary.add(file, id, Token::new(text, Kind::Normal))?;
    }
    Ok(vocabulary)
}

/// Converts a number to a score.
fn number(value: &Value) -> Option<f32> {
    let number = value.as_f64().or_else(|| value.as_i64().map(|number| number as f64))?;
    #[expect(clippy::cast_possible_truncation, reason = "scores are f32 in SentencePiece")]
    let number = number as f32;
    number.is_finite().then_some(number)
}

/// Checks whether a text is the token of a byte, such as `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|text| text.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Writes the spaces in a text of SentencePiece as spaces.
pub(super) fn with_spaces(text: &str) -> String {
    text.replace(SPACE, " ")
}
