//! Plain values, as messages and JSON take them.

use modelfmt_core::value::Value;

/// What kind of value it is, for messages: the type that it names, or its kind in JSON.
pub(crate) fn kind(value: &Value) -> String {
    match value.get("type").and_then(Value::as_str).filter(|_| value.untyped().is_some()) {
        Some(name) => format!("a {name}"),
        None => value.kind().to_owned(),
    }
}
