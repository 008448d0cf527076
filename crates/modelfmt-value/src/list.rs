//! A list of values that takes about as much memory as its encoding in a file.
//!
//! Vocabularies and tables of numbers have millions of members, and every [`Value`] takes 32 bytes. A list
//! therefore keeps its members encoded and decodes them on access.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::{Integer, Object, Value};

/// A list of values.
///
/// Members are decoded on access. Iterating over all members and getting one by its position both take time
/// in proportion to the list. A list inside a list shares the bytes of the outer one.
#[derive(Clone, Default)]
pub struct List(Box<Inner>);

/// The fields of a [`List`], behind a pointer so that a [`Value`] does not become larger.
#[derive(Clone, Default)]
struct Inner {
    /// The encoded members, back to back; see [`put`].
    bytes: Arc<Vec<u8>>,
    /// The range of this list's members: all bytes, unless the list is inside another.
    range: Range<usize>,
    len: usize,
}

impl List {
    /// Creates a list without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty list with capacity for `nbytes` bytes of members. A number takes up to 9 bytes, a
    /// string up to 5 more than its own.
    #[must_use]
    pub fn with_capacity(nbytes: usize) -> Self {
        Self(Box::new(Inner { bytes: Arc::new(Vec::with_capacity(nbytes)), ..Inner::default() }))
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns whether the list has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Adds a member at the end.
    pub fn push(&mut self, value: impl Into<Value>) {
        if self.0.range.end != self.0.bytes.len() || self.0.range.start != 0 {
            self.0.bytes = Arc::new(self.own().to_vec());
            self.0.range = 0..self.0.bytes.len();
        }
        let bytes = Arc::make_mut(&mut self.0.bytes);
        let value = value.into();
        // Grow by a quarter: doubling would temporarily need up to three times the final memory.
        if bytes.capacity().saturating_sub(bytes.len()) < 32 {
            bytes.reserve_exact(32.max(bytes.len() / 4));
        }
        put(&value, bytes);
        self.0.range.end = bytes.len();
        self.0.len = self.0.len.saturating_add(1);
    }

    /// Returns the member at a position.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<Value> {
        self.iter().nth(position)
    }

    /// Returns the members in order.
    #[must_use]
    pub fn iter(&self) -> Items<'_> {
        Items { list: self, rest: self.own(), left: self.0.len }
    }

    /// Returns the members as strings; `None` unless all of them are strings.
    #[must_use]
    pub fn texts(&self) -> Option<Vec<&str>> {
        let mut rest = self.own();
        let text = |_| match take(&mut rest)? {
            Raw::Text(text) => Some(text),
            _ => None,
        };
        (0..self.0.len).map(text).collect()
    }

    /// Frees memory that was reserved for growing.
    pub fn shrink_to_fit(&mut self) {
        if let Some(bytes) = Arc::get_mut(&mut self.0.bytes) {
            bytes.shrink_to_fit();
        }
    }

    /// Inserts a member at the front. Takes time in proportion to the list.
    pub fn push_front(&mut self, value: impl Into<Value>) {
        *self = std::iter::once(value.into()).chain(self.iter()).collect();
    }

    pub(super) fn sort_keys_in_depth(&mut self) {
        let mut rest = self.own();
        let is_plain = |raw| !matches!(raw, Some(Raw::List { .. } | Raw::Map { .. }));
        if !(0..self.0.len).all(|_| is_plain(take(&mut rest))) {
            *self = self.iter().map(Value::sorted).collect();
        }
    }

    fn own(&self) -> &[u8] {
        self.0.bytes.get(self.0.range.clone()).unwrap_or_default()
    }
}

/// An iterator over the members of a [`List`], from [`List::iter`].
#[derive(Clone, Debug)]
pub struct Items<'a> {
    list: &'a List,
    rest: &'a [u8],
    left: usize,
}

impl Iterator for Items<'_> {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        let raw = take(&mut self.rest)?;
        Some(self.list.value(raw, &mut self.rest))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Items<'_> {}

