//! APR1, the previous generation of the format, with the same types as APR2 (docs/formats/apr2.md#apr1).
//!
//! ```text
//! APR1 │ u32 metadata length │ JSON object │ u32 tensor count │ u32 index length │ JSON array │ tensors │ u32 CRC-32
//! ```
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::fmt;

use modelfmt_core::value::{CheckSeed, KeyError, ParseOptions, TextSeed, json};
use modelfmt_core::{
    Limits, Part,
    author::{Cursor, Extent, NameTable},
};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, Fault, Result, malformed};
use crate::index::{Claim, Generation, Head, Sections, Tensors};
use crate::wire::{self, Flags};

/// The length in bytes of the tensor count and the index length, which follow the metadata.
pub(crate) const COUNTS_LEN: u64 = 8;
/// The length in bytes of the CRC-32 at the end.
pub(crate) const CRC_LEN: u64 = 4;
/// The length of the shortest element of the index array that has all keys:
/// `{"name":"","dtype":"F32","shape":[],"offset":0,"size":0},`.
const MIN_ENTRY_LEN: u64 = 40;

/// Returns the extent of the metadata. The counts and the CRC must still fit after it.
pub(crate) fn metadata_extent(bytes: &[u8], file_len: u64, limits: &Limits) -> Result<Extent> {
    let mut c = Cursor::new(bytes, 0);
    c.record("header", None);
    c.bytes(4, "magic")?;
    let len = u64::from(c.u32("metadata length")?);
    let end = file_len.saturating_sub(COUNTS_LEN + CRC_LEN);
    let metadata = Extent::new(c.offset(), len, end)
        .map_err(|fault| malformed(Part::new("header").with_field("metadata length"), 4, fault))?;
    Limits::check("the length of the metadata", len, limits.metadata_len)?;
    Ok(metadata)
}

/// Returns the head, with the sections computed from the two counts that follow the metadata.
pub(crate) fn head(metadata: Extent, counts: &[u8], file_len: u64, limits: &Limits) -> Result<Head> {
    let mut c = Cursor::new(counts, metadata.end());
    c.record("index header", None);
    let tensor_count = c.u32("tensor count")?;
    let at = c.offset();
    let len = u64::from(c.u32("index length")?);
    let end = file_len.saturating_sub(CRC_LEN);
    let fault = |fault| malformed(Part::new("index header").with_field("index length"), at, fault);
    let index = Extent::new(c.offset(), len, end).map_err(fault)?;
    if index.is_empty() {
        let nothing = modelfmt_core::CommonFault::Metadata("expected a JSON array, found nothing".to_owned());
        return Err(malformed(Part::new("tensor index"), index.offset(), nothing));
    }
    Limits::check("the length of the index", len, limits.index_len)?;
    Limits::check("the number of tensors", tensor_count.into(), limits.tensors)?;
    let data = Extent::new(index.end(), end.saturating_sub(index.end()), end).map_err(fault)?;
    Ok(Head {
        generation: Generation::Apr1,
        version: (1, 0),
        flags: Flags::empty(),
        sections: Sections { metadata, index, data },
        tensor_count: Some(tensor_count),
    })
}

/// Parses the JSON array of tensors, entry by entry, into flat tables.
pub(crate) fn tensors(bytes: &[u8], head: &Head, limits: &Limits) -> Result<Tensors> {
    let at = head.sections.index.offset();
    let stated = u64::from(head.tensor_count.unwrap_or(0));
    Limits::fits(Part::new("tensor index"), at, stated, MIN_ENTRY_LEN, bytes.len() as u64)?;
    let count = usize::try_from(stated).unwrap_or(usize::MAX);
    let mut state = State {
        tensors: Tensors::with_capacity(count),
        stated,
        number: 0,
        at,
        data: head.sections.data,
        limits,
        stop: None,
    };
    match json::parse_seed(bytes, Entries(&mut state)) {
        Ok(()) => Ok(state.tensors),
        Err(error) => Err(state.stop.take().unwrap_or_else(|| {
            let at = at.saturating_add(error.offset().unwrap_or(0) as u64);
            let text = format!("is not good JSON: {error}");
            malformed(Part::new("tensor index"), at, modelfmt_core::CommonFault::Metadata(text))
        })),
    }
}

struct State<'a> {
    tensors: Tensors,
    /// The number of tensors that the counts state.
    stated: u64,
    /// The number of the entry that is being read.
    number: usize,
    /// The offset of the index in the file.
    at: u64,
    data: Extent,
    limits: &'a Limits,
    /// The error that stopped parsing, unless the JSON itself is faulty.
    stop: Option<Error>,
}

