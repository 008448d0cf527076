//! Metadata as the file stores it, decoded on access.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod llama;
mod tree;

pub use llama::llama_type;
pub use tree::Hints;

use modelfmt_core::author::NameTable;
use modelfmt_core::value::{List, Object, Value};

use crate::error::Fault;
use crate::wire::ValueType;

/// The metadata of a file: keys and values in file order.
///
/// The values are the bytes of the file, which have been checked. So memory use is proportional to the file:
/// its bytes, and about 50 bytes per key. [`get`](Self::get) and [`iter`](Self::iter) decode values without a
/// copy. [`to_object`](Self::to_object) makes a tree.
#[derive(Clone, Default)]
pub struct Metadata {
    keys: NameTable,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    /// The positions, ascending, of the entries whose text was not valid UTF-8.
    replaced: Vec<usize>,
}

impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: ValueType,
    start: usize,
}

/// A metadata value. Strings and arrays borrow from the metadata.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetaValue<'a> {
    /// Unsigned, 8 bits.
    U8(u8),
    /// Signed, 8 bits.
    I8(i8),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Signed, 16 bits.
    I16(i16),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Signed, 32 bits.
    I32(i32),
    /// IEEE 754 binary32.
    F32(f32),
    /// A boolean. Any byte other than 0 is true, and `verify` reports bytes other than 0 and 1
    /// (docs/formats/gguf.md#booleans).
    Bool(bool),
    /// Text.
    String(&'a str),
    /// Values of one type.
    Array(Array<'a>),
    /// Unsigned, 64 bits.
    U64(u64),
    /// Signed, 64 bits.
    I64(i64),
    /// IEEE 754 binary64.
    F64(f64),
}

impl<'a> MetaValue<'a> {
    /// Returns the type of the value.
    #[must_use]
    pub const fn value_type(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::F32(_) => ValueType::F32,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(_) => ValueType::Array,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F64(_) => ValueType::F64,
        }
    }

    /// Appends the value in the form in which a file stores it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::U8(n) => out.extend(n.to_le_bytes()),
            Self::I8(n) => out.extend(n.to_le_bytes()),
            Self::U16(n) => out.extend(n.to_le_bytes()),
            Self::I16(n) => out.extend(n.to_le_bytes()),
            Self::U32(n) => out.extend(n.to_le_bytes()),
            Self::I32(n) => out.extend(n.to_le_bytes()),
            Self::F32(x) => out.extend(x.to_le_bytes()),
            Self::Bool(b) => out.push(b.into()),
            Self::String(text) => {
                out.extend((text.len() as u64).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
            }
            Self::Array(array) => {
                out.extend(array.kind.number().to_le_bytes());
                out.extend(array.len.to_le_bytes());
                out.extend_from_slice(array.bytes);
            }
            Self::U64(n) => out.extend(n.to_le_bytes()),
            Self::I64(n) => out.extend(n.to_le_bytes()),
            Self::F64(x) => out.extend(x.to_le_bytes()),
        }
    }

    /// Returns the text, or `None` if the value is not a string.
    #[must_use]
    pub const fn as_str(&self) -> Option<&'a str> {
        if let Self::String(text) = self { Some(*text) } else { None }
    }

    /// Returns the array, or `None` if the value is not an array.
    #[must_use]
    pub const fn as_array(&self) -> Option<Array<'a>> {
        if let Self::Array(array) = self { Some(*array) } else { None }
    }

    /// Returns the number, if the value is a non-negative integer of any type. The same count may be stored
    /// as u32 or u64 (GGUF, "Standardized key-value pairs").
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U8(n) => Some(n.into()),
            Self::U16(n) => Some(n.into()),
            Self::U32(n) => Some(n.into()),
            Self::U64(n) => Some(n),
            Self::I8(n) => n.try_into().ok(),
            Self::I16(n) => n.try_into().ok(),
            Self::I32(n) => n.try_into().ok(),
            Self::I64(n) => n.try_into().ok(),
            _ => None,
        }
    }

    /// Returns the value as a tree. Floats become `f64`. Integers are exact.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match *self {
            Self::U8(n) => n.into(),
            Self::I8(n) => n.into(),
            Self::U16(n) => n.into(),
            Self::I16(n) => n.into(),
            Self::U32(n) => n.into(),
            Self::I32(n) => n.into(),
            Self::F32(x) => x.into(),
            Self::Bool(b) => b.into(),
            Self::String(text) => text.into(),
            Self::Array(array) => array.to_value(),
            Self::U64(n) => n.into(),
            Self::I64(n) => n.into(),
            Self::F64(x) => x.into(),
        }
    }
}

