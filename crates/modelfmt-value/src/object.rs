//! A map from text to values that keeps the order of insertion.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::ops::Range;
use std::vec;

use super::object_keys::Keys;
use super::{KeyError, Value};

/// Keys with their values, in the order in which they were inserted. No key occurs twice.
///
/// Finding a key takes constant time, so a hostile file with a million keys costs time in proportion to its
/// length. The seed of the hash is different in each object. Two objects are equal if they have the same keys
/// with equal values, in any order.
#[derive(Clone, Default)]
pub struct Object {
    /// One key for each value; `None` if there are no keys. Boxed, so that a [`Value`] does not become
    /// larger.
    keys: Option<Box<Keys>>,
    values: Vec<Value>,
}

impl Object {
    /// Creates an object without keys; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { keys: None, values: Vec::new() }
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether the object has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(self.position(key)?)
    }

    /// Returns the value of `key` for modification.
    #[must_use]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.position(key)?;
        self.values.get_mut(at)
    }

    /// Returns whether the object has `key`.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets the value of `key`. An existing value is replaced in its place and returned; a new key is added at the end.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.get_mut(&key) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.push(&key, value);
                None
            }
        }
    }

    /// Adds `key` with its value at the end.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if `key` is already present; the object is then unchanged.
    pub fn try_insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Result<(), KeyError> {
        let key = key.into();
        if self.contains_key(&key) {
            return Err(KeyError::duplicate(key));
        }
        self.push(&key, value.into());
        Ok(())
    }

    /// Adds a value under the key `prefix` + `key`. If that key has a different value, the prefix is repeated
    /// until the key is free, so that no value is lost.
    pub fn insert_with_prefix(&mut self, prefix: &str, key: &str, value: impl Into<Value>) {
        let (mut key, value) = (format!("{prefix}{key}"), value.into());
        while self.get(&key).is_some_and(|there| *there != value) {
            key.insert_str(0, prefix);
        }
        if !self.contains_key(&key) {
            self.push(&key, value);
        }
    }

    /// Removes `key` and returns its value. The other keys keep their order. Takes time in proportion to the
    /// number of keys.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.position(key)?;
        if let Some(keys) = &mut self.keys {
            keys.remove(at);
        }
        Some(self.values.remove(at))
    }

    /// Keeps only the entries for which `keep` returns true, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        let Some(keys) = self.keys.take() else { return };
        let (mut kept, mut names) = (Keys::default(), keys.iter());
        self.values.retain_mut(|value| {
            let key = names.next().unwrap_or_default();
            let is_kept = keep(key, value);
            if is_kept {
                kept.push(key);
            }
            is_kept
        });
        self.keys = Some(Box::new(kept));
    }

    /// Returns the keys and values, in order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { object: self, range: 0..self.len() }
    }

    /// Returns the keys and mutable values, in order.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Value)> + DoubleEndedIterator {
        let keys = self.keys.as_deref();
        let key = move |at| keys.and_then(|keys| keys.get(at)).unwrap_or_default();
        self.values.iter_mut().enumerate().map(move |(at, value)| (key(at), value))
    }

    /// Returns the keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator + Clone {
        (0..self.len()).map(|at| self.key(at))
    }

    /// Returns the values, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> + DoubleEndedIterator + Clone {
        self.values.iter()
    }

    /// Sorts the entries by the bytes of their keys. Nested objects keep their order;
    /// [`sorted`](Self::sorted) sorts them too.
    pub fn sort_keys(&mut self) {
        if self.keys().is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_unstable_by_key(|&at| self.key(at));
        let mut sorted = Self::new();
        for at in order {
            let value = self.values.get_mut(at).map(std::mem::take);
            sorted.push(self.key(at), value.unwrap_or_default());
        }
        *self = sorted;
    }

    /// Returns the object with its keys, and those of every nested object, sorted by their bytes.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.sort_keys_in_depth();
        self
    }

    pub(super) fn sort_keys_in_depth(&mut self) {
        self.sort_keys();
        for value in &mut self.values {
            value.sort_keys_in_depth();
        }
    }

    /// Frees memory that was reserved for growing.
    #[cfg(feature = "serde")]
    pub(super) fn shrink_to_fit(&mut self) {
        self.values.shrink_to_fit();
        if let Some(keys) = &mut self.keys {
            keys.shrink_to_fit();
        }
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.keys.as_ref()?.position(key)
    }

    /// Returns the key at a position, which must exist.
    fn key(&self, at: usize) -> &str {
        self.keys.as_ref().and_then(|keys| keys.get(at)).unwrap_or_default()
    }

    /// Appends an entry whose key must not be present yet.
    fn push(&mut self, key: &str, value: Value) {
        // Grow by a quarter: doubling would temporarily need up to three times the final memory.
        if self.values.len() == self.values.capacity() {
            self.values.reserve_exact(2.max(self.values.len() / 4));
        }
        self.values.push(value);
        self.keys.get_or_insert_default().push(key);
    }
}

