//! Finds out where the metadata of DERIVED comes from.

use std::collections::{BTreeMap, BTreeSet};

use modelfmt_core::Execution;
use modelfmt_core::value::{Object, Value, json};

use super::{KeyResult, ProveOptions, ProvedKey, files, unclaimed};
use modelfmt_metadata::file_type::FILE_TYPE;
use modelfmt_metadata::flattened::{MetadataDiff, differences, flat_metadata, unknown_reserved};
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

/// The other keys with which GGUF, APR and APR2 state how a model is quantized.
const VERSION: &str = "general.quantization_version";
const QUANTIZATION: &str = "quantization";
/// The keys with which GGUF states the alignment of its tensors, and reserves room for edits.
const ALIGNMENT: &str = "general.alignment";
const PADDING: &str = "modelfmt.padding";
/// The highest file type number of llama.cpp, and the only quantization version that is written.
const LAST_FILE_TYPE: u64 = 64;
const KNOWN_VERSION: u64 = 2;

/// Compares the metadata of DERIVED with that of BASE, and with that of `made`, the model that a map made
/// from BASE. Compares the files next to DERIVED with those next to BASE, or with those that a map has
/// `restored`. Returns the keys, and whether all of them are proved or excused.
pub(super) fn prove(
    (base, made): (&Model, &Model),
    restored: &[(String, Vec<u8>)],
    derived: &Model,
    options: &ProveOptions,
    work: &Execution<'_>,
) -> Result<(Vec<ProvedKey>, bool)> {
    let keys = flat_metadata(derived)?;
    let own = flat_metadata(base)?;
    let different: BTreeMap<String, MetadataDiff> =
        differences(made, derived)?.into_iter().map(|diff| (diff.key.clone(), diff)).collect();
    let mut is_ok = true;
    let mut proved = Vec::new();
    for (key, value) in &keys {
        let is_same = own.get(key) == Some(value);
        let result = match different.get(key) {
            _ if is_same => KeyResult::Same,
            None => KeyResult::Mapped,
            Some(MetadataDiff { a: None, .. }) if !own.contains_key(key) => KeyResult::Added,
            Some(MetadataDiff { a: Some(a), .. }) if is_text_of(value, a) => KeyResult::Mapped,
            Some(_) => KeyResult::Changed,
        };
        is_ok &= match result {
            KeyResult::Added => is_made(key, value) || options.allow_added.is_match(key),
            KeyResult::Changed => is_made(key, value) || options.allow_changed.is_match(key),
            _ => true,
        };
        proved.push(ProvedKey { key: key.to_owned(), result });
    }
    for key in different.into_values().filter(|diff| diff.b.is_none()).map(|diff| diff.key) {
        is_ok &= !options.require_all || is_about_types(&key);
        proved.push(ProvedKey { key, result: KeyResult::Missing });
    }
    // The reader of DERIVED warns about content that is not compared, such as a call in a pickle.
    let own = base.warnings();
    let warned = derived.warnings().into_iter().filter(|warning| !own.contains(warning));
    // Old values that a conversion back would restore.
    let reserved = unknown_reserved(derived, base)?.into_iter().map(|(key, _)| key);
    let unclaimed = unclaimed::unlike(base, derived, work)?;
    for key in parts(made, derived)?.into_iter().chain(warned).chain(reserved).chain(unclaimed) {
        is_ok &= options.allow_added.is_match(&key);
        proved.push(ProvedKey { key, result: KeyResult::Added });
    }
    for (key, result) in files::compare(base, restored, derived)? {
        is_ok &= match result {
            KeyResult::Added => options.allow_added.is_match(&key),
            KeyResult::Changed => options.allow_changed.is_match(&key),
            KeyResult::Missing => !options.require_all,
            _ => true,
        };
        proved.push(ProvedKey { key, result });
    }
    Ok((proved, is_ok))
}

/// Checks whether a value is the JSON text of another value, as in formats that hold only text.
fn is_text_of(value: &Value, of: &Value) -> bool {
    let is_text = |of: &Value| json::to_string(of).is_ok_and(|text| value.as_str() == Some(&*text));
    of.as_str().is_none() && (is_text(of) || is_text(&of.to_plain()))
}

/// Checks whether a conversion itself sets this key to such a value.
fn is_made(key: &str, value: &Value) -> bool {
    match key {
        FILE_TYPE => value.as_u64().is_some_and(|number| number <= LAST_FILE_TYPE),
        VERSION => value.as_u64() == Some(KNOWN_VERSION),
        ALIGNMENT => value.as_u64().is_some_and(u64::is_power_of_two),
        PADDING => value.as_str().is_some_and(|text| text.bytes().all(|byte| byte == b' ')),
        QUANTIZATION => value.as_object().is_some_and(is_quantization),
        _ => false,
    }
}

/// Checks whether a conversion itself leaves out this key.
fn is_about_types(key: &str) -> bool {
    matches!(key, FILE_TYPE | VERSION | QUANTIZATION)
}

/// Checks whether an object states the method and the bits of a quantization, and nothing else.
fn is_quantization(object: &Object) -> bool {
    const LONGEST: usize = 16;
    object.iter().all(|(key, value)| match key {
        "method" => value.as_str().is_some_and(|method| method.len() <= LONGEST),
        "bits_per_weight" => value.as_f64().is_some(),
        _ => false,
    })
}

/// Returns the parts of DERIVED that BASE does not have, besides tensors and keys, such as chunks of AERO.
fn parts(base: &Model, derived: &Model) -> Result<BTreeSet<String>> {
    let all = |model: &Model| -> Result<BTreeSet<String>> {
        let common = model.common_metadata()?;
        let parts = common.own.iter().chain(&common.own_set).chain(&common.losses);
        Ok(parts.map(modelfmt_rules::wording::unsupported::Unsupported::what).collect())
    };
    let own = all(base)?;
    Ok(all(derived)?.into_iter().filter(|part| !own.contains(part)).collect())
}