impl State<'_> {
    fn stop<E: serde::de::Error>(&mut self, error: Error) -> E {
        self.stop = Some(error);
        E::custom("stopped")
    }

    /// Stops parsing because of a fault in the whole array.
    fn bad<E: serde::de::Error>(&mut self, text: String) -> E {
        let error = malformed(Part::new("tensor index"), self.at, modelfmt_core::CommonFault::Metadata(text));
        self.stop(error)
    }

    /// Stops parsing because of a key of the current entry.
    fn key<E: serde::de::Error>(&mut self, error: &KeyError) -> E {
        let part = Part::entry("tensor entry", self.number as u64);
        let error = malformed(part, self.at, modelfmt_core::CommonFault::Metadata(error.to_string()));
        self.stop(error)
    }

    /// Returns the parse options for a value that is nested inside `levels` containers.
    fn options(&self, levels: u64) -> ParseOptions {
        let depth = self.limits.depth.saturating_sub(levels);
        ParseOptions::new().with_max_depth(u32::try_from(depth).unwrap_or(u32::MAX))
    }

    /// Adds the tensor of an entry.
    fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        let Entry { name, dtype, shape, offset, size } = entry;
        let fault = |fault: Fault| malformed(wire::entry_part(self.number, name), self.at, fault);
        if name.is_empty() {
            return Err(fault(Fault::EmptyName));
        }
        let unknown = || fault(Fault::UnknownDTypeName(dtype.clone().into_owned()));
        let dtype = wire::dtype_named(dtype).ok_or_else(unknown)?;
        let claim = Claim { name, dtype, offset: *offset, size: *size, raw_size: 0, flags: 0 };
        self.tensors.push(claim, shape.iter().copied(), self.at, self.data, self.limits)
    }
}

/// The required keys of an entry. Text without escapes borrows from the index.
struct Entry<'de> {
    name: Cow<'de, str>,
    dtype: Cow<'de, str>,
    shape: Vec<u64>,
    offset: u64,
    size: u64,
}

/// Visits the array of all entries.
struct Entries<'s, 'a>(&'s mut State<'a>);

impl<'de> DeserializeSeed<'de> for Entries<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let state = self.0;
        while array.next_element_seed(EntrySeed(state))?.is_some() {
            state.number = state.number.saturating_add(1);
        }
        let (found, stated) = (state.number as u64, state.stated);
        if found == stated {
            Ok(())
        } else {
            Err(state.bad(format!("the header counts {stated} tensors, the array has {found}")))
        }
    }
}

/// Visits one entry: its keys in any order. Unknown keys are checked and skipped.
struct EntrySeed<'s, 'a>(&'s mut State<'a>);

impl<'de> DeserializeSeed<'de> for EntrySeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let state = self.0;
        if state.number as u64 >= state.stated {
            let stated = state.stated;
            return Err(state.bad(format!("the header counts {stated} tensors, the array has more")));
        }
        let (mut name, mut dtype, mut shape, mut offset, mut size) = (None, None, None, None, None);
        let mut others = NameTable::default();
        while let Some(key) = map.next_key_seed(TextSeed)? {
            let is_new = match &*key {
                "name" => name.replace(map.next_value_seed(TextSeed)?).is_none(),
                "dtype" => dtype.replace(map.next_value_seed(TextSeed)?).is_none(),
                "shape" => shape.replace(map.next_value_seed(Dims(state))?).is_none(),
                "offset" => offset.replace(map.next_value()?).is_none(),
                "size" => size.replace(map.next_value()?).is_none(),
                other => {
                    map.next_value_seed(CheckSeed::new(state.options(2)))?;
                    others.push(other).is_ok()
                }
            };
            if !is_new {
                return Err(A::Error::custom(format_args!("duplicate key {key:?}")));
            }
        }
        let mut missing = |key: &'static str, expected| state.key(&KeyError::new(key, expected, None));
        let entry = Entry {
            name: name.ok_or_else(|| missing("name", "a string"))?,
            dtype: dtype.ok_or_else(|| missing("dtype", "a string"))?,
            shape: shape.ok_or_else(|| missing("shape", "an array"))?,
            offset: offset.ok_or_else(|| missing("offset", "an unsigned integer"))?,
            size: size.ok_or_else(|| missing("size", "an unsigned integer"))?,
        };
        state.push(&entry).map_err(|error| state.stop(error))
    }
}

/// Visits the dimensions, at most as many as the limit allows.
struct Dims<'s, 'a>(&'s mut State<'a>);

impl<'de> DeserializeSeed<'de> for Dims<'_, '_> {
    type Value = Vec<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u64>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Dims<'_, '_> {
    type Value = Vec<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of unsigned integers as `shape`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Vec<u64>, A::Error> {
        let mut dims = Vec::new();
        while let Some(dim) = array.next_element()? {
            dims.push(dim);
            let rank = Limits::check("the number of dimensions", dims.len() as u64, self.0.limits.rank);
            rank.map_err(|limit| self.0.stop(limit.into()))?;
        }
        Ok(dims)
    }
}
