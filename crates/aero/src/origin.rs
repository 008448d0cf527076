//! The format that a file was converted from, according to its MJSN. Files from GGUF differ in some ways.
//!
//! The published converter copies from GGUF: shapes are in ggml's order, a tensor's values are followed by
//! GGUF's padding, and the descriptors of codecs are in MJSN. Only files whose `source_format` is "gguf" are
//! read this way.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use modelfmt_core::value::{Object, Value, json};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::manifest::Descriptors;

/// The key in MJSN that names the format a file was converted from.
pub(crate) const SOURCE_FORMAT: &str = "source_format";

/// The value of that key in files whose shapes are in ggml's order.
const GGUF: &str = "gguf";

/// The alignment of GGUF. Padding is shorter than this.
const ALIGNMENT: u64 = 32;

/// Returns whether metadata (MJSN) have `source_format` "gguf", which marks files whose shapes are in ggml's
/// order. This crate writes shapes in the usual order, so it refuses to write such metadata
/// (docs/formats/aero.md#files-from-gguf).
#[must_use]
pub fn is_from_gguf(metadata: &Object) -> bool {
    metadata.get(SOURCE_FORMAT).and_then(Value::as_str) == Some(GGUF)
}

/// The format that a file was converted from.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    is_gguf: bool,
    /// The `quant_descriptors` in the MJSN of a file from GGUF, if it has any.
    pub(crate) descriptors: Option<Descriptors>,
}

impl Origin {
    /// Decodes the origin from an MJSN. An MJSN that does not decode is ignored. This builds no tree, because
    /// a byte of the file could become 20 bytes of a tree.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut found = Found::default();
        match json::parse_seed(text, PlaceSeed { at: Place::Top, found: &mut found }) {
            Ok(()) if found.is_gguf => {
                let descriptors = Some(found.ggml).filter(|ggml| !ggml.is_empty());
                Self { is_gguf: true, descriptors: descriptors.map(Descriptors::new) }
            }
            _ => Self::default(),
        }
    }

    /// Puts dimensions into the usual order, slowest first. ggml lists the fastest dimension first.
    pub(crate) fn reorder_dims(&self, dims: &mut [u64]) {
        if self.is_gguf {
            dims.reverse();
        }
    }

    /// Returns whether this many bytes after the values are padding: there are fewer than the alignment, or
    /// they are the rest of the shard, where the GGUF file ended (docs/formats/aero.md#files-from-gguf).
    pub(crate) const fn is_padding(&self, nbytes: u64, is_last: bool) -> bool {
        self.is_gguf && (nbytes < ALIGNMENT || is_last)
    }
}

/// The state of the decoder.
#[derive(Default)]
struct Found {
    is_gguf: bool,
    /// Whether the key has occurred. A second one would be ambiguous.
    has_source: bool,
    /// The `id` and ggml type of each descriptor of ggml's codec.
    ggml: Vec<(u64, u64)>,
    /// The fields of the descriptor that is being read.
    is_ggml: bool,
    id: Option<u64>,
    ggml_type: Option<u64>,
}

/// A place in MJSN.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    SourceFormat,
    Descriptors,
    /// The descriptor at this position.
    Descriptor(u64),
    Codec,
    Id,
    Params,
    GgmlType,
    Elsewhere,
}

impl Place {
    fn member(self, key: &str) -> Self {
        match (self, key) {
            (Self::Top, SOURCE_FORMAT) => Self::SourceFormat,
            (Self::Top, "quant_descriptors") => Self::Descriptors,
            (Self::Descriptor(_), "codec") => Self::Codec,
            (Self::Descriptor(_), "id") => Self::Id,
            (Self::Descriptor(_), "params") => Self::Params,
            (Self::Params, "ggml_type") => Self::GgmlType,
            _ => Self::Elsewhere,
        }
    }

    const fn element(self, position: u64) -> Self {
        match self {
            Self::Descriptors => Self::Descriptor(position),
            _ => Self::Elsewhere,
        }
    }
}

/// Decodes the value at a place. A value of an unexpected kind is ignored.
struct PlaceSeed<'a> {
    at: Place,
    found: &'a mut Found,
}

