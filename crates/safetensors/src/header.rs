//! Parses the header's JSON into flat tables in one pass. This makes no tree, and needs no allocation for a
//! tensor whose name has no escapes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use modelfmt_core::value::TextSeed;
use modelfmt_core::{DType, Limits, Part, TensorTable};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, Fault, Result};
use crate::metadata::Metadata;
use crate::state::{State, Stop};
use crate::{fast_header, text, wire};

/// The content of the header.
pub(crate) struct Header {
    pub(crate) tensors: TensorTable,
    pub(crate) metadata: Option<Metadata>,
}

/// Parses the header's JSON, which begins at byte `at` of a file of `file_len` bytes and is followed by the
/// data.
pub(crate) fn parse(json: &[u8], at: u64, file_len: u64, limits: &Limits) -> Result<Header> {
    let part = || Part::new("header");
    let json_text = std::str::from_utf8(json).map_err(|error| Error::Malformed {
        part: part(),
        at: at.saturating_add(error.valid_up_to() as u64),
        fault: modelfmt_core::CommonFault::Utf8.into(),
    })?;
    if !json_text.starts_with('{') {
        return Err(Error::Malformed { part: part(), at, fault: Fault::NotAnObject });
    }
    let new = |table| State::new(json_text, at, file_len, limits, table);
    let mut state = new(TensorTable::comparing_later);
    if fast_header::read(&mut state, read_metadata).is_none() {
        drop(state); // so that there are never two tables
        state = read_any(new(TensorTable::with_capacity))?;
    }
    if state.has_unknown_keys || limits.depth < DEPTH {
        text::check_depth(json_text, limits)?;
    }
    state.tensors.shrink_to_fit();
    check_coverage(&state)?;
    Ok(Header { tensors: state.tensors, metadata: state.metadata.flatten() })
}

/// Reads a header with any spelling, and reports what is wrong with it.
fn read_any(mut state: State<'_>) -> Result<State<'_>> {
    let mut deserializer = serde_json::Deserializer::from_str(state.text);
    let read = deserializer.deserialize_map(Entries(&mut state)).and_then(|()| deserializer.end());
    match read {
        Ok(()) => Ok(state),
        Err(error) => Err(state.stopped(&error)),
    }
}

/// The nesting levels of a header: the header itself, a tensor's entry, its shape.
const DEPTH: u64 = 3;

/// Reads the value of `__metadata__`, an object. Returns `None` if it was read before or has a fault.
fn read_metadata<'a>(state: &mut State<'a>, object: &'a str) -> Option<()> {
    if state.metadata.is_some() {
        return None;
    }
    let mut deserializer = serde_json::Deserializer::from_str(object);
    let metadata = deserializer.deserialize_map(Texts(state)).ok()?;
    deserializer.end().ok()?;
    state.metadata = Some(metadata);
    Some(())
}

/// Checks that the tensors cover every byte after the header exactly once
/// (docs/formats/safetensors.md#coverage).
fn check_coverage(state: &State<'_>) -> Result<()> {
    let data_start = state.data_start();
    let end = match state.end {
        Some(end) => end,
        None => end_in_order_of_offsets(&state.tensors, data_start)?,
    };
    let end = data_start.saturating_add(end);
    match state.file_len.checked_sub(end) {
        Some(0) => Ok(()),
        Some(more) => {
            Err(Error::Malformed { part: Part::new("data"), at: end, fault: Fault::TrailingBytes(more) })
        }
        // Every extent has been checked against the length of the file, so the end is inside the file.
        None => Ok(()),
    }
}

/// Checks tensors whose data are in another order than their entries, and returns the end of the data.
fn end_in_order_of_offsets(tensors: &TensorTable, data_start: u64) -> Result<u64> {
    let begin = |&i: &usize| tensors.offset(i).unwrap_or(u64::MAX).saturating_sub(data_start);
    let nbytes = |&i: &usize| tensors.info(i).map_or(0, |t| t.nbytes);
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_unstable_by_key(|i| (begin(i), nbytes(i), *i));
    let mut expected = 0;
    for i in order {
        let found = begin(&i);
        if found != expected {
            let name = tensors.info(i).map_or("", |t| t.name);
            return Err(Error::Malformed {
                part: Part::entry("tensor", i as u64).with_name(name).with_field("data_offsets"),
                at: data_start.saturating_add(found),
                fault: Fault::NotContiguous { expected, found },
            });
        }
        expected = found.saturating_add(nbytes(&i));
    }
    Ok(expected)
}

