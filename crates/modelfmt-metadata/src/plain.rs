//! Plain values, as in messages and in JSON.

use modelfmt_core::value::Value;

/// Returns the kind of a value, for messages: its stated type, or its kind in JSON.
pub(crate) fn kind(value: &Value) -> String {
    match value.get("type").and_then(Value::as_str).filter(|_| value.without_type().is_some()) {
        Some(name) => format!("a {name}"),
        None => value.kind().to_owned(),
    }
}