impl<'a> IntoIterator for &'a List {
    type Item = Value;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

impl<T: Into<Value>> FromIterator<T> for List {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::new();
        items.into_iter().for_each(|item| list.push(item));
        list.shrink_to_fit();
        list
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        items.into_iter().collect()
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        // Objects with the same keys in another order are equal but are encoded differently.
        self.0.len == other.0.len && (self.own() == other.own() || self.iter().eq(other.iter()))
    }
}

impl Eq for List {}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl List {
    /// Decodes the value that begins with `raw`. For an object, takes its members from `rest`.
    fn value(&self, raw: Raw<'_>, rest: &mut &[u8]) -> Value {
        match raw {
            Raw::Null => Value::Null,
            Raw::Bool(b) => Value::Bool(b),
            Raw::Int(n) => Value::Int(n),
            Raw::Float(x) => Value::Float(x),
            Raw::Text(text) => Value::String(text.to_owned()),
            Raw::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            Raw::List { len, nbytes } => {
                // `rest` begins after the inner list, and ends where this list ends.
                let end = self.0.range.end.saturating_sub(rest.len());
                let range = end.saturating_sub(nbytes)..end;
                Value::Array(Self(Box::new(Inner { bytes: Arc::clone(&self.0.bytes), range, len })))
            }
            Raw::Map { len } => {
                let mut object = Object::new();
                for _ in 0..len {
                    let (Some(Raw::Text(key)), Some(raw)) = (take(rest), take(rest)) else { break };
                    let value = self.value(raw, rest);
                    object.insert(key, value);
                }
                Value::Object(object)
            }
        }
    }
}

/// The encoded form of a member. For an object, it excludes the members.
#[derive(Clone, Copy)]
enum Raw<'a> {
    Null,
    Bool(bool),
    Int(Integer),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    List { len: usize, nbytes: usize },
    Map { len: usize },
}

// The tags of encoded values. Tags below these are the integers from 0 to 127.
const NULL: u8 = 0x80;
const FALSE: u8 = 0x81;
const TRUE: u8 = 0x82;
const U8: u8 = 0x83;
const U16: u8 = 0x84;
const U32: u8 = 0x85;
const U64: u8 = 0x86;
const I8: u8 = 0x87;
const I16: u8 = 0x88;
const I32: u8 = 0x89;
const I64: u8 = 0x8a;
const F32: u8 = 0x8b;
const F64: u8 = 0x8c;
const TEXT: u8 = 0x8d;
const BYTES: u8 = 0x8e;
const LIST: u8 = 0x8f;
const MAP: u8 = 0x90;
const I128: u8 = 0x91;
/// The first tag of short strings; the difference from it is the length.
const SHORT: u8 = 0xa0;

/// Encodes a value and appends it. Equal scalars, strings, and lists of them have equal bytes.
fn put(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(b) => out.push(if *b { TRUE } else { FALSE }),
        Value::Int(n) => put_int(*n, out),
        Value::Float(x) => put_float(*x, out),
        Value::String(text) => put_text(text, out),
        Value::Bytes(bytes) => {
            out.push(BYTES);
            put_len(bytes.len(), out);
            out.extend(bytes);
        }
        Value::Array(list) => {
            out.push(LIST);
            put_len(list.0.len, out);
            put_len(list.own().len(), out);
            out.extend(list.own());
        }
        Value::Object(object) => {
            out.push(MAP);
            put_len(object.len(), out);
            for (key, value) in object {
                put_text(key, out);
                put(value, out);
            }
        }
    }
}

