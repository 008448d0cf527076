//! Parses the manifest's JSON into flat tables in one pass. This makes no tree, and needs no allocation for a
//! tensor whose name has no escapes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use modelfmt_core::value::json::{JsonError, parse_seed, without_bare_words};
use modelfmt_core::value::{CheckSeed, ParseOptions, TextSeed};
use modelfmt_core::{
    CommonFault, Limits, Part, TensorTable,
    author::{Extent, NewTensor},
};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::dtypes::dtype_of;
use crate::error::{Error, Fault, Result};
use crate::manifest::Manifest;
use crate::v1::wire::MAX_DIM;
use crate::version::Version;

/// The keys of a manifest, in the order in which magnetron writes them.
pub(crate) const MANIFEST_VERSION: &str = "manifest_ver";
pub(crate) const TIMESTAMP: &str = "timestamp";
pub(crate) const MAGNETRON: &str = "magnetron_ver";
pub(crate) const SNAPSHOT: &str = "snapshot_ver";
pub(crate) const METADATA: &str = "usr_metadata";
pub(crate) const TENSORS: &str = "tensor_map";
const KEYS: [&str; 6] = [MANIFEST_VERSION, TIMESTAMP, MAGNETRON, SNAPSHOT, METADATA, TENSORS];

/// The keys of a tensor. `dtype` is informative; `dtype_id` determines the dtype
/// (docs/formats/mag.md#version-03).
const FIELDS: [&str; 5] = ["shape", "dtype", "dtype_id", "offset", "nbytes"];

/// The approximate minimum length of an entry in real models. It determines how many entries to reserve
/// memory for.
const USUAL_ENTRY_LEN: usize = 100;

/// Parses the manifest, which begins at byte `at` of the file. `values` is the range of the values according
/// to the header.
pub(crate) fn parse(
    bytes: &[u8],
    at: u64,
    values: Extent,
    limits: &Limits,
) -> Result<(TensorTable, Manifest)> {
    let part = || Part::new("manifest");
    let malformed =
        |offset: usize, fault| Error::Malformed { part: part(), at: at.saturating_add(offset as u64), fault };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| malformed(error.valid_up_to(), CommonFault::Utf8.into()))?;
    if let Some(offset) = text.find('\0') {
        return Err(malformed(offset, Fault::Nul));
    }
    let plain = without_bare_words(text);
    let cap = usize::try_from(limits.tensors).unwrap_or(usize::MAX);
    let mut state = State {
        text: &plain,
        at,
        values,
        limits,
        tensors: TensorTable::comparing_later((text.len() / USUAL_ENTRY_LEN).min(cap)),
        dims: Vec::new(),
        number: 0,
        entry_at: None,
        stop: None,
    };
    let read = parse_seed(plain.as_bytes(), Keys(&mut state));
    let found = match (read, state.stop.take()) {
        (_, Some(stop)) => return Err(stop),
        (Err(error), None) => return Err(state.bad_json(&error)),
        (Ok(found), None) => found,
    };
    state.tensors.compare_names().map_err(|(position, name, fault)| Error::Malformed {
        part: Part::entry("tensor", position as u64).with_name(&name),
        at,
        fault: fault.into(),
    })?;
    // The same range of the original text, which still has its bare words.
    let metadata = text.get(found.metadata).unwrap_or_default();
    state.tensors.shrink_to_fit();
    Ok((state.tensors, Manifest::new(&found.timestamp, &found.magnetron, metadata)))
}

struct State<'a> {
    /// The text of the manifest. It is as long as in the file, so that offsets are valid for both.
    text: &'a str,
    at: u64,
    values: Extent,
    limits: &'a Limits,
    tensors: TensorTable,
    dims: Vec<u64>,
    /// The number of the tensor that is being read.
    number: u64,
    /// The offset of the tensor's entry in the file, if known.
    entry_at: Option<u64>,
    /// The error that stopped parsing, unless the JSON itself is faulty.
    stop: Option<Error>,
}

/// The parts of the manifest other than the tensors.
struct Found {
    timestamp: String,
    magnetron: String,
    /// The range of the user's metadata in the text.
    metadata: std::ops::Range<usize>,
}

