//! Writes trees through serde.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use serde::ser::{Error, Serialize, SerializeMap, Serializer};

use super::de::TooDeep;
use super::{MAX_DEPTH, Object, Value};

/// Human-readable formats write NaN and the infinities as the strings "NaN", "Infinity" and "-Infinity", and
/// bytes as lower-case hex digits; binary formats write them unchanged. Fails if the tree has more than
/// [`MAX_DEPTH`] levels.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Branch { node: self, order: Order::Kept, depth: 0 }.serialize(serializer)
    }
}

/// An object is written in its own order.
impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Branch { node: self, order: Order::Kept, depth: 0 }.serialize(serializer)
    }
}

/// The order in which to write the keys of an object.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// The order of the object.
    Kept,
    /// Sorted by their bytes.
    #[cfg_attr(not(feature = "json"), allow(dead_code, reason = "only JSON is written sorted"))]
    Sorted,
}

/// A part of a tree that is inside `depth` containers.
pub(super) struct Branch<'a, T: ?Sized> {
    pub(super) node: &'a T,
    pub(super) order: Order,
    pub(super) depth: u32,
}

impl<'a, T: ?Sized> Branch<'a, T> {
    fn with<U: ?Sized>(&self, node: &'a U) -> Branch<'a, U> {
        Branch { node, order: self.order, depth: self.depth }
    }

    /// Returns a function that wraps each member of the container that begins here.
    fn inside<E: Error>(&self) -> Result<impl Fn(&'a Value) -> Branch<'a, Value> + use<'a, T, E>, E> {
        let (order, depth) = self.one_deeper()?;
        Ok(move |node| Branch { node, order, depth })
    }

    fn one_deeper<E: Error>(&self) -> Result<(Order, u32), E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom(TooDeep(MAX_DEPTH)));
        }
        Ok((self.order, self.depth.saturating_add(1)))
    }
}

/// A member of a list. It is decoded only to be written.
struct Member {
    node: Value,
    order: Order,
    depth: u32,
}

impl Serialize for Member {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { ref node, order, depth } = *self;
        Branch { node, order, depth }.serialize(serializer)
    }
}

impl Serialize for Branch<'_, Value> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.node {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(b) => serializer.serialize_bool(*b),
            Value::Int(n) => match (n.as_u64(), n.as_i64()) {
                (Some(n), _) => serializer.serialize_u64(n),
                (None, Some(n)) => serializer.serialize_i64(n),
                // MessagePack and similar formats have no such integers and would write another type.
                (None, None) if serializer.is_human_readable() => serializer.serialize_i128((*n).into()),
                (None, None) => Err(S::Error::custom(format_args!("the integer {n} is beyond 64 bits"))),
            },
            Value::Float(x) => match non_finite(*x) {
                Some(name) if serializer.is_human_readable() => serializer.serialize_str(name),
                _ => serializer.serialize_f64(*x),
            },
            Value::String(s) => serializer.serialize_str(s),
            Value::Bytes(bytes) if serializer.is_human_readable() => serializer.collect_str(&Hex(bytes)),
            Value::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Value::Array(items) => {
                let (order, depth) = self.one_deeper()?;
                serializer.collect_seq(items.iter().map(|node| Member { node, order, depth }))
            }
            Value::Object(object) => self.with(object).serialize(serializer),
        }
    }
}

impl Serialize for Branch<'_, Object> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inside = self.inside()?;
        let mut map = serializer.serialize_map(Some(self.node.len()))?;
        match self.order {
            Order::Kept => {
                self.node.iter().try_for_each(|(key, value)| map.serialize_entry(key, &inside(value)))?;
            }
            Order::Sorted => {
                let mut entries: Vec<_> = self.node.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                entries.iter().try_for_each(|(key, value)| map.serialize_entry(key, &inside(value)))?;
            }
        }
        map.end()
    }
}

/// CLI, "inspect --json": NaN and the infinities become these strings.
fn non_finite(x: f64) -> Option<&'static str> {
    match x {
        _ if x.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// Prints bytes as lower-case hex digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
