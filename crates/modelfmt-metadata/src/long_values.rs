//! Values of metadata that are too long to be printed in full, such as the 100,000 tokens of a tokenizer.

use modelfmt_core::value::{List, Object, Value, json};

/// The maximum number of characters of a value in the JSON of a comparison. A longer value is cut to its
/// beginning.
const MAX: usize = 4096;

/// How two lists differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListDiff {
    /// The number of entries in the first model.
    pub a: usize,
    /// The number of entries in the second model.
    pub b: usize,
    /// The number of positions with different entries. A position that only one list has counts.
    pub differ: usize,
    /// The first of these positions.
    pub first: usize,
}

impl ListDiff {
    /// Compares two lists, position by position; `None` if they are equal.
    pub(super) fn new(a: &List, b: &List) -> Option<Self> {
        let apart = || a.iter().zip(b.iter()).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at);
        let (shorter, longer) = (a.len().min(b.len()), a.len().max(b.len()));
        let differ = apart().count().saturating_add(longer - shorter);
        let first = apart().next().unwrap_or(shorter);
        (differ > 0).then_some(Self { a: a.len(), b: b.len(), differ, first })
    }
}

/// Returns the beginning of a value that is too long; `None` if the value is not.
pub(super) fn beginning(value: &Value) -> Option<Value> {
    if len(value, MAX) <= MAX {
        return None;
    }
    let mut room = MAX;
    let mut fits = |len: usize| {
        let has_room = len < room;
        room = room.saturating_sub(len.saturating_add(1));
        has_room
    };
    Some(match value {
        Value::String(text) => Value::from(text.chars().take(MAX).collect::<String>()),
        Value::Bytes(bytes) => Value::Bytes(bytes.iter().take(MAX / 2).copied().collect()),
        Value::Array(list) => list.iter().take_while(|entry| fits(len(entry, MAX))).collect(),
        Value::Object(object) => {
            let entries = object.iter();
            let first = entries.take_while(|(key, value)| fits(key.len().saturating_add(len(value, MAX))));
            Value::Object(first.map(|(key, value)| (key, value.clone())).collect::<Object>())
        }
        other => other.clone(),
    })
}

/// Returns the length of a value's JSON in characters, counted up to `max + 1`.
fn len(value: &Value, max: usize) -> usize {
    json::start(value, max.saturating_add(1)).chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_by_position() {
        let list = |texts: &[&str]| texts.iter().map(|text| Value::from(*text)).collect::<List>();
        let (a, b) = (list(&["a", "b", "c"]), list(&["a", "x", "c", "d", "e"]));
        assert_eq!(ListDiff::new(&a, &b), Some(ListDiff { a: 3, b: 5, differ: 3, first: 1 }));
        assert_eq!(ListDiff::new(&b, &list(&["a", "x"])), Some(ListDiff { a: 5, b: 2, differ: 3, first: 2 }));
        assert_eq!(ListDiff::new(&a, &a.clone()), None);
    }

    #[test]
    fn a_beginning_is_short() {
        let tokens: Value = (0..100_000_u64).map(|n| Value::from(format!("token {n}"))).collect();
        let found = beginning(&tokens).unwrap();
        assert!(json::to_string(&found).unwrap().len() <= MAX + 2);
        assert!(found.as_array().unwrap().len() > 200);
        assert!(beginning(&found).is_none() && beginning(&Value::from("x")).is_none());
        let long = Value::from("é".repeat(MAX * 2));
        assert_eq!(beginning(&long).unwrap().as_str().unwrap().chars().count(), MAX);
        let nested: Value = [long.clone(), Value::from(1_u64)].into_iter().collect();
        assert_eq!(beginning(&nested), Some(std::iter::empty::<Value>().collect()));
        let object = Value::Object(Object::from_iter([("a", Value::from(1_u64)), ("b", long)]));
        assert_eq!(beginning(&object).unwrap().as_object().unwrap().iter().count(), 1);
    }
}