/// An array under construction. All its elements have the same type.
#[derive(Clone, Debug)]
pub struct ArrayBuf {
    kind: ValueType,
    len: u64,
    bytes: Vec<u8>,
}

impl ArrayBuf {
    /// Creates an array without elements, for elements of this type.
    #[must_use]
    pub const fn new(kind: ValueType) -> Self {
        Self { kind, len: 0, bytes: Vec::new() }
    }

    /// Adds an element.
    ///
    /// # Errors
    /// If the element has another type, or arrays are nested deeper than this library reads.
    pub fn push(&mut self, member: MetaValue<'_>) -> Result<(), Fault> {
        if member.value_type() != self.kind {
            return Err(Fault::MixedArray);
        }
        if member.as_array().is_some_and(|array| array.depth() >= MAX_ARRAYS) {
            return Err(Fault::ArrayDepth);
        }
        member.encode(&mut self.bytes);
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Returns the array as a metadata value.
    #[must_use]
    pub fn as_value(&self) -> MetaValue<'_> {
        MetaValue::Array(Array { kind: self.kind, len: self.len, bytes: &self.bytes })
    }
}

/// The maximum nesting of arrays. The object of all keys is also a level (docs/formats/gguf.md#nesting).
const MAX_ARRAYS: u32 = modelfmt_core::value::MAX_DEPTH - 1;

impl Array<'_> {
    /// Returns the number of levels of arrays, including this array.
    fn depth(&self) -> u32 {
        let inner = self.iter().filter_map(|member| member.as_array());
        match self.kind {
            ValueType::Array => inner.map(|array| array.depth()).max().unwrap_or(0).saturating_add(1),
            _ => 1,
        }
    }
}

/// An array in the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    kind: ValueType,
    len: u64,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Returns the type of the elements.
    #[must_use]
    pub const fn value_type(&self) -> ValueType {
        self.kind
    }

    /// Returns the number of elements.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the array has no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of the elements as they are in the file, but little-endian. Numbers follow each
    /// other without gaps.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = MetaValue<'a>> + Clone + use<'a> {
        let Self { kind, len, bytes } = *self;
        (0..len).scan(bytes, move |rest, _| take(kind, rest))
    }

    /// Returns the array as a tree, in one pass for any depth of nesting.
    fn to_value(self) -> Value {
        let mut rest = self.bytes;
        tree(self.kind, self.len, &mut rest)
    }
}

/// Removes an array's elements from the front of `rest` and returns the array as a tree.
fn tree(kind: ValueType, len: u64, rest: &mut &[u8]) -> Value {
    // In a tree, a one-byte element takes up to two bytes, a longer element up to a quarter more than in the
    // file, and text less.
    let nbytes = match (kind, kind.size()) {
        (ValueType::Bool, _) => len,
        (_, Some(1)) => len.saturating_mul(2),
        (_, Some(size)) => len.saturating_mul(size.saturating_add(1)),
        (_, None) => 0,
    };
    let mut items = List::with_capacity(usize::try_from(nbytes).unwrap_or(0)); // there are that many members
    for _ in 0..len {
        let item = match kind {
            // `take` would walk over the elements once more at each level.
            ValueType::Array => take_head(rest).map(|(kind, len)| tree(kind, len, rest)),
            kind => take(kind, rest).map(|value| value.to_value()),
        };
        let Some(item) = item else { break };
        items.push(item);
    }
    items.shrink_to_fit();
    Value::Array(items)
}

