//! The metadata of a model as one flat list, and the differences between two models (docs/formats/conversion.md#in-common).

use std::collections::{HashMap, HashSet};

use modelfmt_core::value::{Object, Value};

pub use super::long_values::ListDiff;

use super::long_values::beginning;
use super::names::{self, KnownNames, is_added};
use super::reserved;
use super::source::{self, Content};
use serde::ser::{Serialize, SerializeMap, Serializer};

use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

/// The prefix of a key of the reserved object, if the model has that key with another value.
const PREFIX: &str = "modelfmt.";

/// A metadata key with different values; `None` if a model lacks the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataDiff {
    /// The key.
    pub key: String,
    /// Its value in the first model.
    pub a: Option<Value>,
    /// Its value in the second model.
    pub b: Option<Value>,
}

impl MetadataDiff {
    /// Returns how the values differ, if both are lists.
    #[must_use]
    pub fn lists(&self) -> Option<ListDiff> {
        let list = |value: &Option<Value>| value.as_ref().and_then(Value::as_array).cloned();
        ListDiff::new(&list(&self.a)?, &list(&self.b)?)
    }
}

/// If a value has more than 4,096 characters, only the beginning is written; `truncated` and `entries` then
/// say so.
impl Serialize for MetadataDiff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cut = |value: &Option<Value>| value.as_ref().and_then(beginning);
        let (a, b) = (cut(&self.a), cut(&self.b));
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("a", &a.as_ref().or(self.a.as_ref()))?;
        map.serialize_entry("b", &b.as_ref().or(self.b.as_ref()))?;
        if a.is_some() || b.is_some() {
            map.serialize_entry("truncated", &true)?;
            let entries = self.lists().map(|lists| {
                let numbers =
                    [("a", lists.a), ("b", lists.b), ("differ", lists.differ), ("first", lists.first)];
                Object::from_iter(numbers.map(|(key, number)| (key, Value::from(number as u64))))
            });
            map.serialize_entry("entries", &entries)?;
        }
        map.end()
    }
}

/// Returns the metadata as one flat list of keys and plain values, from the reader of the format
/// ([`Container::flat_metadata`](modelfmt_core::Container::flat_metadata)). Keys that a conversion keeps in
/// the JSON object under the reserved key are added to the list. So are keys that only the files of a
/// safetensors set have, not its index. A model and its lossless conversion therefore have the same list;
/// `diff` compares these lists.
///
/// A key in the reserved object gets the prefix `modelfmt.` if the model has it with another value, so both values are in the list.
///
/// # Errors
/// If the metadata does not decode, or a file of a set is missing.
pub fn flat_metadata(model: &Model) -> Result<Object> {
    Ok(flattened_keys(model)?.0)
}

/// Returns the values of the reserved object that are in no list of keys: values that conversions replaced,
/// and that a conversion back restores (`modelfmt.replaced.KEY`).
///
/// # Errors
/// If the metadata does not decode, or a file of a set is missing.
pub fn reserved_values(model: &Model) -> Result<Vec<(String, Value)>> {
    let Some(reserved) = Content::read(model)?.reserved else { return Ok(Vec::new()) };
    Ok(reserved.unlisted().map(|(part, key, value)| (format!("{PREFIX}{part}.{key}"), value)).collect())
}

/// Returns the [`reserved_values`] of the first model that the second has neither in its reserved object nor
/// as keys.
///
/// # Errors
/// If the metadata does not decode, or a file of a set is missing.
pub fn unknown_reserved(of: &Model, other: &Model) -> Result<Vec<(String, Value)>> {
    let mut values = reserved_values(of)?;
    if values.is_empty() {
        return Ok(values);
    }
    let (known, keys) = (reserved_values(other)?, flat_metadata(other)?);
    let known: HashMap<&str, Vec<&Value>> = known.iter().fold(HashMap::new(), |mut all, (key, value)| {
        all.entry(key.as_str()).or_insert_with(Vec::new).push(value);
        all
    });
    values.retain(|(key, value)| {
        let is_reserved = known.get(key.as_str()).is_some_and(|values| values.contains(&value));
        let own =
            key.strip_prefix(PREFIX).and_then(|key| key.strip_prefix(reserved::REPLACED)?.strip_prefix('.'));
        !is_reserved && own.and_then(|key| keys.get(key)) != Some(value)
    });
    Ok(values)
}

/// Returns the metadata as one flat list, and the names of the model by their source.
fn flattened_keys(model: &Model) -> Result<(Object, KnownNames)> {
    let Content { is_native, keys: mut read, reserved, restored, names, config, .. } = Content::read(model)?;
    let mut keys = source::own_keys(model)?;
    if !is_native && read.get(reserved::KEY) != keys.get(reserved::KEY) {
        keys.remove(reserved::KEY); // written by a conversion; `reserved` has it, and `read` has the model's own value
    }
    // The file has these floats as text; the list has the floats.
    let floats = reserved.iter().flat_map(|reserved| reserved.floats.keys());
    for (key, value) in floats.filter_map(|key| Some((key, read.get(key)?))) {
        keys.insert(key, value.clone());
    }
    // For these keys, the values in the file count.
    let restored: HashSet<String> = restored.into_iter().collect();
    read.retain(|key, _| !restored.contains(key));
    let mut put = |key: &str, value: Value| match keys.get(key) {
        None => _ = keys.insert(key, value),
        Some(known) if *known == value => {}
        Some(_) => keys.insert_with_prefix(PREFIX, key, value),
    };
    read.into_iter().for_each(|(key, value)| put(&key, value));
    if let Some(reserved) = reserved {
        reserved.metadata.iter().for_each(|(key, value)| put(key, value.to_plain()));
        for (key, value) in reserved.other() {
            put(&format!("{PREFIX}{key}"), value.clone());
        }
        // These are the keys that OINF's own reader uses.
        for (name, value) in &reserved.sizevars {
            keys.insert_with_prefix("sizevars.", name, value.clone());
        }
        for (name, quant) in &reserved.quants {
            keys.insert_with_prefix("quants.", name, quant.to_value());
        }
    }
    let stem = names::stem_of(model).to_owned();
    Ok((keys, KnownNames { own: names, config, stem }))
}

/// Returns the keys with different values in two models, with both values. A key that only one model has does
/// not count if a conversion of the other model would add it because its target format requires the key.
pub fn differences(a: &Model, b: &Model) -> Result<Vec<MetadataDiff>> {
    let ((of_a, said_a), (of_b, said_b)) = (flattened_keys(a)?, flattened_keys(b)?);
    let mut found = Vec::new();
    for (key, value) in &of_a {
        match of_b.get(key) {
            Some(other) if other == value => {}
            None if is_added(key, value, &of_b, &said_b) => {}
            other => {
                found.push(MetadataDiff { key: key.to_owned(), a: Some(value.clone()), b: other.cloned() });
            }
        }
    }
    let new =
        of_b.iter().filter(|(key, value)| !of_a.contains_key(key) && !is_added(key, value, &of_a, &said_a));
    found.extend(new.map(|(key, value)| MetadataDiff {
        key: key.to_owned(),
        a: None,
        b: Some(value.clone()),
    }));
    let only_a = unknown_reserved(a, b)?.into_iter();
    found.extend(only_a.map(|(key, value)| MetadataDiff { key, a: Some(value), b: None }));
    let only_b = unknown_reserved(b, a)?.into_iter();
    found.extend(only_b.map(|(key, value)| MetadataDiff { key, a: None, b: Some(value) }));
    Ok(found)
}
