//! The difference between two JSON values, as JSON.
//!
//! A difference is an object: empty if the values are equal; `{"value": …}` for another value;
//! `{"set": {key: difference}, "drop": [keys]}` for the members of an object, and
//! `{"items": {number: difference}}` for those of a list of the same length.

use modelfmt_value::{List, Object, Value};

const VALUE: &str = "value";
const SET: &str = "set";
const DROP: &str = "drop";
const ITEMS: &str = "items";

/// Returns the difference that turns `base` into `wanted`.
pub(crate) fn between(base: &Value, wanted: &Value) -> Object {
    if base == wanted {
        return Object::new();
    }
    match (base, wanted) {
        (Value::Object(base), Value::Object(wanted)) => of_objects(base, wanted),
        (Value::Array(base), Value::Array(wanted)) => of_lists(base, wanted),
        _ => Object::from_iter([(VALUE, wanted.clone())]),
    }
}

fn of_objects(base: &Object, wanted: &Object) -> Object {
    let mut set = Object::new();
    for (key, value) in wanted {
        let own = match base.get(key) {
            Some(before) => between(before, value),
            None => Object::from_iter([(VALUE, value.clone())]),
        };
        if !own.is_empty() {
            set.insert(key, own);
        }
    }
    let drop: List = base.keys().filter(|key| !wanted.contains_key(key)).collect();
    let mut delta = Object::new();
    if !set.is_empty() {
        delta.insert(SET, set);
    }
    if !drop.is_empty() {
        delta.insert(DROP, Value::Array(drop));
    }
    delta
}

fn of_lists(base: &List, wanted: &List) -> Object {
    let mut items = Object::new();
    if base.len() == wanted.len() {
        let changed = (0u64..).zip(base.iter().zip(wanted.iter())).filter_map(|(number, (before, after))| {
            let own = between(&before, &after);
            (!own.is_empty()).then_some((number, own))
        });
        for (number, own) in changed {
            items.insert(number.to_string(), own);
            if items.len() > base.len() / 2 {
                break;
            }
        }
    }
    if items.is_empty() || items.len() > base.len() / 2 {
        return Object::from_iter([(VALUE, Value::Array(wanted.clone()))]);
    }
    Object::from_iter([(ITEMS, items)])
}

/// Applies a difference to `base`.
///
/// # Errors
/// The reason why it does not fit: a member or an item does not exist, or it has another form.
pub(crate) fn applied(base: Value, delta: &Object) -> Result<Value, String> {
    const FORMS: [&str; 4] = [VALUE, SET, DROP, ITEMS];
    if let Some(key) = delta.keys().find(|key| !FORMS.contains(key)) {
        return Err(format!("`{key}` is no part of a difference"));
    }
    if let Some(value) = delta.get(VALUE) {
        return if delta.len() == 1 { Ok(value.clone()) } else { Err(format!("`{VALUE}` is not alone")) };
    }
    let mut base = base;
    let members = [delta.get(SET), delta.get(DROP)];
    if members.iter().any(Option::is_some) {
        let Value::Object(object) = &mut base else {
            return Err(format!("a difference of objects is for {}", base.kind()));
        };
        changed(object, members)?;
    }
    match delta.get(ITEMS) {
        None => Ok(base),
        Some(Value::Object(items)) => with_items(&base, items),
        Some(other) => Err(format!("`{ITEMS}` is {}, not an object", other.kind())),
    }
}

fn changed(object: &mut Object, [set, drop]: [Option<&Value>; 2]) -> Result<(), String> {
    let dropped = match drop {
        None => Vec::new(),
        Some(drop) => {
            drop.as_array().and_then(List::texts).ok_or_else(|| format!("`{DROP}` is no list of keys"))?
        }
    };
    for key in dropped {
        object.remove(key).ok_or_else(|| format!("there is no {key:?} to drop"))?;
    }
    let Some(set) = set else { return Ok(()) };
    let set = set.as_object().ok_or_else(|| format!("`{SET}` is {}, not an object", set.kind()))?;
    for (key, own) in set {
        let own = own.as_object().ok_or_else(|| format!("the difference of {key:?} is no object"))?;
        let before = object.get(key).cloned().unwrap_or_default();
        object.insert(key, applied(before, own)?);
    }
    Ok(())
}

fn with_items(base: &Value, items: &Object) -> Result<Value, String> {
    let list = base.as_array().ok_or_else(|| format!("a difference of lists is for {}", base.kind()))?;
    let mut left = items.len();
    let mut made = List::new();
    for (number, item) in (0u64..).zip(list) {
        match items.get(&number.to_string()) {
            None => made.push(item),
            Some(own) => {
                let own =
                    own.as_object().ok_or_else(|| format!("the difference of item {number} is no object"))?;
                left = left.saturating_sub(1);
                made.push(applied(item, own)?);
            }
        }
    }
    if left > 0 {
        return Err(format!("{left} items are beyond the end of a list of {}", list.len()));
    }
    Ok(Value::Array(made))
}

#[cfg(test)]
mod tests {
    use modelfmt_value::json;
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    /// Trees with few keys and few values, so that two of them have much in common.
    fn tree() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), (0..3u64).prop_map(Value::from), "[ab]".prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|items| items.into_iter().collect::<Value>()),
                prop::collection::vec(("[abc]", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_difference_makes_one_of_the_other(a in tree(), b in tree()) {
            let delta = between(&a, &b);
            prop_assert_eq!(applied(a.clone(), &delta).unwrap(), b.clone());
            prop_assert_eq!(delta.is_empty(), a == b);
            let text = json::to_string(&Value::Object(delta)).unwrap();
            prop_assert_eq!(applied(a, &json::parse_object(text.as_bytes()).unwrap()).unwrap(), b);
        }
    }

    #[test]
    fn only_what_differs_is_there() {
        let (base, wanted) = (
            r#"{"a": 1, "b": [1, 2, 3], "c": {"d": 2}, "e": 0}"#,
            r#"{"a": 1, "b": [1, 5, 3], "c": {"d": 2, "f": 7}}"#,
        );
        let text = json::to_string(&Value::Object(between(&value(base), &value(wanted)))).unwrap();
        assert_eq!(
            text,
            r#"{"set":{"b":{"items":{"1":{"value":5}}},"c":{"set":{"f":{"value":7}}}},"drop":["e"]}"#
        );
    }

    #[test]
    fn what_does_not_fit_is_said() {
        for (base, delta, why) in [
            ("{}", r#"{"drop": ["a"]}"#, "there is no \"a\" to drop"),
            ("{}", r#"{"drop": "a"}"#, "`drop` is no list of keys"),
            ("[]", r#"{"set": {}}"#, "a difference of objects is for an array"),
            ("{}", r#"{"set": 5}"#, "`set` is an integer, not an object"),
            ("{}", r#"{"set": {"a": 5}}"#, "the difference of \"a\" is no object"),
            ("{}", r#"{"items": {}}"#, "a difference of lists is for an object"),
            ("[1]", r#"{"items": {"1": {"value": 2}}}"#, "1 items are beyond the end of a list of 1"),
            ("[1]", r#"{"items": 5}"#, "`items` is an integer, not an object"),
            ("[1]", r#"{"valu": 5}"#, "`valu` is no part of a difference"),
            ("[1]", r#"{"value": 5, "items": {}}"#, "`value` is not alone"),
        ] {
            assert_eq!(applied(value(base), &value(delta).into_object()).unwrap_err(), why);
        }
    }
}
