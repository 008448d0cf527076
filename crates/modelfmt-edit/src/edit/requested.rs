//! The changes to metadata that the caller requests.

use std::collections::{BTreeMap, HashMap, HashSet};

use modelfmt_core::author::Shortened;
use modelfmt_core::value::Object;

use super::EditOptions;
use modelfmt_metadata::reserved;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::capabilities::Metadata;
use modelfmt_model::formats::change::{Change, NewValue};
use modelfmt_model::model::Model;
use modelfmt_rules::globs::Globs;
use modelfmt_rules::wording::Note;

/// The requested changes to metadata.
#[derive(Clone, Debug)]
pub(super) struct RequestedMetadata {
    pub(super) set: Vec<(String, NewValue)>,
    pub(super) unset: Vec<String>,
    /// The number of keys that the caller removes.
    pub(super) removed: usize,
}

impl RequestedMetadata {
    /// Collects the changes in the options, and the changes to the reserved key that follow from them.
    pub(super) fn new(model: &Model, options: &EditOptions, names: &BTreeMap<usize, String>) -> Result<Self> {
        let metadata = options.metadata.iter().flatten();
        let metadata = metadata.map(|(key, value)| (key.to_owned(), NewValue::Value(value.clone())));
        let unset = unset(model, &options.unset)?;
        let set = metadata.chain(options.set.iter().cloned()).collect();
        let mut given = Self { set, removed: unset.len(), unset };
        if model.format().capabilities().metadata == Metadata::Json {
            given.update_reserved_key(model, names)?;
        }
        Ok(given)
    }

    /// Updates the reserved key that a conversion wrote, so that it matches the edit.
    fn update_reserved_key(&mut self, model: &Model, names: &BTreeMap<usize, String>) -> Result<()> {
        let edited: Vec<&str> =
            self.set.iter().map(|(key, _)| key).chain(&self.unset).map(String::as_str).collect();
        if edited.contains(&reserved::KEY) || (edited.is_empty() && names.is_empty()) {
            return Ok(());
        }
        let own = json_of(model)?;
        let Some(before) = own.get(reserved::KEY).cloned() else { return Ok(()) };
        let mut keys = Object::from_iter([(reserved::KEY, before.clone())]);
        let infos: Vec<_> = model.tensors().collect();
        let renamed =
            names.iter().filter_map(|(position, new)| Some((infos.get(*position)?.name, new.as_str())));
        let renamed: HashMap<&str, &str> = renamed.collect();
        let sorts = model.format().properties().sorted;
        reserved::follow_edit(&mut keys, edited, &renamed, sorts);
        match keys.remove(reserved::KEY) {
            Some(after) if after != before => {
                self.set.push((reserved::KEY.to_owned(), NewValue::Value(after)));
            }
            Some(_) => {}
            None => self.unset.push(reserved::KEY.to_owned()),
        }
        Ok(())
    }

    /// Checks whether there are no changes.
    pub(super) const fn is_empty(&self) -> bool {
        self.set.is_empty() && self.unset.is_empty()
    }

    /// Returns the change of one file.
    pub(super) fn change<'a>(&'a self, names: &'a BTreeMap<usize, String>) -> Change<'a> {
        let set = self.set.iter().map(|(key, value)| (key.as_str(), value));
        Change::new(set, self.unset.iter().map(String::as_str), names)
    }
}

/// Returns the keys to remove: the given keys, and the keys that match a given pattern. Text that is itself a
/// key is not a pattern.
fn unset(model: &Model, given: &[String]) -> Result<Vec<String>> {
    if !given.iter().any(|key| key.contains(['*', '?', '[', '{'])) {
        return Ok(given.to_vec());
    }
    let own = json_of(model)?;
    let mut keys = Vec::new();
    for key in given {
        let before = keys.len();
        let pattern = Globs::new([key.as_str()]).ok().filter(|_| own.get(key).is_none());
        // A pattern does not remove the reserved key of a conversion.
        let matching = |known: &&str| {
            *known != reserved::KEY && pattern.as_ref().is_some_and(|pattern| pattern.is_match(known))
        };
        keys.extend(own.keys().filter(matching).map(str::to_owned));
        if keys.len() == before {
            keys.push(key.clone());
        }
    }
    let mut seen = HashSet::new();
    keys.retain(|key| seen.insert(key.clone()));
    Ok(keys)
}

/// Returns a note for each new key that is spelled almost like an existing key of the model.
pub(super) fn misspelled(model: &Model, options: &EditOptions) -> Result<Vec<Note>> {
    const MOST_KEYS: usize = 4096; // every new key is compared with each of them
    if options.set.is_empty() {
        return Ok(Vec::new());
    }
    let own = json_of(model)?;
    let new = options.set.iter().map(|(key, _)| key.as_str()).filter(|key| own.get(key).is_none());
    let note = |key: &str| {
        let other = own.keys().take(MOST_KEYS).find(|other| is_almost(key, other))?;
        let (key, other) = (Shortened(key), Shortened(other));
        Some(Note::from(format!("{key:?} is a new key, and the file has {other:?} too: is it misspelled?")))
    };
    Ok(new.filter_map(note).collect())
}

/// Returns a note for each removed key without which llama.cpp does not load a GGUF file.
pub(super) fn missed_by_llama_cpp(model: &Model, unset: &[String]) -> Result<Vec<Note>> {
    const NEEDED: [&str; 3] = ["general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.tokens"];
    const NEEDED_OF_ARCHITECTURE: [&str; 3] = [".block_count", ".context_length", ".embedding_length"];
    let is_gguf = model.format().capabilities().metadata == Metadata::TypedLists;
    let is_needed = |key: &str| {
        NEEDED.contains(&key) || NEEDED_OF_ARCHITECTURE.iter().any(|suffix| key.ends_with(suffix))
    };
    let needed: Vec<&String> = unset.iter().filter(|key| is_gguf && is_needed(key)).collect();
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let own = json_of(model)?;
    let removed = needed.into_iter().filter(|key| own.get(key).is_some());
    let note = |key: &String| format!("llama.cpp does not load a GGUF file without {:?}", Shortened(key));
    Ok(removed.map(|key| Note::from(note(key))).collect())
}

/// Checks whether two keys differ in at most a fifth of their characters. Keys that differ only in digits are
/// different on purpose.
fn is_almost(key: &str, other: &str) -> bool {
    const SHORT: usize = 6;
    const LONG: usize = 200;
    let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    (SHORT..=LONG).contains(&key.len())
        && key.len().abs_diff(other.len()) <= 2
        && letters(key) != letters(other)
        && strsim::damerau_levenshtein(key, other) * 5 <= key.len()
}

/// Returns the metadata of a model, as far as its keys and values can be edited.
pub(super) fn json_of(model: &Model) -> Result<Object> {
    let own = model.container().metadata();
    let own = own.map_err(|error| Error::file(model.path().to_owned(), error))?;
    Ok(model.format().keys_of(&own).cloned().unwrap_or_default().into_object())
}
