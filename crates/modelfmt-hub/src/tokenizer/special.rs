//! Which tokens are special, and what is put around texts.

use std::collections::HashSet;

use modelfmt_value::{Object, Value};

use super::error::{fault, quoted};
use super::files::Files;
use super::parts::{Model, Parts};
use super::vocabulary::{Kind, Vocabulary};
use crate::{Config, Key, MapError};

/// The roles of special tokens, as files of the hub and as GGUF name them.
const ROLES: &[(&str, &str)] = &[
    ("bos", "bos_token_id"),
    ("eos", "eos_token_id"),
    ("eot", "eot_token_id"),
    ("eom", "eom_token_id"),
    ("unk", "unknown_token_id"),
    // GGUF spells it like this.
    ("sep", "seperator_token_id"),
    ("pad", "padding_token_id"),
    ("cls", "cls_token_id"),
    ("mask", "mask_token_id"),
];

/// Classes of the hub's library for which flags alone say what is put around a text, and the tokens that they
/// put there if no file states others.
const BY_FLAGS: &[(&str, &str, &str)] = &[
    ("CodeLlamaTokenizer", "<s>", "</s>"),
    ("GemmaTokenizer", "<bos>", "<eos>"),
    ("LlamaTokenizer", "<s>", "</s>"),
];

/// The files that say something about special tokens.
pub(super) struct SpecialTokenFiles<'a> {
    config: &'a Config,
    /// `tokenizer_config.json`.
    tokenizer: Object,
    /// `special_tokens_map.json`.
    map: Object,
    /// `generation_config.json`.
    generation: Object,
    /// `added_tokens.json`.
    added: Object,
}

const TOKENIZER: &str = "tokenizer_config.json";
const ADDED: &str = "added_tokens.json";

impl<'a> SpecialTokenFiles<'a> {
    pub(super) fn read(files: &Files, config: &'a Config) -> Result<Self, MapError> {
        let object = |name| files.object(name).map(Option::unwrap_or_default);
        Ok(Self {
            config,
            tokenizer: object(TOKENIZER)?,
            map: object("special_tokens_map.json")?,
            generation: object("generation_config.json")?,
            added: object(ADDED)?,
        })
    }

    /// Returns a text of `tokenizer_config.json`.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.tokenizer.get(key)?.as_str()
    }

    /// Returns a flag of `tokenizer_config.json`.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.tokenizer.get(key)?.as_bool()
    }

    /// Returns `chat_template` of `tokenizer_config.json`.
    pub(super) fn chat_template(&self) -> Option<&Value> {
        self.tokenizer.get("chat_template")
    }

    /// Adds the tokens that `added_tokens.json` and `tokenizer_config.json` have in addition to the
    /// vocabulary.
    pub(super) fn add_tokens(&self, vocabulary: &mut Vocabulary) -> Result<(), MapError> {
        let special = self.special_texts();
        for (text, id) in &self.added {
            let kind = if special.contains(text) { Kind::Control } else { Kind::UserDefined };
            let bad = || fault(ADDED, format!("the id of token {} is {}", quoted(text), id.kind()));
            vocabulary.add_beside(ADDED, id.as_u64().ok_or_else(bad)?, text, kind)?;
        }
        let Some(added) = self.tokenizer.get("added_tokens_decoder").and_then(Value::as_object) else {
            return Ok(());
        };
        for (id, token) in added {
            let is_special = token.get("special").and_then(Value::as_bool) == Some(true);
            let kind = if is_special { Kind::Control } else { Kind::UserDefined };
            let bad = || fault(TOKENIZER, format!("added token {} has no id or no text", quoted(id)));
            let number = id.parse().map_err(|_| bad())?;
            vocabulary.add_beside(TOKENIZER, number, text_of(token).ok_or_else(bad)?, kind)?;
        }
        Ok(())
    }

    /// Returns the texts that have a role.
    fn special_texts(&self) -> HashSet<String> {
        let mut texts = HashSet::new();
        for (key, value) in self.tokenizer.iter().chain(self.map.iter()) {
            match value {
                Value::Array(list) if key == "additional_special_tokens" => {
                    texts.extend(list.iter().filter_map(|token| text_of(&token).map(str::to_owned)));
                }
                _ if key.ends_with("_token") => texts.extend(text_of(value).map(str::to_owned)),
                _ => {}
            }
        }
        texts
    }

    /// Returns the id of the token with a role, if a file states it.
    fn id(&self, role: &str, parts: &Parts) -> Option<u32> {
        let key = format!("{role}_token");
        let texts = [&self.tokenizer, &self.map].into_iter().filter_map(|object| text_of(object.get(&key)?));
        let named = texts.filter_map(|text| parts.vocabulary.id(text)).next();
        let first = || self.stated_ids(&key).into_iter().find(|id| parts.vocabulary.token(*id).is_some());
        let own = || parts.ids.iter().rev().find(|(own, _)| *own == role)?.1;
        named.or_else(first).or_else(own)
    }

    /// Returns the ids that `config.json` and `generation_config.json` state for `bos_token` and the like:
    /// one, or several.
    fn stated_ids(&self, key: &str) -> Vec<u32> {
        let key = format!("{key}_id");
        let values = [self.config.get(&key), self.generation.get(&key)];
        let ids = values.into_iter().flatten().flat_map(|value| match value {
            Value::Array(list) => list.iter().collect(),
            one => vec![one.clone()],
        });
        ids.filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
    }
}

