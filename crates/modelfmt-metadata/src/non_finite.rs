//! Floats that JSON lacks: NaN and the infinities. A JSON file has them as text, and a conversion back makes them floats again.

use modelfmt_core::value::{List, Object, Value};

/// What happens to such floats, for notes.
pub(crate) const NOTE: &str =
    "JSON has no NaN and no infinity; written as text, which becomes a number again on the way back";

/// Returns the places of such floats, as a tree of the keys and list indices that lead to them. A leaf is
/// `true`, for such a float or for a list of numbers that contains some.
pub(crate) fn places(keys: &Object) -> Object {
    keys.iter().filter_map(|(key, value)| Some((key.to_owned(), place(value)?))).collect()
}

fn place(value: &Value) -> Option<Value> {
    let inner = match value {
        Value::Float(x) => return (!x.is_finite()).then_some(Value::Bool(true)),
        Value::Array(items) if items.iter().all(|item| is_number(&item)) => {
            let is_bare = |item: &Value| matches!(item, Value::Float(x) if !x.is_finite());
            return items.iter().any(|item| is_bare(&item)).then_some(Value::Bool(true));
        }
        Value::Array(items) => {
            let members = (0u64..).zip(items.iter());
            members.filter_map(|(number, item)| Some((number.to_string(), place(&item)?))).collect()
        }
        Value::Object(object) => places(object),
        _ => return None,
    };
    (!inner.is_empty()).then(|| inner.into())
}

const fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::Float(_))
}

/// Checks whether a tree can be a result of [`places`].
pub(crate) fn are_places(places: &Object) -> bool {
    places.values().all(|place| match place {
        Value::Object(inner) => !inner.is_empty() && are_places(inner),
        other => other.as_bool() == Some(true),
    })
}

/// Turns the texts at these places into floats. Any other value there was changed later, and is kept.
pub(crate) fn restore(keys: &mut Object, places: &Object) {
    for (key, value) in keys.iter_mut() {
        if let Some(place) = places.get(key) {
            *value = restored(std::mem::take(value), place);
        }
    }
}

fn restored(value: Value, place: &Value) -> Value {
    match (value, place) {
        (Value::String(text), Value::Bool(_)) => float(&text).map_or(Value::String(text), Value::Float),
        (Value::Array(items), Value::Bool(_)) => {
            let is_good = |item: &Value| is_number(item) || item.as_str().and_then(float).is_some();
            if !items.iter().all(|item| is_good(&item)) {
                return Value::Array(items);
            }
            items
                .iter()
                .map(|item| item.as_str().and_then(float).map_or(item.clone(), Value::Float))
                .collect()
        }
        (Value::Array(items), Value::Object(places)) => {
            let member = |(number, item): (u64, Value)| match places.get(&number.to_string()) {
                Some(place) => restored(item, place),
                None => item,
            };
            Value::Array((0u64..).zip(items.iter()).map(member).collect::<List>())
        }
        (Value::Object(mut object), Value::Object(places)) => {
            restore(&mut object, places);
            Value::Object(object)
        }
        (value, _) => value,
    }
}

/// Returns the float that a JSON text stands for.
fn float(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use modelfmt_core::value::json;

    use super::*;

    fn object(text: &str) -> Object {
        json::parse_with_bare_words(text.as_bytes()).unwrap().as_object().unwrap().clone()
    }

    #[test]
    fn floats_come_back_from_text() {
        let keys = object(
            r#"{"a":NaN,"b":[1,-Infinity,2.5,NaN],"c":{"d":[{"e":Infinity},"NaN",[1]],"f":0},"text":"NaN","list":["NaN"],"n":[1.5],"o":{}}"#,
        );
        let found = places(&keys);
        let expected = r#"{"a":true,"b":true,"c":{"d":{"0":{"e":true}}}}"#;
        assert_eq!(json::to_string(&found).unwrap(), expected);
        assert!(are_places(&found));
        let text = json::to_string(&keys).unwrap();
        assert!(text.contains(r#""b":[1,"-Infinity",2.5,"NaN"]"#), "{text}");
        let mut again = object(&text);
        assert_ne!(again, keys);
        restore(&mut again, &found);
        assert_eq!(again, keys);
        // Values that were changed since stay as they are.
        let mut changed = object(r#"{"a":"none","b":["NaN","x"],"c":[1],"more":"NaN"}"#);
        let before = changed.clone();
        restore(&mut changed, &found);
        assert_eq!(changed, before);
        assert!(places(&before).is_empty());
    }

    #[test]
    fn what_no_conversion_writes_is_not_believed() {
        for bad in [r#"{"a":false}"#, r#"{"a":"7ff8"}"#, r#"{"a":{}}"#, r#"{"a":{"b":[true]}}"#] {
            assert!(!are_places(&object(bad)), "{bad}");
        }
    }
}
