//! The metadata of GGUF: its values have types that JSON does not show, and it holds neither objects nor null.

use std::collections::{HashMap, HashSet};

use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{DType, Kind};

use super::reserved::Hints;
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::Capabilities;

/// Restores the original values of a model from `format`, unless they were changed later. Returns the keys
/// whose values this changes.
pub(crate) fn restore(keys: &mut Object, hints: &mut Hints, format: Format) -> Vec<String> {
    let mut restored = Vec::new();
    for key in std::mem::take(&mut hints.text) {
        let Some(value) = keys.get_mut(&key) else { continue };
        if let Some(tree) = value.as_str().and_then(|text| json::parse(text.as_bytes()).ok()) {
            *value = tree;
            restored.push(key);
        }
    }
    let Some(plain) = format.fns().and_then(|fns| fns.plain) else { return restored };
    hints.stored.retain(|key, stored| match (keys.get_mut(key), plain(stored)) {
        (Some(value), Some(tree)) if *value == spelled(&tree) || *value == tree => {
            *value = tree;
            restored.push(key.to_owned());
            true
        }
        _ => false,
    });
    restored
}

/// Returns the value as JSON returns it, with NaN and the infinities as text.
fn spelled(tree: &Value) -> Value {
    match tree {
        Value::Float(x) if x.is_nan() => "NaN".into(),
        Value::Float(x) if x.is_infinite() => {
            if x.is_sign_negative() { "-Infinity" } else { "Infinity" }.into()
        }
        Value::Array(items) => items.iter().map(|item| spelled(&item)).collect(),
        other => other.clone(),
    }
}

/// Sorts the keys into their original order, followed by the new keys.
pub(crate) fn in_order(all: Object, order: &[String]) -> Object {
    if order.is_empty() {
        return all;
    }
    let places: HashMap<&str, usize> = (0..).zip(order).map(|(place, key)| (key.as_str(), place)).collect();
    let mut all: Vec<(String, Value)> = all.into_iter().collect();
    all.sort_by_key(|(key, _)| places.get(key.as_str()).copied().unwrap_or(order.len()));
    all.into_iter().collect()
}

/// Returns the keys of a GGUF file that are not ASCII, although the document requires it.
pub(crate) fn not_ascii(hints: &Hints) -> HashSet<String> {
    hints.keys.iter().filter(|key| !key.is_ascii()).cloned().collect()
}

/// Converts a value to the form of the target, or returns why the target cannot hold it. With `typed`, an
/// object may be a value with its type.
pub(crate) fn value(
    target: &Capabilities,
    key: &str,
    value: &Value,
    typed: bool,
    hints: &Hints,
) -> Result<Value, String> {
    let own = |tree: Value| own_value(target, key, tree);
    if let Some(digits) = hints.stored.get(key)
        && let Ok(stored) = own(Object::from_iter([("stored", digits.clone())]).into())
    {
        return Ok(stored);
    }
    if typed && value.as_object().is_some() {
        let tree = with_type(value).unwrap_or_else(|| value.clone());
        return own(tree).or_else(|why| match value.without_type() {
            Some(plain) => own(plain),
            None => Err(why),
        });
    }
    if let Some(kind) = hints.types.get(key)
        && let Ok(tree) = own(typed_value(kind.clone(), value.clone()))
    {
        return Ok(tree);
    }
    if value.as_object().is_some() {
        return Err(format!(
            "{} holds numbers, booleans, strings and lists, not {}",
            target.format,
            value.kind()
        ));
    }
    own(value.clone())
}

fn typed_value(kind: Value, value: Value) -> Value {
    Object::from_iter([("type", kind), ("value", value)]).into()
}

/// Changes a value with a type of OINF or MAG to the type of GGUF that holds the same numbers.
fn with_type(value: &Value) -> Option<Value> {
    let plain = value.without_type()?;
    let kind = match value.get("type")?.as_str()? {
        "str" => return Some(plain),
        "bitset" => "bool[]".to_owned(),
        "ndarray" => {
            let dtype = DType::from_name(value.get("dtype")?.as_str()?)?;
            let rank = value.get("shape")?.as_array()?.len();
            format!("{}{}", name(dtype)?, "[]".repeat(rank))
        }
        other => name(DType::from_name(other)?)?.to_owned(),
    };
    Some(typed_value(kind.into(), plain))
}

/// Returns the type of GGUF for numbers of a dtype.
fn name(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Bool
        | DType::I8
        | DType::U8
        | DType::I16
        | DType::U16
        | DType::I32
        | DType::U32
        | DType::I64
        | DType::U64
        | DType::F32
        | DType::F64 => Some(dtype.name()),
        // f32 holds the values of all smaller floats.
        _ => (dtype.kind() == Kind::Float).then_some("f32"),
    }
}

/// Converts a metadata value to the form of a format with value types of its own, or returns why it cannot.
pub(crate) fn own_value(target: &Capabilities, key: &str, value: Value) -> Result<Value, String> {
    match target.format.fns().and_then(|fns| fns.value) {
        Some(own) => own(target, key, value),
        None => Err(format!("{} is not written", target.format)),
    }
}