fn put_int(number: Integer, out: &mut Vec<u8>) {
    let mut tagged = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend(bytes);
    };
    if let Some(n) = number.as_u64() {
        match (u8::try_from(n), u16::try_from(n), u32::try_from(n)) {
            (Ok(n), ..) if n < NULL => out.push(n),
            (Ok(n), ..) => tagged(U8, &[n]),
            (_, Ok(n), _) => tagged(U16, &n.to_le_bytes()),
            (_, _, Ok(n)) => tagged(U32, &n.to_le_bytes()),
            _ => tagged(U64, &n.to_le_bytes()),
        }
    } else if let Some(n) = number.as_i64() {
        match (i8::try_from(n), i16::try_from(n), i32::try_from(n)) {
            (Ok(n), ..) => tagged(I8, &n.to_le_bytes()),
            (_, Ok(n), _) => tagged(I16, &n.to_le_bytes()),
            (_, _, Ok(n)) => tagged(I32, &n.to_le_bytes()),
            _ => tagged(I64, &n.to_le_bytes()),
        }
    } else {
        tagged(I128, &i128::from(number).to_le_bytes());
    }
}

#[allow(clippy::cast_possible_truncation, reason = "compared with what was there before")]
fn put_float(number: f64, out: &mut Vec<u8>) {
    let short = number as f32;
    // Converting a NaN may change its payload on some machines.
    if !number.is_nan() && f64::from(short).to_bits() == number.to_bits() {
        out.push(F32);
        out.extend(short.to_le_bytes());
    } else {
        out.push(F64);
        out.extend(number.to_le_bytes());
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    match u8::try_from(text.len()).ok().and_then(|len| SHORT.checked_add(len)) {
        Some(tag) => out.push(tag),
        None => {
            out.push(TEXT);
            put_len(text.len(), out);
        }
    }
    out.extend(text.as_bytes());
}

/// Appends a length, seven bits per byte, lowest bits first.
#[allow(clippy::cast_possible_truncation, reason = "of seven bits")]
fn put_len(mut len: usize, out: &mut Vec<u8>) {
    while len >= 0x80 {
        out.push(0x80 | (len & 0x7f) as u8);
        len >>= 7;
    }
    out.push(len as u8);
}

/// Removes a member from the front; for an object, only its head. `None` at the end.
fn take<'a>(rest: &mut &'a [u8]) -> Option<Raw<'a>> {
    let [tag] = take_array(rest)?;
    Some(match tag {
        0..NULL => Raw::Int(tag.into()),
        NULL => Raw::Null,
        FALSE => Raw::Bool(false),
        TRUE => Raw::Bool(true),
        U8 => Raw::Int(u8::from_le_bytes(take_array(rest)?).into()),
        U16 => Raw::Int(u16::from_le_bytes(take_array(rest)?).into()),
        U32 => Raw::Int(u32::from_le_bytes(take_array(rest)?).into()),
        U64 => Raw::Int(u64::from_le_bytes(take_array(rest)?).into()),
        I8 => Raw::Int(i8::from_le_bytes(take_array(rest)?).into()),
        I16 => Raw::Int(i16::from_le_bytes(take_array(rest)?).into()),
        I32 => Raw::Int(i32::from_le_bytes(take_array(rest)?).into()),
        I64 => Raw::Int(i64::from_le_bytes(take_array(rest)?).into()),
        I128 => Raw::Int(i128::from_le_bytes(take_array(rest)?).into()),
        F32 => Raw::Float(f32::from_le_bytes(take_array(rest)?).into()),
        F64 => Raw::Float(f64::from_le_bytes(take_array(rest)?)),
        BYTES => Raw::Bytes(take_bytes(rest)?),
        LIST => {
            let len = take_len(rest)?;
            Raw::List { len, nbytes: take_bytes(rest)?.len() }
        }
        MAP => Raw::Map { len: take_len(rest)? },
        TEXT => Raw::Text(std::str::from_utf8(take_bytes(rest)?).ok()?),
        _ => {
            let (text, after) = rest.split_at_checked(tag.checked_sub(SHORT)?.into())?;
            *rest = after;
            Raw::Text(std::str::from_utf8(text).ok()?)
        }
    })
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (array, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*array)
}

