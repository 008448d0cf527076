//! Plain values, as messages and JSON take them.

use modelfmt_core::value::Value;

/// What kind of value it is, for messages: the type that it names, or its kind in JSON.
pub(super) fn kind(value: &Value) -> String {
    match value.get("type").and_then(Value::as_str).filter(|_| value.untyped().is_some()) {
        Some(name) => format!("a {name}"),
        None => value.kind().to_owned(),
    }
}

/// Whether JSON has every number in a value.
pub(super) fn is_json(value: &Value) -> bool {
    match value {
        Value::Float(x) => x.is_finite(),
        Value::Array(items) => items.iter().all(|item| is_json(&item)),
        Value::Object(object) => object.values().all(is_json),
        _ => true,
    }
}
