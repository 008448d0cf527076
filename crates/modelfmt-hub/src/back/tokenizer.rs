//! The files of a tokenizer, as far as they follow from the keys of a GGUF.

use std::collections::{HashMap, HashSet};

use modelfmt_value::{List, Object, Value};

use super::number::shortest;
use crate::number::rounded;

/// The maximum number of tokens of a tokenizer, and of added tokens among them.
const MAX_TOKENS: usize = 1 << 20;
const MAX_ADDED: usize = 1 << 16;
/// The maximum length in bytes of a token that is merged from others. The work grows with the square of the
/// length.
const MAX_BYTES: usize = 256;
/// The maximum number of merges that scores stand for: this many for each token, and this many more.
const MERGES_OF_TOKEN: usize = 4;
const MORE_MERGES: usize = 1 << 16;

const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;

/// The mark of a space in tokens.
const SPACE: char = '▁';

/// How a `tokenizer.json` is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// Merges are pairs of texts, not texts with a space.
    pub(super) has_pairs: bool,
    /// Added tokens are not in the vocabulary.
    pub(super) has_added_beside: bool,
    /// Whether merges that make the same token are sorted by their ids. Otherwise those with the longer first
    /// part come first.
    pub(super) is_by_id: bool,
}

/// The tokens of a GGUF.
pub(super) struct Tokens<'a> {
    keys: &'a Object,
    model: &'a str,
    texts: Vec<&'a str>,
    kinds: Vec<u64>,
}

impl<'a> Tokens<'a> {
    /// Reads the tokens, if there are any.
    pub(super) fn of(keys: &'a Object) -> Option<Self> {
        let texts = list(keys, "tokens")?.texts().filter(|texts| texts.len() <= MAX_TOKENS)?;
        let kinds: Vec<u64> = match list(keys, "token_type") {
            Some(kinds) => kinds.iter().map(|kind| kind.as_u64().unwrap_or(1)).collect(),
            None => vec![1; texts.len()],
        };
        let model = keys.get("tokenizer.ggml.model").and_then(Value::as_str)?;
        (kinds.len() == texts.len()).then_some(Self { keys, model, texts, kinds })
    }

    /// Returns the number, the text and the type of each token that is not a filler.
    fn iter(&self) -> impl Iterator<Item = (u64, &'a str, u64)> {
        let all =
            (0u64..).zip(self.texts.iter().zip(&self.kinds)).map(|(id, (text, kind))| (id, *text, *kind));
        all.filter(|(id, text, kind)| *kind != UNUSED || *text != format!("[PAD{id}]"))
    }

    fn added(&self) -> impl Iterator<Item = (u64, &'a str, u64)> {
        self.iter().filter(|(.., kind)| matches!(*kind, CONTROL | USER_DEFINED)).take(MAX_ADDED)
    }

