//! JSON objects with some known members, each at most once. Other members are skipped.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::Fault;

/// The greatest number of members of an object. This version of the format uses at most five.
const MAX_MEMBERS: usize = 64;

/// Collects the members of an object.
pub(crate) trait Members<'de>: Default {
    /// Reads the value of a member that it knows; returns false for an unknown member, without reading its value.
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;
}

/// Reads an object.
pub(crate) struct Object<T>(PhantomData<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Members<'de>> DeserializeSeed<'de> for Object<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Members<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let (mut object, mut seen) = (T::default(), Vec::<String>::new());
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(twice(&key));
            }
            if !object.member(&key, &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
            if seen.len() == MAX_MEMBERS {
                return Err(A::Error::custom(format!("an object has more than {MAX_MEMBERS} members")));
            }
            seen.push(key);
        }
        Ok(object)
    }
}

/// Reads a list of objects.
pub(crate) struct Objects<T>(PhantomData<T>);

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Members<'de>> DeserializeSeed<'de> for Objects<T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Members<'de>> Visitor<'de> for Objects<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut objects = Vec::new();
        while let Some(object) = list.next_element_seed(Object::default())? {
            objects.push(object);
        }
        Ok(objects)
    }
}

/// Returns the error for a member that an object has twice.
pub(super) fn twice<E: serde::de::Error>(key: &str) -> E {
    E::custom(format!("the member {key:?} is there twice"))
}

/// Parses a text that is one object.
pub(crate) fn members<T: for<'de> Members<'de>>(text: &[u8]) -> Result<T, Fault> {
    let failed = |error: serde_json::Error| Fault::Json(error.to_string());
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let object = Object::default().deserialize(&mut deserializer).map_err(failed)?;
    deserializer.end().map_err(failed)?;
    Ok(object)
}

/// Returns a required string.
pub(crate) fn text(value: Option<String>, what: &str) -> Result<String, Fault> {
    value.ok_or_else(|| Fault::Json(format!("there is no {what}")))
}
