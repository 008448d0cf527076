//! Compares the files next to the weights of two hub folders. They belong to the model as much as the weights
//! do, so a difference in them is reported as a difference of metadata, under the name of the file.

use std::collections::BTreeSet;

use modelfmt_core::value::{Object, ParseOptions, Value, json};
use modelfmt_metadata::config;
use modelfmt_metadata::flattened::MetadataDiff;
use modelfmt_model::hub_names::ABOUT_WEIGHTS;
use modelfmt_model::model::Model;

use crate::inspect::facts::ADAPTER_CONFIG;

/// The maximum length of a file that is compared key by key. Longer files, up to the second length, are
/// compared as a whole.
const JSON_LEN: usize = 64 << 20;
const MAX_LEN: u64 = 1 << 30;
/// The maximum number of entries of an object that is compared key by key. A larger one is a vocabulary, and
/// counts as one difference.
const MOST_ENTRIES: usize = 256;

/// Returns the differences, if both models were opened as folders.
pub(super) fn differences(a: &Model, b: &Model) -> Vec<MetadataDiff> {
    let mut found = Vec::new();
    if !a.path().is_dir() || !b.path().is_dir() {
        return found;
    }
    // In the order of their names.
    let names: BTreeSet<&str> = ABOUT_WEIGHTS.into_iter().chain([ADAPTER_CONFIG]).collect();
    for name in names {
        let [of_a, of_b] = [a, b].map(|model| config::file(model.sidecars(), name, MAX_LEN));
        let (of_a, of_b) = match (of_a, of_b) {
            (Ok(of_a), Ok(of_b)) => (of_a, of_b),
            (of_a, of_b) => {
                let shown = |read: Result<Option<Vec<u8>>, String>| match read {
                    Ok(bytes) => bytes.map(|bytes| whole(&bytes)),
                    Err(why) => Some(Value::from(why)),
                };
                found.push(MetadataDiff { key: name.to_owned(), a: shown(of_a), b: shown(of_b) });
                continue;
            }
        };
        if of_a == of_b {
            continue;
        }
        match (of_a.as_deref().and_then(parsed), of_b.as_deref().and_then(parsed)) {
            (Some(of_a), Some(of_b)) => objects(name, &of_a, &of_b, &mut found),
            _ => {
                let [a, b] = [of_a, of_b].map(|bytes| bytes.map(|bytes| whole(&bytes)));
                found.push(MetadataDiff { key: name.to_owned(), a, b });
            }
        }
    }
    found
}

/// Parses a file as a JSON object; `None` if it is not one, or is too long.
fn parsed(bytes: &[u8]) -> Option<Object> {
    if bytes.len() > JSON_LEN || !bytes.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let options = ParseOptions::new().with_max_nodes(bytes.len() as u64);
    json::parse_with(bytes, options).ok()?.as_object().cloned()
}

/// Returns a file as one value: a short text as it is, otherwise its length and its hash.
fn whole(bytes: &[u8]) -> Value {
    const MAX_TEXT: usize = 4096;
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= MAX_TEXT => Value::from(text),
        _ => Value::from(format!("{} bytes, BLAKE3 {}", bytes.len(), blake3::hash(bytes).to_hex())),
    }
}

/// Adds the differences between two objects, whatever the order of their keys.
fn objects(name: &str, a: &Object, b: &Object, found: &mut Vec<MetadataDiff>) {
    let keys: BTreeSet<&str> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let (of_a, of_b) = (a.get(key), b.get(key));
        let key = format!("{name}.{key}");
        let inner = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
        match (inner(of_a), inner(of_b)) {
            (Some(a), Some(b)) if a.len().max(b.len()) <= MOST_ENTRIES => objects(&key, &a, &b, found),
            _ if of_a == of_b => {}
            _ => found.push(MetadataDiff { key, a: of_a.cloned(), b: of_b.cloned() }),
        }
    }
}
