//! Parses the header's JSON in one pass into flat tables, without a tree, and without an allocation for a tensor whose name has
//! no escapes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use modelfmt_core::value::TextSeed;
use modelfmt_core::{
    DType, DisplayShape, Limits, Part, TensorTable,
    author::{Extent, NewTensor},
};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, Fault, Result};
use crate::metadata::Metadata;
use crate::{text, wire};

/// The content of the header.
pub(crate) struct Header {
    pub(crate) tensors: TensorTable,
    pub(crate) metadata: Option<Metadata>,
}

/// Parses the header's JSON, which begins at byte `at` of a file of `file_len` bytes. The data follow it.
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
    let mut state = State::new(json_text, at, file_len, limits);
    let mut deserializer = serde_json::Deserializer::from_str(json_text);
    let read = deserializer.deserialize_map(Entries(&mut state)).and_then(|()| deserializer.end());
    if let Err(error) = read {
        return Err(state.stopped(&error));
    }
    if state.has_unknown_keys || limits.depth < DEPTH {
        text::check_depth(json_text, limits)?;
    }
    state.tensors.shrink_to_fit();
    check_coverage(&state)?;
    Ok(Header { tensors: state.tensors, metadata: state.metadata.flatten() })
}

/// The nesting levels of a header: the header itself, a tensor's entry, its shape.
const DEPTH: u64 = 3;

/// Entries of real models are at least about this long; the number of entries to reserve is computed from it.
const USUAL_ENTRY_LEN: usize = 100;

struct State<'a> {
    text: &'a str,
    /// The offset of the text in the file.
    at: u64,
    file_len: u64,
    limits: &'a Limits,
    tensors: TensorTable,
    /// The value of `__metadata__`: `None` before the key has been seen, `Some(None)` for `null`.
    metadata: Option<Option<Metadata>>,
    dims: Vec<u64>,
    /// The end of the tensors read so far, as long as each begins where the previous one ends.
    end: Option<u64>,
    has_unknown_keys: bool,
    /// The number of the tensor that is being read.
    number: u64,
    /// The offset in the file of the entry that is being read, if known.
    entry_at: Option<u64>,
    /// Why parsing stopped, unless the JSON itself is faulty.
    stop: Option<Stop>,
}

enum Stop {
    Fault(Part, Fault),
    Error(Error),
}

impl<'a> State<'a> {
    fn new(text: &'a str, at: u64, file_len: u64, limits: &'a Limits) -> Self {
        let cap = usize::try_from(limits.tensors).unwrap_or(usize::MAX);
        let capacity = (text.len() / USUAL_ENTRY_LEN).min(cap);
        Self {
            text,
            at,
            file_len,
            limits,
            tensors: TensorTable::with_capacity(capacity),
            metadata: None,
            dims: Vec::new(),
            end: Some(0),
            has_unknown_keys: false,
            number: 0,
            entry_at: None,
            stop: None,
        }
    }

    /// The offset in the file at which the data begin.
    const fn data_start(&self) -> u64 {
        self.at.saturating_add(self.text.len() as u64)
    }

    /// Notes where the entry with this name begins. A name without escapes borrows from the text, so its address gives the
    /// offset.
    fn begin(&mut self, name: &str) {
        let offset = name.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        // The offset of the quotation mark before the name.
        let quote = (offset <= self.text.len()).then(|| (offset as u64).saturating_sub(1));
        self.entry_at = quote.map(|quote| self.at.saturating_add(quote));
    }

    /// Stops parsing because of a fault in the current tensor.
    fn fault<E: serde::de::Error>(&mut self, name: &str, field: Option<&'static str>, fault: Fault) -> E {
        let mut part = Part::entry("tensor", self.number).with_name(name);
        part.field = field;
        self.stop(Stop::Fault(part, fault))
    }

    fn stop<E: serde::de::Error>(&mut self, stop: Stop) -> E {
        self.stop = Some(stop);
        E::custom("stopped")
    }

    fn check<E: serde::de::Error>(&mut self, what: &'static str, found: usize, max: u64) -> Result<(), E> {
        match Limits::check(what, found as u64, max) {
            Ok(_) => Ok(()),
            Err(limit) => Err(self.stop(Stop::Error(limit.into()))),
        }
    }

    /// The error to report after serde_json has stopped: the noted one, or the error in the JSON.
    fn stopped(self, error: &serde_json::Error) -> Error {
        let here = self.at.saturating_add(text::offset(self.text, error));
        match self.stop {
            Some(Stop::Error(error)) => error,
            Some(Stop::Fault(part, fault)) => {
                Error::Malformed { part, at: self.entry_at.unwrap_or(here), fault }
            }
            None => {
                let fault = modelfmt_core::CommonFault::Metadata(text::message(error)).into();
                Error::Malformed { part: Part::new("header"), at: here, fault }
            }
        }
    }

    /// Adds the tensor whose entry has been read; its dimensions are in `dims`.
    fn list(&mut self, name: &str, dtype: DType, begin: u64, end: u64) -> Result<(), Fault> {
        check_countable(&self.dims)?;
        let len = end.checked_sub(begin).ok_or(Fault::Reversed { begin, end })?;
        let out_of_bounds =
            modelfmt_core::CommonFault::OutOfBounds { offset: begin, len, end: self.file_len };
        let offset = self.data_start().checked_add(begin).ok_or(out_of_bounds)?;
        let extent = Extent::new(offset, len, self.file_len)?;
        let tensor = NewTensor { name, dtype, offset: Some(offset), packed_nbytes: 0 };
        let expected = self.tensors.push(tensor, self.dims.iter().copied())?;
        if extent.len() != expected {
            return Err(modelfmt_core::CommonFault::Nbytes { found: len, expected }.into());
        }
        self.end = self.end.filter(|&so_far| so_far == begin).map(|_| end);
        Ok(())
    }
}

/// Refuses shapes whose product overflows from the left, even if a later dimension is 0, as the reference implementation does.
pub(crate) fn check_countable(shape: &[u64]) -> Result<(), Fault> {
    match shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim)) {
        Some(_) => Ok(()),
        None => Err(modelfmt_core::CommonFault::TooManyElements(DisplayShape(shape).to_string()).into()),
    }
}

/// Checks that the tensors cover all bytes after the header, each once (docs/formats/safetensors.md#coverage).
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
        // Every extent has been checked against the length of the file, so the end is within it.
        None => Ok(()),
    }
}

/// Checks tensors whose data are in another order than their entries, and returns where the data end.
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
                    // The reference implementation also skips unknown keys (docs/formats/safetensors.md#unknown-fields).
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