impl State<'_> {
    /// Returns the offset of `part` in the text, or `None` if it had escapes and therefore does not borrow
    /// from the text.
    fn offset(&self, part: &str) -> Option<usize> {
        let offset = part.as_ptr().addr().checked_sub(self.text.as_ptr().addr())?;
        (offset <= self.text.len()).then_some(offset)
    }

    fn stop<E: serde::de::Error>(&mut self, error: Error) -> E {
        self.stop = Some(error);
        E::custom("stopped")
    }

    /// Stops parsing because of a fault in the manifest outside the tensors.
    fn fault<E: serde::de::Error>(&mut self, field: &'static str, at: u64, fault: impl Into<Fault>) -> E {
        let part = Part::new("manifest").with_field(field);
        self.stop(Error::Malformed { part, at, fault: fault.into() })
    }

    /// Stops parsing because of a fault in the current tensor.
    fn tensor_fault<E: serde::de::Error>(
        &mut self,
        name: &str,
        field: Option<&'static str>,
        fault: Fault,
    ) -> E {
        let mut part = Part::entry("tensor", self.number).with_name(name);
        part.field = field;
        let at = self.entry_at.unwrap_or(self.at);
        self.stop(Error::Malformed { part, at, fault })
    }

    fn check<E: serde::de::Error>(&mut self, what: &'static str, found: usize, max: u64) -> Result<(), E> {
        match Limits::check(what, found as u64, max) {
            Ok(_) => Ok(()),
            Err(limit) => Err(self.stop(limit.into())),
        }
    }

    fn bad_json(&self, error: &JsonError) -> Error {
        let at = self.at.saturating_add(error.offset().unwrap_or(0) as u64);
        let text = format!("is not good JSON: {}", error.message());
        Error::Malformed { part: Part::new("manifest"), at, fault: CommonFault::Metadata(text).into() }
    }

    /// Returns a seed that checks the nesting of a value below level `level` of the manifest.
    fn nested(&self, level: u64) -> CheckSeed {
        let depth = self.limits.depth.saturating_sub(level);
        CheckSeed::new(ParseOptions::new().with_max_depth(u32::try_from(depth).unwrap_or(u32::MAX)))
    }

    /// Adds the tensor whose entry has been read. Its dimensions are in `dims`.
    fn list(&mut self, name: &str, code: u64, offset: u64, nbytes: u64) -> Result<(), (&'static str, Fault)> {
        let version = Version::V0_3;
        let dtype = dtype_of(code).ok_or(("dtype_id", Fault::DType { code, version }))?;
        if let Some(&dim) = self.dims.iter().find(|&&dim| dim > MAX_DIM) {
            return Err(("shape", Fault::Dimension(dim)));
        }
        let begin = self.values.offset().checked_add(offset);
        let tensor = NewTensor { name, dtype, offset: begin, packed_nbytes: 0 };
        let pushed = self.tensors.push(tensor, self.dims.iter().copied());
        let expected = pushed.map_err(|fault| ("shape", fault.into()))?;
        if nbytes != expected {
            return Err(("nbytes", CommonFault::Nbytes { found: nbytes, expected }.into()));
        }
        self.values.part(offset, nbytes).map_err(|fault| ("offset", fault.into()))?;
        Ok(())
    }
}

/// Visits the whole manifest.
struct Keys<'s, 'a>(&'s mut State<'a>);