/// Visits the whole header: tensors by name, and the metadata among them.
struct Entries<'s, 'a>(&'s mut State<'a>);

impl<'de> Visitor<'de> for Entries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let state = self.0;
        while let Some(name) = map.next_key_seed(TextSeed)? {
            state.begin(&name);
            if name == wire::METADATA {
                if state.metadata.is_some() {
                    let fault = modelfmt_core::CommonFault::Duplicate(wire::METADATA.to_owned()).into();
                    return Err(state.stop(Stop::Fault(Part::new("header"), fault)));
                }
                // `null` counts as absent, as in the reference implementation (docs/formats/safetensors.md#null-metadata).
                let metadata = map.next_value_seed(Texts(state))?;
                state.metadata = Some(metadata);
                continue;
            }
            let (tensors, limits) = (state.tensors.len(), state.limits);
            state.number = tensors as u64;
            state.check("the number of tensors", tensors.saturating_add(1), limits.tensors)?;
            state.check("the length of a name", name.len(), limits.name_len)?;
            map.next_value_seed(Entry { state, name: &name })?;
        }
        Ok(())
    }
}

/// Visits `__metadata__`, which is an object of strings or null.
struct Texts<'s, 'a>(&'s mut State<'a>);

impl<'de> DeserializeSeed<'de> for Texts<'_, '_> {
    type Value = Option<Metadata>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_, '_> {
    type Value = Option<Metadata>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings as `__metadata__`")
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let state = self.0;
        let (mut metadata, mut len) = (Metadata::default(), 0usize);
        while let Some(key) = map.next_key_seed(TextSeed)? {
            state.begin(&key);
            let limits = state.limits;
            state.check(
                "the number of metadata entries",
                metadata.len().saturating_add(1),
                limits.entries,
            )?;
            state.check("the length of a metadata key", key.len(), limits.name_len)?;
            let value = map.next_value_seed(TextSeed)?;
            len = len.saturating_add(key.len()).saturating_add(value.len());
            state.check("the length of the metadata", len, limits.metadata_len)?;
            let pushed = metadata.push(&key, &value);
            pushed.map_err(|fault| state.stop(Stop::Fault(Part::new("metadata"), fault.into())))?;
        }
        metadata.shrink_to_fit();
        Ok(Some(metadata))
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
        f.write_str("an object with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { state, name } = self;
        let (mut dtype, mut has_shape, mut offsets) = (None, false, None);
        state.dims.clear();
        while let Some(field) = map.next_key_seed(FieldSeed)? {
            let twice = match field {
                Field::DType => dtype.is_some(),
                Field::Shape => has_shape,
                Field::DataOffsets => offsets.is_some(),
                Field::Unknown => false,
            };
            if twice {
                let fault = modelfmt_core::CommonFault::Duplicate(field.name().to_owned()).into();
                return Err(state.fault(name, None, fault));
            }
            match field {
                Field::DType => dtype = Some(map.next_value_seed(DTypeSeed { state, name })?),
                Field::Shape => {
                    map.next_value_seed(Shape(state))?;
                    has_shape = true;
                }
                Field::DataOffsets => offsets = Some(map.next_value::<(u64, u64)>()?),
                Field::Unknown => {
                    // The reference implementation also skips unknown keys
                    // (docs/formats/safetensors.md#unknown-fields).
                    state.has_unknown_keys = true;
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match (dtype, has_shape, offsets) {
            (Some(dtype), true, Some((begin, end))) => {
                state.list(name, dtype, begin, end).map_err(|fault| state.fault(name, None, fault))
            }
            (None, ..) => Err(state.fault(name, None, Fault::Missing("dtype"))),
            (_, false, _) => Err(state.fault(name, None, Fault::Missing("shape"))),
            _ => Err(state.fault(name, None, Fault::Missing("data_offsets"))),
        }
    }
}

#[derive(Clone, Copy)]
enum Field {
    DType,
    Shape,
    DataOffsets,
    Unknown,
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::DType => "dtype",
            Self::Shape => "shape",
            Self::DataOffsets => "data_offsets",
            Self::Unknown => "",
        }
    }
}

struct FieldSeed;

impl<'de> DeserializeSeed<'de> for FieldSeed {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldSeed {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Field, E> {
        Ok(match key {
            "dtype" => Field::DType,
            "shape" => Field::Shape,
            "data_offsets" => Field::DataOffsets,
            _ => Field::Unknown,
        })
    }
}

struct DTypeSeed<'s, 'a, 'n> {
    state: &'s mut State<'a>,
    name: &'n str,
}

impl<'de> DeserializeSeed<'de> for DTypeSeed<'_, '_, '_> {
    type Value = DType;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<DType, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for DTypeSeed<'_, '_, '_> {
    type Value = DType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a dtype")
    }

    fn visit_str<E: serde::de::Error>(self, dtype: &str) -> Result<DType, E> {
        wire::dtype_of(dtype).ok_or_else(|| {
            let known: String = dtype.chars().take(40).collect();
            self.state.fault(self.name, Some("dtype"), Fault::UnknownDType(known))
        })
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
            state.check("the rank", state.dims.len().saturating_add(1), state.limits.rank)?;
            state.dims.push(dim);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces from which headers are assembled: valid ones, and ones that a plain header must not have.
    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\n",
        "\"a\"",
        "\"b\"",
        "\"\"",
        "\"a name too long\"",
        "\"\\u0061\"",
        "\"\t\"",
        "\"é\"",
        "\"dtype\"",
        "\"shape\"",
        "\"data_offsets\"",
        "\"F32\"",
        "\"U8\"",
        "\"X\"",
        "0",
        "4",
        "04",
        "-0",
        "1.0",
        "1e1",
        "18446744073709551616",
        "null",
        "true",
        "\"__metadata__\"",
        "\"__metadata__\":{\"k\":\"{\\\"}\"}",
        "\"__metadata__\":null",
        "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}",
        "\"b\": {\"data_offsets\": [4, 8], \"shape\": [2, 2], \"dtype\": \"U8\"}",
        "\"dtype\":\"U8\"",
        "\"shape\":[]",
        "\"data_offsets\":[0,1]",
        "\"extra\":1",
    ];

    /// Formats the content of a reader's state.
    fn content(state: &State<'_>) -> String {
        let tensors: Vec<_> = (0..state.tensors.len())
            .map(|i| (state.tensors.info(i).map(|t| format!("{t:?}")), state.tensors.offset(i)))
            .collect();
        let metadata = state.metadata.as_ref().map(|found| found.as_ref().map(|m| m.to_object()));
        format!("{tensors:?} {metadata:?} {:?}", state.end)
    }

    /// Checks that both readers agree on a plain header. The general reader decides about headers that the
    /// plain one does not accept.
    fn agrees(text: &str) -> bool {
        let mut limits = Limits::default();
        limits.tensors = 3;
        limits.rank = 3;
        limits.name_len = 12;
        let new = || State::new(text, 8, (text.len() + 16) as u64, &limits, TensorTable::with_capacity);
        let mut plain = new();
        if fast_header::read(&mut plain, read_metadata).is_none() {
            return false;
        }
        let any = read_any(new()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(content(&plain), content(&any), "{text}");
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_plain_header_is_read_as_any_other(
            pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12),
            whole in any::<bool>(),
        ) {
            let text = if whole { format!("{{{}}}", pieces.join(",")) } else { pieces.concat() };
            agrees(&text);
        }
    }

    #[test]
    fn usual_headers_are_plain() {
        let entry = |name: &str, begin: u64| {
            format!(r#""{name}":{{"dtype":"F32","shape":[1,1],"data_offsets":[{begin},{}]}}"#, begin + 4)
        };
        let (a, b) = (entry("a", 0), entry("é.b", 4));
        for text in [
            "{}".to_owned(),
            "{ } \n".to_owned(),
            format!("{{{a},{b}}}   "),
            format!(r#"{{"__metadata__":{{"format":"pt","nested":"{{\"a\":[1]}}"}},{a}}}"#),
            format!("{{ {} }}", a.replace(':', " : ").replace(',', ", ")),
        ] {
            assert!(agrees(&text), "{text}");
        }
    }
}