/// Removes a value from the front. Returns `None` if the bytes end early, although they have been checked.
fn take<'a>(kind: ValueType, rest: &mut &'a [u8]) -> Option<MetaValue<'a>> {
    Some(match kind {
        ValueType::U8 => MetaValue::U8(u8::from_le_bytes(take_array(rest)?)),
        ValueType::I8 => MetaValue::I8(i8::from_le_bytes(take_array(rest)?)),
        ValueType::U16 => MetaValue::U16(u16::from_le_bytes(take_array(rest)?)),
        ValueType::I16 => MetaValue::I16(i16::from_le_bytes(take_array(rest)?)),
        ValueType::U32 => MetaValue::U32(u32::from_le_bytes(take_array(rest)?)),
        ValueType::I32 => MetaValue::I32(i32::from_le_bytes(take_array(rest)?)),
        ValueType::F32 => MetaValue::F32(f32::from_le_bytes(take_array(rest)?)),
        ValueType::Bool => MetaValue::Bool(take_array(rest)? != [0]),
        ValueType::String => MetaValue::String(std::str::from_utf8(take_string(rest)?).ok()?),
        ValueType::Array => {
            let (kind, len) = take_head(rest)?;
            let bytes = *rest;
            skip(kind, len, rest)?;
            MetaValue::Array(Array { kind, len, bytes: bytes.get(..bytes.len().saturating_sub(rest.len()))? })
        }
        ValueType::U64 => MetaValue::U64(u64::from_le_bytes(take_array(rest)?)),
        ValueType::I64 => MetaValue::I64(i64::from_le_bytes(take_array(rest)?)),
        ValueType::F64 => MetaValue::F64(f64::from_le_bytes(take_array(rest)?)),
    })
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (array, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*array)
}

fn take_bytes<'a>(len: u64, rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    Some(bytes)
}

fn take_string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u64::from_le_bytes(take_array(rest)?);
    take_bytes(len, rest)
}

/// Removes the type and the number of an array's elements from the front.
fn take_head(rest: &mut &[u8]) -> Option<(ValueType, u64)> {
    let kind = ValueType::try_from(u32::from_le_bytes(take_array(rest)?)).ok()?;
    Some((kind, u64::from_le_bytes(take_array(rest)?)))
}

/// Removes values from the front. The nesting of arrays, which has been checked, bounds the recursion.
fn skip(kind: ValueType, len: u64, rest: &mut &[u8]) -> Option<()> {
    if let Some(size) = kind.size() {
        return take_bytes(len.checked_mul(size)?, rest).map(|_| ());
    }
    for _ in 0..len {
        if kind == ValueType::String {
            take_string(rest)?;
        } else {
            let (kind, len) = take_head(rest)?;
            skip(kind, len, rest)?;
        }
    }
    Some(())
}

/// Reverses the byte order of the numbers in a value: numbers of one type, the length of a text, or the head
/// of an array.
fn swap(kind: ValueType, bytes: &mut [u8]) {
    match (kind, kind.size().and_then(|size| usize::try_from(size).ok())) {
        (ValueType::Array, _) => {
            let (kind, len) = bytes.split_at_mut(bytes.len().min(4));
            kind.reverse();
            len.reverse();
        }
        (_, Some(size)) if size > 0 => bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse),
        _ => {
            let len = bytes.len().min(8);
            bytes.split_at_mut(len).0.reverse();
        }
    }
}