impl<'de> DeserializeSeed<'de> for Keys<'_, '_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_, '_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let state = self.0;
        let mut seen = [false; KEYS.len()];
        let mut found = Found { timestamp: String::new(), magnetron: String::new(), metadata: 0..0 };
        while let Some(key) = map.next_key_seed(TextSeed)? {
            let Some((known, seen)) = KEYS.iter().zip(&mut seen).find(|(known, _)| **known == key) else {
                // Skips unknown keys, as magnetron does.
                map.next_value_seed(state.nested(1))?;
                continue;
            };
            if std::mem::replace(seen, true) {
                return Err(state.fault(known, state.at, CommonFault::Duplicate((*known).to_owned())));
            }
            match *known {
                MANIFEST_VERSION => match map.next_value()? {
                    1 => {}
                    other => return Err(state.fault(known, state.at, Fault::ManifestVersion(other))),
                },
                TIMESTAMP => found.timestamp = map.next_value_seed(TextSeed)?.into_owned(),
                MAGNETRON => found.magnetron = map.next_value_seed(TextSeed)?.into_owned(),
                SNAPSHOT => {
                    let version = map.next_value_seed(TextSeed)?;
                    if version != Version::V0_3.name() {
                        return Err(state.fault(known, state.at, Fault::SnapshotVersion(short(&version))));
                    }
                }
                METADATA => found.metadata = metadata(state, map.next_value::<&RawValue>()?)?,
                _ => map.next_value_seed(Tensors(state))?,
            }
        }
        match KEYS.iter().zip(seen).find(|(_, seen)| !seen) {
            None => Ok(found),
            Some((missing, _)) => {
                let at = state.at;
                let fault = Fault::Missing(missing);
                Err(state.stop(Error::Malformed { part: Part::new("manifest"), at, fault }))
            }
        }
    }
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Checks the user's metadata and returns its range in the text.
fn metadata<E: serde::de::Error>(state: &mut State<'_>, raw: &RawValue) -> Result<std::ops::Range<usize>, E> {
    let text = raw.get();
    let Some(begin) = state.offset(text) else {
        return Err(E::custom("the metadata is not a part of the text"));
    };
    state.check("the length of the metadata", text.len(), state.limits.metadata_len)?;
    let at = state.at.saturating_add(begin as u64);
    match parse_seed(text.as_bytes(), state.nested(1)) {
        Ok("an object") => Ok(begin..begin.saturating_add(text.len())),
        Ok(kind) => {
            let fault = CommonFault::Metadata(format!("is {kind} and not an object"));
            Err(state.fault(METADATA, at, fault))
        }
        Err(error) => {
            let at = at.saturating_add(error.offset().unwrap_or(0) as u64);
            let fault = CommonFault::Metadata(format!("is not good JSON: {}", error.message()));
            Err(state.fault(METADATA, at, fault))
        }
    }
}

/// Visits the tensors by name.
struct Tensors<'s, 'a>(&'s mut State<'a>);

impl<'de> DeserializeSeed<'de> for Tensors<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Tensors<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let state = self.0;
        while let Some(name) = map.next_key_seed(TextSeed)? {
            state.entry_at = state.offset(&name).map(|offset| {
                // The offset of the quotation mark before the name.
                state.at.saturating_add((offset as u64).saturating_sub(1))
            });
            let (tensors, limits) = (state.tensors.len(), state.limits);
            state.number = tensors as u64;
            state.check("the number of tensors", tensors.saturating_add(1), limits.tensors)?;
            state.check("the length of a tensor name", name.len(), limits.name_len)?;
            map.next_value_seed(Entry { state, name: &name })?;
        }
        Ok(())
    }
}

/// Visits the entry of one tensor.
struct Entry<'s, 'a, 'n> {
    state: &'s mut State<'a>,
    name: &'n str,
}

impl<'de> DeserializeSeed<'de> for Entry<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entry<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with shape, dtype, dtype_id, offset and nbytes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { state, name } = self;
        let (mut seen, mut numbers) = ([false; FIELDS.len()], [0u64; FIELDS.len()]);
        state.dims.clear();
        while let Some(field) = map.next_key_seed(TextSeed)? {
            let known =
                FIELDS.iter().zip(seen.iter_mut().zip(&mut numbers)).find(|(known, _)| **known == field);
            let Some((known, (seen, number))) = known else {
                map.next_value_seed(state.nested(3))?;
                continue;
            };
            if std::mem::replace(seen, true) {
                let fault = CommonFault::Duplicate((*known).to_owned()).into();
                return Err(state.tensor_fault(name, None, fault));
            }
            match *known {
                "shape" => map.next_value_seed(Shape(state))?,
                "dtype" => drop(map.next_value_seed(TextSeed)?),
                _ => *number = map.next_value()?,
            }
        }
        if let Some((missing, _)) = FIELDS.iter().zip(seen).find(|(_, seen)| !seen) {
            return Err(state.tensor_fault(name, None, Fault::Missing(missing)));
        }
        let [_, _, code, offset, nbytes] = numbers;
        state
            .list(name, code, offset, nbytes)
            .map_err(|(field, fault)| state.tensor_fault(name, Some(field), fault))
    }
}

/// Visits dimensions and appends them to the state's `dims`.
struct Shape<'s, 'a>(&'s mut State<'a>);

impl<'de> DeserializeSeed<'de> for Shape<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Shape<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of dimensions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let state = self.0;
        while let Some(dim) = list.next_element::<u64>()? {
            state.check("the rank of a tensor", state.dims.len().saturating_add(1), state.limits.rank)?;
            state.dims.push(dim);
        }
        Ok(())
    }
}
