//! The files beside the weights: what a GGUF carries of them, and what is restored.

use std::collections::{BTreeMap, HashMap};

use modelfmt_value::{Object, ParseOptions, Value, json};

use super::config::is_same;
use super::extra_keys::{ExtraKeys, plain};
use super::folder::{Folder, key, text};
use super::licence::licence_keys;
use super::tokenizer::{Form, Tokens, base, form_of};
use super::{FILE, Gguf, delta, pieces};
use crate::{Config, Key, MapError, Tokenizer, TokenizerFiles, TokenizerOptions};

/// The files that are carried in addition to `config.json`, with the maximum size of each.
const NAMES: &[(&str, u64)] = &[
    (CARD, 1 << 20),
    ("added_tokens.json", 8 << 20),
    ("chat_template.jinja", 1 << 20),
    ("chat_template.json", 1 << 20),
    ("generation_config.json", 1 << 20),
    ("merges.txt", 64 << 20),
    ("preprocessor_config.json", 1 << 20),
    ("processor_config.json", 1 << 20),
    ("special_tokens_map.json", 8 << 20),
    ("tokenizer.json", 256 << 20),
    (MODEL, pieces::MAX_LEN),
    ("tokenizer_config.json", 32 << 20),
    ("vocab.json", 64 << 20),
    ("vocab.txt", 64 << 20),
];

/// The model card, which states the licence.
const CARD: &str = "README.md";
/// The SentencePiece model.
const MODEL: &str = "tokenizer.model";
/// The member that says how a `tokenizer.json` is written.
const FORM: &str = "as";
/// The maximum number of values in a JSON file.
const MAX_NODES: u64 = 1 << 24;

const MADE: &str =
    "it is made of the GGUF's tokens, merges and scores, which do not say all that the file of the hub said";

/// Returns the files beside the weights that a GGUF carries: their names, and the maximum size in bytes of
/// each.
pub fn file_names() -> impl Iterator<Item = (&'static str, u64)> {
    NAMES.iter().copied()
}

impl ExtraKeys {
    /// Adds what the files have and the keys of the tokenizer do not. Files whose names are not among
    /// [`file_names`] are ignored.
    pub fn add_files(&mut self, files: &BTreeMap<String, Vec<u8>>, keys: &[(String, Key)]) {
        let keys: Object = (keys.iter())
            .filter(|(key, _)| key.starts_with("tokenizer."))
            .map(|(key, value)| (key.as_str(), plain(value)))
            .collect();
        for (name, max_len) in file_names() {
            let Some(bytes) = files.get(name) else { continue };
            if bytes.len() as u64 > max_len {
                self.notes.push(format!(
                    "{name} is not stored in the GGUF: it is longer than {} MiB",
                    max_len >> 20
                ));
            } else if name == MODEL {
                self.keys.push((format!("{FILE}{name}"), Key::Bytes(pieces::between(&keys, bytes))));
            } else if let Err(why) = self.add_file(name, bytes, &keys) {
                self.notes.push(format!("{name} is not stored in the GGUF: {why}"));
            }
        }
    }

    fn add_file(&mut self, name: &str, bytes: &[u8], keys: &Object) -> Result<(), String> {
        let wanted = if name.ends_with(".json") {
            let options = ParseOptions::new().with_max_nodes(MAX_NODES);
            json::parse_with(bytes, options).map_err(|error| format!("it is not good JSON: {error}"))?
        } else {
            Value::from(std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?)
        };
        let form = if name == "tokenizer.json" { form_of(&wanted, keys) } else { Form::default() };
        let mut own = delta::between(&base(name, keys, form), &wanted);
        if form != Form::default() {
            own.insert(FORM, form.to_value());
        }
        let text = json::to_string(&Value::Object(own)).map_err(|error| error.to_string())?;
        self.keys.push((format!("{FILE}{name}"), Key::Text(text)));
        Ok(())
    }
}

impl Form {
    const FLAGS: [&str; 3] = ["pairs", "added_beside", "by_id"];

    fn to_value(self) -> Value {
        let flags = [self.has_pairs, self.has_added_beside, self.is_by_id];
        Self::FLAGS.into_iter().zip(flags).filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let names = value.as_array().and_then(modelfmt_value::List::texts);
        let names = names.ok_or_else(|| format!("`{FORM}` is no list of names"))?;
        if let Some(other) = names.iter().find(|name| !Self::FLAGS.contains(name)) {
            return Err(format!("`{FORM}` has {other:?}, which is no form of a file"));
        }
        let [pairs, beside, by_id] = Self::FLAGS.map(|flag| names.contains(&flag));
        Ok(Self { has_pairs: pairs, has_added_beside: beside, is_by_id: by_id })
    }
}