impl Metadata {
    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<MetaValue<'_>> {
        self.value(self.keys.find(key)?)
    }

    /// Returns the keys and values, in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, MetaValue<'_>)> + Clone {
        (0..self.len()).filter_map(|number| Some((self.keys.name(number)?, self.value(number)?)))
    }

    /// Returns the metadata as a tree. An array takes up to twice the bytes that it takes in the file.
    #[must_use]
    pub fn to_object(&self) -> Object {
        self.iter().map(|(key, value)| (key, value.to_value())).collect()
    }

    /// Returns the heap memory in bytes that the metadata takes.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.keys
            .heap_size()
            .saturating_add(self.entries.capacity().saturating_mul(size_of::<Entry>()))
            .saturating_add(self.replaced.capacity().saturating_mul(size_of::<usize>()))
            .saturating_add(self.bytes.capacity())
    }

    fn value(&self, number: usize) -> Option<MetaValue<'_>> {
        let entry = self.entries.get(number)?;
        take(entry.kind, &mut self.bytes.get(entry.start..)?)
    }

    /// Returns a copy of the metadata without some keys.
    pub(crate) fn without(&self, keys: &[&str]) -> Self {
        let mut others = Self::default();
        for (number, entry) in self.entries.iter().enumerate() {
            let end = self.entries.get(number.saturating_add(1)).map_or(self.bytes.len(), |next| next.start);
            let Some((key, bytes)) = self.keys.name(number).zip(self.bytes.get(entry.start..end)) else {
                continue;
            };
            // Keys are unique, so `push_key` does not fail.
            if !keys.contains(&key) && others.push_key(key, entry.kind).is_ok() {
                others.extend(bytes, None);
                let is_replaced = self.replaced.binary_search(&number).is_ok();
                others.replaced.extend(is_replaced.then_some(others.entries.len().saturating_sub(1)));
            }
        }
        others
    }

    /// Returns the keys whose text in the file is not valid UTF-8. Its invalid bytes have been replaced by
    /// U+FFFD (docs/formats/gguf.md#names-and-keys).
    pub fn replaced_text(&self) -> impl Iterator<Item = &str> {
        self.replaced.iter().filter_map(|&number| self.keys.name(number))
    }

    /// Returns the keys with booleans that are neither 0 nor 1.
    pub(crate) fn odd_booleans(&self) -> impl Iterator<Item = &str> {
        let odd = |number: &usize| {
            let entry = self.entries.get(*number)?;
            let mut rest = self.bytes.get(entry.start..)?;
            has_odd_boolean(entry.kind, 1, &mut rest)
        };
        (0..self.len()).filter(move |number| odd(number) == Some(true)).filter_map(|n| self.keys.name(n))
    }

    /// Returns the keys, in file order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|number| self.keys.name(number))
    }

    /// Creates metadata without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key with its value.
    ///
    /// # Errors
    /// If the key is already present.
    pub fn push(&mut self, key: &str, value: MetaValue<'_>) -> Result<(), Fault> {
        self.push_key(key, value.value_type())?;
        value.encode(&mut self.bytes);
        Ok(())
    }

    /// Returns the number of bytes that the entries take in a file.
    pub(crate) fn encoded_len(&self) -> u64 {
        let keys = self.keys().map(|key| (key.len() as u64).saturating_add(8 + 4));
        keys.fold(self.nbytes(), u64::saturating_add)
    }

    /// Appends the entries in the form in which a file stores them.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for (number, entry) in self.entries.iter().enumerate() {
            let end = self.entries.get(number.saturating_add(1)).map_or(self.bytes.len(), |next| next.start);
            let Some((key, bytes)) = self.keys.name(number).zip(self.bytes.get(entry.start..end)) else {
                continue;
            };
            MetaValue::String(key).encode(out);
            out.extend(entry.kind.number().to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }

    /// Adds a key without a value. [`extend`](Self::extend) appends the bytes of its value.
    pub(crate) fn push_key(&mut self, key: &str, kind: ValueType) -> Result<(), modelfmt_core::CommonFault> {
        self.keys.push(key)?;
        self.entries.push(Entry { kind, start: self.bytes.len() });
        Ok(())
    }

    /// Appends bytes to the value of the last key. Big-endian values of type `swapped` are converted to little-endian.
    pub(crate) fn extend(&mut self, bytes: &[u8], swapped: Option<ValueType>) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if let Some((kind, new)) = swapped.zip(self.bytes.get_mut(begin..)) {
            swap(kind, new);
        }
    }

    /// Appends a string to the value of the last key. `text` does not include the length.
    pub(crate) fn extend_text(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            let number = self.len().saturating_sub(1);
            self.replaced.extend((self.replaced.last() != Some(&number)).then_some(number));
        }
        MetaValue::String(&text).encode(&mut self.bytes);
    }

    /// Returns the total number of bytes of all values so far.
    pub(crate) fn nbytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the last key.
    pub(crate) fn last_key(&self) -> Option<&str> {
        self.keys.name(self.len().checked_sub(1)?)
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.entries.shrink_to_fit();
    }
}

fn has_odd_boolean(kind: ValueType, len: u64, rest: &mut &[u8]) -> Option<bool> {
    let mut odd = false;
    match kind {
        ValueType::Bool => odd = take_bytes(len, rest)?.iter().any(|&byte| byte > 1),
        ValueType::Array => {
            for _ in 0..len {
                let (kind, len) = take_head(rest)?;
                odd |= has_odd_boolean(kind, len, rest)?;
            }
        }
        _ => skip(kind, len, rest)?,
    }
    Some(odd)
}