    /// Returns the name of the algorithm.
    pub(super) const fn model(&self) -> &'a str {
        self.model
    }

    /// Returns the text of a key.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.keys.get(&format!("tokenizer.ggml.{key}"))?.as_str()
    }

    /// Returns the flag of a key.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.keys.get(&format!("tokenizer.ggml.{key}"))?.as_bool()
    }

    /// Returns the id of a token.
    pub(super) fn id(&self, text: &str) -> Option<u64> {
        self.iter().find(|(_, own, _)| *own == text).map(|(id, ..)| id)
    }

    /// Returns the text of the token with a role.
    pub(super) fn special(&self, key: &str) -> Option<&'a str> {
        let id = self.keys.get(&format!("tokenizer.ggml.{key}"))?.as_u64()?;
        self.texts.get(usize::try_from(id).ok()?).copied()
    }

    /// Makes `tokenizer.json`.
    pub(super) fn hub_json(&self, form: Form) -> Value {
        let mut top = Object::from_iter([("version", Value::from("1.0"))]);
        top.insert("truncation", Value::Null);
        top.insert("padding", Value::Null);
        let added = self.added().map(|(id, text, kind)| {
            let mut token = Object::from_iter([("id", Value::from(id)), ("content", Value::from(text))]);
            for flag in ["single_word", "lstrip", "rstrip"] {
                token.insert(flag, Value::Bool(false));
            }
            token.insert("normalized", Value::Bool(kind != CONTROL));
            token.insert("special", Value::Bool(kind == CONTROL));
            Value::Object(token)
        });
        top.insert("added_tokens", added.collect::<Value>());
        for part in ["normalizer", "pre_tokenizer", "post_processor", "decoder"] {
            top.insert(part, Value::Null);
        }
        let model = match self.model {
            "bert" => self.word_piece(form),
            "t5" => self.unigram(),
            _ => self.bpe(form),
        };
        top.insert("model", model);
        Value::Object(top)
    }

    /// Makes the vocabulary: ids by their texts.
    fn vocabulary(&self, form: Form, text_of: impl Fn(&str, u64) -> String) -> Object {
        let is_in = |kind: u64| !(form.has_added_beside && matches!(kind, CONTROL | USER_DEFINED));
        let mut vocabulary = Object::new();
        for (id, text, _) in self.iter().filter(|(.., kind)| is_in(*kind)) {
            let kind = usize::try_from(id).ok().and_then(|at| self.kinds.get(at)).copied().unwrap_or(1);
            vocabulary.insert(text_of(text, kind), id);
        }
        vocabulary
    }

    fn bpe(&self, form: Form) -> Value {
        let is_of_bytes = self.model == "gpt2";
        let mut model = Object::from_iter([("type", Value::from("BPE"))]);
        model.insert("dropout", Value::Null);
        let unknown = if is_of_bytes { None } else { self.special("unknown_token_id") };
        model.insert("unk_token", unknown.map_or(Value::Null, Value::from));
        model.insert("continuing_subword_prefix", Value::Null);
        model.insert("end_of_word_suffix", Value::Null);
        model.insert("fuse_unk", Value::Bool(!is_of_bytes));
        model.insert("byte_fallback", Value::Bool(!is_of_bytes));
        model.insert("ignore_merges", Value::Bool(false));
        model.insert("vocab", self.vocabulary(form, |text, _| text.to_owned()));
        let merge = |(first, second): (&str, &str)| match form.has_pairs {
            true => [first, second].into_iter().collect::<Value>(),
            false => Value::from(format!("{first} {second}")),
        };
        let merges: List = match list(self.keys, "merges").and_then(List::texts) {
            Some(lines) => lines.into_iter().filter_map(two).map(merge).collect(),
            None => self.merges_of_scores(form).unwrap_or_default().into_iter().map(merge).collect(),
        };
        model.insert("merges", Value::Array(merges));
        Value::Object(model)
    }

    /// Returns why the merges that scores stand for are not written, if there are too many.
    pub(super) fn too_many_merges(&self) -> Option<String> {
        let is_scored = !matches!(self.model, "gpt2" | "bert" | "t5");
        let is_listed = self.keys.contains_key("tokenizer.ggml.merges");
        let found =
            if is_scored && !is_listed { self.merges_of_scores(Form::default()) } else { Some(Vec::new()) };
        found.is_none().then(|| {
            let (count, most) = (self.texts.len(), self.max_merges());
            format!(
                "its {count} tokens are made of each other in more than {most} ways, which no tokenizer has"
            )
        })
    }

    const fn max_merges(&self) -> usize {
        self.texts.len().saturating_mul(MERGES_OF_TOKEN).saturating_add(MORE_MERGES)
    }

    /// Returns the merges that scores stand for: each two tokens that make a token, the better ones first.
    /// `None` if there are too many.
    fn merges_of_scores(&self, form: Form) -> Option<Vec<(&'a str, &'a str)>> {
        let Some(scores) = list(self.keys, "scores").filter(|scores| scores.len() == self.texts.len()) else {
            return Some(Vec::new());
        };
        let scores: Vec<f64> = scores.iter().map(|score| score.as_f64().unwrap_or_default()).collect();
        let ids: HashMap<&str, u64> = self.iter().map(|(id, text, _)| (text, id)).collect();
        let score =
            |id: u64| usize::try_from(id).ok().and_then(|at| scores.get(at)).copied().unwrap_or_default();
        let mut order: Vec<(u64, &str)> = self.iter().map(|(id, text, _)| (id, text)).collect();
        order.sort_by(|(a, _), (b, _)| score(*b).total_cmp(&score(*a)));
        let mut merges = Vec::new();
        for (_, text) in order.into_iter().filter(|(_, text)| text.len() <= MAX_BYTES) {
            let parts = text.char_indices().skip(1).map(|(at, _)| text.split_at(at));
            let known = parts.filter_map(|(a, b)| Some(((*ids.get(a)?, *ids.get(b)?), (a, b))));
            let mut own: Vec<_> = known.collect();
            if form.is_by_id {
                own.sort_by_key(|(ids, _)| *ids);
            } else {
                own.sort_by_key(|(_, (first, _))| std::cmp::Reverse(first.chars().count()));
            }
            merges.extend(own.into_iter().map(|(_, pair)| pair));
            if merges.len() > self.max_merges() {
                return None;
            }
        }
        Some(merges)
    }

    fn word_piece(&self, form: Form) -> Value {
        let mut model = Object::from_iter([("type", Value::from("WordPiece"))]);
        model.insert("unk_token", self.special("unknown_token_id").unwrap_or("[UNK]"));
        model.insert("continuing_subword_prefix", "##");
        model.insert("max_input_chars_per_word", 100u64);
        model.insert("vocab", self.vocabulary(form, word));
        Value::Object(model)
    }

    fn unigram(&self) -> Value {
        let mut model = Object::from_iter([("type", Value::from("Unigram"))]);
        model.insert("unk_id", self.keys.get("tokenizer.ggml.unknown_token_id").cloned().unwrap_or_default());
        let scores = list(self.keys, "scores").cloned().unwrap_or_default();
        let token = |(text, score): (&&str, Value)| {
            let score = Value::Float(shortest(rounded(score.as_f64().unwrap_or_default())));
            [Value::from(*text), score].into_iter().collect::<Value>()
        };
        model.insert("vocab", self.texts.iter().zip(scores.iter()).map(token).collect::<Value>());
        model.insert("byte_fallback", Value::Bool(false));
        Value::Object(model)
    }

    /// Makes `tokenizer_config.json`.
    pub(super) fn config(&self) -> Value {
        let mut config = Object::new();
        let decoded = self.added().map(|(id, text, kind)| {
            let mut token = Object::from_iter([("content", Value::from(text))]);
            token.insert("lstrip", Value::Bool(false));
            token.insert("normalized", Value::Bool(kind != CONTROL));
            token.insert("rstrip", Value::Bool(false));
            token.insert("single_word", Value::Bool(false));
            token.insert("special", Value::Bool(kind == CONTROL));
            (id.to_string(), Value::Object(token))
        });
        config.insert("added_tokens_decoder", decoded.collect::<Object>());
        for (key, id) in [
            ("bos_token", "bos_token_id"),
            ("eos_token", "eos_token_id"),
            ("pad_token", "padding_token_id"),
            ("unk_token", "unknown_token_id"),
            ("cls_token", "cls_token_id"),
            ("sep_token", "seperator_token_id"),
            ("mask_token", "mask_token_id"),
        ] {
            if let Some(text) = self.special(id) {
                config.insert(key, text);
            }
        }
        if let Some(template) = self.keys.get("tokenizer.chat_template") {
            config.insert("chat_template", template.clone());
        }
        Value::Object(config)
    }

    /// Makes `vocab.txt`: the texts of all tokens, one per line.
    fn lines(&self) -> String {
        self.iter()
            .map(|(id, text, _)| {
                let kind = usize::try_from(id).ok().and_then(|at| self.kinds.get(at)).copied().unwrap_or(1);
                word(text, kind) + "\n"
            })
            .collect()
    }
}