/// An iterator over keys and values in order, from [`Object::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    object: &'a Object,
    range: Range<usize>,
}

impl<'a> Iter<'a> {
    fn entry(&self, at: usize) -> Option<(&'a str, &'a Value)> {
        Some((self.object.key(at), self.object.values.get(at)?))
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.range.next()?;
        self.entry(at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let at = self.range.next_back()?;
        self.entry(at)
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Object {
    type Item = (&'a str, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An owning iterator over keys and values in order, from [`Object::into_iter`].
#[derive(Debug)]
pub struct IntoIter {
    keys: Option<Box<Keys>>,
    values: std::iter::Enumerate<vec::IntoIter<Value>>,
}

impl IntoIter {
    fn entry(&self, (at, value): (usize, Value)) -> (String, Value) {
        let key = self.keys.as_ref().and_then(|keys| keys.get(at));
        (key.unwrap_or_default().to_owned(), value)
    }
}

impl Iterator for IntoIter {
    type Item = (String, Value);

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.values.next()?;
        Some(self.entry(next))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.values.size_hint()
    }
}

impl DoubleEndedIterator for IntoIter {
    fn next_back(&mut self) -> Option<Self::Item> {
        let last = self.values.next_back()?;
        Some(self.entry(last))
    }
}

impl ExactSizeIterator for IntoIter {}

impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter { keys: self.keys, values: self.values.into_iter().enumerate() }
    }
}

/// If a key occurs several times, its last value replaces the earlier ones.
impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut object = Self::new();
        object.extend(entries);
        object
    }
}

