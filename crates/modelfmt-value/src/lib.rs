//! The metadata tree that all formats share.
//!
//! [`Value`] has its own serde visitor (`ValueSeed`) and serializer, because cargo unifies features over a
//! whole build. Whether `serde_json::Value` sorts its keys, and how it represents numbers, depends on
//! unrelated crates. Here the order is kept, duplicate keys are refused, and depth is limited, for every
//! format that serde reads.
//!
//! ```
//! use modelfmt_value::{Object, Value};
//!
//! let mut model = Object::new();
//! model.insert("name", "tiny");
//! model.insert("layers", 4);
//! assert_eq!(model.required_str("name")?, "tiny");
//! assert_eq!(model.required_u64("layers")?, 4);
//! assert_eq!(
//!     model.required_array("name").unwrap_err().to_string(),
//!     "key `name`: expected an array, found a string",
//! );
//! let tree = Value::from(model);
//! assert_eq!(tree.path(["layers"]), Some(&Value::from(4u64)));
//! # Ok::<(), modelfmt_value::KeyError>(())
//! ```
//!
//! # Memory
//!
//! Parsing allocates in proportion to the input, never to a length that the input claims. A member of an
//! array takes about the bytes that it has in MessagePack ([`List`]). A member of an object takes
//! `size_of::<Value>()` (32 bytes on a 64-bit target), the bytes of its key and 8 more. In objects of more
//! than 16 members, each also takes about 20 bytes in a hash table. While an object grows, everything but the
//! table may take a quarter more. An object itself takes about 100 bytes. `ParseOptions::with_max_nodes` sets
//! an absolute limit.
//!
//! # Features
//!
//! - `serde`: reads and writes trees in any format of serde.
//! - `json`: reads and writes trees as JSON text; enables `serde`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

#[cfg(feature = "serde")]
mod de;
mod integer;
#[cfg(feature = "json")]
pub mod json;
mod key_error;
mod keys;
#[cfg(feature = "json")]
mod lazy;
mod list;
mod names;
mod object;
mod object_keys;
mod plain;
#[cfg(feature = "serde")]
mod ser;
#[cfg(test)]
#[cfg(feature = "serde")]
mod tests;

use std::fmt;

#[cfg(feature = "serde")]
pub use de::{CheckSeed, ParseOptions, TextSeed, ValueSeed};
pub use integer::Integer;
pub use key_error::KeyError;
#[cfg(feature = "json")]
pub use lazy::JsonObject;
pub use list::{Items, List};
pub use names::{NameError, NameTable};
pub use object::{IntoIter, Iter, Object};
pub use plain::float_from_bits;

/// The maximum depth of nested containers. A container that holds only scalars is at level 1.
///
/// JSON and MessagePack may nest 127 levels; deeper trees are refused. Writing has the same limit, so that
/// everything that is written can be read.
pub const MAX_DEPTH: u32 = 127;

/// A metadata value.
///
/// Floats are equal if their bits are equal, so a tree with a NaN equals its copy, and 0.0 is not equal to −0.0. An integer is
/// never equal to a float.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No value: JSON's `null`, MessagePack's `nil`.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// An integer of at most 128 bits.
    Int(Integer),
    /// A number written as a float, even if its value is integral.
    Float(f64),
    /// Text.
    String(String),
    /// Bytes: MessagePack's `bin`. Human-readable formats write them as lower-case hex digits.
    Bytes(Vec<u8>),
    /// A list.
    Array(List),
    /// Keys with values, in order.
    Object(Object),
}

impl Value {
    /// Returns the kind of the value with its article, for messages, such as "a string".
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(n) if n.is_negative() => "a negative integer",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a float",
            Self::String(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// Returns whether JSON can express every number in the tree, which means that there is no NaN or
    /// infinity.
    #[must_use]
    pub fn is_json(&self) -> bool {
        match self {
            Self::Float(x) => x.is_finite(),
            Self::Array(items) => items.iter().all(|item| item.is_json()),
            Self::Object(object) => object.values().all(Self::is_json),
            _ => true,
        }
    }

    /// Returns whether this is [`Value::Null`].
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the boolean; `None` if the value is not a boolean.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(b) = self { Some(*b) } else { None }
    }