impl<'de> DeserializeSeed<'de> for PlaceSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.at {
            Place::Elsewhere => deserializer.deserialize_ignored_any(IgnoredAny).map(drop),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for PlaceSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        match self.at {
            Place::Id => self.found.id = Some(number),
            Place::GgmlType => self.found.ggml_type = Some(number),
            _ => {}
        }
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.at {
            Place::SourceFormat => self.found.is_gguf = text == GGUF,
            Place::Codec => self.found.is_ggml = text == "ggml",
            _ => {}
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { at, found } = self;
        let mut position = 0;
        while list.next_element_seed(PlaceSeed { at: at.element(position), found: &mut *found })?.is_some() {
            position = position.saturating_add(1);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { at, found } = self;
        if let Place::Descriptor(_) = at {
            (found.is_ggml, found.id, found.ggml_type) = (false, None, None);
        }
        while let Some(key) = map.next_key::<String>()? {
            let member = at.member(&key);
            if member == Place::SourceFormat && std::mem::replace(&mut found.has_source, true) {
                return Err(A::Error::duplicate_field(SOURCE_FORMAT));
            }
            map.next_value_seed(PlaceSeed { at: member, found: &mut *found })?;
        }
        if let Place::Descriptor(position) = at
            && let Some(ggml_type) = found.ggml_type.filter(|_| found.is_ggml)
        {
            found.ggml.push((found.id.unwrap_or(position), ggml_type));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_so_is_from_gguf() {
        for (text, is_gguf) in [
            (r#"{"source_format":"gguf"}"#, true),
            (r#"{"x":[{"source_format":"safetensors"}],"source_format":"gg\u0075f"}"#, true),
            (r#"{"source_format":"GGUF"}"#, false),
            (r#"{"source_format":"safetensors"}"#, false),
            (r#"{"source_format":["gguf"]}"#, false),
            (r#"{"source_format":{"source_format":"gguf"}}"#, false),
            (r#"{"modelfmt":{"source_format":"gguf"}}"#, false),
            (r#"{"source_format":"gguf","source_format":"gguf"}"#, false),
            (r#"{"source_format":null,"source_format":"gguf"}"#, false),
            (r#"{"source_format":"gguf"} x"#, false),
            (r#"{"source_format":"gguf""#, false),
            (r#"["source_format","gguf"]"#, false),
            (r#""gguf""#, false),
            ("", false),
        ] {
            let origin = Origin::of(text.as_bytes());
            assert_eq!(origin.is_gguf, is_gguf, "{text}");
            assert!(origin.descriptors.is_none());
        }
    }

    #[test]
    fn descriptors_of_ggml_are_found_by_id_or_position() {
        let of = |descriptors: &str, source: &str| {
            let text = format!(r#"{{"quant_descriptors":{descriptors},"source_format":"{source}"}}"#);
            Origin::of(text.as_bytes()).descriptors
        };
        let list = concat!(
            r#"[{"codec":"ggml","id":7,"params":{"ggml_type":2},"quant_name":"Q4_0"},"#,
            r#"{"params":{"x":[],"ggml_type":8},"codec":"ggml"},{"codec":"other","params":{"ggml_type":3}},"#,
            r#"5,{"codec":"ggml"},{"codec":"ggml","params":5,"id":-1},{"codec":["ggml"],"params":{"ggml_type":3}}]"#
        );
        let found = of(list, GGUF).unwrap();
        let types: Vec<_> = (0..8).map(|id| found.ggml_type(id)).collect();
        assert_eq!(types, [None, Some(8), None, None, None, None, None, Some(2)]);
        assert!(of(list, "safetensors").is_none());
        for other in ["[]", "{}", "5", r#""ggml""#, "null", "[[]]"] {
            assert!(of(other, GGUF).is_none(), "{other}");
        }
    }

    #[test]
    fn padding_is_short_or_at_the_end() {
        let [gguf, other] = ["gguf", "safetensors"]
            .map(|source| Origin::of(format!(r#"{{"source_format":"{source}"}}"#).as_bytes()));
        assert!(gguf.is_padding(31, false) && !gguf.is_padding(32, false) && gguf.is_padding(1 << 40, true));
        assert!(!other.is_padding(1, false) && !other.is_padding(1, true));
        let mut dims = [1, 2, 3];
        other.reorder_dims(&mut dims);
        assert_eq!(dims, [1, 2, 3]);
        gguf.reorder_dims(&mut dims);
        assert_eq!(dims, [3, 2, 1]);
    }
}
