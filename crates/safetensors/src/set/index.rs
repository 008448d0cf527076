//! The JSON index: the file of each tensor.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use modelfmt_core::CommonFault;
use modelfmt_core::source::SetPaths;
use modelfmt_core::value::{Object, TextSeed, Value, ValueSeed};
use modelfmt_core::{Limits, Part, author::NameTable};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use crate::error::{Error, Fault, Result};
use crate::text;

/// The content of the index of a set: the tensors in the order of its `weight_map`, the file of each tensor,
/// and its `metadata`.
#[derive(Clone, Debug)]
pub struct SetIndex {
    names: NameTable,
    files: NameTable,
    /// For each tensor, the number of its file.
    shard_of: Vec<u32>,
    metadata: Object,
    unknown: NameTable,
    len: u64,
}

impl SetIndex {
    /// Parses the JSON text of an index. Skips keys other than `metadata` and `weight_map`, whatever their
    /// values are (docs/formats/safetensors.md#the-index-of-a-set).
    ///
    /// # Errors
    /// If the text is not JSON, lacks `weight_map`, names a tensor twice, spells a file in two ways, or has a
    /// path that leads out of its folder.
    pub fn parse(json: &[u8], limits: &Limits) -> Result<Self> {
        let part = || Part::new("index");
        Limits::check("the length of the index", json.len() as u64, limits.index_len)?;
        let json = std::str::from_utf8(json).map_err(|error| Error::Malformed {
            part: part(),
            at: error.valid_up_to() as u64,
            fault: CommonFault::Utf8.into(),
        })?;
        let mut state = State::new(limits);
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let read = deserializer.deserialize_map(Top(&mut state)).and_then(|()| deserializer.end());
        if let Err(error) = read {
            let here = text::offset(json, &error);
            return Err(state.stop.take().map_or_else(
                || {
                    let fault = CommonFault::Metadata(text::message(&error)).into();
                    Error::Malformed { part: part(), at: here, fault }
                },
                |stop| stop(here),
            ));
        }
        text::check_depth(json, limits)?;
        if !state.has_map {
            return Err(Error::Malformed { part: part(), at: 0, fault: Fault::Missing("weight_map") });
        }
        let State { names, files, shard_of, mut metadata, unknown, .. } = state;
        if modelfmt_core::value::json::has_large_integer(json.as_bytes()) {
            // The first pass turns integers that are too large into floats. This pass keeps them.
            let exact = modelfmt_core::value::json::parse_member(json.as_bytes(), "metadata").ok().flatten();
            metadata = exact.and_then(|exact| exact.as_object().cloned()).or(metadata);
        }
        let metadata = metadata.unwrap_or_default();
        Ok(Self { names, files, shard_of, metadata, unknown, len: json.len() as u64 })
    }

    /// Returns the names of the tensors, in order.
    #[must_use]
    pub const fn names(&self) -> &NameTable {
        &self.names
    }

    /// Returns the paths of the files, in the order of their first occurrence.
    #[must_use]
    pub const fn files(&self) -> &NameTable {
        &self.files
    }

    /// Returns the number of the file that holds the tensor at a position.
    #[must_use]
    pub fn shard_of(&self, position: usize) -> Option<usize> {
        self.shard_of.get(position).map(|&number| number as usize)
    }

    /// Returns the `metadata` of the index: usually `total_size`, the number of bytes of all tensors, and
    /// what the writer has added.
    #[must_use]
    pub const fn metadata(&self) -> &Object {
        &self.metadata
    }

    /// Returns the keys of the index other than `metadata` and `weight_map`.
    pub fn unknown_keys(&self) -> impl Iterator<Item = &str> {
        (0..self.unknown.len()).filter_map(|number| self.unknown.name(number))
    }

    /// Returns the length of the index's text in bytes.
    #[must_use]
    pub const fn text_len(&self) -> u64 {
        self.len
    }
}

struct State<'a> {
    limits: &'a Limits,
    names: NameTable,
    files: NameTable,
    paths: SetPaths,
    shard_of: Vec<u32>,
    metadata: Option<Object>,
    unknown: NameTable,
    has_map: bool,
    /// Makes the error that stopped parsing, from the position in the text. `None` if the JSON itself is
    /// faulty.
    stop: Option<Box<dyn FnOnce(u64) -> Error>>,
}

impl<'a> State<'a> {
    fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            names: NameTable::default(),
            files: NameTable::default(),
            paths: SetPaths::default(),
            shard_of: Vec::new(),
            metadata: None,
            unknown: NameTable::default(),
            has_map: false,
            stop: None,
        }
    }

    fn fault<E: serde::de::Error>(&mut self, part: Part, fault: impl Into<Fault>) -> E {
        let fault = fault.into();
        self.stop = Some(Box::new(move |at| Error::Malformed { part, at, fault }));
        E::custom("stopped")
    }

    fn check<E: serde::de::Error>(&mut self, what: &'static str, found: usize, max: u64) -> Result<(), E> {
        Limits::check(what, found as u64, max).map(|_| ()).map_err(|limit| {
            self.stop = Some(Box::new(move |_| limit.into()));
            E::custom("stopped")
        })
    }

    fn list<E: serde::de::Error>(&mut self, name: &str, file: &str) -> Result<(), E> {
        let limits = self.limits;
        let position = self.names.len();
        self.check("the number of tensors", position.saturating_add(1), limits.tensors)?;
        self.check("the length of a name", name.len(), limits.name_len)?;
        self.names
            .push(name)
            .map_err(|error| self.fault(Part::new("weight_map"), CommonFault::from(error)))?;
        let known =
            self.shard_of.last().copied().filter(|&last| self.files.name(last as usize) == Some(file));
        let known = known.or_else(|| self.files.find(file).and_then(|number| u32::try_from(number).ok()));
        let file_number = match known {
            Some(number) => number,
            None => {
                let part = || Part::entry("tensor", position as u64).with_name(name);
                self.check("the number of files", self.files.len().saturating_add(1), limits.entries)?;
                self.paths.add(file).map_err(|why| self.fault(part(), Fault::Path(why)))?;
                let number =
                    self.files.push(file).map_err(|error| self.fault(part(), CommonFault::from(error)))?;
                u32::try_from(number).map_err(|_| self.fault(part(), CommonFault::TooManyNames))?
            }
        };
        self.shard_of.push(file_number);
        Ok(())
    }
}

struct Top<'s, 'a>(&'s mut State<'a>);

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let state = self.0;
        while let Some(key) = map.next_key_seed(TextSeed)? {
            let twice =
                (key == "metadata" && state.metadata.is_some()) || (key == "weight_map" && state.has_map);
            if twice {
                return Err(state.fault(Part::new("index"), CommonFault::Duplicate(key.into_owned())));
            }
            match &*key {
                "metadata" => match map.next_value_seed(ValueSeed::default())? {
                    Value::Object(object) => state.metadata = Some(object),
                    other => {
                        let text = format!("metadata must be an object, found {}", other.kind());
                        return Err(A::Error::custom(text));
                    }
                },
                "weight_map" => {
                    map.next_value_seed(WeightMap(state))?;
                    state.has_map = true;
                }
                _ => {
                    // A key that occurs twice is already listed, and its value is ignored anyway.
                    let _ = state.unknown.push(&key);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct WeightMap<'s, 'a>(&'s mut State<'a>);

impl<'de> DeserializeSeed<'de> for WeightMap<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WeightMap<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of file names as weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(TextSeed)? {
            let file = map.next_value_seed(TextSeed)?;
            self.0.list(&name, &file)?;
        }
        Ok(())
    }
}