    /// Returns the integer; `None` if the value is not an integer or does not fit `u64`.
    #[must_use]
    pub const fn as_u64(&self) -> Option<u64> {
        if let Self::Int(n) = self { n.as_u64() } else { None }
    }

    /// Returns the integer; `None` if the value is not an integer or does not fit `i64`.
    #[must_use]
    pub const fn as_i64(&self) -> Option<i64> {
        if let Self::Int(n) = self { n.as_i64() } else { None }
    }

    /// Returns the float, or the integer if `f64` holds it exactly; `None` for any other value.
    #[must_use]
    pub const fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(x) => Some(*x),
            Self::Int(n) => n.as_f64(),
            _ => None,
        }
    }

    /// Returns the text; `None` if the value is not a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(s) = self { Some(s) } else { None }
    }

    /// Returns the bytes; `None` if the value is not bytes.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        if let Self::Bytes(b) = self { Some(b) } else { None }
    }

    /// Returns the members; `None` if the value is not an array.
    #[must_use]
    pub const fn as_array(&self) -> Option<&List> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// Returns the object; `None` if the value is not an object.
    #[must_use]
    pub const fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// Returns the object for modification; `None` if the value is not an object.
    #[must_use]
    pub const fn as_object_mut(&mut self) -> Option<&mut Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// Returns the value of `key`; `None` if this is not an object or does not have the key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// Returns the object, or an empty one if the value is not an object.
    #[must_use]
    pub fn into_object(self) -> Object {
        if let Self::Object(object) = self { object } else { Object::new() }
    }

    /// Returns the value at the end of a path of keys; `None` if a value on the way is not an object or lacks
    /// the key.
    #[must_use]
    pub fn path<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> Option<&Self> {
        keys.into_iter().try_fold(self, |value, key| value.get(key))
    }

    /// Returns the value with the keys of every object in it sorted by their bytes.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.sort_keys_in_depth();
        self
    }

    fn sort_keys_in_depth(&mut self) {
        match self {
            Self::Array(items) => items.sort_keys_in_depth(),
            Self::Object(object) => object.sort_keys_in_depth(),
            _ => {}
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

macro_rules! from {
    ($($from:ty => |$value:ident| $make:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $make
            }
        })*
    };
}

from! {
    bool => |b| Self::Bool(b);
    u8 => |n| Self::Int(n.into());
    u16 => |n| Self::Int(n.into());
    u32 => |n| Self::Int(n.into());
    u64 => |n| Self::Int(n.into());
    usize => |n| Self::Int(n.into());
    i8 => |n| Self::Int(n.into());
    i16 => |n| Self::Int(n.into());
    i32 => |n| Self::Int(n.into());
    i64 => |n| Self::Int(n.into());
    i128 => |n| Self::Int(n.into());
    isize => |n| Self::Int(n.into());
    Integer => |n| Self::Int(n);
    f32 => |x| Self::Float(x.into());
    f64 => |x| Self::Float(x);
    &str => |s| Self::String(s.to_owned());
    String => |s| Self::String(s);
    Vec<Value> => |items| Self::Array(items.into());
    List => |items| Self::Array(items);
    Object => |object| Self::Object(object);
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Makes an array.
impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().collect())
    }
}

/// Prints a key from a file: in quotes, with control characters escaped, and shortened if it is long.
struct Quoted<'a>(&'a str);

impl Quoted<'_> {
    const MAX_CHARS: usize = 80;
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(Self::MAX_CHARS).and_then(|(end, _)| self.0.get(..end)) {
            Some(start) => write!(f, "{start:?}…"),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// The README's example, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