/// Returns the text that a token of WordPiece has in the files of the hub.
fn word(text: &str, kind: u64) -> String {
    match text.strip_prefix(SPACE) {
        _ if kind != 1 => text.to_owned(),
        Some(rest) => rest.to_owned(),
        None => format!("##{text}"),
    }
}

/// Splits a merge into its two tokens. The first may be a space.
fn two(line: &str) -> Option<(&str, &str)> {
    let at = line.char_indices().skip(1).find(|(_, char)| *char == ' ')?.0;
    Some((line.get(..at)?, line.get(at..)?.strip_prefix(' ')?))
}

fn list<'a>(keys: &'a Object, key: &str) -> Option<&'a List> {
    keys.get(&format!("tokenizer.ggml.{key}"))?.as_array()
}

/// Makes a file, as far as it follows from the keys: JSON, or the text of another kind of file.
pub(super) fn base(name: &str, keys: &Object, form: Form) -> Value {
    let empty = || if name.ends_with(".json") { Value::Object(Object::new()) } else { Value::from("") };
    let tokens = || Tokens::of(keys);
    match name {
        "tokenizer.json" => tokens().map_or_else(empty, |tokens| tokens.hub_json(form)),
        "tokenizer_config.json" => tokens().map_or_else(empty, |tokens| tokens.config()),
        "vocab.json" => tokens()
            .map_or_else(empty, |tokens| Value::Object(tokens.vocabulary(form, |text, _| text.to_owned()))),
        "vocab.txt" => tokens().map_or_else(empty, |tokens| Value::from(tokens.lines())),
        "merges.txt" => match list(keys, "merges").and_then(List::texts) {
            Some(lines) => Value::from(format!("#version: 0.2\n{}\n", lines.join("\n"))),
            None => empty(),
        },
        "chat_template.jinja" => keys.get("tokenizer.chat_template").cloned().unwrap_or_else(empty),
        _ => empty(),
    }
}

/// Returns the form of a `tokenizer.json` that gives the smallest difference.
pub(super) fn form_of(wanted: &Value, keys: &Object) -> Form {
    let merges = wanted.path(["model", "merges"]).and_then(Value::as_array);
    let has_pairs = merges.and_then(|merges| merges.get(0)).is_some_and(|first| first.as_array().is_some());
    let vocabulary = wanted.path(["model", "vocab"]).and_then(Value::as_object);
    let added = wanted.get("added_tokens").and_then(Value::as_array);
    let is_beside = |added: &List| {
        let texts: HashSet<String> = (added.iter())
            .filter_map(|token| token.get("content").and_then(Value::as_str).map(str::to_owned))
            .collect();
        let there = texts.iter().filter(|text| vocabulary.is_some_and(|all| all.contains_key(text))).count();
        there < texts.len() / 2 + texts.len() % 2
    };
    let form = Form { has_pairs, has_added_beside: added.is_some_and(is_beside), is_by_id: false };
    // Scores do not show the order of merges that make the same token.
    let is_scored = !keys.contains_key("tokenizer.ggml.merges");
    let by_id = Form { is_by_id: true, ..form };
    let has_same = |form| {
        let found = base("tokenizer.json", keys, form);
        found.path(["model", "merges"]).and_then(Value::as_array) == merges
    };
    if is_scored && merges.is_some() && has_same(by_id) { by_id } else { form }
}