fn take_len(rest: &mut &[u8]) -> Option<usize> {
    let (mut len, mut shift) = (0usize, 0u32);
    loop {
        let [byte] = take_array(rest)?;
        len |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(len);
        }
        shift = shift.saturating_add(7);
    }
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_len(rest)?;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Value> {
        let ints = [0u64, 1, 127, 128, 255, 256, 65_535, 65_536, 1 << 32, u64::MAX];
        let negative = [-1i64, -128, -129, -32_768, -32_769, i64::from(i32::MIN), i64::MIN];
        let floats = [0.0, -0.0, 1.5, 0.1, f64::NAN, -f64::NAN, f64::INFINITY, f64::MAX, 1e-320, 3e38];
        let mut all: Vec<Value> = ints.into_iter().map(Value::from).collect();
        all.extend(negative.into_iter().map(Value::from));
        all.extend([i128::MIN, i128::MAX, 1 << 64, -(1 << 64)].map(|n| Value::Int(n.into())));
        all.extend(floats.into_iter().map(Value::from));
        all.extend([
            Value::Null,
            true.into(),
            false.into(),
            Value::Bytes(vec![1; 200]),
            Value::Bytes(vec![]),
        ]);
        all.extend([0, 1, 95, 96, 300].map(|len| Value::from("é".repeat(len))));
        all
    }

    #[test]
    fn members_come_back() {
        let mut all = samples();
        let inner: List = all.iter().cloned().collect();
        let object = Object::from_iter([("a", Value::from(1)), ("", Value::Array(inner.clone()))]);
        all.push(Value::Array(inner.clone()));
        all.push(Value::Array(List::new()));
        all.push(object.clone().into());
        all.push(vec![Value::from(object), Value::from(vec![Value::Array(inner)])].into());
        all.extend(samples());
        let mut list = List::from(all.clone());
        assert_eq!(list.len(), all.len());
        assert!(list.iter().eq(all.iter().cloned()));
        assert_eq!(list.iter().len(), all.len());
        for (position, value) in all.iter().enumerate() {
            assert_eq!(list.get(position).as_ref(), Some(value));
        }
        assert_eq!(list.get(all.len()), None);
        // A list inside another one behaves like any other list, even when members are added.
        for (position, value) in all.iter().enumerate() {
            let (Some(Value::Array(mut inside)), Value::Array(expected)) = (list.get(position), value) else {
                continue;
            };
            let count = expected.len();
            inside.push("more");
            assert_eq!((inside.len(), inside.get(count)), (count + 1, Some(Value::from("more"))));
            assert!(inside.iter().take(count).eq(expected.iter()));
        }
        let copy = list.clone();
        list.push(7);
        assert_eq!((copy.len() + 1, list.get(copy.len())), (list.len(), Some(Value::from(7))));
        assert_ne!(copy, list);
    }

    #[test]
    fn lists_are_equal_whatever_the_order_of_keys() {
        let [a, b] = [["x", "y"], ["y", "x"]].map(|keys| {
            let object: Object = keys.into_iter().map(|key| (key, key)).collect();
            Value::from(vec![Value::from(object), Value::from(vec![Value::Null])])
        });
        assert_eq!(a, b);
        assert_eq!(format!("{:?}", a.clone().sorted()), format!("{:?}", b.sorted()));
        assert_ne!(a, Value::from(vec![Value::Null, Value::Null]));
    }

    #[test]
    fn texts_are_borrowed() {
        let list: List = ["a", "", "long"].into_iter().collect();
        assert_eq!(list.texts().unwrap(), ["a", "", "long"]);
        assert_eq!(List::from(vec![Value::from("a"), Value::Null]).texts(), None);
        assert_eq!(List::new().texts(), Some(vec![]));
    }

    #[test]
    fn small_members_take_few_bytes() {
        for (value, each) in
            [(Value::Null, 1), (7.into(), 1), (200.into(), 2), ("".into(), 1), (0.5.into(), 5)]
        {
            let list: List = std::iter::repeat_n(value, 1000).collect();
            assert_eq!(list.0.bytes.len(), 1000 * each);
            assert_eq!(list.0.bytes.capacity(), 1000 * each);
        }
    }
}