impl<K: Into<String>, V: Into<Value>> Extend<(K, V)> for Object {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let entries = entries.into_iter();
        let count = entries.size_hint().0;
        if count > 0 {
            self.values.reserve_exact(count);
            self.keys.get_or_insert_default().reserve(count);
        }
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl Eq for Object {}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: u32) -> Object {
        (0..count).map(|n| (format!("key {n}"), n)).collect()
    }

    #[test]
    fn insert_replaces_in_place() {
        for count in [3, 100] {
            let mut object = numbered(count);
            assert_eq!(object.insert("key 1", "new"), Some(Value::from(1u32)));
            assert_eq!(object.insert("last", true), None);
            assert_eq!(object.len(), count as usize + 1);
            assert_eq!(object.keys().nth(1), Some("key 1"));
            assert_eq!(object.get("key 1").and_then(Value::as_str), Some("new"));
            assert_eq!(object.keys().next_back(), Some("last"));
        }
    }

    #[test]
    fn try_insert_refuses_what_is_there() {
        for count in [3, 100] {
            let mut object = numbered(count);
            let error = object.try_insert("key 2", 7u8).unwrap_err();
            assert_eq!((error.key(), error.to_string().as_str()), ("key 2", "duplicate key \"key 2\""));
            assert_eq!(object, numbered(count));
            object.try_insert("key", 7u8).unwrap();
            assert_eq!(object.get("key"), Some(&Value::from(7u8)));
        }
    }

    #[test]
    fn insert_beside_hides_nothing() {
        let mut object = Object::from_iter([("a", 1), ("p.a", 2)]);
        object.insert_with_prefix("p.", "a", 3);
        object.insert_with_prefix("p.", "a", 2);
        object.insert_with_prefix("p.", "b", 4);
        assert_eq!(object, Object::from_iter([("a", 1), ("p.a", 2), ("p.p.a", 3), ("p.b", 4)]));
    }

    #[test]
    fn remove_keeps_order_and_index() {
        // Crosses the border between the two ways of finding a key, in both directions.
        let mut object = numbered(40);
        let mut expected: Vec<String> = object.keys().map(str::to_owned).collect();
        for step in [0usize, 38, 7, 7, 20].into_iter().cycle().take(40) {
            let key = expected.remove(step % expected.len());
            assert!(object.remove(&key).is_some());
            assert_eq!(object.remove(&key), None);
            assert!(object.keys().eq(&expected));
            for key in &expected {
                let number: u32 = key.strip_prefix("key ").unwrap().parse().unwrap();
                assert_eq!(object.get(key), Some(&Value::from(number)));
            }
        }
        assert!(object.is_empty());
        object.extend(numbered(40));
        assert_eq!(object, numbered(40));
    }

    #[test]
    fn equality_does_not_depend_on_order() {
        for count in [3, 100] {
            let object = numbered(count);
            let mut other: Object = object.clone().into_iter().rev().collect();
            assert_eq!(object, other);
            assert!(!object.keys().eq(other.keys()));
            other.insert("key 0", "x");
            assert_ne!(object, other);
            other.remove("key 0");
            assert_ne!(object, other);
            other.insert("other", 0u8);
            assert_ne!(object, other);
        }
    }

    #[test]
    fn sorting_goes_by_bytes() {
        let mut object: Object = ["b", "é", "a", "Z", "", "aa", "\u{10000}", "\u{ffff}"]
            .into_iter()
            .map(|key| (key, key))
            .chain((0..20).map(|_| ("b", "b")))
            .collect();
        let inner: Object = [("z", 1), ("y", 2)].into_iter().collect();
        object.insert("m", Value::from(vec![inner.into()]));
        object.sort_keys();
        let keys: Vec<&str> = object.keys().collect();
        assert_eq!(keys, ["", "Z", "a", "aa", "b", "m", "é", "\u{ffff}", "\u{10000}"]);
        let first_inner = |object: &Object| -> Vec<String> {
            let items = object.get("m").and_then(Value::as_array).unwrap();
            items.get(0).unwrap().as_object().unwrap().keys().map(str::to_owned).collect()
        };
        assert_eq!(first_inner(&object), ["z", "y"]);
        assert_eq!(first_inner(&object.sorted()), ["y", "z"]);

        let mut many: Object = (0..1000u32).rev().map(|n| (format!("{n:04}"), n)).collect();
        many.sort_keys();
        assert_eq!(many.keys().next(), Some("0000"));
        assert_eq!(many.get("0123"), Some(&Value::from(123u32)));
        many.retain(|_, value| value.as_u64().is_some_and(|n| n % 2 == 0));
        assert_eq!(many.len(), 500);
        assert_eq!(many.get("0122"), Some(&Value::from(122u32)));
        assert!(!many.contains_key("0123"));
    }

    #[test]
    fn mutation_reaches_the_entry() {
        let mut object = numbered(50);
        *object.get_mut("key 30").unwrap() = Value::Null;
        for (key, value) in object.iter_mut() {
            if key == "key 31" {
                *value = Value::Bool(true);
            }
        }
        assert_eq!(object.get("key 30"), Some(&Value::Null));
        assert_eq!(object.values().nth(31), Some(&Value::Bool(true)));
        assert_eq!(object.iter().len(), 50);
        assert_eq!(object.get_mut("none"), None);
    }
}