impl Folder {
    /// Adds the files that were carried. For a GGUF from another tool, adds files that are made from the keys
    /// of its tokenizer.
    pub(super) fn add_files(&mut self, keys: &Object, has_carried_keys: bool) -> Result<(), MapError> {
        if !has_carried_keys {
            self.make_card(keys);
            return self.make_files(keys);
        }
        for (name, max_len) in file_names() {
            let own = format!("{FILE}{name}");
            if name == MODEL {
                let Some(value) = keys.get(&own) else { continue };
                let parts = super::folder::bytes(&own, value)?;
                let file = pieces::applied(keys, &parts).map_err(|why| key(&own, why))?;
                self.files.push((name.to_owned(), file));
                continue;
            }
            let Some(text) = text(keys, &own)? else { continue };
            let value = restored(name, text, max_len, keys).map_err(|why| key(&own, why))?;
            match value {
                Value::String(text) => self.files.push((name.to_owned(), text.into_bytes())),
                value => self.add_file(name, &value)?,
            }
        }
        if !self.files.iter().any(|(name, _)| name == CARD) {
            self.make_card(keys);
        }
        let has_files =
            self.files.iter().any(|(name, _)| name.starts_with("tokenizer.") || name.starts_with("vocab."));
        if !has_files && keys.contains_key("tokenizer.ggml.tokens") {
            return self.make_files(keys);
        }
        Ok(())
    }

    /// Adds a card that states the licence, if the GGUF states it.
    fn make_card(&mut self, keys: &Object) {
        let stated = licence_keys().filter_map(|(name, key)| Some((name, keys.get(key)?.as_str()?)));
        let quoted = |value: &str| json::to_string(&Value::from(value)).ok();
        let lines: String =
            stated.filter_map(|(name, value)| Some(format!("{name}: {}\n", quoted(value)?))).collect();
        if !lines.is_empty() {
            self.files.push((CARD.to_owned(), format!("---\n{lines}---\n").into_bytes()));
        }
    }

    fn make_files(&mut self, keys: &Object) -> Result<(), MapError> {
        let Some(tokens) = Tokens::of(keys) else { return Ok(()) };
        if let Some(why) = tokens.too_many_merges() {
            return Err(key("tokenizer.ggml.tokens", why));
        }
        let (made, unknown) = tokens.made();
        if let Some(unknown) = unknown {
            self.lose("file", "tokenizer.json", format!("modelfmt does not know {unknown}"));
        }
        for (name, value) in [("tokenizer.json", made), ("tokenizer_config.json", tokens.config())] {
            self.lose("file", name, MADE);
            self.add_file(name, &value)?;
        }
        Ok(())
    }
}

/// The name of the tensor that has a row for each token.
const EMBEDDING: &str = "token_embd.weight";
const PRE: &str = "tokenizer.ggml.pre";

impl Folder {
    /// Reads the files of the tokenizer, and records as lost each key of the GGUF that the files contradict.
    /// A GGUF from another tool may lack keys. `of_map` are the keys that the map makes.
    pub(super) fn check_tokenizer(
        &mut self,
        gguf: &Gguf<'_>,
        config: &Config,
        of_map: &[(String, Key)],
        has_carried_keys: bool,
    ) {
        let is_of_map = |name: &str| of_map.iter().any(|(own, _)| own == name);
        let is_about = |name: &str| name.starts_with("tokenizer.") && !is_of_map(name);
        let wanted: Vec<(&str, &Value)> = gguf.keys.iter().filter(|(name, _)| is_about(name)).collect();
        if wanted.is_empty() {
            return;
        }
        let mut files = TokenizerFiles::new();
        for (name, content) in &self.files {
            files.insert(name, content.clone());
        }
        let embedding = gguf.tensors.iter().find(|tensor| tensor.name == EMBEDDING);
        let options = TokenizerOptions::new().rows(embedding.and_then(|rows| rows.shape.first().copied()));
        let read = match Tokenizer::read(&files, config, &options) {
            // The stated name does not follow from the files.
            Err(MapError::UnknownPreTokenizer { .. }) => {
                let stated = gguf.keys.get(PRE).and_then(Value::as_str);
                Tokenizer::read(&files, config, &options.pre(stated))
            }
            read => read,
        };
        let made = match read {
            Ok(read) => read.unwrap_or_default().keys,
            Err(error) => return self.lose("file", "tokenizer.json", format!("it cannot be read: {error}")),
        };
        let found: HashMap<&str, &Key> = made.iter().map(|(name, value)| (name.as_str(), value)).collect();
        for (name, value) in &wanted {
            match found.get(name) {
                Some(own) if is_same(own, value) => {}
                Some(_) => self.lose("metadata key", name, "the files of the tokenizer say otherwise"),
                None => self.lose("metadata key", name, "the files of the tokenizer do not say it"),
            }
        }
        // These losses are in the order of the files.
        for (name, _) in made.iter().filter(|(name, _)| has_carried_keys && !gguf.keys.contains_key(name)) {
            self.lose(
                "metadata key",
                name,
                "the files of the tokenizer say it, and the GGUF does not any more",
            );
        }
    }
}

fn restored(name: &str, text: &str, max_len: u64, keys: &Object) -> Result<Value, String> {
    if text.len() as u64 > max_len.saturating_mul(2) {
        return Err(format!("it is longer than {} MiB", max_len >> 19));
    }
    let options = ParseOptions::new().with_max_nodes(MAX_NODES);
    let parsed = json::parse_with(text.as_bytes(), options).map_err(|error| error.to_string())?;
    let Value::Object(mut own) = parsed else {
        return Err(format!("expected an object, found {}", parsed.kind()));
    };
    let form = own.remove(FORM).map(|value| Form::parse(&value)).transpose()?.unwrap_or_default();
    let value = delta::applied(base(name, keys, form), &own)?;
    match value {
        Value::String(_) if !name.ends_with(".json") => Ok(value),
        _ if name.ends_with(".json") => Ok(value),
        other => Err(format!("it makes {}, not text", other.kind())),
    }
}
