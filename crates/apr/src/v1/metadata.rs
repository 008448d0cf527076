//! The metadata: a MessagePack map, kept as bytes until it is used.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{CheckSeed, Object, ParseOptions, Value, ValueSeed};
use modelfmt_core::{CommonFault, Part};
use serde::de::DeserializeSeed;

use super::wire::HEADER_LEN;
use crate::error::{Error, Result, malformed};

/// Checks that the bytes are exactly one map, nested at most `depth` levels. Keeps nothing.
pub(super) fn check(bytes: &[u8], depth: u64) -> Result<()> {
    match read(bytes, CheckSeed::new(options(depth)))? {
        "an object" => Ok(()),
        other => Err(refused(format!("expected a map, found {other}"))),
    }
}

/// Decodes bytes that [`check`] has accepted.
pub(super) fn object(bytes: &[u8], depth: u64) -> Result<Object> {
    match read(bytes, ValueSeed::new(options(depth)))? {
        Value::Object(object) => Ok(object),
        other => Err(refused(format!("expected a map, found {}", other.kind()))),
    }
}

fn options(depth: u64) -> ParseOptions {
    ParseOptions::new().with_max_depth(u32::try_from(depth).unwrap_or(u32::MAX))
}

fn read<S: for<'de> DeserializeSeed<'de, Value = T>, T>(bytes: &[u8], seed: S) -> Result<T> {
    let mut rest = bytes;
    let mut deserializer = rmp_serde::Deserializer::new(&mut rest);
    let value = seed
        .deserialize(&mut deserializer)
        .map_err(|error| refused(format!("is not good MessagePack: {error}")))?;
    match rest.len() {
        0 => Ok(value),
        n => Err(refused(format!("{n} bytes follow the map"))),
    }
}

fn refused(text: String) -> Error {
    malformed(Part::new("metadata"), HEADER_LEN, CommonFault::Metadata(text))
}
