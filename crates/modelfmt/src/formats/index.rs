//! The JSON that lists the files of a set: what tells it, and which files it names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Format;
use super::entry::{IndexJson, Tells};

/// The top level of a JSON object, as far as it matters to an index. Memory depends on the names in it, not on its length.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The keys that tell an index.
    keys: BTreeSet<&'static str>,
    /// What `format` says its name is.
    names: HashSet<String>,
    /// The names under each key that lists files.
    files: BTreeMap<&'static str, HashSet<String>>,
}

impl Walk {
    /// Walks through a JSON object, and says whether it is one as a whole. What stands before a fault is kept.
    pub(crate) fn through(reader: impl io::Read) -> (Self, bool) {
        let mut walk = Self::default();
        let mut json = serde_json::Deserializer::from_reader(reader);
        let is_whole = json.deserialize_map(&mut walk).and_then(|()| json.end()).is_ok();
        (walk, is_whole)
    }

    /// The format that it is an index of, and the files that this format lists there: a file that no reader of the index opens is a
    /// model of its own.
    pub(crate) fn into_index(mut self) -> Option<(Format, HashSet<String>)> {
        let is_told = |index: &IndexJson| {
            index.keys.iter().all(|key| self.keys.contains(key))
                && index.name.is_none_or(|name| self.names.contains(name))
        };
        let (format, index) = indexes().find(|(_, index)| is_told(index))?;
        let files = index.files.iter().filter_map(|(key, _)| self.files.remove(key));
        Some((format, files.flatten().collect()))
    }

    /// The files that it names in the way of any format.
    pub(crate) fn into_files(self) -> impl Iterator<Item = String> {
        self.files.into_values().flatten()
    }
}

fn indexes() -> impl Iterator<Item = (Format, &'static IndexJson)> {
    Format::ALL.iter().filter_map(|&format| match &format.entry().tells {
        Tells::Index(index) => Some((format, index)),
        _ => None,
    })
}

impl<'de> Visitor<'de> for &mut Walk {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let told = indexes().flat_map(|(_, index)| index.keys).find(|told| **told == key);
            self.keys.extend(told);
            let listed = indexes().flat_map(|(_, index)| index.files).find(|(listed, _)| *listed == key);
            if let Some(&(listed, of)) = listed {
                map.next_value_seed(Texts { into: self.files.entry(listed).or_default(), of })?;
            } else if key == "format" {
                map.next_value_seed(Texts { into: &mut self.names, of: Some("name") })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// All text in a value but the keys; of objects only what is under one key, if that is given.
struct Texts<'a> {
    into: &'a mut HashSet<String>,
    of: Option<&'static str>,
}

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.of.is_none() && !self.into.contains(text) {
            self.into.insert(text.to_owned());
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Texts { into: &mut *self.into, of: self.of })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if self.of.is_none_or(|of| of == key) {
                map.next_value_seed(Texts { into: &mut *self.into, of: None })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