/// Returns the text of a token that is given as a text or as an object.
fn text_of(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// The ids of special tokens, and whether texts get them.
#[derive(Clone, Debug, Default)]
pub(super) struct Special {
    /// Each role with its id.
    ids: Vec<(&'static str, u32)>,
    add_bos: bool,
    add_eos: bool,
    pub(super) notes: Vec<String>,
}

impl Special {
    pub(super) fn find(special_files: &SpecialTokenFiles<'_>, parts: &Parts) -> Self {
        let mut special = Self::default();
        for (role, _) in ROLES {
            special.set(role, special_files.id(role, parts));
        }
        // llama.cpp knows the tokens around a text only by these two names.
        let (cls, sep) = (special.id("cls"), special.id("sep"));
        if parts.model == Model::Bert || special.id("bos").is_none() {
            special.set("bos", cls);
        }
        if parts.model == Model::Bert || special.id("eos").is_none() {
            special.set("eos", sep);
        }
        special.place(special_files, parts);
        if parts.model == Model::Bert {
            // The template may be the only place that states the tokens around a text. llama.cpp finds the one
            // after it by the role `sep`.
            let (bos, eos) = (special.id("bos"), special.id("eos"));
            special.set("cls", bos);
            special.set("sep", eos);
        }
        special.end(special_files, parts);
        special.note_defaults(parts);
        special
    }

    fn id(&self, role: &str) -> Option<u32> {
        self.ids.iter().find(|(own, _)| *own == role).map(|(_, id)| *id)
    }

    /// Sets a role, unless the id is `None`.
    fn set(&mut self, role: &'static str, id: Option<u32>) {
        let Some(id) = id else { return };
        match self.ids.iter_mut().find(|(own, _)| *own == role) {
            Some((_, own)) => *own = id,
            None => self.ids.push((role, id)),
        }
    }

    /// Adds notes about tokens that no file states, and for which llama.cpp takes one by its number.
    fn note_defaults(&mut self, parts: &Parts) {
        let defaults: &[(&str, &str, u32)] = match parts.model {
            Model::Gpt2 => &[("eos", "ends", 11)],
            Model::Bert => &[("bos", "begins", 101), ("sep", "ends", 102)],
            Model::Llama | Model::T5 => &[],
        };
        for (role, does, id) in defaults {
            let Some(token) = parts.vocabulary.token(*id).filter(|_| self.id(role).is_none()) else {
                continue;
            };
            let text = quoted(&token.text);
            self.notes.push(format!(
                "no file states the token that {does} a text, and llama.cpp takes token {id} for it, {text}"
            ));
        }
    }

    /// Decides which tokens are put around a text.
    fn place(&mut self, special_files: &SpecialTokenFiles<'_>, parts: &Parts) {
        // These classes make the template anew of the flags, which are true and false if no file states them.
        let class = special_files.text("tokenizer_class").unwrap_or_default();
        let class = class.strip_suffix("Fast").unwrap_or(class);
        let by_flags = BY_FLAGS.iter().find(|(own, ..)| parts.model == Model::Llama && *own == class);
        for (role, text) in by_flags.into_iter().flat_map(|(_, bos, eos)| [("bos", bos), ("eos", eos)]) {
            if self.id(role).is_none() {
                self.set(role, parts.vocabulary.id(text));
            }
        }
        if let Some(template) = parts.template.as_ref().filter(|_| by_flags.is_none()) {
            self.add_bos = self.around("bos", &template.before, "before", parts);
            let eos = self.id("eos");
            self.add_eos = self.around("eos", &template.after, "after", parts);
            if self.id("eos") != eos && self.id("eot").is_none() {
                self.set("eot", eos);
            }
        } else {
            self.add_bos = parts.model == Model::Llama;
            self.add_eos = parts.model == Model::T5;
        }
        self.add_bos =
            special_files.flag("add_bos_token").unwrap_or(self.add_bos) && self.id("bos").is_some();
        self.add_eos =
            special_files.flag("add_eos_token").unwrap_or(self.add_eos) && self.id("eos").is_some();
    }

    /// Returns whether one token is put at this end of a text, and gives the role to this token.
    fn around(&mut self, role: &'static str, texts: &[String], end: &str, parts: &Parts) -> bool {
        match texts {
            [] => false,
            [text] => {
                let id = parts.vocabulary.id(text);
                self.set(role, id);
                id.is_some()
            }
            [first, ..] => {
                self.notes.push(format!(
                    "{} puts {} tokens {end} each text, {} first; llama.cpp can put only one, so it will put none",
                    parts.file,
                    texts.len(),
                    quoted(first)
                ));
                false
            }
        }
    }

    /// Sets the other tokens that end a generation. llama.cpp finds the usual ones by their texts.
    fn end(&mut self, special_files: &SpecialTokenFiles<'_>, parts: &Parts) {
        for id in special_files.stated_ids("eos_token") {
            let Some(token) = parts.vocabulary.token(id) else { continue };
            let role = if token.text == "<|eom_id|>" { "eom" } else { "eot" };
            match self.id(role) {
                _ if self.id("eos") == Some(id) => {}
                None => self.set(role, Some(id)),
                Some(own) if own == id => {}
                Some(_) => self.notes.push(format!(
                    "the token {} ends a generation too, but GGUF has no more keys for such tokens, so it is left out",
                    quoted(&token.text)
                )),
            }
        }
    }

    /// Returns the keys for a vocabulary of `count` tokens.
    pub(super) fn keys(&self, model: Model, count: usize) -> Vec<(String, Key)> {
        let name = |key: &str| format!("tokenizer.ggml.{key}");
        let is_there = |id: u32| usize::try_from(id).is_ok_and(|id| id < count);
        let mut keys: Vec<(String, Key)> = ROLES
            .iter()
            .filter_map(|(role, key)| Some((name(key), self.id(role).filter(|id| is_there(*id))?)))
            .map(|(key, id)| (key, Key::U32(id)))
            .collect();
        if model != Model::Bert {
            let has = |role| self.id(role).is_some_and(is_there);
            keys.push((name("add_bos_token"), Key::Bool(self.add_bos && has("bos"))));
            keys.push((name("add_eos_token"), Key::Bool(self.add_eos && has("eos"))));
        }
        keys
    }
}
